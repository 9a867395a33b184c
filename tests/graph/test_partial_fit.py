from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import UnknownApiError
from cnp_router.graph import TransitionGraph
from cnp_router.history import History, Mashup

IDS = ("mail", "maps", "photos", "sms", "weather")
CATALOG = Catalog(Api(name, name) for name in IDS)

mashups = st.lists(
    st.tuples(st.lists(st.sampled_from(IDS), min_size=1, max_size=5), st.booleans()),
    min_size=1,
    max_size=8,
)


def history(parts, start=0):
    return History(
        Mashup(f"m{i}", "text", tuple(apis), ordered=ordered)
        for i, (apis, ordered) in enumerate(parts, start)
    )


@given(first=mashups, more=mashups, smoothing=st.sampled_from([0.0, 2.0]))
def test_it_is_as_if_fitted_on_all_at_once(first, more, smoothing):
    at_once = TransitionGraph(smoothing=smoothing).fit(history([*first, *more]), CATALOG)
    bit_by_bit = TransitionGraph(smoothing=smoothing).fit(history(first), CATALOG)
    bit_by_bit.partial_fit(history(more, start=len(first)))
    assert bit_by_bit.n_mashups_ == at_once.n_mashups_
    for name in ("usage_", "trust_", "prior_", "tie_ranks"):
        np.testing.assert_array_equal(getattr(bit_by_bit, name), getattr(at_once, name))
    for name in ("co_usage_", "transitions_", "edges_", "transition_"):
        found, wanted = getattr(bit_by_bit, name), getattr(at_once, name)
        np.testing.assert_array_equal(found.toarray(), wanted.toarray())
    for known in IDS:
        assert bit_by_bit.predict_next([known]) == at_once.predict_next([known])


def test_without_a_catalog_new_apis_are_added():
    graph = TransitionGraph().fit(history([(["maps", "sms"], False)]))
    graph.partial_fit(history([(["maps", "zoo", "atlas"], False)], start=1))
    assert graph.apis_ == ("maps", "sms", "atlas", "zoo")
    assert graph.usage_.tolist() == [2, 1, 1, 1]
    assert {n.api for n in graph.predict_next(["zoo"])} == {"maps", "atlas"}


def test_an_unknown_api_changes_nothing():
    graph = TransitionGraph().fit(history([(["maps", "sms"], False)]), CATALOG)
    with pytest.raises(UnknownApiError, match="did you mean 'maps'"):
        graph.partial_fit(history([(["sms", "mail"], False), (["mapz"], False)]))
    assert (graph.n_mashups_, graph.usage_.sum()) == (1, 2)


def test_an_unfitted_graph_is_fitted():
    assert TransitionGraph().partial_fit(history([(["maps"], False)])).n_mashups_ == 1


def test_a_directed_graph_takes_mashups_without_order():
    graph = TransitionGraph(directed=True).fit(history([(["maps", "sms"], True)]))
    graph.partial_fit(history([(["sms", "maps"], False)], start=1))
    assert graph.transitions_.sum() == 1
    assert graph.n_mashups_ == 2
