"""`ContractNet`: every protocol on every organisation, and who is announced to."""

from __future__ import annotations

import asyncio
import datetime
import json
import traceback

import numpy as np
import pytest
from negotiation import (
    CATALOG,
    HISTORY,
    REQUEST,
    PlantedRouter,
    acting,
    award_all,
    bid,
    hold,
    of_type,
    propose,
    refuse,
)

from cnp_router.agents import (
    ComposeAlone,
    Decompose,
    InterpretRequest,
    MapCategories,
    MatchFunction,
    SelectApis,
    ServeFunction,
    offline_model,
)
from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.exceptions import InputError
from cnp_router.graph import TransitionGraph
from cnp_router.protocols import (
    PROTOCOLS,
    CallForProposals,
    ContractNet,
    RoundSettings,
    choose_protocol,
    validate,
)
from cnp_router.routing import PopularityRouter, Recipient, Routing, TopK

NEGOTIATED = ["manager-led", "contractor-led", "collaborative"]
BIDS = (MatchFunction, InterpretRequest, ServeFunction)
ALL_BID = {**dict.fromkeys(BIDS, propose), SelectApis: award_all}


def mapped_to(*categories):
    """Return a manager that maps the first function to some categories."""
    return lambda task: {"mappings": [{"function": 0, "categories": list(categories)}]}


def net_of(model, *, confidence=0.9, organisation="api", max_size=None, **settings):
    return ContractNet(
        CATALOG,
        model,
        router=PlantedRouter(confidence=confidence),
        organisation=organisation,
        max_size=max_size,
        settings=RoundSettings(**settings),
    )


def calls_of(outcome, iteration=1):
    messages = outcome.transcript.messages
    cfps = [m for m in messages if isinstance(m, CallForProposals)]
    return [m for m in cfps if m.iteration == iteration]


class DatedRouter(PlantedRouter):
    """Remembers the day of each question."""

    def __init__(self, **how):
        super().__init__(**how)
        self.asked = []

    def _scores(self, request, known, date):
        self.asked.append((request, date))
        return super()._scores(request, known, date)


class TestDate:
    DAY = datetime.date(2012, 2, 29)

    @pytest.mark.parametrize("protocol", list(PROTOCOLS))
    @pytest.mark.parametrize("confidence", [0.3, 0.9])
    @pytest.mark.parametrize("date", [DAY, None])
    def test_the_router_is_asked_as_of_the_day_of_the_request(self, protocol, confidence, date):
        router = DatedRouter(confidence=confidence)
        net = ContractNet(CATALOG, acting({}, ALL_BID), router=router)
        hold(net, protocol=protocol, date=date)
        assert {day for _, day in router.asked} == {date}

    def test_functions_are_scored_as_of_it_too(self):
        router = DatedRouter()
        hold(ContractNet(CATALOG, acting(), router=router), protocol="collaborative", date=self.DAY)
        assert len(router.asked) > 1
        assert {day for _, day in router.asked} == {self.DAY}

    @pytest.mark.parametrize("date", ["2012-02-29", datetime.datetime(2012, 2, 29), 2012])
    def test_what_is_no_date(self, date):
        with pytest.raises(InputError, match=r"date must be a datetime\.date"):
            hold(net_of(acting()), date=date)


