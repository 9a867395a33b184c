from __future__ import annotations

import datetime

import pytest
from planted import planted

from cnp_router.evaluation import evaluate_completion
from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup
from cnp_router.training import fit_router


@pytest.fixture(scope="module")
def world():
    return planted(n_cliques=6, size=4, rounds=4)


@pytest.fixture(scope="module")
def router(world):
    return fit_router(world.catalog, world.history)


@pytest.fixture(scope="module")
def held_out(world):
    return History(
        Mashup(f"new-{i}", case.request, case.clique) for i, case in enumerate(world.cases)
    )


def test_the_text_knows_the_clique_and_the_known_apis_tell_which(router, held_out):
    found = evaluate_completion(router, held_out)
    assert found.requests == len(held_out)
    # Without the three others only the hidden one is left of the clique.
    for figures in (found.text, found.graph, found.both):
        assert list(figures) == ["hit@1", "hit@5", "hit@10"]
        assert figures["hit@1"] > 0.9


def test_a_request_that_says_nothing_leaves_it_to_the_known_apis(router, world):
    blank = History(Mashup(f"m{i}", "?", case.clique) for i, case in enumerate(world.cases))
    found = evaluate_completion(router, blank)
    assert found.text["hit@1"] < 0.2
    assert found.graph["hit@1"] > 0.9
    assert found.both["hit@1"] > found.text["hit@1"] + 0.3


def test_the_graph_finds_nothing_where_nothing_was_used_together(router, world):
    strangers = (world.cases[0].clique[0], world.cases[-1].clique[0])
    found = evaluate_completion(router, History([Mashup("m", world.cases[0].request, strangers)]))
    assert found.graph == {"hit@1": 0, "hit@5": 0, "hit@10": 0}


def test_without_a_history_the_graph_finds_nothing(world, held_out):
    found = evaluate_completion(fit_router(world.catalog), held_out)
    assert found.requests == len(held_out)
    assert found.graph == {"hit@1": 0, "hit@5": 0, "hit@10": 0}
    assert found.text["hit@10"] > 0


def test_the_missing_api_is_looked_for_as_of_the_date(router, world, monkeypatch):
    day, asked = datetime.date(2012, 2, 29), []
    score = type(router).score

    def recorded(self, request, known=(), *, date=None):
        asked.append(date)
        return score(self, request, known, date=date)

    monkeypatch.setattr(type(router), "score", recorded)
    case = world.cases[0]
    one = History([Mashup("m", case.request, case.clique, date=day)])
    evaluate_completion(router, one)
    assert asked == [day, day]
    asked.clear()
    evaluate_completion(router, one, dated=False)
    assert asked == [None, None]


def test_only_mashups_of_several_known_apis_count(router, held_out, world):
    one, other = world.cases[0].clique[:2]
    more = [
        Mashup("single", "x", (one,)),
        Mashup("twice", "x", (one, one)),
        Mashup("unknown", "x", (one, "no-such-api")),
        Mashup("pair", "x", (one, other, one)),
    ]
    found = evaluate_completion(router, History([*held_out, *more]))
    assert found.requests == len(held_out) + 1


def test_nothing_to_complete(router, world):
    found = evaluate_completion(router, History([Mashup("m", "x", world.cases[0].clique[:1])]))
    nothing = {"hit@1": None, "hit@5": None, "hit@10": None}
    assert found.to_dict() == {
        "requests": 0,
        "text": nothing,
        "graph": nothing,
        "both": nothing,
    }


def test_the_seed_decides_what_is_hidden(router, world):
    """Text that is about one of two APIs finds that one only: which is asked, the seed decides."""
    first, last = world.cases[0], world.cases[-1]
    mixed = History(
        Mashup(f"m{i}", first.request, (first.clique[0], last.clique[0])) for i in range(30)
    )
    hits = [evaluate_completion(router, mixed, seed=s).text["hit@5"] for s in (0, 0, 1, 2)]
    assert hits[0] == hits[1]
    assert len(set(hits)) > 1


def test_workers_answer_the_same(router, held_out):
    assert evaluate_completion(router, held_out, n_jobs=2) == evaluate_completion(router, held_out)


@pytest.mark.parametrize("seed", [-1, 0.5, "0", True])
def test_a_seed_that_is_none(router, held_out, seed):
    with pytest.raises(InputError, match="seed must be a whole number of at least 0, got"):
        evaluate_completion(router, held_out, seed=seed)
