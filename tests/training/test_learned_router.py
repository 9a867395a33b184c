from __future__ import annotations

import copy
import datetime
import json
import random
import re
import shutil

import numpy as np
import pytest
from planted import planted

from cnp_router import checks
from cnp_router.catalog import Api
from cnp_router.exceptions import InputError, ModelNotFoundError, ModelStoreError
from cnp_router.history import History, Mashup
from cnp_router.pool import LocalPool
from cnp_router.routing import (
    BroadcastRouter,
    MaxCost,
    RecallControl,
    Scores,
    TargetRecall,
    TopK,
    many,
)
from cnp_router.training import fit_router, load_router
from cnp_router.training.linear import Logistic
from cnp_router.training.ranker import Example, _fit_rest
from cnp_router.training.shortlists import Shortlists
from cnp_router.training.views import Candidates, CoUsageView, Views

KINDS = {"name", "history", "specification", "co-usage", "category", "popularity"}


class TestPlantedAnswers:
    def test_the_clique_comes_first(self, world, router):
        for case in world.cases:
            found = [name for name, _ in router.score(case.request).top(4)]
            assert set(found) == set(case.clique)

    def test_only_the_clique_is_recommended(self, world, router):
        for case in world.cases:
            recommended = router.recommend(case.request)
            assert set(recommended) <= set(case.clique)
            assert len(recommended) >= 3

    def test_the_one_that_is_left_completes_the_clique(self, world, router):
        for case in world.cases:
            assert router.recommend(case.request, case.known)[0] == case.missing

    def test_known_apis_are_excluded(self, world, router):
        for case in world.cases:
            scores = router.score(case.request, case.known)
            assert not any(scores.probabilities[world.catalog.position(k)] for k in case.known)
            routing = router.route(case.request, case.known, select=TopK(23))
            assert not {*routing.contractors, *routing.recommendation} & set(case.known)
            assert routing.known == case.known

    def test_all_but_one_known(self, world, router):
        *known, left = world.catalog.ids
        assert router.route("please find", known).contractors == (left,)


@pytest.fixture(scope="module")
def spoken():
    """A planted world as people speak: some say little, and some say the name of an API."""
    world = planted(n_cliques=6, size=4, rounds=9)
    draw = random.Random(1)
    mashups = []
    for number, mashup in enumerate(world.history):
        name = world.catalog[draw.choice(mashup.apis)].name
        text = (
            "Please find what users want.",
            mashup.description,
            f"{mashup.description} With {name}.",
        )[number % 3]
        mashups.append(Mashup(mashup.id, text, mashup.apis))
    return world, fit_router(world.catalog, History(mashups))


class TestAsPeopleSpeak:
    def test_known_apis_raise_their_partners_where_the_text_says_nothing(self, spoken):
        world, router = spoken
        request = "Please find what users want."
        without = router.score(request).probabilities
        for case in world.cases:
            given = router.score(request, case.known).probabilities
            place = world.catalog.position(case.missing)
            assert given[place] > without[place]
            assert given.argmax() == place

    def test_a_name_in_the_request_routes_to_it(self, spoken):
        world, router = spoken
        for api in world.catalog:
            routing = router.route(f"Build a simple page with {api.name}.", select=TopK(2))
            (recipient,) = [r for r in routing.recipients if r.contractor == api.id]
            assert recipient.reasons[0].kind == "name"

    def test_a_new_api_is_found_by_its_name(self, spoken):
        router = spoken[1].extended([Api("tide", "Tidewatch", "High and low water.")])
        for text in ("Please show me Tidewatch.", "please show tide watch", "TIDEWATCH"):
            assert "tide" in router.route(text, select=TopK(3)).contractors