class TestOrganisations:
    @pytest.mark.parametrize("protocol", [*NEGOTIATED, "single-agent", "learned", "auto"])
    @pytest.mark.parametrize("organisation", ["api", "category", "community", "size"])
    @pytest.mark.parametrize("announcement", ["broadcast", "routed"])
    def test_every_protocol_runs_on_every_organisation(self, protocol, organisation, announcement):
        model = acting({}, ALL_BID)
        size = 2 if organisation == "size" else None
        net = net_of(model, organisation=organisation, max_size=size, confidence=0.3)
        outcome = hold(net, protocol=protocol, announcement=announcement)
        assert validate(outcome.transcript).recommendation == outcome.recommendation
        assert outcome.recommendation
        assert outcome.organisation == organisation
        assert outcome.n_contractors == len(net.contractors)
        assert set(outcome.recipients) <= {c.id for c in net.contractors}
        holdings = {c.apis for c in net.contractors}
        assert {t.apis for kind in BIDS for t in of_type(model, kind)} <= holdings

    def test_a_contractor_sees_its_own_apis_and_no_others(self):
        model = acting()
        contractors = [Contractor("a", CATALOG[:4]), Contractor("b", CATALOG[4:])]
        outcome = hold(net_of(model, organisation=contractors), announcement="broadcast")
        seen = [
            [spec["id"] for spec in json.loads(text.split("\n", 1)[1])["specifications"]]
            for text in (c.messages[1].content for c in model.calls)
            if '"specifications"' in text
        ]
        assert seen == [["maps", "places", "sms", "mail"], ["weather", "photos"]]
        assert outcome.organisation == "custom"

    def test_who_holds_a_recipient_is_called_once(self):
        contractors = [Contractor("left", CATALOG[:4]), Contractor("right", CATALOG[4:])]
        outcome = hold(net_of(acting({}, ALL_BID), organisation=contractors), request="text a map")
        assert outcome.routing.contractors[:2] == ("maps", "sms")
        assert outcome.recipients == ("left",)
        assert outcome.stages.proposed == set(CATALOG.ids[:4])

    def test_what_two_hold_is_awarded_to_the_first_who_proposed_it(self):
        contractors = [Contractor("a", CATALOG[:3]), Contractor("b", CATALOG[2:])]
        outcome = hold(
            net_of(acting({}, ALL_BID), organisation=contractors), announcement="broadcast"
        )
        awards = [m for m in outcome.transcript.messages if m.performative == "accept-proposal"]
        assert [(m.receiver, m.apis) for m in awards] == [
            ("a", ("maps", "places", "sms")),
            ("b", ("mail", "weather", "photos")),
        ]


class TestAnnouncements:
    def test_contractor_led_carries_the_request(self):
        outcome = hold(net_of(acting()), announcement="broadcast")
        assert [c.receiver for c in calls_of(outcome)] == list(CATALOG.ids)
        assert {(c.request, c.function, c.category) for c in calls_of(outcome)} == {
            (REQUEST, None, None)
        }

    def test_collaborative_carries_each_function_to_everyone(self):
        model = acting({}, {Decompose: lambda task: {"functions": ["f", "g"]}})
        outcome = hold(net_of(model), protocol="collaborative", announcement="broadcast")
        said = [(c.receiver, c.request, c.function) for c in calls_of(outcome)]
        assert said == [(name, None, f) for name in CATALOG.ids for f in ("f", "g")]
        assert len(outcome.recipients) == 6

    def test_manager_led_carries_a_function_and_its_category_to_those_in_it(self):
        mappings = [
            {"function": 0, "categories": ["Travel", "Mapping"]},
            {"function": 1, "categories": ["Messaging"]},
        ]
        model = acting(
            {},
            {
                Decompose: lambda task: {"functions": ["show", "send"]},
                MapCategories: lambda task: {"mappings": mappings},
            },
        )
        outcome = hold(net_of(model), protocol="manager-led", announcement="broadcast")
        assert [(c.receiver, c.function, c.category) for c in calls_of(outcome)] == [
            ("maps", "show", "Mapping"),
            ("places", "show", "Travel"),
            ("sms", "send", "Messaging"),
            ("mail", "send", "Messaging"),
        ]
        assert outcome.categories == ("Travel", "Mapping", "Messaging")
        assert outcome.stages.mapped == {"maps", "places", "sms", "mail"}

    def test_manager_led_without_a_category_reaches_no_one(self):
        model = acting({}, {MapCategories: lambda task: {"mappings": []}})
        outcome = hold(net_of(model), protocol="manager-led", announcement="broadcast")
        assert (outcome.recipients, outcome.recommendation) == ((), ())
        assert of_type(model, SelectApis) == []

    def test_manager_led_routed_asks_for_no_categories_where_the_router_is_confident(self):
        model = acting()
        net = net_of(model)
        outcome = hold(net, protocol="manager-led")
        assert of_type(model, MapCategories) == []
        assert outcome.recipients == outcome.routing.contractors
        assert outcome.categories == net.router.categories.predict([REQUEST])[0]
        assert all(c.category in CATALOG[c.receiver].categories for c in calls_of(outcome))

    def test_the_stages_of_contractor_led_are_what_contractors_said(self):
        model = acting(
            {"sms": lambda task: bid(task, "sms", categories=("Messaging", "Travel"))},
            {InterpretRequest: refuse, SelectApis: award_all},
        )
        outcome = hold(net_of(model), announcement="broadcast")
        assert outcome.categories == ("Messaging", "Travel")
        assert outcome.stages.mapped == {"sms", "mail", "places"}
        assert outcome.stages.proposed == outcome.stages.selected == {"sms"}

    def test_the_single_agent_sees_everything_or_what_the_router_chose(self):
        model = acting()
        outcome = hold(net_of(model), protocol="single-agent", announcement="broadcast")
        assert of_type(model, ComposeAlone)[0].apis == tuple(CATALOG)
        assert outcome.ledger.messages == {"request": 1, "inform": 1}
        routed = hold(net_of(model), protocol="single-agent")
        assert [a.id for a in of_type(model, ComposeAlone)[1].apis] == list(
            routed.routing.contractors
        )

    def test_learned_asks_no_model(self):
        model = acting()
        outcome = hold(net_of(model), protocol="learned")
        assert model.calls == []
        assert outcome.ledger.tokens == outcome.ledger.model_calls == 0
        assert outcome.recommendation == outcome.routing.recommendation
        assert set(outcome.recommendation) == {"sms", "weather", "maps"}
        assert outcome.stages.proposed is None


