"""`LearnedRouter.synced`: another catalog for a fitted router, without fitting again."""

from __future__ import annotations

import copy
import datetime
from dataclasses import replace

import numpy as np
import pytest
from planted import planted
from scipy import sparse
from word_vectors import WordVectors

from cnp_router import checks
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError, ModelCorruptError, UnknownApiError
from cnp_router.history import History, Mashup
from cnp_router.routing import TopK
from cnp_router.training import corpus as corpora
from cnp_router.training import encoders, fit_router, load_router
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import MANY, Corpus, Specifications
from cnp_router.training.dense_encoder import DenseEncoder
from cnp_router.training.examples import Past
from cnp_router.training.learned_router import LearnedRouter
from cnp_router.training.persistence import verify_router
from cnp_router.training.views import (
    VIEWS,
    CategoryView,
    CoUsageView,
    HistoryView,
    Views,
    name_index,
)
from cnp_router.training.views.columns import Pairs
from cnp_router.training.views.dense import DenseView
from cnp_router.training.views.expected import ExpectedView
from cnp_router.training.views.name_index import NameIndex
from cnp_router.training.views.names import NamesView
from cnp_router.training.views.similar import SimilarView

NEW = Api("tidewatch", "Tidewatch", "High and low water for surfers.", ("Sea",))


def answers(router: LearnedRouter, world) -> list[dict[str, object]]:
    requests = [case.request for case in world.cases]
    return [router.route(r, known=k).to_dict() for r in requests for k in ((), router.apis[:2])]


def plain(array):
    return array.toarray() if sparse.issparse(array) else array


@pytest.fixture(scope="module")
def gone(world):
    """Of one clique all APIs, of another one."""
    return {*world.cases[0].clique, world.cases[-1].clique[0]}


@pytest.fixture(scope="module")
def left(world, gone):
    return Catalog(api for api in world.catalog if api.id not in gone)


@pytest.fixture(scope="module")
def synced(router, left):
    return router.synced(left)


@pytest.fixture(scope="module")
def views(world):
    """All of them, those that apply only to other histories too."""
    start = datetime.date(2020, 1, 1)
    mashups = [replace(m, date=start + datetime.timedelta(i)) for i, m in enumerate(world.history)]
    dense = DenseEncoder.of(WordVectors())
    past = Past.of(world.catalog, History(mashups), random_state=0, dense=dense)
    corpus = Corpus.of(past.specifications, past.requests, past.usage, past.membership)
    return Views.fit(corpus, past.requests, VIEWS)


def with_catalog(views: Views, before: Views, catalog: Catalog) -> Views:
    """Return the views of another catalog, for which `before` are what they are made of."""
    whole = views.corpus
    own = whole.specifications.catalog
    columns = [own.position(api.id) for api in catalog]
    change = CatalogChange.between(before.corpus.specifications.catalog, catalog)
    return before.synced(catalog, whole.usage[:, columns], whole.membership[columns], change)


def everything(views: Views, world):
    requests = views.corpus.specifications.encoders.encode([case.request for case in world.cases])
    batch = views.batch(requests)
    return [np.concatenate([c.positions, c.features.ravel()]) for c in views.candidates(batch)]


def arrays(state):
    """The arrays of a view, those of its parts too."""
    found = {}
    for name, value in state.items():
        inside = arrays(value) if isinstance(value, dict) else {"": value}
        found.update({f"{name} {inner}": array for inner, array in inside.items()})
    return found