class TestReasons:
    def test_they_are_of_the_documented_kinds_and_refer_to_what_exists(self, world, router):
        mashups = {mashup.id for mashup in world.history}
        references = {
            "name": set(),
            "popularity": set(),
            "specification": set(),
            "history": mashups,
            "co-usage": set(world.catalog.ids),
            "category": set(world.catalog.categories),
        }
        seen = set()
        texts = [case.request for case in world.cases]
        texts += [f"{world.catalog[0].name} and {world.catalog[5].name}", "please"]
        for text, case in zip(texts, [*world.cases, *world.cases[:2]], strict=True):
            for known in ((), case.known):
                for recipient in router.route(text, known).recipients:
                    assert len(recipient.reasons) <= 3
                    for reason in recipient.reasons:
                        seen.add(reason.kind)
                        assert set(reason.references) <= references[reason.kind]
                        assert reason.text and "\n" not in reason.text
        assert seen == KINDS

    def test_every_probable_recipient_has_one(self, world, router):
        for case in world.cases:
            for recipient in router.route(case.request).recipients:
                assert recipient.reasons

    def test_history_speaks_of_mashups_that_used_it(self, world, router):
        used = {mashup.id: mashup.apis for mashup in world.history}
        for case in world.cases:
            for recipient in router.route(case.request).recipients:
                for reason in recipient.reasons:
                    if reason.kind == "history":
                        assert reason.references
                        assert all(recipient.contractor in used[m] for m in reason.references)

    def test_co_usage_speaks_of_a_known_api(self, world, router):
        for case in world.cases:
            best = router.route(case.request, case.known).recipients[0]
            (reason,) = [reason for reason in best.reasons if reason.kind == "co-usage"]
            assert set(reason.references) <= set(case.known)
            partner = world.catalog[reason.references[0]].name
            assert re.fullmatch(rf"\d+% of past uses of {partner} came with it", reason.text)

    def test_the_category_is_its_own(self, world, router):
        for case in world.cases:
            for recipient in router.route(case.request).recipients:
                for reason in recipient.reasons:
                    if reason.kind == "category":
                        assert set(reason.references) <= set(
                            world.catalog[recipient.contractor].categories
                        )

    def test_scores_of_somebody_else_are_decided_without_reasons(self, world, router):
        scores = BroadcastRouter(world.catalog).score("x")
        routing = router.decide("x", scores, select=TopK(2))
        assert [recipient.reasons for recipient in routing.recipients] == [(), ()]
        bare = Scores(router.apis, np.linspace(0, 1, len(router.apis)))
        assert router.decide("x", bare, select=TopK(1)).contractors == router.apis[-1:]


def test_a_routing_is_json(world, router):
    for case in world.cases[:4]:
        for known in ((), case.known, ("nobody",)):
            answer = router.route(case.request, known).to_dict()
            assert json.loads(json.dumps(answer, allow_nan=False)) == answer


@pytest.fixture(scope="module")
def new():
    return (
        Api("tidewatch", "Tidewatch", "High and low water for surfers.", ("Sea",)),
        Api("beekeeper", "Beekeeper", "Honey yields of hives and apiaries.", ("Farming",)),
    )


@pytest.fixture(scope="module")
def wider(router, new):
    return router.extended(new)