class TestFallback:
    @pytest.mark.parametrize("protocol", [*NEGOTIATED, "single-agent"])
    @pytest.mark.parametrize("fallback", ["llm", "broadcast", "none"])
    def test_above_the_threshold_none_is_asked(self, protocol, fallback):
        model = acting({}, ALL_BID)
        outcome = hold(net_of(model, confidence=0.61, fallback=fallback), protocol=protocol)
        assert of_type(model, MapCategories) == []
        assert outcome.routing.source == "learned"
        if protocol in NEGOTIATED:
            assert outcome.recipients == outcome.routing.contractors
            assert set(outcome.recipients) == {"maps", "sms", "weather"}

    @pytest.mark.parametrize("protocol", ["contractor-led", "collaborative"])
    def test_llm_asks_once_and_widens(self, protocol):
        model = acting({}, {**ALL_BID, MapCategories: mapped_to("Photos", "Travel", "Made up")})
        outcome = hold(net_of(model, confidence=0.59), protocol=protocol)
        [task] = of_type(model, MapCategories)
        assert (task.functions, task.categories) == ((REQUEST,), CATALOG.categories)
        assert set(outcome.recipients) == {"maps", "sms", "weather", "photos", "places"}
        assert outcome.routing.source == outcome.routing.fallback == "llm"
        assert outcome.ledger.by_stage["fallback"].model_calls == 1
        assert outcome.ledger.hallucinated == 1

    def test_llm_widens_what_a_single_agent_sees(self):
        model = acting({}, {MapCategories: mapped_to("Photos")})
        hold(net_of(model, confidence=0.1), protocol="single-agent")
        [task] = of_type(model, ComposeAlone)
        assert {api.id for api in task.apis} == {"maps", "sms", "weather", "photos"}

    def test_llm_widens_to_the_categories_of_step_2_in_manager_led(self):
        model = acting({}, {**ALL_BID, MapCategories: mapped_to("Photos", "Travel")})
        outcome = hold(net_of(model, confidence=0.1), protocol="manager-led")
        assert len(of_type(model, MapCategories)) == 1  # step 2 is the question
        assert outcome.recipients[-2:] == ("places", "photos")
        assert set(outcome.recipients) == {"maps", "sms", "weather", "places", "photos"}
        assert outcome.categories == ("Photos", "Travel")
        assert outcome.routing.source == outcome.routing.fallback == "llm"

    @pytest.mark.parametrize("protocol", [*NEGOTIATED, "single-agent", "learned", "auto"])
    def test_a_request_is_counted_once_by_the_router(self, protocol):
        net = net_of(acting({}, {**ALL_BID, MapCategories: mapped_to("Photos")}), confidence=0.1)
        hold(net, protocol=protocol)
        assert net.router.source_counts.total() == 1

    @pytest.mark.parametrize("protocol", NEGOTIATED)
    def test_none_asks_nothing_and_stays(self, protocol):
        model = acting({}, {**ALL_BID, MapCategories: mapped_to("Photos")})
        outcome = hold(net_of(model, confidence=0.1, fallback="none"), protocol=protocol)
        assert len(of_type(model, MapCategories)) == (protocol == "manager-led")
        assert set(outcome.recipients) == {"maps", "sms", "weather"}
        assert outcome.routing.source == "learned"
        assert not outcome.routing.is_confident

    @pytest.mark.parametrize("protocol", ["contractor-led", "collaborative"])
    def test_broadcast_asks_nothing_and_reaches_everyone(self, protocol):
        model = acting({}, ALL_BID)
        outcome = hold(net_of(model, confidence=0.1, fallback="broadcast"), protocol=protocol)
        assert of_type(model, MapCategories) == []
        assert set(outcome.recipients) == set(CATALOG.ids)
        assert outcome.routing.source == "broadcast"

    def test_a_routing_is_counted_once(self):
        net = net_of(acting({}, {MapCategories: mapped_to("Photos")}), confidence=0.1)
        hold(net)
        assert net.router.source_counts == {"llm": 1}

    def test_the_router_is_asked_as_the_settings_say(self):
        outcome = hold(net_of(acting(), select=TopK(2), threshold=0.95, fallback="none"))
        assert len(outcome.recipients) == 2
        assert (outcome.routing.threshold, outcome.routing.is_confident) == (0.95, False)


