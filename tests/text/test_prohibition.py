"""Requests that say what is not to be done."""

from __future__ import annotations

import pytest

from cnp_router.text.prohibition import forbids


@pytest.mark.parametrize(
    "text",
    [
        "Do not delete entry 5.",
        "Please don't text the owner",
        "Don\u2019t call him; write",
        "Never pay money back to a customer, amount: 500",
        "Write it in the file and do not text the owner.",
        "You must not order a pilot.",
        "Delete all entries but number 5",
        "Remove everything except the logo",
        "Write to Bob instead of Ann",
        "Order lunch, but you mustn't pay",
        "The owner may not be told",
        "Nothing shall be sent: it should not leave the office",
        "Under no circumstances call him",
        "By no means call him",
        "Remove everything apart from the logo",
        "Tell nobody but Ann",
        "Write it down so never call him",
        "Book a tour, just don't pay",
    ],
)
def test_what_forbids(text):
    assert forbids(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Delete entry 5.",
        "The printer does not work: open a ticket.",
        "I have never been there, book a tour",
        "Tell Bob that I do not come",
        "I like all of it, but send a draft first",
    ],
)
def test_what_does_not(text):
    assert not forbids(text)