@pytest.mark.parametrize("kind", VIEWS, ids=lambda kind: kind.name)
class TestEveryView:
    def test_the_order_of_the_catalog_says_nothing(self, views, world, kind):
        shuffled = np.random.default_rng(0).permutation(len(world.catalog))
        other = with_catalog(views, views, Catalog(world.catalog[int(i)] for i in shuffled))
        requests = views.corpus.specifications.encoders.encode([c.request for c in world.cases])
        pairs = Pairs.across([np.arange(len(world.catalog))] * len(requests))
        for left, right in zip(
            views[kind].scored(views.batch(requests)).values(),
            other[kind].scored(other.batch(requests)).values(),
            strict=True,
        ):
            before = left.at(pairs).reshape(len(requests), -1)
            now = right.at(pairs).reshape(len(requests), -1)
            np.testing.assert_allclose(now, before[:, shuffled], atol=1e-5)

    def test_what_goes_and_comes_back_is_as_it_was(self, views, world, left, kind):
        away = with_catalog(views, views, left)
        again = with_catalog(views, away, world.catalog)
        state, before = (arrays(v[kind].state()) for v in (again, views))
        for name, array in before.items():
            if isinstance(array, list):
                assert state[name] == array
                continue
            # A conjugate gradient depends on what it is computed together with.
            np.testing.assert_allclose(plain(state[name]), plain(array), atol=2e-4, err_msg=name)

    def test_its_arrays_fit_the_catalog(self, views, left, kind):
        away = with_catalog(views, views, left)
        away[kind].check(away.corpus.sizes)
        Views.from_state(away.corpus.specifications, away.state())


def test_views_are_as_if_fitted_on_what_is_there(views, left):
    """But for what the past teaches of categories, those that are gone too."""
    now = with_catalog(views, views, left)
    corpus, requests = now.corpus, views.corpus.specifications.encoders.encode
    words = requests([""] * 0)
    words = replace(
        words,
        texts=[""] * corpus.usage.shape[0],
        word=corpus.word_rows,
        character=corpus.character_rows,
        day=corpus.days,
        dense=corpus.history_vectors,
    )
    again = Views.fit(corpus, words, VIEWS)
    for kind, name in (
        (HistoryView, "weights"),
        (HistoryView, "centroids"),
        (CoUsageView, "conditional"),
        (SimilarView, "weights"),
        (DenseView, "weights"),
        (ExpectedView, "map"),
    ):
        left_, right = (getattr(v[kind], name) for v in (now, again))
        np.testing.assert_allclose(plain(left_), plain(right), atol=2e-4, err_msg=kind.name)
    assert CategoryView in now.kinds


