"""A head with groups behind it is decided on as the same probabilities, one by one, are."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from cnp_router.exceptions import InputError
from cnp_router.routing import (
    HeadScores,
    MaxCost,
    RecallControl,
    Router,
    Scores,
    SelectionRule,
    TargetRecall,
    TopK,
)
from cnp_router.routing.head import Head

LEVELS = np.array([0.0, 0.01, 0.2, 0.2, 0.5, 1.0])  # few, so that many are equal


class Given(Router):
    """Answers what it is given; with a control of its recall, or without."""

    def __init__(self, scores, control=None):
        super().__init__(scores.apis)
        self.given = scores
        self.recall_control = control

    def _scores(self, request, known, date):
        return self.given


class EveryOther(SelectionRule):
    def choose(self, ranked):
        return np.flatnonzero(ranked.probabilities[::2] >= 0) * 2


def world(rng, n=None):
    """Return the same probabilities as a head with groups, and one by one."""
    n = int(rng.choice([2, 7, 60, 700])) if n is None else n
    apis = tuple(f"api {i}" for i in range(n))
    positions = np.sort(rng.choice(n, int(rng.integers(0, n + 1)), replace=False))
    named, group = rng.random(len(positions)) ** 4, rng.random(5) * rng.choice([0.01, 0.5])
    if rng.random() < 0.5:
        named, group = rng.choice(LEVELS, len(positions)), rng.choice(LEVELS[:4], 5)
    groups = rng.integers(0, 5, n)
    p = group[groups]
    p[positions] = named
    sizes = np.bincount(np.delete(groups, positions), minlength=5)
    n_needs = int(rng.integers(1, 3))
    head = HeadScores(
        apis,
        positions=positions,
        named=named,
        behind=group,
        sizes=sizes,
        group_of=groups.take,
        n_needs=n_needs,
    )
    return head, Scores(apis, p, n_needs=n_needs)


def ways(rng, apis):
    some = list(rng.permutation(apis)[: int(rng.integers(1, len(apis)))])
    few = some[:3]
    yield {}
    yield {"exclude": few}
    yield {"among": some}
    yield {"among": few, "exclude": few[1:]}
    yield {"among": set(some).__contains__, "exclude": some[-1].__eq__} if len(some) > 1 else {}


def same(one, other):
    assert one.contractors == other.contractors
    assert one.recommendation == other.recommendation
    given = [[r.probability for r in each.recipients] for each in (one, other)]
    assert given[0] == given[1]
    for name in ("confidence", "answerable"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-12, rel=1e-9)
    plain = [replace(each, confidence=0, answerable=0, recipients=()) for each in (one, other)]
    assert plain[0] == plain[1]


@pytest.mark.parametrize("seed", range(40))
def test_every_decision_is_the_same(seed):
    rng = np.random.default_rng(seed)
    head, dense = world(rng)
    control = None
    if rng.random() < 0.6:
        control = RecallControl(rng.random(200) ** 3, np.arange(200), np.zeros(200))
    known = list(rng.permutation(dense.apis)[: int(rng.integers(0, min(4, len(dense.apis))))])
    costs = {name: 1.0 + i % 3 for i, name in enumerate(dense.apis)}
    rules = [TargetRecall(t) for t in (0.5, 0.9, 0.999)]
    rules += [TopK(1), TopK(5), TopK(10**6), MaxCost(4.0, costs), EveryOther()]
    by_head, by_all = Given(head, control), Given(dense, control)
    for own in (known, []):
        for where in ways(rng, dense.apis):
            rule = rules[rng.integers(len(rules))]
            fallback = rng.choice(["none", "broadcast"])
            how = {"select": rule, "threshold": 0.5, "fallback": str(fallback), **where}
            answers = []
            for router in (by_all, by_head):
                fresh = copy.copy(router)
                fresh.given = replace(router.given)
                try:
                    answers.append(fresh.route("x", own, **how))
                except InputError as exc:
                    answers.append(str(exc))
            if isinstance(answers[0], str):
                assert answers[0] == answers[1]
            else:
                same(*answers[::-1])


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_the_same(seed):
    rng = np.random.default_rng(seed)
    head, dense = world(rng)
    n = len(dense.apis)
    for k in (-1, 0, 1, 3, n, n + 5):
        assert replace(head).top(k) == dense.top(k)
    places = np.sort(rng.choice(n, int(rng.integers(1, n + 1)), replace=False))
    assert replace(head).at(places).tolist() == dense.at(places).tolist()
    twice = replace(head).zeroed(places[:1]).zeroed(places)
    assert twice.at(np.arange(n)).tolist() == dense.zeroed(places).probabilities.tolist()
    assert twice.probabilities.tolist() == dense.zeroed(places).probabilities.tolist()
    assert replace(head).order.tolist() == dense.order.tolist()
    assert repr(head) == repr(dense)
    kept = pickle.loads(pickle.dumps(replace(head)))
    assert kept.at(places).tolist() == head.at(places).tolist()
    assert kept.probabilities.tolist() == dense.probabilities.tolist()


def many(n=5000):
    """Return a head of 100 of many, all of them more probable than whatever is behind."""
    groups = np.arange(n) % 3
    positions = np.arange(0, n, n // 100)[:100]
    sizes = np.bincount(np.delete(groups, positions), minlength=3)
    named = np.linspace(0.01, 0.9, 100) ** 3 + 1e-4
    behind = np.array([1e-5, 2e-5, 0.0])

    def group_of(positions):
        assert len(positions) < 100, "all probabilities were made"
        return groups[positions]

    apis = tuple(f"api {i}" for i in range(n))
    return HeadScores(
        apis, positions=positions, named=named, behind=behind, sizes=sizes, group_of=group_of
    )


@pytest.mark.parametrize(
    "control", [None, RecallControl(np.full(50, 0.3), np.arange(50), np.zeros(50))]
)
@pytest.mark.parametrize("select", [TargetRecall(0.8), TopK(20)])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"known": ["api 4950", "api 7"]},
        {"exclude": ["api 4950", "api 3"]},
        {"among": ["api 4950", "api 3", "api 4"]},
        {"known": ["api 7"], "among": ["api 4950", "api 3", "api 7"], "exclude": ["api 3"]},
    ],
)
def test_not_all_probabilities_are_made(control, select, how):
    scores = many()
    router = Given(scores, control)
    routing = router.route("x", select=select, **how)
    scored = router.score("x", how.get("known", ()))
    assert scored.top(5)[0][1] >= routing.recipients[0].probability
    assert repr(scored).startswith("Scores(5000 APIs, best ")
    for each in (scores, scored):
        assert not {"probabilities", "order"} & set(vars(each))


def test_what_reaches_behind_the_head_is_named_when_it_is_read():
    threshold = RecallControl(np.full(50, 1e-5), np.arange(50), np.zeros(50))
    scores = many()
    routing = Given(scores, threshold).route("x", exclude=["api 4950", "api 3"])
    assert routing.n_recipients == 100 + scores.sizes[:2].sum() - 2
    assert routing.recommendation[0] == "api 4900"
    with pytest.raises(AssertionError, match="all probabilities were made"):
        routing.contractors  # noqa: B018


def test_of_few_that_reach_behind_the_head_no_others_are_recommended():
    groups = np.r_[np.zeros(20, dtype=int), np.ones(80, dtype=int)]
    head = HeadScores(
        tuple(f"api {i}" for i in range(100)),
        positions=np.arange(3),
        named=np.full(3, 0.9),
        behind=np.array([0.8, 0.7]),
        sizes=np.array([17, 80]),
        group_of=groups.take,
    )
    routing = Given(head).route("x", select=TopK(20))
    assert routing.n_recipients == len(routing.recommendation) == 20
    same(routing, Given(Scores(head.apis, head.probabilities)).route("x", select=TopK(20)))


def test_a_part_of_equals_makes_them():
    with pytest.raises(AssertionError, match="all probabilities were made"):
        Given(many()).route("x", select=TopK(101))


def test_an_array_is_split_where_it_is_long():
    rng = np.random.default_rng(0)
    p = rng.random(3000) ** 6
    scores = Scores(tuple(map(str, range(3000))), p)
    assert scores.top(100) == tuple((str(i), p[i]) for i in np.argsort(-p, kind="stable")[:100])
    assert "order" not in vars(scores)
    assert scores.head.log_none == pytest.approx(np.log1p(-p).sum(), abs=1e-9)
    level = Scores(scores.apis, np.full(3000, 0.1))
    assert level.top(2) == (("0", 0.1), ("1", 0.1))


def test_scores_of_fewer_apis_are_refused():
    with pytest.raises(InputError, match="scores are of 5000 APIs, and the router has 2"):
        Given(Scores(("a", "b"), np.ones(2))).decide("x", many())


def test_no_sum_depends_on_the_threads_of_the_linear_algebra():
    rng = np.random.default_rng(0)
    own = np.arange(3), np.array([0.9, 0.5, 0.4])
    behind, sizes = rng.random(200_000) / 1e4, rng.integers(1, 9, 200_000)

    def sums():
        head = Head(*own, behind, sizes)
        return head.mass, head.log_none, head.log_none_from(5e-5)

    found = sums()
    with threadpool_limits(1):
        assert sums() == found
