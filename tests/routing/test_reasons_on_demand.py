"""Reasons are made when they are first read, of what was known when it was decided."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading

import numpy as np
import pytest
from fixed import Fixed

from cnp_router.routing import Reason, Recipient, Router, TopK


class Explains(Fixed):
    """Says of each how often it has explained anything."""

    def __init__(self):
        super().__init__(0.1, 0.8, 0.3, 0.0)
        self.explained = []

    def _reasons(self, scores, chosen):
        self.explained.append(chosen.tolist())
        said = f"reason {len(self.explained)}"
        return {int(i): (Reason("name", said),) for i in chosen if i != 2}


@pytest.fixture
def explains():
    return Explains()


def test_nobody_reads_them(explains):
    explains.route_many(["x", "y"], threshold=1, fallback="broadcast")
    routing = explains.route("x", select=TopK(3))
    assert (routing.contractors, routing.recommendation) == (("b", "c", "a"), ("b",))
    assert len({routing.recipients[0].probability, routing.confidence}) == 2
    assert not explains.explained


def test_all_of_a_routing_are_made_once(explains):
    routing = explains.route("x", select=TopK(3))
    first, second, third = routing.recipients
    assert third.reasons == (Reason("name", "reason 1"),)
    assert (first.reasons, second.reasons) == ((Reason("name", "reason 1"),), ())
    assert routing.to_dict()["recipients"][0]["reasons"][0]["text"] == "reason 1"
    assert explains.explained == [[1, 2, 0]]


def test_whom_a_fallback_adds_has_none(explains):
    routing = explains.route("x", select=TopK(1), threshold=1, fallback="broadcast")
    assert [len(each.reasons) for each in routing.recipients] == [1, 0, 0, 0]


class ExplainsMany(Fixed):
    """One of many APIs that says when it has explained whom."""

    def __init__(self):
        Router.__init__(self, [f"api{i}" for i in range(300)])
        self.probabilities = np.linspace(0.9, 0.1, 300)
        self.explained = []

    def _reasons(self, scores, chosen):
        self.explained.append(chosen.tolist())
        return {int(i): (Reason("name", f"reason of {self.apis[i]}"),) for i in chosen}


def test_of_many_those_that_are_read_are_made():
    router = ExplainsMany()
    routing = router.route("x", select=TopK(290))
    assert routing.recipients[3].reasons[0].text == f"reason of {routing.contractors[3]}"
    assert router.explained == [list(range(128))]
    assert routing.recipients[200].reasons[0].text == f"reason of {routing.contractors[200]}"
    assert router.explained[1:] == [list(range(128, 256))]
    said = [each["reasons"][0]["text"] for each in routing.to_dict()["recipients"]]
    assert said == [f"reason of {contractor}" for contractor in routing.contractors]
    assert router.explained[2:] == [list(range(256, 290))]


def test_of_many_whom_a_fallback_adds_has_none():
    router = ExplainsMany()
    routing = router.route("x", select=TopK(2), threshold=1, fallback="broadcast")
    assert [len(each.reasons) for each in routing.recipients] == [1, 1, *[0] * 298]


EXPLAINED = Recipient("b", 0.8, (Reason("name", "reason 1"),))


@pytest.mark.parametrize(
    "use",
    [
        lambda one: not one != EXPLAINED,  # noqa: SIM202
        lambda one: hash(one) == hash(EXPLAINED),
        lambda one: repr(one) == "Recipient('b', 0.80, 'reason 1')",
        lambda one: pickle.loads(pickle.dumps(one)) == EXPLAINED,
        lambda one: copy.copy(one) == copy.deepcopy(one) == EXPLAINED,
        lambda one: dataclasses.replace(one, probability=0.1).reasons == EXPLAINED.reasons,
        lambda one: dataclasses.asdict(one) == dataclasses.asdict(EXPLAINED),
    ],
    ids=["==", "hash", "repr", "pickle", "copy", "replace", "asdict"],
)
def test_whatever_looks_at_them_makes_them(explains, use):
    (one,) = explains.route("x", select=TopK(1)).recipients
    assert use(one)
    assert len(explains.explained) == 1


def test_threads_that_read_them_at_once_get_the_same(explains):
    routing, found = explains.route("x", select=TopK(2)), []
    together = threading.Barrier(4)

    def read():
        together.wait()
        found.append(routing.recipients[0].reasons)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [EXPLAINED.reasons] * 4
    assert len(explains.explained) == 1


def test_a_recipient_is_still_frozen(explains):
    (one,) = explains.route("x", select=TopK(1)).recipients
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.reasons = ()
    with pytest.raises(AttributeError, match="'Recipient' object has no attribute 'score'"):
        one.score  # noqa: B018


def test_what_is_learned_meanwhile_is_in_none_of_them():
    from cnp_router.datasets import load_sample
    from cnp_router.history import Mashup
    from cnp_router.training import fit_router

    sample = load_sample()
    router = fit_router(sample.catalog, sample.history)
    request = "A quiz about trees in photos of flickr."
    before, read = router.route(request), router.route(request)
    assert any(each.reasons for each in read.recipients)
    router.observe([Mashup(f"new {i}", request, ("flickr",)) for i in range(5)])
    assert before == read
    after = {each.contractor: each.reasons for each in router.route(request).recipients}
    assert any("new 1" in reason.references for reason in after["flickr"])
