"""Whatever is given to a public constructor or argument: it works, or it is an InputError."""

from __future__ import annotations

import datetime
import fractions
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup
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
@pytest.mark.parametrize("n_odd", [1, 2])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_accepted_can_be_saved_and_read_back(kind, n_odd, data, tmp_path):
    make, good, write, read = RECORDS[kind]
    names = data.draw(st.lists(st.sampled_from(list(good)), max_size=n_odd, unique=True))
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
        lambda: Step("a", {"q": object()}),
        lambda: Step("a", observation="half \ud800"),
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
        lambda: Catalog.read(None),
        lambda: Catalog(APIS).write(3),
        lambda: Catalog(APIS).in_categories("Mapping"),
        lambda: Catalog(APIS).position(["a"]),
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
