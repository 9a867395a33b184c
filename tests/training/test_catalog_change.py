"""What became of each API of a catalog."""

from __future__ import annotations

import numpy as np
import pytest

from cnp_router import Api, Catalog
from cnp_router.training.catalog_change import CatalogChange

APIS = {name: Api(name, name.upper()) for name in "abc"} | {"B": Api("b", "Another name")}


def change(before: str, now: str) -> CatalogChange:
    return CatalogChange.between(*(Catalog(APIS[name] for name in own) for own in (before, now)))


@pytest.mark.parametrize(
    ("before", "now", "only_grows", "respecified", "removed"),
    [
        ("ab", "abc", True, [False, False, True], []),
        ("ab", "ab", True, [False, False], []),
        ("ab", "bac", False, [False, False, True], []),
        ("ab", "acb", False, [False, True, False], []),
        ("a", "ca", False, [True, False], []),
        ("ab", "a", False, [False], [1]),
        ("abc", "ca", False, [False, False], [1]),
        ("ab", "aBc", False, [False, True, True], []),
    ],
)
def test_what_became_of_each(before, now, only_grows, respecified, removed):
    found = change(before, now)
    assert found.only_grows is only_grows
    assert found.respecified.tolist() == respecified
    assert np.flatnonzero(found.removed).tolist() == removed
    assert found.added.tolist() == [y.lower() not in before for y in now]
    same = [[x.lower() == y.lower() for y in now] for x in before]
    assert found.apis.toarray().tolist() == same


def test_what_both_share_without_looking_does_not_change():
    before = Catalog(APIS[name] for name in "ab")
    found = CatalogChange.between(before, before.extended([APIS["c"]]))
    assert found.only_grows and found.respecified.tolist() == [False, False, True]
