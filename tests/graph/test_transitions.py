"""Counting, transition probabilities and the prediction of the next API."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import planted

from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError, NotFittedError, UnknownApiError
from cnp_router.graph import TransitionGraph, hit_rate
from cnp_router.history import History, Mashup

APIS = tuple("abcdef")


@st.composite
def histories(draw: st.DrawFn) -> History:
    uses = draw(st.lists(st.lists(st.sampled_from(APIS), min_size=1, max_size=5), min_size=1))
    ordered = draw(st.lists(st.booleans(), min_size=len(uses), max_size=len(uses)))
    return History(
        Mashup(f"m{i}", "x", tuple(apis), ordered=flag)
        for i, (apis, flag) in enumerate(zip(uses, ordered, strict=True))
    )


@pytest.fixture
def toy() -> History:
    return History(
        [
            Mashup("m1", "Weather on a map", ("maps", "weather")),
            Mashup("m2", "Photos on a map", ("maps", "photos")),
            Mashup("m3", "Rain by text", ("weather", "sms", "sms", "maps"), ordered=True),
            Mashup("m4", "Remind me by text", ("sms",)),
        ]
    )


class TestCounts:
    def test_by_hand(self, toy):
        graph = TransitionGraph().fit(toy)
        assert graph.apis_ == ("maps", "photos", "sms", "weather")
        assert graph.usage_.tolist() == [3, 1, 2, 2]
        assert graph.co_usage_.toarray().tolist() == [
            [0, 1, 1, 2],
            [1, 0, 0, 0],
            [1, 0, 0, 1],
            [2, 0, 1, 0],
        ]
        transitions = graph.transitions_.toarray()
        assert transitions[3, 2] == transitions[2, 2] == transitions[2, 0] == 1
        assert transitions.sum() == 3

    def test_the_catalog_gives_the_order_and_those_never_used(self, toy):
        names = ("sms", "photos", "weather", "maps", "idle")
        graph = TransitionGraph().fit(toy, Catalog(Api(name, name) for name in names))
        assert graph.apis_ == names
        assert graph.usage_.tolist() == [2, 1, 2, 3, 0]

    def test_an_api_that_the_catalog_does_not_have(self, toy):
        with pytest.raises(UnknownApiError):
            TransitionGraph().fit(toy, Catalog([Api("maps", "Maps")]))

    @given(histories())
    def test_co_usage_is_symmetric_with_an_empty_diagonal(self, history):
        counts = TransitionGraph().fit(history).co_usage_.toarray()
        assert (counts == counts.T).all()
        assert not counts.diagonal().any()

    @given(histories(), st.randoms(use_true_random=False))
    def test_the_order_of_mashups_does_not_matter(self, history, random):
        shuffled = list(history)
        random.shuffle(shuffled)
        one, other = TransitionGraph().fit(history), TransitionGraph().fit(History(shuffled))
        assert (one.co_usage_ != other.co_usage_).nnz == 0
        assert (one.transitions_ != other.transitions_).nnz == 0
        assert one.predict_next(["a"] if "a" in one.apis_ else []) == other.predict_next(
            ["a"] if "a" in other.apis_ else []
        )


class TestTransition:
    @given(
        histories(),
        st.sampled_from(["probability", "jaccard", "ppmi", "cosine"]),
        st.integers(1, 3),
    )
    def test_rows_sum_to_one_or_zero(self, history, weighting, support):
        graph = TransitionGraph(weighting=weighting, min_support=support).fit(history)
        sums = np.asarray(graph.transition_.sum(axis=1))
        assert np.all(np.isclose(sums, 1) | (sums == 0))
        assert graph.transition_.nnz == 0 or graph.transition_.data.min() > 0

    @given(histories(), st.integers(1, 4))
    def test_more_support_never_adds_an_edge(self, history, support):
        few = TransitionGraph(min_support=support).fit(history).edges_
        fewer = TransitionGraph(min_support=support + 1).fit(history).edges_
        assert set(zip(*fewer.nonzero(), strict=True)) <= set(zip(*few.nonzero(), strict=True))
        assert few.nnz == 0 or few.data.min() >= support

    def test_is_the_formula(self, toy):
        row = TransitionGraph().fit(toy).transition_.toarray()[0]
        assert row.tolist() == [0, 0.25, 0.25, 0.5]

    @pytest.mark.parametrize("directed", [False, True])
    def test_smoothing_is_the_dirichlet_posterior(self, directed, toy):
        graph = TransitionGraph(directed=directed, smoothing=2.0).fit(toy)
        counts = (graph.transitions_ if directed else graph.co_usage_).toarray()
        for position in range(len(graph.apis_)):
            expected = (counts[position] + 2.0 * graph.prior_) / (counts[position].sum() + 2.0)
            if not directed:
                expected[position] = 0
                expected /= expected.sum()
            assert graph.scores([position]) == pytest.approx(expected)


class TestPredictNext:
    def test_undirected_known_is_a_set_and_never_returned(self, toy):
        graph = TransitionGraph().fit(toy)
        found = graph.predict_next(["weather", "sms", "weather"])
        assert found == graph.predict_next(["sms", "weather"])
        assert [candidate.api for candidate in found] == ["maps"]
        assert found[0].probability == 1.0
        assert found[0].count == 3

    def test_directed_the_last_one_decides(self):
        history = History(
            [
                Mashup("1", "x", ("a", "b", "c"), ordered=True),
                Mashup("2", "x", ("a", "b", "d"), ordered=True),
                Mashup("3", "x", ("b", "c"), ordered=True),
                Mashup("4", "x", ("a", "d")),
            ]
        )
        graph = TransitionGraph(directed=True).fit(history)
        (first, second) = graph.predict_next(["a", "b"])
        assert (first.api, first.probability, first.count) == ("c", pytest.approx(2 / 3), 2)
        assert (second.api, second.probability) == ("d", pytest.approx(1 / 3))
        assert graph.predict_next(["c"]) == ()

    def test_ties_are_broken_by_usage_then_by_id(self):
        history = History(
            Mashup(str(i), "x", apis)
            for i, apis in enumerate([("k", "b"), ("k", "a"), ("k", "c"), ("c",)])
        )
        graph = TransitionGraph().fit(history)
        assert [c.api for c in graph.predict_next(["k"])] == ["c", "a", "b"]

    @given(histories(), st.sets(st.sampled_from(APIS), max_size=3))
    def test_descending_and_within_bounds(self, history, known):
        graph = TransitionGraph(smoothing=0.5).fit(history)
        known &= set(graph.apis_)
        found = graph.predict_next(known, k=100)
        assert not known & {candidate.api for candidate in found}
        p = [candidate.probability for candidate in found]
        assert all(0 < value <= 1 for value in p)
        assert sum(p) == pytest.approx(1) or not p
        assert all(a >= b - 1e-9 for a, b in itertools.pairwise(p))

    def test_planted_cliques(self):
        world = planted()
        graph = TransitionGraph().fit(world.history, world.catalog)
        for case in world.cases:
            assert graph.predict_next(case.known, k=1)[0].api == case.missing

    def test_errors_say_what_came(self, toy):
        graph = TransitionGraph().fit(toy)
        with pytest.raises(UnknownApiError, match=r"^unknown API 'map' \(did you mean 'maps'\?\)$"):
            graph.predict_next(["map"])
        with pytest.raises(InputError, match=r"^k must be a whole number of at least 1, got 0$"):
            graph.predict_next(["maps"], k=0)
        with pytest.raises(InputError, match="got the string 'maps'"):
            graph.predict_next("maps")
        with pytest.raises(InputError, match=r"^known positions must be in \[0, 4\), got \[4\]$"):
            graph.scores([4])

    @pytest.mark.parametrize("k", ["3", 2.5, True, None])
    def test_a_k_of_another_type(self, k, toy):
        graph = TransitionGraph().fit(toy)
        with pytest.raises(InputError, match="k must be a whole number of at least 1"):
            graph.predict_next(["maps"], k=k)
        with pytest.raises(InputError, match="k must be a whole number of at least 1"):
            graph.random_walk({"maps": 1.0}).top(k)

    def test_before_fit(self):
        with pytest.raises(NotFittedError):
            TransitionGraph().predict_next(["maps"])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"directed": "yes"}, "directed must be true or false, got 'yes'"),
        ({"smoothing": -1}, "smoothing must be a number from 0 to 10^12, got -1"),
        ({"smoothing": float("nan")}, "smoothing must be a number from 0 to 10^12, got nan"),
        ({"min_support": 0}, "min_support must be a whole number of at least 1, got 0"),
        ({"min_support": 1.5}, "min_support must be a whole number of at least 1, got 1.5"),
    ],
)
def test_bad_parameters(parameters, message, toy):
    with pytest.raises(InputError) as caught:
        TransitionGraph(**parameters).fit(toy)
    assert str(caught.value) == message


def test_bad_weighting_and_histories(toy):
    with pytest.raises(InputError, match=r"^unknown weighting 'best' \(use one of "):
        TransitionGraph(weighting="best").fit(toy)
    with pytest.raises(InputError, match="the history is empty"):
        TransitionGraph().fit(History([]))
    with pytest.raises(InputError, match="a directed graph needs ordered mashups"):
        TransitionGraph(directed=True).fit(History([Mashup("1", "x", ("a", "b"))]))


class TestWalk:
    @given(histories(), st.floats(0.05, 1))
    def test_is_a_distribution(self, history, restart):
        graph = TransitionGraph().fit(history)
        seeds = {graph.apis_[0]: 2.0, graph.apis_[-1]: 1.0}
        walk = graph.random_walk(seeds, restart=restart, max_iter=1000)
        assert walk.converged
        assert walk.probabilities.sum() == pytest.approx(1)
        assert walk.probabilities.min() >= 0

    def test_solves_the_linear_system(self, toy):
        graph = TransitionGraph().fit(toy)
        walk = graph.random_walk({"photos": 1.0}, restart=0.2, tolerance=1e-12)
        step = graph.transition_.toarray()
        seed = np.array([0.0, 1.0, 0.0, 0.0])
        exact = np.linalg.solve((np.eye(4) - 0.8 * step).T, 0.2 * seed)
        assert walk.probabilities == pytest.approx(exact)

    def test_from_an_api_without_an_edge_it_stays(self):
        graph = TransitionGraph().fit(History([Mashup("1", "x", ("a",)), Mashup("2", "x", ("b",))]))
        walk = graph.random_walk({"a": 1.0})
        assert walk.top() == (walk.top(1)[0],)
        assert walk.top(1)[0].api == "a"

    @pytest.mark.parametrize(
        "settings", [{"restart": 0}, {"restart": 1.5}, {"tolerance": 0}, {"max_iter": 0}]
    )
    def test_bad_settings(self, settings, toy):
        with pytest.raises(InputError, match=f"^{next(iter(settings))} must be "):
            TransitionGraph().fit(toy).random_walk({"maps": 1.0}, **settings)

    @pytest.mark.parametrize("seeds", [{}, {"maps": 0.0}, {"maps": -1.0}, {"maps": float("nan")}])
    def test_bad_seeds(self, seeds, toy):
        with pytest.raises(InputError):
            TransitionGraph().fit(toy).random_walk(seeds)


class TestStatistics:
    def test_by_hand(self, toy):
        found = TransitionGraph().fit(toy).statistics()
        assert (found.n_apis, found.n_used, found.n_edges, found.isolated) == (4, 4, 4, 0)
        assert found.density == pytest.approx(4 / 6)
        assert found.mean_degree == 2.0

    def test_a_directed_one_by_hand(self):
        steps = [("a", "b", "c"), ("b", "a")]
        history = [Mashup(str(i), "x", apis, ordered=True) for i, apis in enumerate(steps)]
        found = TransitionGraph(directed=True).fit(History(history)).statistics()
        assert (found.n_edges, found.density, found.mean_degree) == (3, 0.5, 2.0)

    def test_the_hit_rate_leaves_one_out_of_held_out_mashups(self, toy):
        graph = TransitionGraph().fit(toy)
        held_out = History(
            [
                Mashup("h1", "x", ("maps", "weather")),
                Mashup("h2", "x", ("maps", "stranger")),
                Mashup("h3", "x", ("sms",)),
            ]
        )
        found = hit_rate(graph, held_out, k=(1, 10))
        # weather given maps, and maps given weather; nothing of h3, a single API.
        assert found.steps == 4
        assert found.unknown == 1
        assert found.hits[0] == 2
        assert found.at(1) == 0.5
        with pytest.raises(InputError, match="not at 3"):
            found.at(3)


def test_fitting_does_not_touch_the_history(toy):
    before = [mashup.to_dict() for mashup in toy]
    graph = TransitionGraph().fit(toy)
    graph.predict_next(["maps"])
    assert [mashup.to_dict() for mashup in toy] == before


class TestShown:
    def test_on_one_line(self, toy):
        assert repr(TransitionGraph()) == (
            "TransitionGraph(directed=False, smoothing=0.0, min_support=1, weighting='probability')"
        )
        graph = TransitionGraph().fit(toy)
        assert repr(graph).endswith("weighting='probability'; 4 APIs, 4 edges)")
        assert repr(TransitionGraph(directed=True).fit(toy)).endswith("; 4 APIs, 3 edges)")
        walk = graph.random_walk({"photos": 1.0})
        assert repr(walk).startswith("RandomWalk(4 APIs, converged after ")
        assert "\n" not in repr(walk)

    @pytest.mark.parametrize("directed", [False, True])
    def test_in_a_notebook_with_everything_escaped(self, directed):
        graph = TransitionGraph(directed=directed)
        assert "<td>" not in graph._repr_html_()
        graph.fit(History([Mashup("1", "x", ("<b>", "a&b"), ordered=True)]))
        for shown in (graph, graph.random_walk({"<b>": 1.0})):
            html = shown._repr_html_()
            assert "<td>&lt;b&gt;</td>" in html
            assert "<td>a&amp;b</td>" in html
            assert html.count("<tr>") == (2 if shown is graph else 3)
