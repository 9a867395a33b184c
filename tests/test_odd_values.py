"""Whatever is given to a public constructor or argument: it works, or it is an InputError."""

from __future__ import annotations

import datetime
import fractions
import functools
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup
from cnp_router.routing import (
    BroadcastRouter,
    HistoryKNNRouter,
    MaxCost,
    PopularityRouter,
    RandomRouter,
    SpecificationRouter,
    TargetRecall,
    TopK,
)
from cnp_router.training import fit_router, load_router
from cnp_router.trajectories import Step, Trajectory, read_trajectories, write_trajectories

APIS = [Api("maps", "Maps", "Shows places on a map."), Api("sms", "SMS", "Sends texts.")]
MASHUPS = [Mashup("m1", "bars on a map", ("maps",)), Mashup("m2", "text me", ("sms",))]


class Rude:
    """An object that answers no question."""

    def __repr__(self):
        raise RuntimeError("no")


def deep(depth=100_000):
    value = []
    for _ in range(depth):
        value = [value]
    return value


ODD = st.one_of(
    st.sampled_from(
        [
            *(None, True, False, 0, 1, -1, 10**400, 0.5, float("nan"), float("inf")),
            *(object(), Rude(), object, len, b"maps", "", " ", "maps", "half \ud800", "a\x1b[2J"),
            *([], [1], [None], ["half \ud800"], [[]], {}, {1: 2}, {"maps": -1}, {"maps": object()}),
            *(np.float64(0.5), np.int64(3), np.bool_(True), np.array([0.5]), np.array(0.5)),
            *(datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), "2020-01-01"),
            *(
                fractions.Fraction(1, 2),
                1j,
                {"maps"},
                ("maps", "sms"),
                iter(["maps"]),
                APIS,
                MASHUPS,
            ),
            *(APIS[0], MASHUPS[0], Catalog(APIS), History(MASHUPS), Step("maps"), [Step("maps")]),
        ]
    ),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    st.lists(st.text(max_size=4) | st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.floats() | st.text(max_size=3), max_size=2),
)


def options(**good):
    """Good arguments, some of them replaced by odd ones."""
    return st.fixed_dictionaries({name: st.just(value) | ODD for name, value in good.items()})


def or_input_error(call, *args, **values):
    try:
        return call(*args, **values)
    except InputError as exc:
        assert len(str(exc)) < 400
        return None


RECORDS = {
    "API": (
        Api,
        {
            "id": "a",
            "name": "A",
            "description": "x",
            "categories": ("C",),
            "parameters": {"q": "s"},
        },
        lambda api, file: Catalog([api]).write(file),
        lambda file: Catalog.read(file)[0],
    ),
    "mashup": (
        Mashup,
        {
            **{"id": "m", "description": "x", "apis": ("a",), "categories": ("C",), "name": "N"},
            **{"date": datetime.date(2020, 1, 1), "ordered": True},
        },
        lambda mashup, file: History([mashup]).write(file),
        lambda file: History.read(file)[0],
    ),
    "trajectory": (
        lambda id, goal, done, **step: Trajectory(id, goal, (Step(**step),), done),
        {
            **{"id": "t", "goal": "x", "done": True, "tool": "a", "inputs": {"q": "s"}},
            **{"observation": "x", "input_tokens": 1, "output_tokens": 1, "seconds": 0.5},
            "success": False,
        },
        lambda trajectory, file: write_trajectories(file, [trajectory]),
        lambda file: read_trajectories(file)[0],
    ),
}


@pytest.mark.parametrize("kind", RECORDS)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_accepted_can_be_saved_and_read_back(kind, data, tmp_path):
    make, good, write, read = RECORDS[kind]
    names = data.draw(st.lists(st.sampled_from(list(good)), max_size=2, unique=True))
    made = or_input_error(make, **{**good, **{name: data.draw(ODD) for name in names}})
    if made is not None and or_input_error(lambda: write(made, tmp_path / "x.jsonl") or True):
        again = read(tmp_path / "x.jsonl")
        assert json.dumps(again.to_dict()) == json.dumps(made.to_dict())
        assert "\n" not in repr(made)
        assert len(repr(made)) < 400


