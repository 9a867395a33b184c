from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from cnp_router import exceptions
from cnp_router.exceptions import (
    BudgetExceededError,
    ChatAnswerError,
    ChatTimeoutError,
    CnpRouterError,
    DataFileError,
    LanguageModelError,
    MissingExtraError,
    NotFittedError,
    ProtocolError,
    RoundFailedError,
    TranscriptError,
    UnknownApiError,
)
from cnp_router.protocols import Report, Request, Transcript

TRANSCRIPT = Transcript(
    "a map",
    "single-agent",
    "broadcast",
    "tiny",
    (
        Request(id=1, sender="user", receiver="manager", text="a map"),
        Report(id=2, sender="manager", receiver="user", in_reply_to=1, apis=("maps",)),
    ),
)
CLASSES = {
    name: value
    for name, value in vars(exceptions).items()
    if inspect.isclass(value) and value.__module__ == exceptions.__name__
}


def drawn_parents() -> dict[str, str | None]:
    """Class to parent, from the tree in the module's docstring."""
    parents: dict[str, str | None] = {}
    branch: dict[int, str] = {}
    for line in exceptions.__doc__.splitlines():
        match = re.match(r"^    ((?:[│ ]   )*)(?:[├└]── )?([A-Z]\w+Error)\b", line)
        if match:
            depth = len(match[1]) // 4 + ("── " in line)
            branch[depth] = match[2]
            parents[match[2]] = branch[depth - 1] if depth else None
    return parents


def test_the_drawn_tree_is_the_real_tree():
    real = {
        name: next((base.__name__ for base in cls.__bases__ if base.__name__ in CLASSES), None)
        for name, cls in CLASSES.items()
    }
    assert drawn_parents() == real


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (DataFileError, ValueError),
        (UnknownApiError, KeyError),
        (NotFittedError, AttributeError),
        (NotFittedError, ValueError),
        (MissingExtraError, ImportError),
    ],
)
def test_errors_are_the_builtins_that_the_tree_says(error, builtin):
    assert issubclass(error, CnpRouterError)
    assert issubclass(error, builtin)


@pytest.mark.parametrize(
    "error",
    [
        DataFileError("a.jsonl", "not JSON", line=3, cure="write one object a line"),
        DataFileError("a.jsonl", "the file is empty"),
        UnknownApiError("gogle-maps", close=["google-maps"]),
        UnknownApiError("zzz"),
        MissingExtraError("drawing", package="matplotlib", extra="plot"),
        NotFittedError("call fit first"),
        ChatTimeoutError("no answer"),
        ChatAnswerError(
            "no JSON", model="m", server="http://s/v1", cure="ask", usage=(3, 1), calls=2
        ),
        BudgetExceededError("a question", {"tokens": 9, "messages": 2}, {"tokens": 5}),
        RoundFailedError("no answer"),
        RoundFailedError("no answer for step 4", TRANSCRIPT),
        TranscriptError("message 2 (cfp): its id should be 1"),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "travel", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))], ids=["copy", "pickle"]
)
def test_errors_survive_the_way_back_from_a_worker_process(error, travel):
    arrived = travel(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_the_message_of_a_key_error_is_not_quoted():
    assert str(UnknownApiError("x")) == "unknown API 'x' (use an id of the catalog)"


def test_an_empty_path_is_visible():
    assert str(DataFileError("", "is a directory")) == "'': is a directory"


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({}, "no answer"),
        ({"model": "m"}, "model 'm': no answer"),
        ({"server": "http://s/v1", "cure": "start it"}, "http://s/v1: no answer (start it)"),
    ],
)
def test_a_language_model_error_says_where_and_what_helps(details, message):
    assert str(LanguageModelError("no answer", **details)) == message


@pytest.mark.parametrize(
    ("costs", "allowed", "message"),
    [
        ((2_000, 9), {"tokens": 1_000}, "about 2,000 tokens, and the budget is 1,000"),
        ((2_000, 9), {"tokens": 2_000, "messages": 8}, "about 9 messages, and the budget is 8"),
        (
            (2_000, 9),
            {"tokens": 1, "messages": 8},
            "about 2,000 tokens, and the budget is 1 and about 9 messages, and the budget is 8",
        ),
    ],
)
def test_a_budget_error_says_what_it_would_have_cost(costs, allowed, message):
    error = BudgetExceededError("x", dict(zip(("tokens", "messages"), costs, strict=True)), allowed)
    cure = "(raise the budget, or announce to fewer)"
    assert str(error) == f"x would cost {message} {cure}"
    assert isinstance(error, ProtocolError)


def test_a_failed_round_carries_its_transcript():
    error = pickle.loads(pickle.dumps(RoundFailedError("no answer", TRANSCRIPT)))
    assert error.transcript == TRANSCRIPT
    assert error.transcript.ledger.n_messages == 2