class TestExtended:
    def test_a_new_one_is_found_by_its_specification(self, world, router):
        # In words that the history knows: others the encoders have never seen.
        for case in world.cases[::4]:
            clique = case.clique
            description = world.catalog[clique[0]].description
            wider = router.extended([Api("cold", "Zzz", description)])
            for text in (description, case.request):
                found = [name for name, _ in wider.score(text).top(6)]
                assert "cold" in found, (text, found)

    def test_the_new_ones_are_cold(self, wider, new):
        for api in new:
            routing = wider.route(f"please use {api.name} daily", select=TopK(26))
            (recipient,) = [r for r in routing.recipients if r.contractor == api.id]
            kinds = {reason.kind for reason in recipient.reasons}
            assert "name" in kinds
            assert kinds <= {"name", "specification", "category"}

    def test_the_old_one_stays_as_it_is(self, world, router, new):
        before = [router.route(case.request).to_dict() for case in world.cases]
        n = len(router.catalog)
        router.extended(new)
        assert [router.route(case.request).to_dict() for case in world.cases] == before
        assert len(router.catalog) == len(router.apis) == n
        assert router.summary["apis"] == n

    def test_it_still_answers_what_the_old_one_did(self, world, wider):
        for case in world.cases:
            assert set(wider.recommend(case.request)) <= set(case.clique)
            assert wider.recommend(case.request, case.known)[0] == case.missing

    def test_an_id_that_exists(self, router):
        taken = router.apis[3]
        with pytest.raises(InputError) as caught:
            router.extended([Api(taken, "Again")])
        assert str(caught.value) == f"duplicate API id {taken!r} (ids must be unique)"

    def test_an_id_twice(self, router):
        with pytest.raises(InputError, match="duplicate API id 'x'"):
            router.extended([Api("x", "X"), Api("x", "X")])

    def test_nothing_new(self, router):
        assert router.extended([]) is router

    def test_it_is_saved_and_loaded(self, world, wider, tmp_path):
        wider.save(tmp_path / "model")
        loaded = load_router(tmp_path / "model")
        requests = [case.request for case in world.cases] + ["Tidewatch and Beekeeper"]
        for request in requests:
            assert loaded.route(request).to_dict() == wider.route(request).to_dict()
        assert loaded.catalog == wider.catalog

    def test_once_more_after_loading(self, wider, tmp_path):
        wider.save(tmp_path / "model")
        third = Api("lighthouse", "Lighthouse", "Beams.")
        again, direct = (r.extended([third]) for r in (load_router(tmp_path / "model"), wider))
        request = "a Lighthouse by the tides"
        assert again.route(request).to_dict() == direct.route(request).to_dict()
        assert len(again.apis) == 27

    def test_one_by_one_is_all_at_once(self, world, router, wider, new):
        single = router.extended(new[:1]).extended(new[1:])
        assert single.apis == wider.apis
        for request in (world.cases[0].request, "Tidewatch", "Beekeeper honey"):
            np.testing.assert_allclose(
                single.score(request).probabilities, wider.score(request).probabilities
            )

    def test_it_obeys_the_laws(self, wider):
        checks.check_router(wider, load=load_router)

    def test_its_graph_covers_the_longer_catalog(self, world, router, wider, new, tmp_path):
        wider.save(tmp_path / "model")
        for one in (wider, load_router(tmp_path / "model")):
            assert one.graph.apis_ == (*world.catalog.ids, *(api.id for api in new))
            assert one.graph.transition_.shape == (26, 26)
        assert router.graph.transition_.shape == (24, 24)


def test_the_graph_is_counted_once(router):
    assert router.graph is router.graph


def noisy(seed):
    """Mashups of a planted world in which one use of five is of an API from anywhere."""
    world = planted(n_cliques=8, size=4, rounds=18, seed=seed)
    draw = random.Random(seed)
    mashups = []
    for mashup in world.history:
        apis = [
            api if draw.random() < 0.8 else draw.choice(world.catalog.ids) for api in mashup.apis
        ]
        mashups.append(Mashup(mashup.id, mashup.description, tuple(dict.fromkeys(apis))))
    return world.catalog, mashups


@pytest.fixture(scope="module")
def held_out():
    catalog, mashups = noisy(seed=5)
    router = fit_router(catalog, History(mashups[:288]))
    test = mashups[288:]
    used = [[catalog.position(api) for api in mashup.apis] for mashup in test]
    return router, test, used, [router.score(mashup.description) for mashup in test]