class TestIteratedAnnouncement:
    def test_the_tied_who_were_not_asked_are_asked_and_awards_add_up(self):
        model = acting({}, ALL_BID)
        outcome = hold(net_of(model, iterate=6), request="photos")
        first, second = calls_of(outcome, 1), calls_of(outcome, 2)
        asked = {c.receiver for c in first}
        assert "photos" in asked
        ties = {n.api for n in PlantedRouter().graph.predict_next(asked, k=9) if n.count}
        assert {c.receiver for c in second} == ties - asked
        assert set(outcome.recommendation) == asked | ties
        assert outcome.recommendation[: len(first)] == tuple(c.receiver for c in first)
        assert outcome.recipients == tuple(c.receiver for c in (*first, *second))
        tasks = of_type(model, SelectApis)
        assert [len(t.awarded) for t in tasks] == [0, len(first)]

    @pytest.mark.parametrize("protocol", NEGOTIATED)
    @pytest.mark.parametrize("announcement", ["routed", "broadcast"])
    @pytest.mark.parametrize("iterate", [1, 2])
    def test_at_most_so_many_and_none_twice(self, protocol, announcement, iterate):
        model = acting({}, {**ALL_BID, MapCategories: mapped_to("Photos")})
        net = net_of(model, iterate=iterate, select=TopK(1))
        outcome = hold(net, request="photos", protocol=protocol, announcement=announcement)
        first = {c.receiver for c in calls_of(outcome, 1)}
        second = {c.receiver for c in calls_of(outcome, 2)}
        everyone = first == set(CATALOG.ids)
        assert len(second) == (0 if everyone else iterate)
        assert not first & second

    def test_without_an_award_there_is_no_second_one(self):
        model = acting({}, {InterpretRequest: refuse})
        assert calls_of(hold(net_of(model, iterate=3), request="photos"), 2) == []

    def test_popularity_ties_no_one(self):
        # mail was used with photos only: sms, used twice, is popular and not tied to it.
        net = net_of(acting({}, ALL_BID), iterate=6, select=TopK(1))
        net.router.graph = TransitionGraph(smoothing=1.0).fit(HISTORY)
        assert len(net.router.graph.predict_next(["mail"])) > 1
        outcome = hold(net, request="mail")
        assert [c.receiver for c in calls_of(outcome, 2)] == ["photos"]

    def test_an_api_that_the_graph_does_not_know_ties_no_one(self):
        catalog = CATALOG.extended([Api("tides", "Tides", "", ("Weather",))])
        model = acting({"tides": propose}, {InterpretRequest: refuse, SelectApis: award_all})
        net = ContractNet(catalog, model, router=PlantedRouter(), settings=RoundSettings(iterate=3))
        outcome = hold(net, announcement="broadcast")
        assert outcome.recommendation == ("tides",)

    def test_what_is_awarded_is_not_awarded_again(self):
        both = CATALOG["places"]
        contractors = [
            Contractor("a", (CATALOG["maps"], both)),
            Contractor("b", (both, CATALOG["weather"])),
        ]
        greedy = {SelectApis: lambda task: {"apis": ["maps", "places", "weather"]}}
        model = acting({}, {**ALL_BID, **greedy})
        net = net_of(model, organisation=contractors, iterate=2, select=TopK(1))
        outcome = hold(net, request="map")
        assert [c.receiver for c in (*calls_of(outcome, 1), *calls_of(outcome, 2))] == ["a", "b"]
        assert outcome.recommendation == ("maps", "places", "weather")


