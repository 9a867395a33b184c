"""Learning from more mashups without fitting again."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import functools
import inspect
import pickle
import sys
import threading

import numpy as np
import pytest
from planted import planted

from cnp_router import checks
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.graph import TransitionGraph
from cnp_router.history import History, Mashup
from cnp_router.routing import RecallControl, shortlist
from cnp_router.training import LearnedRouter, encoders, fit_router, load_router, observing
from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.corpus import Corpus, usage_matrix
from cnp_router.training.decision import Decision
from cnp_router.training.linear import Evidence, Gaussian, maximum_a_posteriori, sigmoid
from cnp_router.training.persistence import verify_router
from cnp_router.training.prior import bundled_prior
from cnp_router.training.ranker import RankerPrior
from cnp_router.training.views import CoUsageView, HistoryView, Views, expected
from cnp_router.training.views.expected import ExpectedView
from cnp_router.training.views.similar import SimilarView

WORLD = planted(n_cliques=5, size=4, rounds=6)
LARGER = planted(n_cliques=5, size=4, rounds=8)  # enough for trees
LATE = WORLD.cases[-1].clique  # this clique is not used until it is observed


def fitted_before(world):
    late = world.cases[-1].clique[:2]
    return fit_router(world.catalog, History(m for m in world.history if not {*late} & {*m.apis}))


@pytest.fixture(scope="module")
def before():
    return fitted_before(WORLD)


@pytest.fixture(scope="module")
def with_trees():
    router = fitted_before(LARGER)
    assert router.ranker.parts
    return router


@pytest.fixture
def later(with_trees):
    known = {m.id for m in with_trees.history}
    return [m for m in LARGER.history if m.id not in known]


@pytest.fixture
def late(before):
    known = {m.id for m in before.history}
    return [m for m in WORLD.history if m.id not in known]


@pytest.fixture
def observed(before, late):
    router = copy.copy(before)
    assert router.observe(late) == len(late)
    return router


def test_what_is_counted_is_as_if_fitted_on_all(before, late, monkeypatch):
    monkeypatch.setattr(encoders, "FEW_TEXTS", 0)  # words weigh what they weighed
    monkeypatch.setattr(expected, "_AT_ONCE", 2)  # sums of several blocks
    observed = copy.copy(before)
    for some in (late[::2], late[1::2]):
        observed.observe(some)
    late = [*late[::2], *late[1::2]]
    everything = History([*before.history, *late])
    usage = usage_matrix(WORLD.catalog, everything)
    counts = np.asarray(usage.sum(axis=0)).ravel()
    views = observed.views
    words = observed.encoders.encode(everything.texts)
    corpus = Corpus.of(views.corpus.specifications, words, usage, views.corpus.membership)
    again = Views.fit(corpus, words)
    assert observed.history == everything
    np.testing.assert_array_equal(views.corpus.usage.toarray(), usage.toarray())
    np.testing.assert_array_equal(views.corpus.counts, counts)
    np.testing.assert_array_equal(views.corpus.labels, np.flatnonzero(counts))
    np.testing.assert_allclose(
        views.corpus.history_words.toarray(), words.word.T.toarray(), rtol=1e-5
    )
    np.testing.assert_allclose(views.corpus.energy, corpus.energy, rtol=1e-5)
    counted = [
        (CoUsageView, "conditional"),
        (SimilarView, "weights"),
        (ExpectedView, "map"),
        (HistoryView, "centroids"),
    ]
    for view, name in counted:
        found, wanted = (getattr(v[view], name) for v in (views, again))
        if not isinstance(found, np.ndarray):
            found, wanted = found.toarray(), wanted.toarray()
        np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_cold_clique_is_recommended_once_it_is_observed(before, observed):
    for case in WORLD.cases:
        if case.clique != LATE:
            continue
        assert set(observed.route(case.request).recommendation) <= set(LATE)
        assert observed.route(case.request, case.known).recommendation[0] == case.missing
        positions = [WORLD.catalog.position(name) for name in LATE]
        left, right = (r.score(case.request).probabilities for r in (before, observed))
        outside = [np.delete(p, positions).sum() for p in (left, right)]
        assert outside[1] < outside[0] / 3  # the others are out of it


def test_routings_say_how_much_was_learned_from(before, observed):
    for router in (before, observed):
        assert router.route("please find").n_mashups == len(router.history) == router.n_mashups
    assert observed.n_mashups > before.n_mashups


@pytest.mark.parametrize("n_fitted", [0, 1, 5])
def test_routings_say_how_many_of_them_it_was_fitted_on(before, n_fitted, tmp_path):
    router = fit_router(before.catalog, History(before.history[:n_fitted]))
    fewer = Catalog([*before.catalog][1:])
    for n_observed, one in enumerate([(), *before.history[5:7]]):  # the first after it alone
        router.observe(one)
        router.save(tmp_path / "model", overwrite=True)
        for each in (router, load_router(tmp_path / "model"), router.synced(fewer)):
            routing = each.route("places")
            assert (routing.n_fitted, routing.n_mashups) == (n_fitted, n_fitted + n_observed)


def test_what_was_known_is_still_known(observed):
    for case in WORLD.cases:
        if case.clique != LATE:
            found = [name for name, _ in observed.score(case.request).top(4)]
            assert set(found) == set(case.clique)


def test_all_at_once_is_much_as_one_by_one(before, late, observed):
    one_by_one = copy.copy(before)
    for mashup in late:
        one_by_one.observe(mashup)
    assert one_by_one.history == observed.history
    for case in WORLD.cases:
        left = one_by_one.score(case.request)
        right = observed.score(case.request)
        assert {n for n, _ in left.top(4)} == {n for n, _ in right.top(4)}


def test_the_graph_and_the_categories_follow(before, late):
    router = copy.copy(before)
    old = router.graph
    router.observe(late)
    again = TransitionGraph().fit(router.history, router.catalog)
    np.testing.assert_array_equal(router.graph.co_usage_.toarray(), again.co_usage_.toarray())
    assert old.n_mashups_ == len(before.history)
    probability = {
        r: dict(
            zip(r.categories.classes_, r.categories.predict_proba([late[0].description])[0],
                strict=True)
        )
        for r in (before, router)
    }  # fmt: skip
    category = WORLD.catalog[late[0].apis[0]].categories[0]
    if category in probability[before]:
        assert probability[router][category] > probability[before][category]


def test_known_mashups_are_passed_over(observed, late):
    probabilities = observed.score("please find").probabilities
    assert observed.observe(late) == 0
    assert observed.observe([*late, Mashup("new", "please", (LATE[0],))]) == 1
    assert observed.observe(Mashup("new", "another text", (LATE[1],))) == 0
    assert observed.score("please find").probabilities.shape == probabilities.shape
    assert len({m.id for m in observed.history}) == len(observed.history)


def test_an_unknown_api_teaches_nothing(before):
    router = copy.copy(before)
    with pytest.raises(UnknownApiError):
        router.observe([Mashup("a", "text", (LATE[0],)), Mashup("b", "text", ("nobody",))])
    assert router.history == before.history
    assert router.observe([]) == 0


@pytest.mark.parametrize("wrong", [["text"], [None], "text", None])
def test_what_is_no_mashup_is_refused(before, wrong):
    with pytest.raises(InputError, match="mashups must be several Mashup objects"):
        before.observe(wrong)


def test_a_text_without_a_known_word(before):
    router = copy.copy(before)
    assert router.observe(Mashup("odd", "qqq zzz", (LATE[0],))) == 1
    assert router.observe(Mashup("empty", "", (LATE[1],))) == 1
    assert router.views.corpus.counts[WORLD.catalog.position(LATE[0])] == 1
    assert router.route("qqq zzz").recipients


def test_it_is_saved_and_sent_with_what_it_has_observed(observed, tmp_path):
    observed.save(tmp_path / "model")
    for other in (load_router(tmp_path / "model"), pickle.loads(pickle.dumps(observed))):
        for case in WORLD.cases:
            left, right = other.score(case.request), observed.score(case.request)
            np.testing.assert_allclose(left.probabilities, right.probabilities, rtol=1e-6)
        assert other.observe(Mashup("one more", "please", (LATE[0],))) == 1


def test_it_obeys_the_laws_of_a_router(observed):
    requests = [case.request for case in WORLD.cases[:3]]
    checks.check_router(observed, requests=requests)


def test_threads_may_observe_and_route_together(before, late):
    router = copy.copy(before)
    problems: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                assert router.route(late[0].description).recipients
        except BaseException as exc:
            problems.append(exc)

    def learn(part: list[Mashup]) -> None:
        try:
            for mashup in part:
                router.observe(mashup)
        except BaseException as exc:
            problems.append(exc)

    asking = [threading.Thread(target=ask) for _ in range(2)]
    learning = [threading.Thread(target=learn, args=(late[i::2],)) for i in range(2)]
    for thread in (*asking, *learning):
        thread.start()
    for thread in learning:
        thread.join()
    done.set()
    for thread in asking:
        thread.join()
    assert problems == []
    assert {m.id for m in router.history} == {m.id for m in WORLD.history}
    np.testing.assert_array_equal(
        router.views.corpus.counts,
        np.asarray(usage_matrix(router.catalog, router.history).sum(axis=0)),
    )


def test_saving_and_extending_while_it_observes(before, late, tmp_path):
    router = copy.copy(before)
    problems: list[BaseException] = []

    def learn() -> None:
        for mashup in late:
            router.observe(mashup)

    def use() -> None:
        try:
            number = 0
            while thread.is_alive():
                number += 1
                router.save(tmp_path / f"model{number}")
                load_router(tmp_path / f"model{number}")
                other = router.extended([Api(f"new{number}", "New", "Something new.")])
                assert len(other.history) == other.views.corpus.usage.shape[0]
        except BaseException as exc:
            problems.append(exc)

    thread = threading.Thread(target=learn)
    user = threading.Thread(target=use)
    thread.start()
    user.start()
    thread.join()
    user.join()
    assert problems == []


def test_what_was_made_of_an_older_history_is_not_kept(before, late, monkeypatch):
    """A graph, or what goes with known APIs, that is made while somebody observes."""
    router = copy.copy(before)
    made = TransitionGraph.fit

    def slow(self, history, catalog=None):
        graph = made(self, history, catalog)
        router.observe(late)  # as another thread would in the meantime
        return graph

    with monkeypatch.context() as patched:
        patched.setattr(TransitionGraph, "fit", slow)
        assert router.graph.n_mashups_ == len(before.history)
    assert router.graph.n_mashups_ == len(router.history) > len(before.history)
    made_features = CoUsageFeatures.__init__
    with monkeypatch.context() as patched:

        def slow_features(self, *arguments):
            made_features(self, *arguments)
            router.observe(Mashup("meanwhile", late[0].description, late[0].apis))

        patched.setattr(CoUsageFeatures, "__init__", slow_features)
        router.route(late[0].description, [LATE[0]])
    assert router.route(late[0].description, [LATE[0]]).recipients


def test_a_request_that_was_served_before_fits_however_it_is_said():
    """Also without history, where few words of it are among those that were fitted on."""
    texts = {
        "person": "Find the e-mail address and the time zone of a colleague by first name.",
        "rooms": "List the meeting rooms that are free today.",
        "note": "Send a short note to a colleague's mailbox.",
        "convert": "Convert time between timezones.",
        "now": "Get current time in a specific timezone.",
    }
    router = fit_router(Catalog([Api(name, name, text) for name, text in texts.items()]))
    request = "Tell Aiko what nine o'clock in Berlin is for her."
    assert not router.route(request).fits
    router.observe(Mashup("m1", request, ("person", "convert", "note")))
    again = router.route(f"  {request.upper()} ")
    assert again.fits
    assert set(again.recommendation) >= {"person", "convert", "note"}
    assert not router.route("Tell Bjarne what the weather on Mars is for cats.").fits


TOOLS = {
    "rooms": "List the meeting rooms that are free today and have enough seats.",
    "mail": "Send a message to an e-mail address.",
    "holidays": "List holidays: which colleagues are away.",
    "orders": "List orders: what customers want to have.",
    "complaints": "List complaints: what customers are unhappy about.",
    "now": "Get current time in a specific timezone.",
    "convert": "Convert time between timezones.",
}


@pytest.mark.parametrize("n_before", [0, 1])
def test_without_own_examples_what_is_known_beforehand_moves_with_what_is_observed(n_before):
    """As if fitted on as many mashups, of which the ranker has only what was observed."""
    catalog = Catalog([Api(name, name, text) for name, text in TOOLS.items()])
    mashups = [Mashup(f"m{n}", "Which rooms are free?", ("rooms",)) for n in range(5)]
    router = fit_router(catalog, History(mashups[:n_before]))
    router.observe(mashups[n_before:])
    prior = bundled_prior()
    known = prior.ranker.at(5, router.views.feature_names, router.views.beliefs)
    first = router.ranker.evidence.posterior(known, 100).most_probable
    np.testing.assert_array_equal(router.ranker.first.coefficients, first.coefficients)
    assert router.answerable.level == pytest.approx(float(prior.answerable.level.at(5)))
    alone = Decision.fit([], 5, prior).confidence
    np.testing.assert_array_equal(router.decision.confidence.coefficients, alone.coefficients)
    assert router.decision.confidence.intercept == alone.intercept


class TestRankerThatLearns:
    """The ranker of a router without examples learns from what is observed."""

    CATALOG = Catalog([Api(name, name, text) for name, text in TOOLS.items()])
    SEEN = tuple(
        Mashup(f"m{n}", text, (api,))
        for n, (text, api) in enumerate(
            [
                ("Which rooms are free on Monday?", "rooms"),
                ("Who has time off on Monday?", "holidays"),
                ("Which rooms are free?", "rooms"),
                ("What do customers complain of?", "complaints"),
                ("Who has time off?", "holidays"),
            ]
        )
    )

    def test_what_it_was_told_is_what_candidates_turned_out_to_be(self):
        router = fit_router(self.CATALOG)
        views, prior = router.views, bundled_prior().ranker
        texts = [mashup.description for mashup in self.SEEN]
        asked = views.candidates(views.batch(router.encoders.encode(texts)))
        labels = [
            np.isin(own.positions, [router.catalog.position(mashup.apis[0])])
            for own, mashup in zip(asked, self.SEEN, strict=True)
        ]
        router.observe(self.SEEN)
        before = prior.at(0, views.feature_names, views.beliefs)
        found = [i for i, own in enumerate(labels) if own.any()]  # of 4, what they used
        X, y = (
            np.vstack([asked[i].features for i in found]),
            np.concatenate([labels[i] for i in found]),
        )
        wanted = Evidence.none(len(before.mean)).with_rows(before, X, y, 5)
        evidence = router.ranker.evidence
        np.testing.assert_allclose(evidence.precision, wanted.precision, atol=1e-9)
        np.testing.assert_allclose(evidence.shift, wanted.shift, atol=1e-9)
        assert (np.linalg.eigvalsh(evidence.precision) > -1e-9).all() and y.any()

    def test_who_was_never_used_is_no_worse_for_it(self):
        router = fit_router(self.CATALOG)
        router.observe(self.SEEN)
        before = router.ranker.evidence
        views = router.views
        asked = views.candidates(views.batch(router.encoders.encode(["Which rooms are free?"])))
        counts = views.corpus.counts[asked[0].positions]
        assert counts.any() and not counts.all()  # candidates with a history, and without
        router.observe(Mashup("again", "Which rooms are free?", ("rooms",)))
        known = asked[0].features[counts > 0]
        prior = bundled_prior().ranker.at(5, views.feature_names, views.beliefs)
        y = asked[0].positions[counts > 0] == router.catalog.position("rooms")
        wanted = before.with_rows(prior, known, y, 1)
        np.testing.assert_allclose(router.ranker.evidence.shift, wanted.shift, atol=1e-9)
        assert router.ranker.evidence.n == before.n + 1

    def test_more_at_a_time_is_much_as_one_by_one(self):
        at_once, one_by_one = fit_router(self.CATALOG), fit_router(self.CATALOG)
        at_once.observe(self.SEEN)
        for mashup in self.SEEN:
            one_by_one.observe(mashup)
        for mashup in self.SEEN:
            left, right = (r.route(mashup.description) for r in (at_once, one_by_one))
            assert left.recommendation == right.recommendation == mashup.apis

    def test_saved_and_loaded_it_goes_on(self, tmp_path):
        router = fit_router(self.CATALOG)
        router.observe(self.SEEN[:3])
        router.save(tmp_path / "model")
        loaded = verify_router(tmp_path / "model")
        for each in (router, loaded):
            each.observe(self.SEEN[3:])
        for part in ("precision", "shift"):
            own, other = (getattr(r.ranker.evidence, part) for r in (router, loaded))
            np.testing.assert_array_equal(own, other)
        assert loaded.recommend("Who has time off?") == ("holidays",)

    @pytest.mark.parametrize("text", ["zzyx qwrt", "", "!!!", "the of and"])
    def test_what_nobody_can_read_teaches_nothing(self, text):
        router = fit_router(self.CATALOG)
        before = router.decision
        router.observe(Mashup("m", text, ("rooms",)))
        assert router.ranker.evidence is None and not router.decision.recalibration.evidence.n
        assert (router.decision.shift, router.decision.raised) == (before.shift, before.raised)

    def test_who_has_trees_has_no_need(self, with_trees, later):
        router = copy.copy(with_trees)
        router.observe(later)
        assert not router.ranker.learns and router.ranker is with_trees.ranker
        assert router.ranker.evidence is None

    def test_who_was_fitted_on_a_few_begins_with_these(self, tmp_path):
        """More of the same is as if all of it had been observed, or fitted on."""
        router = fit_router(self.CATALOG, History(self.SEEN))
        known = RankerPrior.at(5, router.views).first
        evidence = router.ranker.evidence
        assert router.ranker.learns and evidence.n == router.ranker.n_examples > 0
        np.testing.assert_allclose(
            evidence.posterior(known).most_probable.coefficients,
            router.ranker.first.coefficients,
            rtol=1e-4,
            atol=1e-6,
        )
        router.observe(Mashup("more", "Who is away on Tuesday?", ("holidays",)))
        assert router.ranker.evidence.n == evidence.n + 1
        router.save(tmp_path / "model")
        assert verify_router(tmp_path / "model").ranker.evidence.n == evidence.n + 1

    @pytest.mark.parametrize("n", [1, 7, 8, 9, 150, 200, 201, 3_000])
    @pytest.mark.parametrize("n_known", [0, 1_000])
    def test_all_are_asked_in_order_in_turns_that_grow(self, n, n_known):
        router = fit_router(self.CATALOG)
        new = [Mashup(str(i), f"ping {i}", ("rooms",)) for i in range(n)]
        parts = list(observing.turns(new, n_known, router.ranker, lambda: router.encoders))
        assert [mashup for part, _, _ in parts for mashup in part] == new
        assert [text for _, own, _ in parts for text in own.texts] == [m.description for m in new]
        assert all(is_asked for *_, is_asked in parts)
        known = n_known
        for part, _, _ in parts:
            assert 1 <= len(part) <= max(8, known // 4)
            known += len(part)
        assert max(len(part) for part, _, _ in parts) <= 500

    @pytest.mark.parametrize("n", [1, 200, 201, 500])
    def test_who_has_trees_is_asked_about_the_last_of_a_call(self, with_trees, n):
        new = [Mashup(str(i), "a map", ("maps",)) for i in range(n)]
        parts = list(observing.turns(new, 4_000, with_trees.ranker, lambda: with_trees.encoders))
        assert [mashup for part, _, _ in parts for mashup in part] == new
        assert [m for part, _, is_asked in parts if is_asked for m in part] == new[-200:]

    def test_what_was_fitted_goes_over_to_what_is_known_by_the_share_that_is_new(self):
        router, prior = fit_router(self.CATALOG, History(self.SEEN)), bundled_prior()
        before = router.answerable.level, router.decision.confidence.intercept
        router.observe(Mashup("more", "Who is away on Tuesday?", ("holidays",)))
        now = router.answerable.level, router.decision.confidence.intercept
        known = (
            float(prior.answerable.level.at(6)),
            Decision.fit([], 6, prior).confidence.intercept,
        )
        np.testing.assert_allclose(now, 5 / 6 * np.array(before) + 1 / 6 * np.array(known))

    def test_without_a_history_the_calibration_changes_with_what_comes(self):
        router = fit_router(self.CATALOG)
        blind, known = RankerPrior.at(1, router.views).blind, RankerPrior.at(1, router.views).scale
        np.testing.assert_array_equal(router.ranker.scale.coefficients, blind.coefficients)
        router.observe(self.SEEN[0])
        np.testing.assert_allclose(
            router.ranker.scale.coefficients,
            10 / 11 * blind.coefficients + 1 / 11 * known.most_probable.coefficients,
        )

    def test_an_encoder_is_asked_once(self):
        calls = []

        def encoder(texts):
            calls.append(len(texts))
            return np.array([[len(text), text.count("e"), 1.0] for text in texts])

        router = fit_router(self.CATALOG, encoder=encoder)
        calls.clear()
        router.observe(
            Mashup(str(i), f"{text.description} {i}", text.apis)
            for i, text in enumerate(self.SEEN * 20)
        )
        assert calls == [100]


def test_the_evidence_of_parts_adds_up_to_about_that_of_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = rng.random(600) < sigmoid(X @ [1.0, -0.5, 0.0] - 1)
    prior = Gaussian(np.zeros(3), np.ones(3), np.zeros(4), np.eye(4))
    evidence = Evidence.none(4)
    for start in range(0, 600, 50):
        part = slice(start, start + 50)
        evidence = evidence.with_rows(prior, X[part], y[part], 50)
    whole = Evidence.none(4).with_rows(prior, X, y, 600)
    np.testing.assert_allclose(
        evidence.posterior(prior).mean, whole.posterior(prior).mean, atol=0.05
    )
    exact = maximum_a_posteriori(prior.standardised(X), y, np.ones(600), prior)
    np.testing.assert_allclose(whole.posterior(prior).mean, exact, atol=1e-4)
    assert evidence.n == whole.n == 600
    share = 30 / 600
    little = whole.posterior(prior, 30)
    np.testing.assert_allclose(little.precision, prior.precision + share * whole.precision)
    np.testing.assert_allclose(
        little.precision @ little.mean, prior.precision @ prior.mean + share * whole.shift
    )


def test_what_was_learned_from_own_requests_stays(with_trees, later):
    router = copy.copy(with_trees)
    router.observe(later)
    assert router.ranker is with_trees.ranker
    assert router.answerable is with_trees.answerable
    assert router.decision.confidence is with_trees.decision.confidence


@pytest.mark.parametrize(
    ("request_", "api"),
    [
        ("Which meeting rooms are free?", "rooms"),
        ("Who of us has time off in August?", "holidays"),
        ("Which customers are unhappy?", "complaints"),
        ("What time is it in Tokyo?", "now"),
        ("Mail to aiko@example.org: Lunch?", "mail"),
    ],
)
def test_one_mashup_makes_nobody_less_sure_of_the_same_request(request_, api):
    router = fit_router(Catalog([Api(name, name, text) for name, text in TOOLS.items()]))
    before = router.route(request_)
    router.observe(Mashup("m1", request_, (api,)))
    after = router.route(request_)
    assert after.confidence >= before.confidence
    assert after.is_confident
    assert api in [recipient.contractor for recipient in after.recipients]


def interrupted_at(code, line, number, work):
    """Do some work, and have Ctrl-C come before a line is run for the `number`-th time."""
    left = [number]

    def trace(frame, event, _):
        if frame.f_code is code and event == "line" and frame.f_lineno == line:
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
        return trace if frame.f_code is code or event == "line" else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(
    ("work", "number"), [(LearnedRouter.observe, 1), (LearnedRouter._learned_from, 2)]
)
def test_what_is_interrupted_has_learned_all_or_nothing(
    with_trees, later, monkeypatch, work, number
):
    monkeypatch.setattr(observing, "MOST_FEEDBACK", len(later) // 2)  # in two parts
    source, first = inspect.getsourcelines(work)
    stopped = 0
    with_trees.graph.transition_  # noqa: B018  (is counted on, if it is there)
    for line in range(first + 1, first + len(source)):
        if "with self._learning" in source[line - first]:
            continue  # Python does not stop between a lock and what it guards; a trace does
        router = copy.copy(with_trees)
        try:
            learn = functools.partial(router.observe, later)
            interrupted_at(work.__code__, line, number, learn)
        except KeyboardInterrupt:
            stopped += 1
        n_learned = len(router.history) - len(with_trees.history)
        assert n_learned in (0, len(later))
        assert len(router.history) == router.views.corpus.usage.shape[0]
        assert router.observe(later) == len(later) - n_learned
        assert router.graph.transition_.sum() > with_trees.graph.transition_.sum()
    assert stopped >= 3


def test_nobody_who_asks_waits_for_who_teaches(with_trees):
    with_trees._learning.acquire()
    try:
        asked = threading.Thread(
            target=lambda: shortlist(copy.copy(with_trees), "Tell me of rain."), daemon=True
        )
        asked.start()
        asked.join(timeout=60)
        assert not asked.is_alive()
    finally:
        with_trees._learning.release()


class TestDatesToCome:
    soon = datetime.date.today() + datetime.timedelta(days=1)
    years = (datetime.date(9999, 12, 31), datetime.date(9998, 1, 1))

    def mashups(self, *days):
        return [Mashup(f"to come {day}", "It rains.", (LATE[0],), date=day) for day in days]

    def test_tomorrow_may_have_begun_elsewhere(self, before, caplog):
        assert copy.copy(before).observe(self.mashups(self.soon)) == 1
        assert fit_router(WORLD.catalog, History(self.mashups(self.soon))).n_mashups == 1
        assert not caplog.records

    def test_a_mistyped_year_is_warned_of(self, before, caplog):
        both = self.mashups(self.soon, *self.years)
        said = (
            "mashup 'to come 9999-12-31' has the date 9999-12-31, which is still to come, and 1 "
            "more: requests without a date are asked as of the newest one (correct it, "
            "or take it out of what was observed with cnp-router forget --mashup)"
        )
        assert copy.copy(before).observe(both) == 3
        assert caplog.messages == [said]
        assert fit_router(WORLD.catalog, History(both)).n_mashups == 3
        assert caplog.messages == [said, said]


class TestTheThreshold:
    def test_of_many_at_once_the_last_200_are_asked_of_what_has_learned_the_others(
        self, with_trees, later, told
    ):
        many = [
            dataclasses.replace(mashup, id=f"{mashup.id} {n}")
            for n in range(1 + 300 // len(later))
            for mashup in later
        ]
        at_once, apart = copy.copy(with_trees), copy.copy(with_trees)
        assert at_once.observe(many) == len(many)
        assert len(told) == 200
        apart.observe(many[:-200])
        apart.decision = with_trees.decision
        apart.recall_control = with_trees.recall_control
        apart.observe(many[-200:])
        assert at_once.decision.shift == apart.decision.shift != 0
        for mashup in later[:5]:
            assert at_once.route(mashup.description) == apart.route(mashup.description)

    @pytest.fixture
    def told(self, monkeypatch):
        """What the control was told of each request."""
        told, original = [], RecallControl.adapted

        def adapted(control, given, months=0.0):
            told.append((sorted(given), months))
            return original(control, given, months)

        monkeypatch.setattr(RecallControl, "adapted", adapted)
        return told

    def test_it_is_told_how_probable_each_need_was_before(self, before, told):
        router = copy.copy(before)
        router.compound = False  # the threshold is that of requests for one thing
        case = WORLD.cases[0]
        scores = router.score(case.request)
        candidates = set(scores.candidates.tolist())
        behind = [i for i in range(len(router.apis)) if i not in candidates][:2]
        needed = [*scores.candidates[:2].tolist(), *behind]
        router.observe(Mashup("new", case.request, tuple(router.apis[i] for i in needed)))
        ((given, months),) = told
        np.testing.assert_allclose(given, sorted(scores.at(np.array(needed))), rtol=1e-9)
        assert months == scores.months

    def test_it_is_told_when_each_was_asked(self, told):
        days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=30 * n) for n in range(90)]
        dated = History(
            Mashup(m.id, m.description, m.apis, date=day)
            for m, day in zip(WORLD.history, days, strict=False)
        )
        router = fit_router(WORLD.catalog, dated)
        late = max(m.date for m in dated) + datetime.timedelta(days=400)
        months = router.score(WORLD.cases[0].request, date=late).months
        router.observe(Mashup("late", WORLD.cases[0].request, WORLD.cases[0].clique, date=late))
        assert told[-1][1] == months > 12

    def test_requests_of_which_no_word_is_known_tell_nothing(self, before, told):
        copy.copy(before).observe(Mashup("new", "qwzx vrrk", (before.apis[0],)))
        assert told == []


def test_all_that_is_learned_is_put_in_place_the_history_first(before, late):
    router, order = copy.copy(before), []

    class Recorded(dict):
        def update(self, **given):
            order.extend(given)
            super().update(**given)

    router.__dict__ = Recorded(router.__dict__)
    router.observe(late)
    assert order.index("history") < order.index("views")
    for name in ("history", "views", "categories", "decision", "recall_control", "summary"):
        assert getattr(router, name) is not getattr(before, name), name