class TestPromisesOnGeneratedData:
    """What is promised of new requests, measured on requests that come from the same source."""

    @pytest.mark.parametrize("target", [0.7, 0.8, 0.9])
    def test_the_recipients_have_the_recall_that_was_asked_for(self, held_out, target):
        router, test, _, scores = held_out
        recall, sizes = [], []
        for mashup, scored in zip(test, scores, strict=True):
            routing = router.decide(mashup.description, scored, select=TargetRecall(target))
            recall.append(len({*mashup.apis} & {*routing.contractors}) / len(mashup.apis))
            sizes.append(len(routing.recipients))
        # The promise is one on average over what the cut was chosen on, too.
        error = np.std(recall) * np.sqrt(1 / len(recall) + 1 / router.recall_control.n_requests)
        assert np.mean(recall) >= target - 3 * error
        # Not by asking everyone.
        assert np.mean(sizes) < 0.75 * len(router.apis)

    def test_a_higher_target_asks_more(self, held_out):
        router, test, _, scores = held_out
        sizes = [
            np.mean(
                [
                    len(router.decide(m.description, s, select=TargetRecall(target)).recipients)
                    for m, s in zip(test[:60], scores, strict=False)
                ]
            )
            for target in (0.5, 0.7, 0.8, 0.9, 0.95)
        ]
        assert sizes == sorted(sizes)

    def test_probabilities_are_calibrated(self, held_out):
        _, _, used, scores = held_out
        p, truth = [], []
        for positions, scored in zip(used, scores, strict=True):
            top = scored.order[:10]
            p.append(scored.probabilities[top])
            truth.append(np.isin(top, positions))
        p, truth = np.concatenate(p), np.concatenate(truth)
        place = np.minimum((p * 10).astype(int), 9)
        error = sum(
            abs(p[place == b].mean() - truth[place == b].mean()) * (place == b).mean()
            for b in np.unique(place)
        )
        assert error < 0.05

    def test_the_expected_number_of_apis_is_the_number_of_apis(self, held_out):
        _, _, used, scores = held_out
        expected = np.mean([scored.probabilities.sum() for scored in scores])
        assert expected == pytest.approx(np.mean([len(p) for p in used]), rel=0.15)

    def test_the_confidence_is_the_share_of_requests_that_are_covered(self, held_out):
        router, test, _, scores = held_out
        for select in (TopK(3), TopK(8), TargetRecall(0.9)):
            confidence, covered = [], []
            for mashup, scored in zip(test, scores, strict=True):
                routing = router.decide(mashup.description, scored, select=select)
                confidence.append(routing.confidence)
                covered.append({*mashup.apis} <= {*routing.contractors})
            assert np.mean(confidence) == pytest.approx(np.mean(covered), abs=0.12)


class TestDecision:
    def test_more_recipients_more_confidence(self, world, router):
        request = world.cases[0].request
        confidence = [router.route(request, select=TopK(k)).confidence for k in (1, 2, 4, 12, 24)]
        assert confidence == sorted(confidence)
        assert confidence[0] < 0.5 < confidence[-1]

    def test_below_the_threshold_the_fallback_decides(self, world, router):
        request = world.cases[0].request
        options = {"select": TopK(1), "threshold": 0.99}
        learned = router.route(request, **options)
        assert learned.source == "learned" and not learned.is_confident
        widened = router.route(request, fallback="broadcast", **options)
        assert widened.source == "broadcast"
        assert set(widened.contractors) == set(router.apis)
        assert widened.recommendation[:1] == learned.recommendation
        assert widened.confidence == learned.confidence

    def test_above_it_the_router_does(self, world, router):
        request = world.cases[0].request
        routing = router.route(request, select=TopK(12), threshold=0.5, fallback="broadcast")
        assert routing.source == "learned" and routing.is_confident
        assert len(routing.recipients) == 12

    def test_a_fallback_of_ones_own(self, world, router):
        class Model:
            source = "llm"

            def recipients(self, request, scores, chosen):
                return [world.cases[-1].missing]

        request = world.cases[0].request
        routing = router.route(request, select=TopK(1), threshold=1, fallback=Model())
        assert routing.source == "llm"
        assert len(routing.contractors) == 2
        assert world.cases[-1].missing in routing.contractors

    def test_a_budget(self, world, router):
        case = world.cases[0]
        costs = dict.fromkeys(world.catalog.ids, 1.0)
        best = router.score(case.request).top(1)[0][0]
        routing = router.route(case.request, select=MaxCost(3, {**costs, best: 5.0}))
        assert len(routing.recipients) == 3
        assert best not in routing.contractors

    def test_a_request_of_unknown_words_is_answered_without_confidence(self, router):
        routing = router.route("qwxyz", select=TopK(3))
        assert len(routing.recipients) == 3
        assert routing.confidence < 0.6

    def test_sources_are_counted(self, small):
        router = fit_router(small.catalog, small.history)
        router.route("x")
        router.route("x", select=TopK(1), threshold=1, fallback="broadcast")
        assert router.source_counts == {"learned": 1, "broadcast": 1}


