"""Every law on every router, and for every law routers that break it."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace

import numpy as np
import pytest

from cnp_router import checks
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError, NotFittedError
from cnp_router.history import History, Mashup
from cnp_router.routing import (
    BroadcastRouter,
    HistoryKNNRouter,
    MaxCost,
    PopularityRouter,
    RandomRouter,
    Recipient,
    Scores,
    SpecificationRouter,
    TargetRecall,
    TopK,
)
from cnp_router.training import fit_router, load_router

CATALOG = Catalog(
    [
        Api("weather", "Weather", "Forecasts rain, wind and sun.", ("Science",)),
        Api("maps", "Maps", "Shows places on a map.", ("Mapping",)),
        Api("sms", "SMS", "Sends text messages to phones.", ("Messaging",)),
        Api("mail", "Mail", "Sends e-mail.", ("Messaging",)),
        Api("photos", "Photos", "Stores photos.", ("Media",)),
        Api("tides", "Tides", "Tells high and low water.", ("Science", "Mapping")),
    ]
)
HISTORY = History(
    [
        Mashup("m1", "Send me a text message when it rains.", ("weather", "sms")),
        Mashup("m2", "Show the forecast of each place on a map.", ("weather", "maps")),
        Mashup("m3", "Mail me the weather every morning.", ("weather", "mail")),
        Mashup("m4", "Text me where my friends are on the map.", ("maps", "sms")),
        Mashup("m5", "Photos on a map", ("photos", "maps")),
    ]
)
DATED = History(
    replace(mashup, date=datetime.date(2010 + place, 5, 1)) for place, mashup in enumerate(HISTORY)
)

ROUTERS = {
    "broadcast": lambda: BroadcastRouter(CATALOG),
    "random": lambda: RandomRouter(CATALOG),
    "popularity": lambda: PopularityRouter(CATALOG, HISTORY),
    "specification": lambda: SpecificationRouter(CATALOG),
    "calibrated specification": lambda: SpecificationRouter(CATALOG, HISTORY),
    "history kNN": lambda: HistoryKNNRouter(CATALOG, HISTORY),
    "learned": lambda: fit_router(CATALOG, HISTORY),
    "learned with dates": lambda: fit_router(CATALOG, DATED),
    "extended": lambda: fit_router(CATALOG, HISTORY).extended([Api("bus", "Bus", "Bus stops.")]),
    "synced": lambda: fit_router(CATALOG, HISTORY).synced(
        Catalog([*CATALOG[1:], Api("bus", "Bus", "Bus stops.")])
    ),
    "one contractor": lambda: BroadcastRouter(Catalog(CATALOG[:1])),
    "two contractors": lambda: SpecificationRouter(Catalog(CATALOG[:2])),
}
LAWS = list(checks.LAWS)


@pytest.fixture(scope="module", params=ROUTERS)
def router(request):
    return ROUTERS[request.param]()


@pytest.mark.parametrize("law", LAWS)
def test_law(router, law):
    dict(checks.laws(router))[law]()


@pytest.mark.parametrize("name", ["learned", "learned with dates", "extended", "synced"])
def test_what_was_saved_answers_the_same(name):
    checks.check_saved_answers_the_same(ROUTERS[name](), load_router, checks.REQUESTS)


def test_all_laws_on_a_loaded_router(tmp_path):
    ROUTERS["learned"]().save(tmp_path / "model")
    checks.check_router(load_router(tmp_path / "model"), load=load_router)


class Stored(PopularityRouter):
    """A router that can be saved."""

    def save(self, path):
        path.write_text(json.dumps(self.usage.tolist()), encoding="utf-8")

    @classmethod
    def load(cls, path):
        router = cls(CATALOG, HISTORY)
        router.usage = np.array(json.loads(path.read_text(encoding="utf-8")))
        return router


class Unfitted:
    def score(self, request):
        raise NotFittedError("fit it first")

    route = score


def test_all_laws_at_once():
    router = Stored(CATALOG, HISTORY)
    checks.check_router(router, load=Stored.load, unfitted=Unfitted)
    names = [name for name, _ in checks.laws(router, load=Stored.load, unfitted=Unfitted)]
    assert names == [*LAWS, "saved_answers_the_same", "unfitted_raises"]


# From here on, routers that are broken on purpose. Each is PopularityRouter but for one fault.

BROKEN = []


def breaks(law):
    def note(router):
        BROKEN.append(pytest.param(law, router, id=f"{law}-{router.__name__}"))
        return router

    return note


class Sound(PopularityRouter):
    def __init__(self):
        super().__init__(CATALOG, HISTORY)

    def changed(self, scores, change):
        return replace(scores, probabilities=change(scores.probabilities.astype(float)))


@breaks("inputs_untouched")
class ChangesKnown(Sound):
    def score(self, request, known=(), *, date=None):
        scores = super().score(request, known, date=date)
        if isinstance(known, list):
            known.reverse()
        return scores


@breaks("inputs_untouched")
class ChangesCosts(Sound):
    def _chosen(self, select, scores, allowed):
        chosen = super()._chosen(select, scores, allowed)
        if isinstance(select, MaxCost):
            select.costs.clear()
        return chosen


@breaks("inputs_untouched")
class ReusesItsBuffer(Sound):
    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(len(CATALOG))

    def score(self, request, known=(), *, date=None):
        self.buffer[:] = super()._scores(request, known, date).probabilities / (1 + len(request))
        return Scores(self.apis, self.buffer)


@breaks("inputs_untouched")
class ForgetsApis(Sound):
    def _scores(self, request, known, date):
        scores = super()._scores(request, known, date)
        self.apis = self.apis[::-1]
        return scores


@breaks("scores_are_probabilities")
class AboveOne(Sound):
    def _scores(self, request, known, date):
        return self.changed(super()._scores(request, known, date), lambda p: p * 2)


@breaks("scores_are_probabilities")
class BelowZero(Sound):
    def _scores(self, request, known, date):
        return self.changed(super()._scores(request, known, date), lambda p: p - 0.1)


@breaks("scores_are_probabilities")
class NotANumber(Sound):
    def _scores(self, request, known, date):
        return self.changed(super()._scores(request, known, date), lambda p: p * np.nan)


@breaks("scores_are_probabilities")
class ScoresTooFew(Sound):
    def _scores(self, request, known, date):
        return self.changed(super()._scores(request, known, date), lambda p: p[:-1])


@breaks("scores_are_probabilities")
class ScoresOthers(Sound):
    def _scores(self, request, known, date):
        return replace(super()._scores(request, known, date), apis=tuple("abcdef"))


class Upwards(Scores):
    @property
    def order(self):
        return np.argsort(self.probabilities, kind="stable")


class Repeating(Scores):
    @property
    def order(self):
        return np.zeros(len(self.probabilities), dtype=int)


@breaks("scores_are_probabilities")
class OrdersUpwards(Sound):
    def _scores(self, request, known, date):
        return Upwards(self.apis, super()._scores(request, known, date).probabilities)


@breaks("scores_are_probabilities")
class OrdersOneTwice(Sound):
    def _scores(self, request, known, date):
        return Repeating(self.apis, super()._scores(request, known, date).probabilities)


class Chooses(Sound):
    def choice(self, chosen):
        raise NotImplementedError

    def _chosen(self, select, scores, allowed):
        return self.choice(super()._chosen(select, scores, allowed))


@breaks("recipients_descend")
class WorstFirst(Chooses):
    def choice(self, chosen):
        return chosen[::-1]


@breaks("recipients_descend")
class AsksTwice(Chooses):
    def choice(self, chosen):
        return np.concatenate([chosen[:1], chosen])


@breaks("recipients_descend")
class AsksNoOne(Chooses):
    def choice(self, chosen):
        return chosen[:0]


class Answers(Sound):
    """Gives a changed routing."""

    def answer(self, routing):
        raise NotImplementedError

    def decide(self, *args, **options):
        return self.answer(super().decide(*args, **options))


@breaks("recipients_descend")
class Exaggerates(Answers):
    def answer(self, routing):
        return replace(
            routing,
            recipients=tuple(replace(r, probability=1.0) for r in routing.recipients),
        )


@breaks("recipients_descend")
class AsksAStranger(Answers):
    def answer(self, routing):
        return replace(routing, recipients=(*routing.recipients, Recipient("nobody", 0.0)))


@breaks("recipients_descend")
class RecommendsNothing(Answers):
    def answer(self, routing):
        return replace(routing, recommendation=())


@breaks("recipients_descend")
class Miscounts(Answers):
    def answer(self, routing):
        return replace(routing, n_apis=1)


@breaks("recipients_descend")
class WidensInTheFallbacksOrder(Sound):
    def _widened(self, request, scores, other, chosen, allowed):
        names = other.recipients(request, scores, ())
        return np.array([self._positions[name] for name in names])


@breaks("many_are_routed_as_one_by_one")
class MixesThemUp(SpecificationRouter):
    def __init__(self):
        super().__init__(CATALOG)

    def _scores_many(self, requests, known, dates):
        return super()._scores_many(requests[::-1], known, dates[::-1])


@breaks("many_are_routed_as_one_by_one")
class CountsThemOnce(Sound):
    def route_many(self, requests, *args, **kwargs):
        self.is_counted = False
        many = super().route_many(requests, *args, **kwargs)
        self.is_counted = True
        return many


@breaks("never_more_than_asked")
class OneMore(Sound):
    def _chosen(self, select, scores, allowed):
        if isinstance(select, TopK):
            select = TopK(select.k + 1)
        return super()._chosen(select, scores, allowed)


@breaks("never_more_than_asked")
class OneLess(Sound):
    def _chosen(self, select, scores, allowed):
        if isinstance(select, TopK) and select.k > 1:
            select = TopK(select.k - 1)
        return super()._chosen(select, scores, allowed)


@breaks("never_more_than_asked")
class Overspends(Sound):
    def _chosen(self, select, scores, allowed):
        return allowed if isinstance(select, MaxCost) else super()._chosen(select, scores, allowed)


@breaks("never_more_than_asked")
class FewerForMore(Sound):
    def _chosen(self, select, scores, allowed):
        if isinstance(select, TargetRecall):
            return allowed[: 1 + int(5 * (1 - select.target))]
        return super()._chosen(select, scores, allowed)


@breaks("known_are_not_asked")
class AsksTheKnown(Sound):
    def decide(self, request, scores, known, **options):
        routing = super().decide(request, scores, [], **options)
        return replace(routing, known=tuple(known))


@breaks("known_are_not_asked")
class ScoresTheKnown(Sound):
    def score(self, request, known=(), *, date=None):
        return self._scores(request, [], date)


@breaks("known_are_not_asked")
class RecommendsTheKnown(Answers):
    def answer(self, routing):
        return replace(routing, recommendation=(*routing.known, *routing.recommendation))


@breaks("known_are_not_asked")
class KeepsTheKnownToItself(Answers):
    def answer(self, routing):
        return replace(routing, known=())


@breaks("known_are_not_asked")
class BringsBackTheKnown(Sound):
    def _widened(self, request, scores, other, chosen, allowed):
        return np.arange(len(self.apis))


@breaks("unknown_known_are_reported")
class CrashesOnStrangers(Sound):
    def _known(self, known):
        return [self._positions[name] for name in known], ()


@breaks("unknown_known_are_reported")
class KeepsStrangersToItself(Answers):
    def answer(self, routing):
        return replace(routing, ignored=())


@breaks("unknown_known_are_reported")
class LosesItsThreadOverStrangers(Sound):
    def _known(self, known):
        positions, ignored = super()._known(known)
        return ([] if ignored else positions), ignored


@breaks("same_request_same_answer")
class Tires(Sound):
    asked = 0

    def _scores(self, request, known, date):
        self.asked += 1
        return self.changed(super()._scores(request, known, date), lambda p: p / self.asked)


@breaks("same_request_same_answer")
class Wavers(Answers):
    def answer(self, routing):
        total = sum(self.source_counts.values())
        return replace(routing, confidence=routing.confidence / total)


class Dated(Sound):
    """Half as sure of a request of a day."""

    def _scores(self, request, known, date):
        half = 1 if date is None else 2
        return self.changed(super()._scores(request, known, date), lambda p: p / half)


def test_a_router_may_go_by_the_date():
    checks.check_router(Dated())


@breaks("scores_are_probabilities")
class OverflowsInTheFuture(Sound):
    def _scores(self, request, known, date):
        years = 0 if date is None else date.year - 2020
        return self.changed(super()._scores(request, known, date), lambda p: p * 2.0 ** (years / 9))


@breaks("dates_are_passed_on")
class RoutesWithoutTheDate(Dated):
    def route(self, request, known=(), *, date=None, **options):
        return super().route(request, known, **options)


@breaks("dates_are_passed_on")
class RecommendsWithoutTheDate(Dated):
    def recommend(self, request, known=(), *, date=None, **options):
        return super().recommend(request, known, **options)[: 1 if date else None]


@breaks("dates_are_passed_on")
class RemembersTheDate(Dated):
    last = None

    def _scores(self, request, known, date):
        self.last = date or self.last
        return super()._scores(request, known, self.last)


@breaks("bad_arguments_raise")
class TakesAnyDate(Sound):
    def score(self, request, known=(), *, date=None):
        return super().score(request, known)


@breaks("odd_requests_are_answered")
class NeedsAWord(Sound):
    def _scores(self, request, known, date):
        first = [word for word in request.split() if word.isalpha()][0]  # noqa: RUF015
        return self.changed(super()._scores(request, known, date), lambda p: p * bool(first))


@breaks("odd_requests_are_answered")
class NeedsUtf8(Sound):
    def _scores(self, request, known, date):
        request.encode()
        return super()._scores(request, known, date)


@breaks("odd_requests_are_answered")
class HasNoPatience(Sound):
    def _scores(self, request, known, date):
        if len(request) > 10_000:
            raise RecursionError("too long")
        return super()._scores(request, known, date)


@breaks("odd_requests_are_answered")
class SpeechlessInJapanese(Sound):
    def _chosen(self, select, scores, allowed):
        return super()._chosen(select, scores, allowed)[self.start :]

    def _scores(self, request, known, date):
        self.start = 100 if "地図" in request else 0
        return super()._scores(request, known, date)


@breaks("confidence_is_a_probability")
class Overconfident(Sound):
    def _confidence(self, scores, chosen, allowed):
        return 1.5


@breaks("confidence_is_a_probability")
class Despairs(Sound):
    def _confidence(self, scores, chosen, allowed):
        return -0.1


@breaks("confidence_is_a_probability")
class HasNoIdea(Sound):
    def _confidence(self, scores, chosen, allowed):
        return float("nan")


@breaks("confidence_is_a_probability")
class ForgetsTheThreshold(Answers):
    def answer(self, routing):
        return replace(routing, threshold=0.5)


@breaks("fallback_is_never_silent")
class FallsBackSilently(Answers):
    def answer(self, routing):
        return replace(routing, source="learned")


@breaks("fallback_is_never_silent")
class FallsBackUncounted(Answers):
    def answer(self, routing):
        self.source_counts[routing.source] -= 1
        return routing


@breaks("fallback_is_never_silent")
class FallsBackUnasked(Sound):
    def decide(self, *args, threshold, fallback, **options):
        options |= {"threshold": threshold, "fallback": "broadcast" if threshold else fallback}
        return super().decide(*args, **options)


@breaks("fallback_is_never_silent")
class NeverFallsBack(Sound):
    def decide(self, *args, fallback="none", **options):
        return super().decide(*args, fallback="none", **options)


@breaks("fallback_is_never_silent")
class BroadcastsHalf(Sound):
    def _widened(self, *args):
        return super()._widened(*args)[:3]


@breaks("fallback_is_never_silent")
class DropsItsOwnChoice(Sound):
    def _widened(self, request, scores, other, chosen, allowed):
        return super()._widened(request, scores, other, chosen[:0], allowed)[-1:]


@breaks("fallback_is_never_silent")
class AsksTheModelThoughSure(Sound):
    def _confidence(self, scores, chosen, allowed):
        return 1.0

    def decide(self, request, scores, *args, fallback="none", **options):
        if not isinstance(fallback, str):
            fallback.recipients(request, scores, ())
        return super().decide(request, scores, *args, fallback=fallback, **options)


@breaks("threshold_zero_never_falls_back")
class AlwaysFallsBack(Sound):
    def decide(self, *args, threshold=0.6, **options):
        return super().decide(*args, threshold=1.0, **options)


@breaks("threshold_zero_never_falls_back")
class AlwaysAsksTheModel(AsksTheModelThoughSure):
    pass


@breaks("deciding_on_scores_is_routing")
class RoutesOtherwise(Sound):
    def route(self, request, known=(), **options):
        routing = super().route(request, known, **options)
        return replace(routing, recommendation=routing.recommendation[:1])


@breaks("bad_arguments_raise")
class RoutesAnything(Sound):
    def route(self, request, known=(), **options):
        return super().route(str(request).strip() or "x", known, **options)


@breaks("bad_arguments_raise")
class TakesAnyThreshold(Sound):
    def decide(self, *args, threshold=0.6, **options):
        good = isinstance(threshold, float) and 0 <= threshold <= 1
        return super().decide(*args, threshold=threshold if good else 0.5, **options)


@breaks("bad_arguments_raise")
class TakesAStringForAList(Sound):
    def route(self, request, known=(), **options):
        return super().route(request, list(known), **options)


@breaks("bad_arguments_raise")
class CountsFailures(Sound):
    def route(self, request, known=(), **options):
        self.source_counts["learned"] += 1
        return super().route(request, known, **options)


@breaks("recommended_are_asked")
class RecommendsWhatItLikes(Sound):
    def decide(self, request, scores, known=(), **options):
        routing = super().decide(request, scores, known, **options)
        return replace(routing, recommendation=tuple(name for name, p in scores.top(2) if p))


@breaks("recommended_are_asked")
class RecommendsTheLeastProbable(Answers):
    def answer(self, routing):
        return replace(routing, recommendation=routing.contractors[-1:])


class Restricts(Sound):
    """Changes the restriction that it is given."""

    def decide(self, *args, among=None, exclude=(), **options):
        return super().decide(*args, **self.restricted(among, exclude), **options)

    def restricted(self, among, exclude):
        raise NotImplementedError


@breaks("restrictions_are_obeyed")
class AsksWhomItLikes(Restricts):
    def restricted(self, among, exclude):
        return {"exclude": exclude}


@breaks("restrictions_are_obeyed")
class AsksTheExcluded(Restricts):
    def restricted(self, among, exclude):
        return {"among": among}


@breaks("restrictions_are_obeyed")
class FallsBackToEveryone(Sound):
    def _widened(self, request, scores, other, chosen, allowed):
        return super()._widened(request, scores, other, chosen, scores.order)


@breaks("restrictions_are_obeyed")
class ReordersInside(Sound):
    def _chosen(self, select, scores, allowed):
        chosen = super()._chosen(select, scores, allowed)
        return chosen if len(allowed) == len(self.apis) else chosen[::-1]


@breaks("restrictions_are_obeyed")
class RecommendsWithoutRestriction(Sound):
    def recommend(self, request, known=(), *, among=None, exclude=(), date=None):
        return super().recommend(request, known, exclude=exclude, date=date)


@breaks("restrictions_leave_no_trace")
class RemembersTheTenant(Sound):
    tenant = None

    def route(self, *args, among=None, **options):
        self.tenant = among or self.tenant
        return super().route(*args, among=self.tenant, **options)


@breaks("restrictions_leave_no_trace")
class DecidesWithoutRestriction(Sound):
    within = None

    def route(self, *args, among=None, **options):
        self.within = among
        return super().route(*args, **options)

    def decide(self, *args, among=None, **options):
        within, self.within = self.within, None
        return super().decide(*args, **options | {"among": within})


@breaks("strangers_in_restrictions_are_reported")
class KeepsUnknownRestrictionsToItself(Restricts):
    def restricted(self, among, exclude):
        if among is not None and not callable(among):
            among = [name for name in among if name in self._positions]
        return {"among": among}


@breaks("unusable_restrictions_raise")
class AsksSomeoneAllTheSame(Sound):
    def decide(self, *args, among=None, **options):
        try:
            return super().decide(*args, among=among, **options)
        except InputError:
            return super().decide(*args, **options)


@breaks("unusable_restrictions_raise")
class TakesAnyAnswerForYes(Restricts):
    def restricted(self, among, exclude):
        return {"among": (lambda name: bool(among(name))) if callable(among) else among}


@breaks("answerable_is_a_probability")
class CertainlyAnswers(Sound):
    def _answerable(self, scores, allowed):
        return 2.0


@breaks("answerable_is_a_probability")
class ForgetsItsPast(Answers):
    def answer(self, routing):
        return replace(routing, n_mashups=None)


@pytest.mark.parametrize(("law", "router"), BROKEN)
def test_a_law_catches_who_breaks_it(law, router):
    with pytest.raises(AssertionError, match=r"\(request '"):
        dict(checks.laws(router()))[law]()


def test_the_router_that_the_broken_ones_are_made_from_is_sound():
    checks.check_router(Sound())


def test_every_law_has_been_broken():
    assert {param.values[0] for param in BROKEN} == set(LAWS)


class TestSaving:
    class LosesTheUsage(Stored):
        def save(self, path):
            path.write_text("[0, 0, 0, 0, 0, 0]", encoding="utf-8")

    class LosesTheControl(Stored):
        @classmethod
        def load(cls, path):
            router = Stored.load(path)
            router.recall_control = None
            return router

    @pytest.mark.parametrize("router", [LosesTheUsage, LosesTheControl])
    def test_it_catches_a_loss(self, router):
        with pytest.raises(AssertionError, match="the loaded router answers differently"):
            checks.check_saved_answers_the_same(router(CATALOG, HISTORY), router.load, ["x"])


class TestUnfitted:
    class Answers:
        def score(self, request):
            return None

        route = score

    class RaisesAnother:
        def score(self, request):
            raise AttributeError("coef_")

        route = score

    class OnlyScoreRaises(Unfitted):
        def route(self, request):
            return None

    @pytest.mark.parametrize("unfitted", [Answers, RaisesAnother, OnlyScoreRaises])
    def test_it_catches(self, unfitted):
        with pytest.raises(AssertionError, match="of an unfitted router"):
            checks.check_unfitted_raises(unfitted)


def test_a_long_request_is_cut_in_the_message():
    with pytest.raises(AssertionError) as caught:
        checks.check_router(AboveOne(), requests=["map " * 1000])
    assert len(str(caught.value)) < 150


def test_a_law_of_ones_own_is_one_function(monkeypatch):
    from cnp_router.checks.law import law, require

    monkeypatch.setattr(checks.law, "LAWS", checks.LAWS.copy())

    @law
    def never_asks_for_tides(router, request):
        require("tides" not in router.route(request).contractors, "asked for the tides")

    assert "never_asks_for_tides" in dict(checks.laws(Sound()))