class TestAuto:
    def routing(self, confidence):
        recipients = (Recipient("maps", 0.3),)
        return Routing("", recipients, (), confidence, "learned", 9, 0.6, "none")

    @pytest.mark.parametrize(
        ("request_", "confidence", "spread", "protocol", "reason"),
        [
            ("x", 0.6, 9, "learned", "confidence is 0.60, which reaches the threshold of 0.60"),
            ("x", 0.59, 2, "manager-led", "is 0.59, but the request points to 2.0 categories"),
            ("x " * 8, 0.1, 4, "contractor-led", "unclear, and 8 words are too few to take apart"),
            ("x " * 9, 0.1, 4, "collaborative", "unclear, and 9 words can be taken apart"),
            ("", 0.0, None, "contractor-led", "0 words"),
        ],
    )
    def test_each_branch_says_why(self, request_, confidence, spread, protocol, reason):
        probabilities = None if spread is None else np.full(spread, 0.2)
        choice = choose_protocol(request_, self.routing(confidence), probabilities)
        assert choice.protocol == protocol
        assert reason in choice.reason
        assert choice.reason.endswith(".")
        assert (choice.confidence, choice.words) == (confidence, len(request_.split()))
        assert choice.spread == (None if spread is None else pytest.approx(spread))
        assert json.loads(json.dumps(choice.to_dict()))["protocol"] == protocol

    def test_no_category_at_all_is_as_wide_as_can_be(self):
        assert choose_protocol("x", self.routing(0.1), np.zeros(7)).spread == 7

    def test_a_confident_router_is_followed_without_a_model(self):
        model = acting()
        outcome = hold(net_of(model), protocol="auto")
        assert (outcome.protocol, outcome.transcript.protocol) == ("learned", "learned")
        assert outcome.choice.protocol == "learned"
        assert model.calls == []

    def test_otherwise_the_chosen_protocol_is_held(self):
        model = acting({}, ALL_BID)
        outcome = hold(net_of(model, confidence=0.2), protocol="auto", announcement="broadcast")
        assert outcome.protocol == outcome.choice.protocol != "learned"
        assert model.calls
        assert outcome.to_dict()["choice"]["reason"] == outcome.choice.reason