class TestBehindTheShortlist:
    """What the second stage does not look at is still told apart."""

    def test_it_keeps_the_order_of_the_first_stage(self, monkeypatch):
        from cnp_router.training import shortlists

        monkeypatch.setattr(shortlists, "SHORTLIST", 2)
        world = planted(n_cliques=5, size=4, rounds=6)
        router = fit_router(world.catalog, world.history)
        for case in world.cases[:5]:
            batch = router.views.batch(router.encoders.encode([case.request]))
            (found,) = router.views.candidates(batch)
            first = router.ranker.first.probability(found.features)
            order = np.argsort(-first, kind="stable")
            behind = router.ranker.probabilities(router.views[CoUsageView].pairs, found)[order[2:]]
            assert (np.diff(behind) <= 1e-12).all()
            assert len(np.unique(behind)) > 1

    @pytest.mark.parametrize("n_rows", [0, 5])
    def test_none_behind_it_was_ever_needed(self, n_rows):
        def seen(n):  # whose log-odds fall from .9 to .1
            features = np.linspace(0.9, 0.1, n)[:, None]
            found = Candidates(np.arange(n), features.astype(np.float32))
            return found, Shortlists.of(Logistic(np.ones(1), 0.0), [found])

        found, lists = seen(n_rows + 40)
        example = Example(None, None, found, np.array([0]), True, 0, 0.0, behind=None)
        rest = _fit_rest([([example], lists)])
        _, others = seen(45)
        left, features = others.left, others.rest_features()
        assert left.tolist() == [40, 41, 42, 43, 44]
        behind = rest.probability(features)
        assert (np.diff(behind) < 0).all()
        assert behind.max() < 0.75

    def test_many_new_apis_do_not_come_before_the_shortlist(self):
        world = planted(n_cliques=11, size=4, rounds=1)
        router = fit_router(world.catalog, world.history[:12])
        new = [
            Api(f"new{n}", f"New{n}", world.cases[n % 44].request, ("Other",)) for n in range(200)
        ]
        wide = router.extended(new)
        for case in world.cases[:6]:
            batch = wide.views.batch(wide.encoders.encode([case.request]))
            (found,) = wide.views.candidates(batch)
            first = np.argsort(-wide.ranker.first.probability(found.features), kind="stable")
            p = wide.ranker.probabilities(wide.views[CoUsageView].pairs, found)
            assert len(first) > 40
            assert p[first[40:]].max() <= np.median(p[first[:40]]) * (1 + 1e-9)


