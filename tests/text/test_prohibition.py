"""Requests that say what is not to be done."""

from __future__ import annotations

from unicodedata import normalize

import pytest

from cnp_router.text.prohibition import forbids, objection, only_asks, only_tells


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
        "Hi Ann\ndon't dump it",
        "Also do  not dump it",
        "Don\u2018t dump it",
        "Don\u00b4t dump it",
        "You can't dump it",
        "Let's not dump it",
        "It must never be dumped",
        "I do not want you to dump it",
        "Nobody should dump it",
        "Dump everything, not batch 17",
        "Dump it in case it is sour",
        "Dump it once the lab confirms that",
        "Wenn es regnet, dump it",
        "Remember to never dump it",
        "I want you to never dump it",
        "Ann says do not dump it",
        "Please avoid dumping it",
        "You should refrain from dumping it",
        "When it rains, dump it",
        "Prevent the tank from being opened",
        "Please keep the tank from opening",
        "Lock the tank, and stop it from opening",
        "It would be a mistake to open the tank",
        "Wait for the sunset, then open the tank",
        "Should it rain, dump it",
        "Dump it only on Mondays",
        normalize("NFD", "não: dump batch 17"),
        "Dump batch 17. " * 900 + "No: do not dump it.",
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
        'Reserve "If Not Now, When?"',
        "Post the message 'do not come' to the channel",
        "Don't forget to clean the tank",
        "Clean the tank without delay, even if it is full",
        "Find a way that avoids tolls",
        "Tell me when it rains",
        "Find out when the bus comes and text it to Ann",
        "Clean the tank without further ado",
        "Not to worry, clean the tank",
        "Kein Problem, das Bad putzen",
        "Order food that keeps fish from dying",
        "Stop the transfer from the bank",
        "Keep the letters from Ann, and send them on",
        "Buy a ticket and wait for the bus",
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
        "Hi Ann,\nwho deleted entry 5?\nBest, Bob",
        "Can I delete it?",
        "Show me who deleted entry 5",
        "Could you please tell us when it was deleted?",
        "Check whether entry 5 is deleted.",
        "Test whether you can delete entry 5",
        "Check that entry 5 is deleted.",
        "Do I need to clean the tank?",
        "Was it deleted?",
        "¿Qué borramos?",
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
        "Tell Ann when the bus comes",
        "Tell me what it is, and delete it",
        "See to it that the tank is cleaned",
        "Check what entry 5 is and delete it",
        "I want to clean the tank, ok?",
        "I'd like the tank cleaned?",
        "Please delete entry 5",
        "What is the time? Write it to Ann.",
        "Have the car washed",
        "What a pity, delete entry 5",
        "Where possible, delete it",
        "How about we delete it?",
        "Why not delete it?",
        "Do you mind deleting it?",
        "Is it possible to delete it?",
        "Kannst du es löschen?",
    ],
)
def test_what_may_be_an_order(text):
    assert not only_asks(text)


@pytest.mark.parametrize(
    "text",
    [
        "We dumped batch 17 yesterday",
        "I've already refunded order 5.",
        "Hello Ann,\nI have finally cancelled the trip. Was that right?\nBest, Bob",
        "Batch 17 was dumped by Ann",
        "My colleague deleted entry 5 last week.",
        "My flight to Rome has been cancelled!",
        "The entries of last week were already deleted",
        "Der Termin wurde abgesagt.",
        "La commande a été annulée",
    ],
)
def test_what_only_tells(text):
    assert only_tells(text)
    assert objection(text, "writes")
    assert not objection(text, "unknown")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Who deleted it?",
        "I need entry 5 deleted",
        "I wanted to cancel order 5",
        "We feed the fish at nine",
        "I finished: delete entry 5",
        "We dumped batch 17, mark it as dumped",
        "We cancelled the trip so refund order 5",
        "Delete the entry that was added yesterday",
        "The entry that was added yesterday should be deleted",
        "Archive all orders that were refunded",
        "My flight was cancelled. Book another one.",
        "My flight was cancelled and I need another one",
        "Get scheduled visits",
        "You deleted it by mistake, please restore it",
        "Order 5 was wrong",
        "Refund what was paid",
    ],
)
def test_what_tells_and_may_order(text):
    assert not only_tells(text)
