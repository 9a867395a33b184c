"""Negotiations: the score, the load, past success, and what the coordinator says for others."""

from __future__ import annotations

import asyncio
import random
from types import MappingProxyType

import numpy as np
import pytest
from worlds import run as trajectory

from cnp_router import Api, OnlineStore
from cnp_router.coordination import Capabilities, Load, Negotiator
from cnp_router.coordination.capabilities import ALIKE
from cnp_router.coordination.rpc import DISCOVER
from cnp_router.exceptions import CoordinationError, InputError, ModelStoreError
from cnp_router.online import Reputation
from cnp_router.protocols.substitutes import Likeness
from cnp_router.trajectories import Step


def order(negotiator, match, **how):
    return asyncio.run(negotiator.order("Rain?", list(match), match=match, **how))


def negotiation(negotiator, match, **how):
    return asyncio.run(negotiator.negotiate("Rain?", list(match), match=match, **how))


class TestScore:
    def test_by_hand(self):
        negotiator = Negotiator(reputation=Reputation(decay=1.0))
        for _ in range(2):
            negotiator.begin("b__rain")
        negotiator.reputation.count("a__rain", True)
        negotiator.reputation.count("c__rain", False)
        offers = {
            each.api: each
            for each in negotiation(
                negotiator, {"a__rain": 0.4, "b__rain": 0.8, "c__rain": 0.6}
            ).offers
        }
        assert offers["a__rain"].score == pytest.approx(0.5 * 0.4 + 0.3 / 1 + 0.2 * 2 / 3)
        assert offers["b__rain"].score == pytest.approx(0.5 * 0.8 + 0.3 / 3 + 0.2 * 1 / 2)
        assert offers["c__rain"].score == pytest.approx(0.5 * 0.6 + 0.3 / 1 + 0.2 * 1 / 3)

    def test_at_random_it_is_the_formula_and_descends(self):
        rng = random.Random(5)
        for _ in range(30):
            negotiator = Negotiator(threshold=0.0)
            names = [f"s{n}__tool" for n in range(rng.randint(1, 12))]
            for name in rng.choices(names, k=8):
                negotiator.begin(name)
            for name in rng.choices(names, k=20):
                negotiator.reputation.count(name, rng.random() < 0.5)
            match = {name: rng.random() for name in names}
            found = negotiation(negotiator, match)
            assert sorted(each.api for each in found.offers) == sorted(names)
            scores = [each.score for each in found.offers]
            assert scores == sorted(scores, reverse=True)
            for each in found.offers:
                own = 0.5 * match[each.api] + 0.3 / each.load
                assert each.score == pytest.approx(own + 0.2 * negotiator.past(each.api))

    def test_who_fits_too_little_takes_no_part(self):
        match = {"a": 0.4, "b": 0.2, "c": 0.19}
        assert order(Negotiator(), match) == ["a", "b"]
        assert order(Negotiator(threshold=0.9), match) == ["a"]
        assert order(Negotiator(threshold=0.0), match) == ["a", "b", "c"]

    def test_equal_scores_keep_their_order(self):
        match = dict.fromkeys("fbdace", 0.5)
        assert order(Negotiator(), match) == list("fbdace")

    def test_nobody(self):
        assert order(Negotiator(), {}) == []

    def test_the_weights_can_be_others(self):
        negotiator = Negotiator(weights=(0, 0, 1))
        negotiator.reputation.count("b", True)
        assert order(negotiator, {"a": 0.9, "b": 0.6}) == ["b", "a"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"threshold": 1.1},
            {"weights": (1, 2)},
            {"weights": (1, 2, -1)},
            {"timeout": 0},
            {"most_asked": 0},
            {"sampling": "yes"},
            {"seed": -1},
        ],
    )
    def test_settings(self, wrong):
        with pytest.raises(InputError):
            Negotiator(**wrong)