@pytest.mark.parametrize(
    "make",
    [
        lambda: Mashup("m", "x", None),
        lambda: Mashup("m", "half \ud800", ("a",)),
        lambda: Mashup("m", None, ("a",)),
        lambda: Mashup("m", "x", ("a",), date="2020-01-01"),
        lambda: Mashup("m", "x", ("a",), date=datetime.datetime(2020, 1, 1)),
        lambda: Mashup("m", "x", ("a",), name="half \ud800"),
        lambda: Mashup("m", "x", ("a",), ordered="yes"),
        lambda: Mashup("m", "x", ("a", 3)),
        lambda: Api("a", None),
        lambda: Api("a", "A", parameters={"q": object()}),
        lambda: Api("a", "A", parameters={"q": float("nan")}),
        lambda: Api("a", "A", parameters={"q": "half \ud800"}),
        lambda: Api("a", "A", parameters={"q": deep()}),
        lambda: Api("a", "A", parameters=[1]),
        lambda: Api("a", "A", categories=("half \ud800",)),
        lambda: Step("a", [1]),
        lambda: Step("a", {1: 2}),
        lambda: Step("a", observation=None),
        lambda: Step("a", input_tokens=1.5),
        lambda: Step("a", input_tokens=True),
        lambda: Step("a", seconds=object()),
        lambda: Step("a", seconds=10**400),
        lambda: Step("a", success="yes"),
        lambda: Trajectory("t", None, ()),
        lambda: Trajectory("t", "x", None),
        lambda: Trajectory("t", "x", [{"tool": "a"}]),
        lambda: Trajectory("t", "x", (), success=1),
        lambda: Catalog(None),
        lambda: Catalog(["a"]),
        lambda: Catalog(np.array(0.5)),
        lambda: Catalog(APIS).in_categories(np.array(0.5)),
        lambda: Catalog.read(None),
        lambda: Catalog(APIS).write(3),
        lambda: Catalog(APIS).in_categories("Mapping"),
        lambda: Catalog(APIS).position(["a"]),
        lambda: Catalog(APIS).position(Rude()),
        lambda: Catalog(APIS).write(Rude()),
        lambda: Contractor("c", None),
        lambda: Contractor("c", ["a"]),
        lambda: History([None]),
        lambda: History(MASHUPS, skipped=-1),
        lambda: History(MASHUPS, skipped="1"),
        lambda: History(MASHUPS).known_to(APIS),
        lambda: History.read([3]),
        lambda: History.read("x.jsonl", unknown=[]),
        lambda: History.read("x.jsonl", catalog=APIS),
        lambda: read_trajectories(object()),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(make):
    with pytest.raises(InputError):
        make()


def test_scalars_of_numpy_are_numbers():
    step = Step("a", input_tokens=np.int64(3), seconds=np.float32(0.5))
    assert json.dumps(step.to_dict())
    assert type(step.input_tokens) is int
    assert type(step.seconds) is float


ROUTER = SpecificationRouter(Catalog(APIS))
SCORES = ROUTER.score("a map")


@given(options(request="a map", known=["sms"], select=TopK(1), threshold=0.6, fallback="none"))
def test_routing(arguments):
    for call in (ROUTER.route, functools.partial(ROUTER.decide, scores=SCORES)):
        routing = or_input_error(call, **arguments)
        if routing is not None:
            assert routing.recipients
            assert repr(routing).isprintable()
            assert len(repr(routing)) < 400


@given(ODD, ODD, ODD)
def test_scoring_and_recommending(request, known, scores):
    or_input_error(ROUTER.score, request, known)
    or_input_error(ROUTER.recommend, "a map", known)
    or_input_error(ROUTER.decide, "a map", scores)


@given(ODD)
def test_rules(first):
    for make in (
        TargetRecall,
        TopK,
        MaxCost,
        lambda x: MaxCost(1, x),
        lambda x: MaxCost(x, {}),
    ):
        rule = or_input_error(make, first)
        if rule is not None:
            assert ROUTER.route("a map", select=rule).recipients


@given(ODD)
def test_routers(odd):
    history = History(MASHUPS)
    for make in (
        *(BroadcastRouter, RandomRouter, SpecificationRouter),
        lambda x: RandomRouter(Catalog(APIS), random_state=x),
        lambda x: SpecificationRouter(Catalog(APIS), x),
        lambda x: PopularityRouter(x, history),
        lambda x: PopularityRouter(Catalog(APIS), x),
        lambda x: HistoryKNNRouter(Catalog(APIS), history, k=x),
    ):
        router = or_input_error(make, odd)
        assert router is None or router.route("a map").recipients


@given(options(catalog=Catalog(APIS), apis=APIS, mashups=MASHUPS, skipped=0, id="c"), ODD)
def test_catalogs_histories_and_contractors(arguments, odd):
    a = arguments
    or_input_error(Contractor, a["id"], a["apis"])
    catalog = or_input_error(Catalog, a["apis"]) or Catalog(APIS)
    assert (odd in catalog) in (True, False)
    for call in (catalog.position, catalog.in_categories, catalog.extended, catalog.write):
        if not isinstance(odd, str) or call != catalog.write:
            or_input_error(call, odd)
    history = or_input_error(History, a["mashups"], skipped=a["skipped"]) or History(MASHUPS)
    or_input_error(history.known_to, a["catalog"])


@pytest.mark.parametrize(
    "values",
    [
        {"catalog": APIS},
        {"history": MASHUPS},
        {"catalog": None},
        *({"random_state": x} for x in (None, -1, 0.5, True, 2**40, "1", object())),
        *({"n_jobs": x} for x in (0, 1.5, "2", True)),
        *({"progress": x} for x in (True, 3, "bar")),
    ],
    ids=lambda values: next(iter(values)),
)
def test_fitting_refuses_before_it_begins(values):
    good = {"catalog": Catalog(APIS), "history": History(MASHUPS)}
    with pytest.raises(InputError):
        fit_router(**{**good, **values})


def test_a_mashup_that_was_taken_can_be_fitted_saved_and_loaded(tmp_path):
    day = datetime.date(2020, 1, 1)
    odd = Mashup("caf\u00e9 \N{WORLD MAP}", "", ("sms",), ("",), "", day)
    router = fit_router(Catalog(APIS), History([*MASHUPS, odd]), random_state=np.int64(3))
    router.save(tmp_path / "model")
    assert load_router(tmp_path / "model").history[2] == odd


NO_PATHS = [None, 1, 0.5, object(), b"model", [1], np.array(0.5)]


def test_what_is_no_path():
    from cnp_router.online import OnlineStore
    from cnp_router.training import verify_router

    router = fit_router(Catalog(APIS), History(MASHUPS))
    calls = [load_router, verify_router, Catalog.read, router.save]
    calls.append(functools.partial(OnlineStore, observers=()))
    for call in calls:
        for path in NO_PATHS:
            with pytest.raises(InputError):
                call(path)


@pytest.mark.parametrize("value", [1, "router", object()], ids=["number", "text", "object"])
def test_what_is_no_router_history_or_settings(value):
    from cnp_router import ChatRequest, ContractNet, OpenAIChatModel, evaluate, offline_model

    catalog = Catalog(APIS)
    model, popular = offline_model(catalog), PopularityRouter(catalog, History(MASHUPS))
    server = functools.partial(OpenAIChatModel, "m")
    calls = [
        lambda: ContractNet(catalog, model, router=value),
        lambda: ContractNet(catalog, model, settings=value),
        lambda: evaluate(value, History(MASHUPS)),
        lambda: evaluate(popular, value),
        lambda: server(base_url=value),
        lambda: server(base_url="http://localhost/v1", api_key=0 if value == "router" else value),
        lambda: ChatRequest(value),
    ]
    for call in calls:
        with pytest.raises(InputError):
            call()
