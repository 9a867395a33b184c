"""What is shown of tools that were called before, and what is left for the request."""

from __future__ import annotations

import asyncio

import pytest
from many_tools import many_tools

from cnp_router import Catalog, InputError, SpecificationRouter
from cnp_router.adapters import ToolChoice
from cnp_router.adapters.conversation import shown_in

APIS = many_tools(200)
INVOICES = "List the invoices and show me each one"
BEFORE = [f"feed_{colour}_heron" for colour in ("amber", "azure", "coral", "ivory", "jade")]


def shown(request, called, *, k=4, always=(), kept=()):
    choice = ToolChoice(SpecificationRouter(Catalog(APIS)), k=k, always=kept)
    return asyncio.run(shown_in(choice, request, APIS, called, always=always))


def test_half_of_the_places_are_for_what_was_called():
    plain = shown(INVOICES, [])
    assert len(plain) == 4
    assert shown(INVOICES, BEFORE) == (*plain[:2], *BEFORE[:2])
    assert shown(INVOICES, BEFORE, k=3) == (*plain[:2], BEFORE[0])
    assert shown(INVOICES, BEFORE, k=1) == plain[:1]


def test_what_the_request_does_not_need_is_for_what_was_called():
    assert shown("", BEFORE) == tuple(BEFORE[:4])
    assert shown("", BEFORE, k=1) == (BEFORE[0],)


def test_what_was_called_and_is_needed_takes_one_place():
    plain = shown(INVOICES, [])
    assert shown(INVOICES, [*plain] * 2) == plain
    assert shown(INVOICES, [plain[3], *BEFORE]) == (plain[0], plain[1], plain[3], BEFORE[0])


def test_those_that_are_always_shown_come_before_all():
    plain = shown(INVOICES, [])
    always = shown(INVOICES, BEFORE, always=[BEFORE[3]], kept=[BEFORE[4]])
    assert always == (BEFORE[4], BEFORE[3], plain[0], BEFORE[0])
    with pytest.raises(InputError, match="raise k"):
        shown(INVOICES, BEFORE, k=1, always=BEFORE[:2])


def test_a_tool_that_is_gone_is_left_out():
    assert shown("", ["gone", "feed_jade_heron"]) == ("feed_jade_heron",)