class TestLoad:
    def test_it_counts_what_runs_and_what_waits_by_source(self):
        load = Load()
        for api in ("a__x", "a__y", "b__x"):
            load.begin(api)
        assert [load.of(api) for api in ("a__z", "b__z", "c__z")] == [3, 2, 1]
        load.end("a__x")
        assert load.of("a__z") == 2
        load.end("c__x")  # was never begun
        assert load.of("c__z") == 1

    def test_jobs_that_are_awarded_at_once_are_spread(self):
        negotiator = Negotiator()
        match = {"a__rain": 0.5, "b__rain": 0.5, "c__rain": 0.5}
        first = [order(negotiator, match)[0] for _ in range(6)]
        assert sorted(first) == sorted([*match, *match])

    def test_a_promise_is_redeemed_once_and_forgotten_in_time(self):
        now = [0.0]
        load = Load(patience=1.0, clock=lambda: now[0])
        load.promise("a__x")
        assert load.of("a__x") == 2
        load.begin("a__x")
        assert load.of("a__x") == 2
        load.end("a__x")
        load.promise("a__x")
        now[0] = 1.0
        assert load.of("a__x") == 1


class TestPast:
    def test_who_failed_comes_behind_at_once(self):
        negotiator = Negotiator()
        match = {"a__rain": 0.52, "b__rain": 0.5}
        assert order(negotiator, match)[0] == "a__rain"
        negotiator.begin("a__rain")
        negotiator.end("a__rain", success=False, seconds=2.0)
        assert order(negotiator, match)[0] == "b__rain"
        assert negotiator.seconds["a"] == 2.0

    def test_what_nobody_knows_does_not_count(self):
        negotiator = Negotiator()
        negotiator.end("a__rain", success=None)
        assert negotiator.reputation.n_steps == 0

    def test_by_category(self):
        negotiator = Negotiator()
        for _ in range(8):
            negotiator.end("a__ask", success=True, category="News")
            negotiator.end("a__ask", success=False, category="Weather")
            negotiator.end("b__ask", success=False, category="News")
            negotiator.end("b__ask", success=True, category="Weather")
        match = {"a__ask": 0.5, "b__ask": 0.5}
        assert order(negotiator, match, category="News")[0] == "a__ask"
        assert order(negotiator, match, category="Weather")[0] == "b__ask"

    def test_what_a_store_teaches_counts_once(self, tmp_path):
        reputation = Reputation()
        negotiator = Negotiator(reputation=reputation)
        steps = [Step("a__rain", success=False)] * 3
        for _ in steps:
            negotiator.end("a__rain", success=False, execution="e1")
        negotiator.end("a__rain", success=False, execution="e2")
        assert negotiator.past("a__rain") == pytest.approx(1 / 6, rel=1e-3)
        assert reputation.n_steps == 0
        with OnlineStore(tmp_path / "online.sqlite", [reputation]) as store:
            store.observe(trajectory(1, "Rain?", *steps))
        negotiator.settle("e1")
        assert negotiator.past("a__rain") == pytest.approx(1 / 6, rel=1e-3)
        negotiator.settle("e2")
        assert negotiator.past("a__rain") == reputation.rate("a__rain")
        assert reputation.counts("a__rain")[1] == pytest.approx(3, rel=1e-3)

    def test_sampling_tries_those_of_whom_little_is_known(self):
        reputation = Reputation(decay=1.0)
        for n in range(101):
            reputation.count("a__rain", True)
            reputation.count("a__rain", n == 0)
        match = {"a__rain": 0.5, "b__rain": 0.5}

        def firsts(**how):
            negotiator = Negotiator(reputation=reputation, load=Load(patience=0.0), **how)
            return [order(negotiator, match)[0] for _ in range(60)]

        assert set(firsts()) == {"a__rain"}
        drawn = firsts(sampling=True, seed=3)
        assert 15 < drawn.count("b__rain") < 45
        assert drawn == firsts(sampling=True, seed=3)

    def test_a_reputation_that_cannot_be_had_is_said(self):
        class Gone(Reputation):
            def rate(self, api, category=None):
                raise ModelStoreError("the store is gone")

        with pytest.raises(CoordinationError, match=r"nobody can be compared: the store is gone"):
            order(Negotiator(reputation=Gone()), {"a": 0.5})