class TestRemoved:
    def test_it_is_in_no_answer(self, world, router, synced, gone, left):
        assert synced.apis == left.ids
        assert set(synced.removed) == gone and not router.removed
        names = {world.catalog[api].name for api in gone}
        for case in world.cases:
            for known in ((), [api for api in case.known if api in left][:1]):
                scores = synced.score(case.request, known)
                assert len(scores.order) == len(left)
                routing = synced.route(case.request, known, select=TopK(len(left)))
                assert routing.n_apis == len(left) and routing.n_allowed == len(left) - len(known)
                asked = {r.contractor for r in routing.recipients}
                assert not gone & {*asked, *routing.recommendation}
                said = [reason for r in routing.recipients for reason in r.reasons]
                assert not any(gone & set(reason.references) for reason in said)
                assert not any(name in reason.text for reason in said for name in names)
        everyone = synced.route("x", fallback="broadcast", threshold=1).contractors
        assert sorted(everyone) == sorted(left.ids)
        assert set(synced.graph.apis_) == set(left.ids)

    def test_past_requests_that_used_it_still_help(self, world, synced, gone):
        case = world.cases[-1]
        others = [api for api in case.clique if api not in gone]
        for own in world.cases[-4:]:
            assert set(synced.recommend(own.request)) <= set(others)
            found = [name for name, _ in synced.score(own.request).top(len(others))]
            assert set(found) == set(others)
        (first, *_) = synced.route(case.request, select=TopK(1)).recipients
        cited = {m for reason in first.reasons for m in reason.references}
        used_it = {m.id for m in world.history if gone & set(m.apis)}
        assert cited & used_it

    def test_as_a_known_one_it_is_unknown(self, world, synced, gone, caplog):
        case = world.cases[-1]
        (known,) = gone & set(case.clique)
        routing = synced.route(case.request, [known])
        assert routing.ignored == (known,) and not routing.known
        assert "never heard of" in caplog.text
        with pytest.raises(UnknownApiError):
            synced.catalog.position(known)

    def test_a_repeat_of_what_only_it_served_is_not_answered(self, world, router, synced):
        case = world.cases[0]
        past = next(m for m in world.history if case.clique[0] in m.apis)
        before, now = (r.route(past.description) for r in (router, synced))
        assert before.answerable == pytest.approx(1.0, abs=1e-6)
        assert now.answerable < 0.1
        assert now.confidence < before.confidence

    def test_what_only_they_served_is_served_by_no_others(self, world, router, synced, gone):
        for case in world.cases:
            before, now = (r.route(case.request) for r in (router, synced))
            if gone.issuperset(case.clique):
                assert before.fits and not now.fits
            else:
                assert now.answerable > before.answerable - 0.05

    def test_what_has_lost_all_that_served_it_is_known(self, world, router, synced, gone):
        lost = [float(gone.issuperset(mashup.apis)) for mashup in world.history]
        assert synced.views.corpus.lost.tolist() == lost and 0 < sum(lost) < len(lost)
        assert synced.extended([NEW]).views.corpus.lost.tolist() == lost

    def test_what_took_their_place_serves_it(self, world, router, gone):
        apis = [replace(api, id=f"{api.id}-2") if api.id in gone else api for api in world.catalog]
        replaced = router.synced(Catalog(apis))
        for case in world.cases[:4]:
            routing = replaced.route(case.request)
            assert routing.fits
            assert routing.recommendation[0] in {f"{api}-2" for api in case.clique}

    def test_the_router_stays_as_it_is(self, world, router, left):
        before = answers(router, world)
        router.synced(left)
        assert answers(router, world) == before and not router.removed

    def test_how_requests_are_read_stays(self, router, left):
        router = copy.copy(router)
        router.compound = True
        assert router.synced(left).compound is True

    def test_what_is_left_of_nothing(self, router):
        with pytest.raises(InputError, match="at least one API"):
            router.synced(Catalog([]))
        with pytest.raises(InputError, match="catalog must be of type Catalog"):
            router.synced([NEW])
        assert router.synced(Catalog(router.catalog)) is router

    def test_all_that_was_ever_used(self, world):
        """With dates, which look at uses alone."""
        start = datetime.date(2020, 1, 1)
        days = (start + datetime.timedelta(i % 900) for i in range(10 * MANY))
        late = planted(n_cliques=4, size=4, rounds=32)
        mashups = [replace(m, date=day) for m, day in zip(late.history, days, strict=False)]
        assert len(mashups) >= MANY
        router = fit_router(late.catalog.extended([NEW]), History(mashups))
        assert "date" in [kind.name for kind in router.views.kinds]
        now = router.synced(Catalog([NEW]))
        assert now.views.corpus.decides.startswith("no history")
        for request in ("High water for surfers.", late.cases[0].request, "qwxyz"):
            assert now.route(request).contractors == ("tidewatch",)
        assert now.observe(Mashup("t", "High water?", ("tidewatch",))) == 1
        assert now.synced(router.catalog).recommend(late.cases[0].request)


