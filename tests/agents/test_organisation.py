"""How APIs are organised into contractors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import planted

from cnp_router.agents import organise
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError
from cnp_router.graph import TransitionGraph
from cnp_router.history import History, Mashup

WAYS = ["api", "category", "community", "size"]
NAMES = ["Mapping", "Mapping (1)", "Mapping (2)", "(no category)", "", " ", "category: Mapping"]


def held(contractors):
    return [[api.id for api in contractor.apis] for contractor in contractors]


@given(
    categories=st.lists(
        st.lists(st.sampled_from(NAMES), max_size=2, unique=True), min_size=1, max_size=12
    ),
    pairs=st.lists(st.sets(st.integers(0, 14), min_size=1, max_size=3), max_size=6),
    by=st.sampled_from(WAYS),
    max_size=st.sampled_from([None, 1, 2, 5]),
)
def test_each_api_is_held_by_exactly_one(categories, pairs, by, max_size):
    catalog = Catalog(Api(f"a{i}", "A", "", tuple(names)) for i, names in enumerate(categories))
    mashups = [Mashup("m0", "x", ("a0",))]  # others may name APIs that the catalog does not have
    mashups += [
        Mashup(f"m{i}", "x", tuple(f"a{n}" for n in sorted(pair)))
        for i, pair in enumerate(pairs, 1)
    ]
    graph = TransitionGraph().fit(History(mashups))
    if by == "size" and max_size is None:
        max_size = 3
    contractors = organise(catalog, by, graph=graph, max_size=max_size)
    ids = [api.id for contractor in contractors for api in contractor.apis]
    assert sorted(ids) == sorted(catalog.ids)
    assert len({contractor.id for contractor in contractors}) == len(contractors)
    if max_size is not None:
        assert max(len(contractor.apis) for contractor in contractors) <= max_size
    assert organise(catalog, by, graph=graph, max_size=max_size) == contractors


def test_one_each(catalog):
    contractors = organise(catalog)
    assert [c.id for c in contractors] == list(catalog.ids)
    assert held(contractors) == [[name] for name in catalog.ids]


def test_by_category(catalog):
    contractors = organise(catalog, "category")
    assert {c.id: [api.id for api in c.apis] for c in contractors} == {
        "category: Science": ["weather", "tides"],
        "category: Mapping": ["maps"],
        "category: Messaging": ["sms", "mail"],
    }
    assert held(organise(catalog, "category", max_size=1)) == [
        ["weather"],
        ["tides"],
        ["maps"],
        ["sms"],
        ["mail"],
    ]


def test_a_category_that_is_called_as_a_part_of_another():
    names = ["Mapping", "Mapping", "Mapping", "Mapping (1)"]
    catalog = Catalog(Api(f"a{i}", "A", "", (name,)) for i, name in enumerate(names))
    contractors = organise(catalog, "category", max_size=2)
    assert held(contractors) == [["a0", "a1"], ["a2"], ["a3"]]
    assert len({contractor.id for contractor in contractors}) == 3


def test_by_size(catalog):
    contractors = organise(catalog, "size", max_size=2)
    assert held(contractors) == [["weather", "tides"], ["maps", "sms"], ["mail"]]


def test_planted_cliques_are_found():
    world = planted(n_cliques=5, size=4, rounds=3)
    lonely = Api("lonely", "Lonely", "", ("Alone",))
    catalog = world.catalog.extended([lonely])
    graph = TransitionGraph().fit(world.history)
    contractors = organise(catalog, "community", graph=graph)
    cliques = {frozenset(case.clique) for case in world.cases}
    found = {frozenset(api.id for api in c.apis) for c in contractors}
    assert found == cliques | {frozenset({"lonely"})}
    assert {c.id for c in contractors if len(c.apis) == 4} == {
        f"community {i}" for i in range(1, 6)
    }
    assert contractors[-1].id == "category: Alone"
    halves = organise(catalog, "community", graph=graph, max_size=2)
    assert all(any(set(ids) <= clique for clique in found) for ids in held(halves))


def test_communities_follow_co_usage_and_not_categories(catalog, history):
    graph = TransitionGraph().fit(history)
    contractors = organise(catalog, "community", graph=graph)
    assert contractors[-1].id == "category: Science"
    assert held(contractors)[-1] == ["tides"]  # never used


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "name"}, r"unknown organisation 'name' \(use one of 'api', 'category'"),
        ({"by": "size"}, r"organising by size needs the size \(give max_size, or --max-size\)"),
        ({"by": "community"}, r"needs a fitted transition graph \(give graph\)"),
        ({"max_size": 0}, "max_size must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_organised(catalog, options, message):
    with pytest.raises(InputError, match=message):
        organise(catalog, **options)