class TestInProcesses:
    @pytest.fixture(autouse=True)
    def small_pieces(self, monkeypatch):
        monkeypatch.setattr(many, "_LEAST", 4)

    @pytest.mark.parametrize("known", [0, 2])
    def test_they_are_routed_and_explained_as_here(self, world, router, known):
        texts = [*[mashup.description for mashup in world.history][:12], "qwx zzv", "a b and c d"]
        dates = [datetime.date(2012, 5, 1), None] * (len(texts) // 2)
        given = {"known": world.catalog.ids[:known], "dates": dates}
        here = router.route_many(texts, **given)
        there = router.route_many(texts, n_jobs=2, **given)
        assert there == here
        assert [own.recipients for own in there] == [own.recipients for own in here]

    @pytest.mark.parametrize("n_jobs", [1, 2])
    @pytest.mark.parametrize("fallback", ["none", "broadcast"])
    def test_they_are_explained_at_once_if_that_is_wanted(
        self, world, router, monkeypatch, n_jobs, fallback
    ):
        given = {"fallback": fallback, "threshold": 1.0, "known": world.catalog.ids[:1]}
        texts = [*[mashup.description for mashup in world.history][:12], "qwx zzv", "a b and c d"]
        here = [routing.to_dict() for routing in router.route_many(texts, **given)]
        assert any(own["recipients"][0]["reasons"] for own in here)
        if n_jobs == 2 and fallback == "none":
            monkeypatch.setattr(router, "_scores", None)  # nothing is scored here
        routings = router.route_many(texts, n_jobs=n_jobs, explain=True, **given)
        monkeypatch.setattr(Views, "reasons", None)  # nothing is explained later
        assert [routing.to_dict() for routing in routings] == here

    def test_the_folder_of_its_model_may_be_saved_again(self, world, model, tmp_path):
        folder = shutil.copytree(model, tmp_path / "model")
        router, other = load_router(folder), load_router(folder)
        other.observe(Mashup("later", "a map", world.history[0].apis))
        other.save(folder, overwrite=True)
        texts = [mashup.description for mashup in world.history][:8]
        assert router.route_many(texts, n_jobs=2) == router.route_many(texts)

    def test_it_may_be_saved_again_before_they_have_opened_it(
        self, world, model, tmp_path, monkeypatch
    ):
        folder = shutil.copytree(model, tmp_path / "model")
        router = load_router(folder)
        texts = [mashup.description for mashup in world.history][:8]
        here, handed_over = router.route_many(texts), router._handed_over
        given = []

        def then_replaced(now):
            given.append(handed_over(now))
            if len(given) == 1:
                load_router(model).save(folder, overwrite=True)
            return given[-1]

        monkeypatch.setattr(router, "_handed_over", then_replaced)
        assert router.route_many(texts, n_jobs=2) == here
        assert len(given) == 2

    def test_what_has_come_is_not_asked_for_again(self, world, router, monkeypatch):
        each, asked = LocalPool.each, []

        def then_gone(pool, work, pieces, *shared):
            asked.append(len(pieces))
            answers = list(each(pool, work, pieces, *shared))
            if len(asked) == 1:
                yield answers[0]
                raise ModelStoreError("another model has been saved there")
            yield from answers

        monkeypatch.setattr(LocalPool, "each", then_gone)
        handed_over = router._handed_over
        monkeypatch.setattr(router, "_handed_over", lambda now: (handed_over(now)[0], object()))
        texts = [mashup.description for mashup in world.history][:16]
        assert router.route_many(texts, n_jobs=2) == router.route_many(texts)
        assert asked == [4, 3]

    def test_a_model_that_cannot_be_opened_there_is_an_error(
        self, world, model, tmp_path, monkeypatch
    ):
        router = load_router(shutil.copytree(model, tmp_path / "model"))
        handed_over = router._handed_over(router)
        shutil.rmtree(tmp_path / "model")
        monkeypatch.setattr(router, "_handed_over", lambda now: handed_over)
        with pytest.raises(ModelNotFoundError):
            router.route_many([mashup.description for mashup in world.history][:8], n_jobs=2)

    def test_how_it_reads_requests_is_the_same_there(self, world, router):
        text = " and ".join(mashup.description for mashup in world.history[:2])
        other = copy.copy(router)
        for compound in (True, False):
            other.compound = compound
            needs = [scores.n_needs for scores in other.score_many([text] * 8)]
            assert [s.n_needs for s in other.score_many([text] * 8, n_jobs=2)] == needs
        assert needs == [1] * 8

    def test_they_are_of_the_moment_when_they_were_asked_for(self, world, model):
        router = load_router(model)
        texts = [mashup.description for mashup in world.history][:8]
        before = [scores.probabilities for scores in router.score_many(texts)]
        scored = router.score_many(texts, n_jobs=2)
        first = next(scored)
        router.observe(Mashup("later", texts[-1], world.history[0].apis))
        after = [scores.probabilities for scores in (first, *scored)]
        np.testing.assert_array_equal(after, before)

    def test_reasons_are_those_of_the_moment_when_they_were_asked_for(self, world, model):
        router = load_router(model)
        texts = [mashup.description for mashup in world.history][:8]
        here, there = router.route_many(texts), router.route_many(texts, n_jobs=2)
        router.observe(Mashup("later", texts[0], world.history[0].apis))
        for one, other in zip(there, here, strict=True):
            assert [own.reasons for own in one.recipients] == [
                own.reasons for own in other.recipients
            ]


def test_a_request_is_answered_alike_in_any_company(world, router):
    texts = [mashup.description for mashup in world.history][:12]
    alone = [router.score(text).probabilities for text in texts]
    for size in (2, 5):
        for begin in range(len(texts) - size):
            own = slice(begin, begin + size)
            together = [scores.probabilities for scores in router.score_many(texts[own])]
            np.testing.assert_array_equal(together, alone[own])


def test_a_recall_control_of_ones_own_stays(world):
    router = fit_router(world.catalog, world.history[:60])
    router.recall_control = control = RecallControl(np.full(50, 0.3), np.arange(50), np.zeros(50))
    assert router.extended([Api("new", "New")]).recall_control is control
    router.observe(world.history[60:70])
    assert router.recall_control is control
    router.recall_control = router.decision.recall_control
    router.observe(world.history[70:80])
    assert router.recall_control is router.decision.recall_control