class TestChanged:
    def test_a_cold_one_is_as_if_it_had_come_with_the_new_text(self, world, router):
        said = world.catalog[0].description  # no new words, which would stay
        wide = router.extended([Api("tidewatch", world.catalog[3].name, said, ("Farming",))])
        now = wide.synced(router.catalog.extended([NEW]))
        direct = router.extended([NEW])
        requests = [*(case.request for case in world.cases), "Tidewatch, high water for surfers"]
        for request in requests:
            left, right = (r.route(request).to_dict() for r in (now, direct))
            assert left == right
        again = wide.synced(router.catalog).extended([NEW])
        before, after = (arrays(r.views.state()) for r in (again, now))
        for name, array in before.items():
            np.testing.assert_array_equal(plain(after[name]), plain(array), name)

    def test_its_new_words_find_it_and_its_history_stays(self, world, router):
        api, other = world.cases[0].clique[0], world.cases[8]
        changed = [
            replace(a, name="Tidewatch", description=world.catalog[other.clique[0]].description)
            if a.id == api
            else a
            for a in world.catalog
        ]
        now = router.synced(Catalog(changed))
        place = world.catalog.position(api)
        assert now.apis == router.apis and now.summary["removed"] == []
        assert now.views.corpus.counts[place] == router.views.corpus.counts[place] > 0
        before = router.score(other.request).probabilities[place]
        assert now.score(other.request).probabilities[place] > before
        (first,) = now.route("ask Tidewatch", select=TopK(1)).recipients
        assert first.contractor == api and first.reasons[0].kind == "name"
        assert any(m.kind == "history" for m in _reasons(now, world.cases[0].request, api))
        columns = now.views.corpus.specifications
        expected = router.extended([replace(changed[place], id="other")]).views.corpus
        np.testing.assert_array_equal(
            columns.word_columns[:, [place]].toarray(),
            expected.specifications.word_columns[:, [-1]].toarray(),
        )
        similar = now.views[SimilarView].weights, SimilarView.fit(now.views.corpus, None).weights
        np.testing.assert_allclose(similar[0].toarray(), similar[1].toarray(), atol=1e-6)

    def test_what_changes_no_text_is_in_the_catalog_all_the_same(self, world, router):
        changed = [replace(api, effects="reads") for api in world.catalog]
        now = router.synced(Catalog(changed))
        assert now.catalog[0].effects == "reads"
        for case in world.cases[:3]:
            assert now.route(case.request).to_dict() == router.route(case.request).to_dict()

    def test_another_category(self, router, world):
        topic = world.catalog[world.cases[8].clique[0]].categories
        changed = [replace(world.catalog[0], categories=topic), *world.catalog[1:]]
        now = router.synced(Catalog(changed))
        assert now.views.corpus.membership[[0]].toarray().any()
        assert (now.views.corpus.membership[[0]] != router.views.corpus.membership[[0]]).nnz == 2


def _reasons(router, request, api):
    routing = router.route(request, select=TopK(len(router.apis)))
    return next(r.reasons for r in routing.recipients if r.contractor == api)


class TestNewWords:
    def test_they_find_what_says_them(self, world, router):
        wide = router.extended([NEW])
        assert wide.score("water for surfers").top(1)[0][0] == "tidewatch"
        (first, *_) = wide.route("water for surfers", select=TopK(1)).recipients
        assert "“surfer”" in " ".join(reason.text for reason in first.reasons)
        assert wide.encoders is not router.encoders
        assert wide.views.corpus.encoders is wide.encoders
        assert set(wide.encoders.word.terms_) - set(router.encoders.word.terms_) > {"surfer"}
        assert wide.categories.predict_proba(["water for surfers"]).shape[1] == 6
        assert wide.observe(Mashup("t", "What do surfers call beekeepers?", ("tidewatch",))) == 1

    def test_it_is_as_good_as_fitting_on_them_from_the_start(self):
        """Without history, where words are all that there is."""
        world = planted(n_cliques=12, size=4, rounds=1)
        new = {api.id for api in world.catalog[::2]}
        part = fit_router(Catalog(api for api in world.catalog if api.id not in new))
        grown, whole = part.synced(world.catalog), fit_router(world.catalog)
        texts = [" ".join(world.catalog[api].description.split()[:2]) for api in sorted(new)]
        for text, api in zip(texts, sorted(new), strict=True):
            for router in (grown, whole):
                assert router.score(text).top(1)[0][0] == api

    def test_after_many_texts_new_words_are_added_and_no_pairs(self, world, router, monkeypatch):
        monkeypatch.setattr(encoders, "FEW_TEXTS", router.encoders.word.n_texts)
        before, after = router.encoders, router.extended([NEW]).encoders
        new = after.word.terms_[len(before.word.terms_) :]
        assert new and not any(" " in term for term in new)
        assert not before.know("tidewatch") and after.know("tidewatch")
        assert len(after.character.terms_) > len(before.character.terms_)
        assert router.encoders.word.n_texts == len(world.catalog) + len(world.history)

    def test_where_there_is_no_room_none_are_added(self, router, monkeypatch):
        for encoder in (router.encoders.word, router.encoders.character):
            monkeypatch.setattr(encoder, "max_terms", len(encoder.terms_))
        after = router.extended([NEW]).encoders
        assert after.word is router.encoders.word
        assert after.character is router.encoders.character