class TestWrongUse:
    def net(self, **options):
        return ContractNet(CATALOG, acting(), **options)

    @pytest.mark.parametrize(
        ("how", "message"),
        [
            ({"request": 3}, "a request must be a string, got 3"),
            ({"protocol": "fipa"}, r"unknown protocol 'fipa' \(use one of learned, manager-led"),
            (
                {"announcement": "all"},
                r"unknown announcement 'all' \(use 'routed' or 'broadcast'\)",
            ),
            ({"announcement": "routed"}, r"there is no router to ask \(give one, or announcement="),
            ({"protocol": "learned"}, "there is no router"),
            ({"protocol": "auto", "announcement": "broadcast"}, "there is no router"),
        ],
    )
    def test_a_round(self, how, message):
        with pytest.raises(InputError, match=message):
            hold(self.net(), **how)

    def test_a_request_without_words_is_one_and_a_blank_one_is_not(self):
        for protocol in [*NEGOTIATED, "single-agent"]:
            assert hold(self.net(), request="?!", protocol=protocol, announcement="broadcast")
            for blank in ("", " ", "\n\t\u3000"):
                with pytest.raises(InputError, match="a request must not be blank"):
                    hold(self.net(), request=blank, protocol=protocol, announcement="broadcast")

    @pytest.mark.parametrize(
        ("organisation", "message"),
        [
            ("name", "unknown organisation 'name'"),
            ("community", "co-usage needs a router with a transition graph"),
            ("size", "give max_size"),
            ([], r"at least one contractor \(got none\)"),
            ([Contractor("a", CATALOG[:1])] * 2, "duplicate contractor id 'a'"),
            ([Contractor("a", (Api("x", "X"),))], "'a' holds 'x', which the catalog does not have"),
        ],
    )
    def test_an_organisation(self, organisation, message):
        with pytest.raises(InputError, match=message):
            self.net(organisation=organisation)

    def test_a_router_of_another_catalog(self):
        with pytest.raises(InputError, match="routes to 'weather', which the catalog does not"):
            ContractNet(Catalog(CATALOG[:4]), acting(), router=PlantedRouter())

    @pytest.mark.parametrize("protocol", ["contractor-led", "auto"])
    def test_iterating_needs_a_graph_and_says_so_before_anything_is_paid(self, protocol):
        model = acting()
        router = PopularityRouter(CATALOG, HISTORY)
        net = ContractNet(CATALOG, model, router=router, settings=RoundSettings(iterate=1))
        with pytest.raises(InputError, match="needs a router with a transition graph"):
            hold(net, protocol=protocol)
        assert model.calls == []

    def test_manager_led_needs_categories_and_says_so_before_anything_is_paid(self):
        model = acting()
        net = ContractNet(Catalog([Api("a", "A")]), model)
        with pytest.raises(InputError, match="a catalog with categories"):
            hold(net, protocol="manager-led", announcement="broadcast")
        assert model.calls == []

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"fallback": "all"}, "unknown fallback 'all'"),
            ({"deadline": 0}, r"deadline in seconds must be a number between 0 and \d+, got 0"),
            (
                {"bid_timeout": float("nan")},
                "bid_timeout in seconds must be a number between 0 .* got nan",
            ),
            ({"max_concurrency": 0}, "max_concurrency must be a whole number of at least 1, got 0"),
            ({"iterate": 1.5}, "iterate must be a whole number"),
            ({"threshold": float("nan")}, "threshold must be a number from 0 to 1, got nan"),
            ({"threshold": 2}, "threshold must be a number from 0 to 1, got 2"),
            ({"select": "x"}, "unknown selection 'x'"),
            ({"budget": 5}, "budget must be of type TrafficBudget, got 5"),
            ({"deadline": float("nan")}, "deadline in seconds must be a number"),
            ({"deadline": 10**400}, "deadline in seconds must be a number"),
            ({"deadline": 10**5_000}, "deadline in seconds must be a number"),
            ({"bid_timeout": float("inf")}, "bid_timeout in seconds must be a number"),
            ({"timeout": -1}, "timeout in seconds must be a number"),
            ({"timeout": "soon"}, "timeout in seconds must be a number .* got 'soon'"),
            ({"threshold": object()}, "threshold must be a number from 0 to 1, got <object"),
            ({"threshold": True}, "threshold must be a number from 0 to 1, got True"),
            ({"threshold": 10**400}, "threshold must be a number"),
            ({"max_concurrency": 2.0}, "max_concurrency must be a whole number"),
            ({"fallback": ["llm"]}, r"unknown fallback \['llm'\]"),
            ({"limits": 5}, "limits must be of type AnswerLimits, got 5"),
            ({"iterate": -1}, "iterate must be a whole number of at least 0, got -1"),
        ],
    )
    def test_settings(self, settings, message):
        with pytest.raises(InputError, match=message):
            RoundSettings(**settings)


class TestRunSync:
    def test_it_is_the_same_round(self):
        net = ContractNet(CATALOG, offline_model(CATALOG))
        assert net.run_sync(REQUEST, announcement="broadcast").transcript == (
            hold(net, announcement="broadcast").transcript
        )

    def test_it_is_not_for_an_event_loop(self):
        async def main():
            with pytest.raises(InputError, match="write: await net"):
                ContractNet(CATALOG, acting()).run_sync(REQUEST, announcement="broadcast")

        asyncio.run(main())

    def test_its_errors_show_no_inner_workings(self):
        with pytest.raises(InputError) as caught:
            ContractNet(CATALOG, acting()).run_sync(REQUEST)
        assert "no running event loop" not in "".join(traceback.format_exception(caught.value))


def test_rounds_at_the_same_time_do_not_mix():
    net = net_of(acting())
    requests = ["Photos on a map", "A text message when rain comes", REQUEST] * 3

    async def main():
        return await asyncio.gather(*(net.run(request) for request in requests))

    together = asyncio.run(main())
    for request, outcome in zip(requests, together, strict=True):
        assert outcome.transcript == hold(net, request=request).transcript


def test_an_outcome_is_one_json_object():
    for protocol in [*NEGOTIATED, "single-agent", "learned"]:
        outcome = hold(net_of(acting()), protocol=protocol)
        record = json.loads(json.dumps(outcome.to_dict(), allow_nan=False))
        assert record["recommendation"] == list(outcome.recommendation)
        assert record["ledger"]["messages"]["total"] == outcome.ledger.n_messages
