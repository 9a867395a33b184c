"""Recipients are made when they are read; how many there are is known before."""

from __future__ import annotations

import copy
import pickle
import weakref
from dataclasses import replace

import pytest

from cnp_router import Recipient, Routing

FIELDS = {
    "request": "a map",
    "recommendation": ("maps",),
    "confidence": 0.8,
    "source": "learned",
    "n_apis": 40,
    "threshold": 0.6,
    "fallback": "none",
}
TWO = (Recipient("maps", 0.9), Recipient("sms", 0.2))


@pytest.fixture
def made():
    """How often they were made."""
    return []


@pytest.fixture
def routing(made):
    def recipients():
        made.append(1)
        return TWO

    return Routing.of(2, recipients, **FIELDS)


def test_they_are_made_once_and_when_they_are_read(routing, made):
    assert (routing.n_recipients, routing.recommendation, routing.fits) == (2, ("maps",), True)
    assert not made
    assert routing.recipients is routing.recipients
    assert routing.contractors == ("maps", "sms")
    assert made == [1]


def test_what_they_are_made_of_goes_when_they_are_read():
    class Held:
        def __call__(self):
            return TWO

    held = Held()
    there = weakref.ref(held)
    routing = Routing.of(2, held, **FIELDS)
    del held
    assert there() is not None
    assert routing.recipients == TWO
    assert there() is None
    assert routing.n_recipients == 2


def test_it_is_the_same_as_one_made_with_them(routing):
    whole = Routing(recipients=TWO, **FIELDS)
    assert whole.n_recipients == 2
    assert routing == whole
    assert hash(routing) == hash(whole)
    assert repr(routing) == repr(whole)
    assert routing.to_dict() == whole.to_dict()


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]
)
def test_it_can_be_copied_and_sent(routing, again):
    other = again(routing)
    assert other == routing
    assert other.n_recipients == 2
    assert replace(routing, recipients=TWO[:1]).n_recipients == 1


def test_what_is_not_there_is_said(routing, made):
    with pytest.raises(AttributeError, match="'Routing' object has no attribute 'recipient'"):
        routing.recipient  # noqa: B018
    assert not made


def test_those_of_a_router_are_its_scores(router):
    request = "show a map"
    routing, scores = router.route(request), router.score(request)
    assert "recipients" not in vars(routing)
    assert routing.n_recipients == len(routing.recipients)
    first = routing.recipients[:3]
    assert [(r.contractor, r.probability) for r in first] == list(scores.top(len(first)))
