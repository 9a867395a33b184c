"""The protocol "coordinated": discover, match, negotiate, award."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest

from cnp_router import Api, Catalog, ContractNet, offline_model
from cnp_router.coordination import CapabilitiesFound, CapabilityDiscover, Coordinated, Negotiator
from cnp_router.coordination.asking import Asking
from cnp_router.coordination.coordinated import fits
from cnp_router.exceptions import (
    CoordinationError,
    InputError,
    RoundFailedError,
    SourceAnswerError,
    SourceUnavailableError,
    UnknownApiError,
)
from cnp_router.protocols import PROTOCOLS, validate
from cnp_router.routing import Router, Scores
from cnp_router.sources import CallResult, Source, Sources

CATALOG = Catalog(
    [
        Api("sky__forecast", "forecast", "Forecasts rain and wind for a city.", effects="reads"),
        Api("air__weather", "weather", "A forecast of rain and wind of a city.", effects="reads"),
        Api("sun__today", "today", "The forecast for a city: rain, wind.", effects="reads"),
        Api("phone__send", "send", "Sends a text message to a phone.", effects="writes"),
        Api("maps__draw", "draw", "Draws places.", effects="reads"),
    ]
)
WEATHER = {"sky__forecast", "air__weather", "sun__today"}
REQUEST = "Will it rain?"


class Certain(Router):
    """Knows what a request needs."""

    def __init__(self, **probabilities):
        super().__init__(CATALOG.ids)
        self.probabilities = probabilities

    def _scores(self, request, known, date):
        p = [self.probabilities.get(name, 0.01) for name in self.apis]
        return Scores(self.apis, np.array(p))


class Answering(Source):
    """A source that declares negotiation and answers as it is told."""

    def __init__(self, name, answer, methods=("capability/negotiate",)):
        self.name, self.answer, self.methods = name, answer, list(methods)
        self.asked = []

    @property
    def extensions(self):
        return {"any/name": {"methods": self.methods}}

    async def request(self, method, params, *, timeout=10.0):
        self.asked.append((method, dict(params)))
        answer = self.answer(method, params) if callable(self.answer) else self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def apis(self):
        return tuple(api for api in CATALOG if api.id.startswith(f"{self.name}__"))

    async def call(self, call):
        return CallResult("done")


ALL = {"sky__forecast": 0.9, "air__weather": 0.85, "sun__today": 0.8}


def net(**probabilities):
    return ContractNet(CATALOG, offline_model(CATALOG), router=Certain(**probabilities))


def hold(net, negotiator=None, **how):
    outcome = net.run_sync(REQUEST, protocol=Coordinated(negotiator, **how))
    validate(outcome.transcript)
    return outcome


class TestRounds:
    def test_it_is_registered_as_the_others_are(self):
        assert isinstance(PROTOCOLS["coordinated"], Coordinated)
        assert list(PROTOCOLS)[-1] == "coordinated"
        outcome = net(sky__forecast=0.9).run_sync(REQUEST, protocol="coordinated")
        assert outcome.protocol == "coordinated"
        assert len(outcome.recommendation) == 1 and set(outcome.recommendation) <= WEATHER

    def test_the_best_of_the_equivalents_is_awarded(self):
        negotiator = Negotiator()
        for _ in range(5):
            negotiator.reputation.count("sun__today", True)
            negotiator.reputation.count("sky__forecast", False)
        outcome = hold(net(**ALL), negotiator)
        (api,) = outcome.recommendation
        assert api == "sun__today"
        assert {each.api for each in negotiator.held[-1].offers} == WEATHER

    def test_each_need_is_negotiated_by_itself(self):
        negotiator = Negotiator()
        outcome = hold(net(**ALL, phone__send=0.75), negotiator)
        assert len(outcome.recommendation) == 2
        assert outcome.recommendation[1] == "phone__send"
        assert [{o.api for o in each.offers} for each in negotiator.held] == [
            WEATHER,
            {"phone__send"},
        ]

    def test_two_that_are_equivalent_are_one_need(self):
        outcome = hold(net(sky__forecast=0.9, air__weather=0.85))
        assert len(outcome.recommendation) == 1

    def test_what_is_alike_and_fits_too_little_only_comes_next(self):
        negotiator = Negotiator()
        prefer = negotiator.reputation
        for _ in range(50):
            prefer.count("sun__today", True)
        outcome = hold(net(sky__forecast=0.9, sun__today=0.3), negotiator)
        assert outcome.recommendation == ("sky__forecast",)

    def test_what_may_write_goes_to_the_same_function_only(self):
        said = "Creates a note in the notebook of a person."
        for effects in ("writes", "unknown"):
            tools = [
                Api("a__note", "note", said, effects=effects),
                Api("b__note", "note", said, effects=effects),
                Api("c__note", "note", said.replace("Creates", "Deletes"), effects=effects),
                Api("d__note", "note", said, effects="reads"),
            ]
            catalog = Catalog(tools)
            negotiator = Negotiator()
            by = ContractNet(catalog, offline_model(catalog))
            by.run_sync("A note", protocol=Coordinated(negotiator, api="a__note"))
            assert {each.api for each in negotiator.held[0].offers} == {"a__note", "b__note"}

    def test_tools_of_one_source_are_not_equivalent(self):
        tools = [
            Api("git__staged", "diff staged", "Shows changes that are staged.", effects="reads"),
            Api("git__unstaged", "diff unstaged", "Shows changes not staged.", effects="reads"),
            Api("hub__staged", "diff staged", "Shows changes that are staged.", effects="reads"),
        ]
        catalog = Catalog(tools)
        by = ContractNet(catalog, offline_model(catalog))
        negotiator = Negotiator()
        by.run_sync("What is staged?", protocol=Coordinated(negotiator, api="git__staged"))
        assert {each.api for each in negotiator.held[0].offers} == {"git__staged", "hub__staged"}

    def test_a_restriction_holds(self):
        outcome = net(sky__forecast=0.9).run_sync(
            REQUEST, protocol="coordinated", exclude=["sun__today", "air__weather"]
        )
        assert outcome.recommendation == ("sky__forecast",)

    def test_without_a_router_an_api_must_be_named(self):
        without = ContractNet(CATALOG, offline_model(CATALOG))
        with pytest.raises(InputError, match="there is no router"):
            hold(without)
        assert set(hold(without, api="sky__forecast").recommendation) <= WEATHER
        with pytest.raises(UnknownApiError):
            hold(without, api="sky__nothing")

    def test_who_may_not_take_its_place_takes_no_part(self):
        outcome = hold(net(), api="sky__forecast", may=lambda name: False)
        assert outcome.recommendation == ("sky__forecast",)

    def test_no_model_is_asked(self):
        assert hold(net(sky__forecast=0.9)).transcript.calls == ()


class TestServersThatSpeak:
    """Answers of servers are data: what cannot be used counts as not declared."""

    def order(self, *sources, negotiator=None, timeout=20.0, **how):
        async def main():
            everyone = {each.name: each for each in sources}
            for name in ("sky", "air", "sun", "phone", "maps"):
                everyone.setdefault(name, Answering(name, {}, methods=()))
            async with Sources(everyone.values()) as there:
                by = negotiator or Negotiator(there, timeout=timeout, **how)
                match = {"sky__forecast": 0.9, "air__weather": 0.7, "sun__today": 0.6}
                found = await by.negotiate(REQUEST, list(match), match=match, category="Weather")
                return by, found

        return asyncio.run(main())

    def test_who_declines_is_passed_over(self):
        sky = Answering("sky", {"status": "declined", "reason": "under repair"})
        negotiator, found = self.order(sky)
        assert found.order == ("air__weather", "sun__today")
        assert found.declined == {"sky__forecast": "under repair"}
        said = {each.api: each.said_by for each in found.offers}
        assert said == {
            "sky__forecast": "server", "air__weather": "coordinator", "sun__today": "coordinator",
        }  # fmt: skip
        assert negotiator.n_messages == 2

    def test_a_server_is_told_the_tool_and_not_what_the_user_asks(self):
        sky = Answering("sky", {"status": "accepted"})
        self.order(sky)
        assert sky.asked == [
            ("capability/negotiate", {"capability": "forecast", "task": "", "category": "Weather"})
        ]
        told = Answering("sky", {"status": "accepted"})
        self.order(told, tell_task=True)
        assert told.asked[0][1]["task"] == REQUEST

    @pytest.mark.parametrize(
        "answer",
        [
            {},
            {"status": "perhaps"},
            {"status": "declined", "reason": 5_000},
            {"status": ["declined"]},
            SourceAnswerError("sky", "an error for capability/negotiate: no"),
            SourceUnavailableError("sky", "no answer"),
            KeyError("a source of one's own"),
        ],
    )
    def test_a_wrong_answer_counts_as_not_declared(self, answer):
        sky = Answering("sky", answer)
        negotiator, found = self.order(sky)
        assert found.order[0] == "sky__forecast"
        assert found.offers[0].said_by == "coordinator"
        (note,) = negotiator.notes
        late = isinstance(answer, SourceUnavailableError)
        long = "for 60 s" if late else "any more"
        assert note.startswith(f"capability/negotiate of source 'sky' is not used {long}")
        _, again = self.order(sky, negotiator=negotiator)
        assert "sky__forecast" in again.order
        assert len(sky.asked) == 1  # it is not asked a second time

    def test_a_source_of_ones_own_that_hangs_is_waited_for_a_short_time(self):
        class Hanging(Answering):
            async def request(self, method, params, *, timeout=10.0):
                await asyncio.sleep(60)

        sky = Hanging("sky", {})
        negotiator, found = self.order(sky, timeout=0.5)
        assert found.order[0] == "sky__forecast"
        assert "TimeoutError" in negotiator.notes[0]

    def test_one_that_was_late_is_asked_again_after_a_minute(self):
        sky = Answering("sky", SourceUnavailableError("sky", "no answer"))
        now = [0.0]
        asking = Asking({"sky__forecast": sky}, 1.0, clock=lambda: now[0])
        asking.source_of = lambda api: sky
        ask = ("sky__forecast", "capability/discover", CapabilityDiscover(), CapabilitiesFound)
        assert asyncio.run(asking.ask(*ask)) is None
        sky.methods = ["capability/discover"]
        seen = []
        for now[0] in (1.0, 59.9, 60.0):
            seen.append(asking.is_declared("sky__forecast", "capability/discover"))
        assert seen == [False, False, True]

    def test_words_of_a_server_are_made_printable(self):
        sky = Answering("sky", {"status": "declined", "reason": "no\x1b[2J\u202e paper"})
        _, found = self.order(sky)
        assert "\x1b" not in found.declined["sky__forecast"]

    def test_what_a_server_does_not_name_takes_no_part(self):
        def answer(method, params):
            return {"capabilities": [{"name": "history", "description": "Past weather."}]}

        sky = Answering("sky", answer, methods=("capability/discover",))
        negotiator, found = self.order(sky)
        assert found.order == ("air__weather", "sun__today")
        assert "does not name it" in found.declined["sky__forecast"]
        self.order(sky, negotiator=negotiator)
        assert len(sky.asked) == 1  # once is enough
        assert asyncio.run(negotiator.discover(["sky__forecast"])) == {"sky": ("sky__history",)}
        assert len(sky.asked) == 2

    def test_only_so_many_are_asked(self):
        sources = [
            Answering(name, {"status": "declined", "reason": "full"})
            for name in ("sky", "air", "sun")
        ]
        _, found = self.order(*sources, most_asked=2)
        assert found.order == ("sun__today",)
        assert [len(each.asked) for each in sources] == [1, 1, 0]

    def test_jobs_that_come_at_once_are_spread_while_servers_are_asked(self):
        async def main():
            everyone = [Answering(name, {"status": "accepted"}) for name in ("sky", "air", "sun")]
            async with Sources(everyone) as there:
                negotiator = Negotiator(there)
                match = dict.fromkeys(ALL, 0.5)
                orders = await asyncio.gather(
                    *(negotiator.order(REQUEST, list(match), match=match) for _ in range(6))
                )
            for found in negotiator.held:
                scores = [each.score for each in found.offers]
                assert scores == sorted(scores, reverse=True)
                for each in found.offers:
                    own = 0.5 * each.match + 0.3 / each.load + 0.2 * each.past
                    assert each.score == pytest.approx(own)
            return sorted(order[0] for order in orders)

        assert asyncio.run(main()) == sorted([*ALL, *ALL])

    def test_jobs_that_come_at_once_ask_what_a_server_can_do_once(self):
        def answer(method, params):
            return {"capabilities": [{"name": "forecast"}]}

        async def main():
            sky = Answering("sky", answer, methods=("capability/discover",))
            async with Sources([sky]) as there:
                negotiator = Negotiator(there)
                match = {"sky__forecast": 0.9}
                await asyncio.gather(
                    *(negotiator.order(REQUEST, list(match), match=match) for _ in range(9))
                )
            return len(sky.asked)

        assert asyncio.run(main()) == 1


def test_all_declined_is_said():
    async def main():
        no = {"status": "declined", "reason": "under repair"}
        everyone = [Answering(name, no) for name in ("sky", "air", "sun")]
        async with Sources(everyone) as there:
            protocol = Coordinated(Negotiator(there))
            with pytest.raises(RoundFailedError) as caught:
                await net(**ALL).run(REQUEST, protocol=protocol)
        return caught.value

    error = asyncio.run(main())
    assert not isinstance(error, CoordinationError)
    assert "all that could do it declined" in str(error)
    for name in WEATHER:
        assert f"{name!r}: under repair" in str(error)
    assert error.transcript.protocol == "coordinated"


def test_how_well_they_fit_at_random():
    rng = random.Random(11)
    for _ in range(200):
        others = [f"o{n}" for n in range(rng.randint(0, 6))]
        like = {name: rng.random() for name in others}
        match = {name: rng.random() for name in ["a", *others] if rng.random() < 0.8}
        found = fits("a", others, like, match)
        assert list(found) == ["a", *others]
        assert all(0 <= p <= found["a"] for p in found.values())
        if match:
            same = {name for name in others if like[name] >= 0.9}
            assert all(found[name] >= match.get("a", 0.0) for name in same)
            assert all(found[name] == match.get(name, 0.0) for name in set(others) - same)
            continue
        assert all(found[name] >= match.get(name, 0.0) for name in others)
