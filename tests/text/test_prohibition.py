"""Requests that say what is not to be done."""

from __future__ import annotations

import pytest

from cnp_router.text.prohibition import forbids, only_asks


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
        "No need to delete entry 5",
        "Tell the owner not to cancel it",
        "Void it unless it is paid",
        "Refund it if it is unpaid",
        "Eintrag 5 nicht löschen",
        "Lösche keinen Eintrag",
        "Ne supprimez pas le patient 17",
        "N'effacez rien",
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
        "Delete entry 5 if possible, or if you can today",
    ],
)
def test_what_does_not(text):
    assert not forbids(text)


@pytest.mark.parametrize(
    "text",
    [
        "Who deleted entry 5",
        "Did we delete entry 5?",
        "How do I delete it? And when?",
        "Do you send letters?",
        "Wer hat Eintrag 5 gelöscht?",
    ],
)
def test_what_only_asks(text):
    assert only_asks(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ?",
        "Could you delete entry 5?",
        "Do the dishes",
        "Please delete entry 5",
        "What is the time? Write it to Ann.",
        "Have the car washed",
    ],
)
def test_what_may_be_an_order(text):
    assert not only_asks(text)