class TestCapabilities:
    TOOLS = (
        Api("a__rain", "rain", "Forecasts rain for a city."),
        Api("b__weather", "weather", "The weather of a city: a forecast of rain."),
        Api("c__sms", "SMS", "Sends text messages to phones."),
        Api("d__translate", "translate", "Translates a text."),
    )

    def capabilities(self, **how):
        return Capabilities(Likeness(self.TOOLS), [each.id for each in self.TOOLS], **how)

    def test_equivalents_are_alike_by_words(self):
        found = self.capabilities()
        assert found.equivalents("a__rain") == ("b__weather",)
        assert found.equivalents("b__weather") == ("a__rain",)
        assert found.equivalents("c__sms") == ()

    def test_how_alike_is_a_setting(self):
        assert self.capabilities(alike=0.99).equivalents("a__rain") == ()
        assert len(self.capabilities(alike=0.0, relative=0.0).equivalents("a__rain")) == 3

    def test_what_was_found_is_kept(self):
        class Counting(Likeness):
            asked = 0

            def of(self, api, others):
                self.asked += 1
                return super().of(api, others)

        likeness = Counting(self.TOOLS)
        found = Capabilities(likeness, [each.id for each in self.TOOLS])
        assert [found.equivalents("a__rain") for _ in range(3)] == [("b__weather",)] * 3
        assert likeness.asked == 1


def test_the_threshold_of_likeness_is_what_the_docs_say(sample):
    apis = list(sample.catalog)
    likeness, names = Likeness(apis, with_server=False), sample.catalog.ids
    pairs = [
        (likeness.share_category(api, other), cosine)
        for place, api in enumerate(names)
        for other, cosine in likeness.of(api, names[place + 1 :]).items()
    ]
    alike = [shares for shares, cosine in pairs if cosine >= ALIKE]
    assert (len(alike), all(alike)) == (31, True)
    assert round(sum(shares for shares, _ in pairs) / len(pairs), 2) == 0.06
    assert max(cosine for _, cosine in pairs) < 0.4


def test_the_same_seed_gives_the_same_draws():
    rng = np.random.default_rng(1)
    names = {f"s{n}__x": float(p) for n, p in enumerate(rng.random(20))}
    one, other = (Negotiator(sampling=True, seed=9) for _ in range(2))
    assert [order(one, names) for _ in range(5)] == [order(other, names) for _ in range(5)]


def test_what_gives_other_fields_is_no_equivalent():
    tools = [
        Api("a__find_hotel", "find hotel", "Finds a hotel in a city."),
        Api("b__search", "search", "Finds the best hotel of a city."),
        Api("c__locate", "locate", "Finds a city on the map."),
    ]
    likeness, ids = Likeness(tools), [each.id for each in tools]
    known = {"a__find_hotel": {"id", "price"}, "b__search": {"id", "price", "stars"}}
    alike = Capabilities(likeness, ids, alike=0.1, relative=0.1)
    assert set(alike.equivalents("a__find_hotel")) == {"b__search", "c__locate"}
    told = Capabilities(
        likeness, ids, alike=0.1, relative=0.1, gives=lambda api: known.get(api, ())
    )
    assert set(told.equivalents("a__find_hotel")) == {"b__search", "c__locate"}  # not known yet
    known["c__locate"] = {"lat", "lng"}
    assert told.equivalents("a__find_hotel") == ("b__search",)


class TestOneLoopAfterAnother:
    """One negotiator, asked by several at once in each of them."""

    name = "maps"
    extensions = MappingProxyType({DISCOVER: {}})

    async def request(self, method, params, *, timeout):
        await asyncio.sleep(0.001)
        return {"capabilities": [{"name": "draw"}]}

    def source_of(self, api):
        return self

    def test_is_served(self):
        negotiator, match = Negotiator(self), {"maps__draw": 1.0}

        async def at_once():
            await asyncio.gather(*(negotiator.order("", [*match], match=match) for _ in range(3)))
            return await negotiator.discover([*match])

        for _ in range(2):
            negotiator._able.clear()
            assert asyncio.run(at_once()) == {"maps": ("maps__draw",)}
        assert negotiator.n_messages == 8  # asked twice in each loop, with an answer