class TestLargeCatalogThatGrows:
    """Time and memory are those of what comes: here, catalogs of 11 APIs are large."""

    @pytest.fixture(autouse=True)
    def few_are_many(self, monkeypatch):
        for module in (corpora, name_index):
            monkeypatch.setattr(module, "EXACT", 10)
        monkeypatch.setattr(encoders, "FEW_TEXTS", 0)
        monkeypatch.setattr(corpora, "MOST_SPELT", 3)

    @pytest.fixture
    def large(self, world):
        return fit_router(world.catalog, world.history)

    @pytest.fixture
    def more(self, world):
        said = world.catalog[3].description
        return [NEW, Api("tides", "Tide Atlas", said, ("Farming",)), Api("c3", "Atlas Maps", said)]

    def test_it_is_as_if_compared_api_by_api(self, large, more, monkeypatch):
        grown = large.extended(more[:1]).extended(more[1:])
        between = CatalogChange.between
        changes = []

        def anew(before, now):
            changes.append(between(before, now))
            return replace(changes[-1], keeps_names=False, only_grows=False)

        monkeypatch.setattr(CatalogChange, "between", anew)
        wanted = large.extended(more[:1]).extended(more[1:])
        assert [change.only_grows for change in changes] == [True, True]
        assert all(change.keeps_names for change in changes)
        found, expected = (
            {**arrays(r.views.state()), **arrays(r.views.corpus.specifications.state())}
            for r in (grown, wanted)
        )
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            if not name.startswith("names "):
                there, now = plain(array), plain(found[name])
                np.testing.assert_allclose(now, there, rtol=1e-6, err_msg=name)
        index, whole = (r.views[NamesView].index for r in (grown, wanted))
        for name in ("hashes", "named", "filter"):
            np.testing.assert_array_equal(getattr(index, name), getattr(whole, name), name)
        assert sorted(index.words) == sorted(whole.words)
        order = [index.words.index(word) for word in whole.words]
        has, should_have = index.by_word.toarray()[order] > 0, whole.by_word.toarray() > 0
        np.testing.assert_array_equal(has, should_have)
        np.testing.assert_allclose(index.weight, whole.weight, rtol=0.2)

    @pytest.mark.parametrize("changes_name", [False, True])
    def test_one_that_is_specified_otherwise(self, large, more, changes_name):
        said = replace(large.catalog[3], description=more[0].description)
        api = replace(said, name="Tidewatch") if changes_name else said
        apis = [*large.catalog[:3], api, *large.catalog[4:], more[1]]
        change = CatalogChange.between(large.catalog, Catalog(apis))
        assert (change.keeps_names, change.only_grows) == (not changes_name, False)
        now = large.synced(Catalog(apis))
        index, anew = now.views[NamesView].index, NameIndex.of(now.views.corpus.specifications)
        for name in ("hashes", "named", "filter"):
            np.testing.assert_array_equal(getattr(index, name), getattr(anew, name), name)
        assert sorted(index.words) == sorted(anew.words)
        whole = Specifications.build(now.catalog, now.encoders)
        specifications = now.views.corpus.specifications
        for name in ("word_rows", "character_rows", "word_columns", "character_columns"):
            own, wanted = (getattr(each, name).toarray() for each in (specifications, whole))
            np.testing.assert_allclose(own, wanted, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(specifications.latent, whole.latent, atol=1e-6)
        before = Specifications.build(large.catalog, large.encoders)
        np.testing.assert_allclose(
            large.views.corpus.specifications.latent, before.latent, atol=1e-6
        )

    def test_nobody_is_read_who_was_there(self, large, more, monkeypatch):
        monkeypatch.setattr(type(large.catalog), "__iter__", None)
        monkeypatch.setattr(corpora, "_indexes", None)  # which goes over all rows
        grown = large.extended(more)
        assert grown.route("Tidewatch, please").contractors[0] == "tidewatch"
        assert grown.score("in the Tide Atlas").top(1)[0][0] == "tides"
        assert grown.views.corpus.membership.shape[0] == len(grown.apis) == len(large.apis) + 3

    def test_the_one_before_stays_as_it_is(self, world, large, more):
        before = answers(large, world)
        grown, other = large.extended(more), large.extended([more[2], NEW])
        assert answers(large, world) == before
        assert grown.score("Tidewatch").top(1)[0][0] == other.score("Tidewatch").top(1)[0][0]
        assert other.apis[-2:] == ("c3", "tidewatch")

    def test_saved_and_loaded(self, world, large, more, tmp_path):
        large.save(tmp_path / "model")
        grown = load_router(tmp_path / "model").extended(more)
        grown.save(tmp_path / "model", overwrite=True)
        assert answers(verify_router(tmp_path / "model"), world) == answers(grown, world)

    def test_of_names_with_the_same_word_few_are_looked_at(self, large, monkeypatch):
        monkeypatch.setattr(name_index, "MOST", 2)
        names = [Api(f"z{n}", f"Zorblax {'Again ' * n}") for n in range(4)]
        index = large.extended(names[:3]).extended(names[3:]).views[NamesView].index
        word = index.by_word[[index.words.index("zorblax")]]
        assert (word.indices - len(large.apis)).tolist() == [0, 1]

    def test_many_names_make_a_larger_filter(self, large):
        index = large.views[NamesView].index
        many = [Api(f"n{i}", f"Name{i} of mine", "It says nothing.") for i in range(200)]
        grown = large.extended(many)
        assert len(grown.views[NamesView].index.filter) > len(index.filter)
        assert grown.route("Name177 of mine").contractors[0] == "n177"


class TestLater:
    def test_saved_and_loaded(self, world, synced, gone, tmp_path):
        synced.save(tmp_path / "model")
        loaded = load_router(tmp_path / "model")
        assert loaded.removed == synced.removed
        assert answers(loaded, world) == answers(synced, world)

    @pytest.mark.parametrize("how", ["at once", "loaded in between", "one after the other"])
    def test_what_comes_back_is_known_again(self, world, router, synced, tmp_path, how):
        if how == "loaded in between":
            synced.save(tmp_path / "model")
            synced = load_router(tmp_path / "model")
        elif how == "one after the other":
            missing = [api for api in world.catalog if api not in synced.catalog]
            synced = synced.extended(missing[:2])
        back = synced.synced(world.catalog)
        assert back.removed == () and not back.views.corpus.lost.any()
        np.testing.assert_array_equal(
            back.views.corpus.usage.toarray(), router.views.corpus.usage.toarray()
        )
        for case in world.cases:
            for known in ((), case.known):
                left, right = (r.score(case.request, known) for r in (back, router))
                np.testing.assert_allclose(left.probabilities, right.probabilities, atol=2e-3)
                assert back.recommend(case.request, known) == router.recommend(case.request, known)

    def test_a_second_sync(self, world, synced, gone, left):
        again = synced.synced(Catalog([*left[1:], NEW]))
        assert set(again.removed) == gone | {left[0].id}
        assert again.apis[-1] == "tidewatch" and left[0].id not in again.apis
        assert again.route("Tidewatch: high water for surfers").recommendation == ("tidewatch",)

    def test_it_observes_what_names_one_that_was_removed(self, world, synced, gone):
        router, case = copy.copy(synced), world.cases[-1]
        (away,) = gone & set(case.clique)
        rest = next(api for api in case.clique if api != away)
        before = router.graph.co_usage_.sum()
        late = [
            Mashup("late", "Quizzes about mushrooms.", (away, rest)),
            Mashup("later", "Riddles of toadstools.", (away,)),
        ]
        assert router.observe(late) == 2
        assert router.views.corpus.lost[-2:].tolist() == [0, 1]
        assert rest in router.recommend("Quizzes about mushrooms.")
        assert router.graph.co_usage_.sum() == before  # of two APIs, one is left
        assert router.history[-1].apis == (away,)
        back = router.synced(world.catalog)
        assert away in back.recommend("Riddles of toadstools.")
        with pytest.raises(UnknownApiError):
            router.observe(Mashup("x", "x", ("never-heard-of",)))

    def test_it_obeys_the_laws(self, synced):
        checks.check_router(synced, load=load_router)

    def test_a_removed_one_must_be_one(self, synced, left, tmp_path):
        for removed in ([left[0].id], ["x", "x"], [3], []):
            router = copy.copy(synced)
            router.summary = {**synced.summary, "removed": removed}
            router.save(tmp_path / "model", overwrite=True)
            # That of an API in the history nothing is said takes reading all of it.
            load = load_router if removed else verify_router
            with pytest.raises(ModelCorruptError, match=r"removed|unknown API"):
                load(tmp_path / "model")


def test_without_any_history(tmp_path):
    tools = [
        Api("git__log", "log", "Lists the commits of a branch."),
        Api("time__now", "now", "Says what time it is in a town."),
        Api("git__diff", "diff", "Shows what changed in a file."),
    ]
    router = fit_router(Catalog(tools))
    assert router.recommend("which commits are on the branch")[0] == "git__log"
    other = replace(tools[1], description="Lists the commits and branches of a repository.")
    now = router.synced(Catalog([other, tools[2], Api("fetch__get", "get", "Reads a web page.")]))
    assert now.removed == ("git__log",)
    assert now.score("which commits are on the branch").top(1)[0][0] == "time__now"
    assert now.score("get this web page").top(1)[0][0] == "fetch__get"
    now.save(tmp_path / "model")
    loaded = load_router(tmp_path / "model")
    assert loaded.observe(Mashup("a", "hello", ("git__log",))) == 1
    checks.check_router(loaded, load=load_router)


class TestWithAnEncoder:
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, small, tmp_path_factory):
        folder = tmp_path_factory.mktemp("dense") / "model"
        fit_router(small.catalog, small.history, encoder=WordVectors()).save(folder)
        return folder

    def test_new_texts_need_it_and_old_ones_do_not(self, small, model, tmp_path):
        router = load_router(model)
        smaller = router.synced(Catalog(small.catalog[1:]))
        smaller.save(tmp_path / "model")
        wider = small.catalog.extended([NEW])
        with pytest.raises(InputError, match="encoder"):
            router.synced(wider)
        now = load_router(tmp_path / "model", encoder=WordVectors()).synced(wider)
        assert now.score("high water for surfers").top(1)[0][0] == "tidewatch"
        checks.check_router(now)

    def test_what_comes_back_has_its_vectors(self, small, model):
        router = load_router(model, encoder=WordVectors())
        back = router.synced(Catalog(small.catalog[1:])).synced(small.catalog)
        for name, array in router.views[DenseView].state().items():
            np.testing.assert_allclose(back.views[DenseView].state()[name], array, atol=1e-4)


def test_what_a_tool_says_of_itself_is_served_by_it_when_most_are_gone():
    singers = Api("casting", "casting", "Engages singers for roles and finds understudies.")
    others = {
        "wardrobe": ("Keeps costumes and has them mended.", "Mend the queen's torn robe", "Sew it"),
        "tickets": ("Sells seats and refunds them.", "Two seats in the stalls", "Refund my seat"),
        "pianos": ("Tunes pianos in all rooms.", "Tune the upright", "The grand is out of tune"),
        "stage": ("Books the stage for rehearsals.", "Book the stage", "When can we rehearse?"),
    }
    mashups = [
        Mashup(f"{name} {place}", text, (name,))
        for name, (_, *asked) in others.items()
        for place, text in enumerate(asked)
    ]
    mashups += [Mashup("c", "We need a second soprano", (singers.id,))]
    tools = [singers, *(Api(name, name, says) for name, (says, *_) in others.items())]
    router = fit_router(Catalog(tools), History(mashups)).synced(Catalog([singers]))
    for request in (singers.description, "Find an understudy for the singer of a role"):
        assert router.recommend(request) == ("casting",)
    for request in ("Tune the upright", "Refund my seat in the stalls"):
        assert router.recommend(request) == ()
