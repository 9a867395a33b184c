"""Models of one's own: what they return is checked, and they can be wrapped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chat_server import ChatServer, run

from cnp_router.exceptions import ChatTimeoutError, InputError
from cnp_router.llm import (
    CachedChatModel,
    ChatMessage,
    ChatModel,
    ChatRequest,
    ChatResponse,
    Usage,
    WrappedChatModel,
    check_response,
    complete_sync,
)
from cnp_router.testing import ScriptedChatModel

ASK = ChatRequest([ChatMessage("user", "Which APIs?")])
RIGHT = ChatResponse("maps", None, Usage(3, 1, "server"), "own", 0.5)


class OwnModel(ChatModel):
    """Returns what it is given, of whatever type."""

    name = "own"

    def __init__(self, answer):
        self.answer = answer

    async def complete(self, request):
        return self.answer


WRONG = [
    (None, "must return a ChatResponse, got None"),
    ("maps", "must return a ChatResponse, got 'maps'"),
    ({"apis": ["maps"]}, "must return a ChatResponse"),
    ("x" * 10_000, r"got 'x+\.\.\."),
    (replace(RIGHT, text=None), "wrong type in text: "),
    (replace(RIGHT, data=[1]), "wrong type in data: "),
    (replace(RIGHT, usage=None), "wrong type in usage: "),
    (replace(RIGHT, usage=Usage(-1, 0, "server")), "wrong type in usage: "),
    (replace(RIGHT, usage=Usage(True, 0, "server")), "wrong type in usage: "),
    (replace(RIGHT, usage=Usage(1, "2", "server")), "wrong type in usage: "),
    (replace(RIGHT, model=7), "wrong type in model: "),
    (replace(RIGHT, calls=0.5), "wrong type in calls: "),
    (replace(RIGHT, seconds=float("nan")), "wrong type in seconds: "),
    (replace(RIGHT, seconds=10**400), "wrong type in seconds: "),
    (replace(RIGHT, seconds="1"), "wrong type in seconds: "),
]


@pytest.mark.parametrize(("answer", "words"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_type_is_an_error_that_names_the_class(answer, words, tmp_path):
    model = OwnModel(answer)
    for asked in (model, WrappedChatModel(model), CachedChatModel(model, tmp_path)):
        with pytest.raises(InputError, match=f"OwnModel.complete .*{words}"):
            complete_sync(asked, ASK)
    assert list(tmp_path.iterdir()) == []  # and is not kept


def test_a_right_response_is_passed_on():
    assert check_response(OwnModel(RIGHT), RIGHT) is RIGHT
    assert complete_sync(WrappedChatModel(OwnModel(RIGHT)), ASK) is RIGHT


def test_a_wrapper_is_named_as_what_it_wraps(tmp_path):
    async def main():
        async with ChatServer([]) as server, server.model("tiny") as inner:
            outer = WrappedChatModel(CachedChatModel(inner, tmp_path))
            return outer.name, outer.server == server.url, outer.model.model is inner

    assert run(main()) == ("tiny", True, True)


def test_errors_pass_through_a_wrapper():
    with pytest.raises(ChatTimeoutError):
        complete_sync(WrappedChatModel(ScriptedChatModel([ChatTimeoutError("late")])), ASK)


@pytest.mark.parametrize("model", [None, "gpt", OwnModel])
def test_what_is_not_a_model_cannot_be_wrapped(model, tmp_path):
    for wrapper in (WrappedChatModel, lambda model: CachedChatModel(model, tmp_path)):
        with pytest.raises(InputError, match="a ChatModel is needed"):
            wrapper(model)
