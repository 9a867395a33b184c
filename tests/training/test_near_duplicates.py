"""Requests that say the same as others, but for a name or a day."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cnp_router import Api, Catalog, History, Mashup, fit_router
from cnp_router.training.near_duplicates import NearDuplicates
from cnp_router.training.splits import (
    FEW,
    MAX_EXAMPLES,
    N_RANDOM,
    Said,
    asking_again,
    random_splits,
)

PEOPLE = ["Ann", "Bob", "Cem", "Dora", "Emil", "Fay", "Gus", "Hana", "Ida", "Jo"]
DAYS = ["Monday", "Tuesday", "Friday", "May 4", "tomorrow", "the 3rd"]
SAID = {
    "mail": ["mail the plan to {p} on {d}", "let {p} know in writing that it is done {d}"],
    "calendar": ["put a meeting with {p} on {d}", "book an hour for {p}, {d} is best"],
    "weather": ["will it rain when {p} comes {d}", "does {p} need an umbrella {d}"],
    "taxi": ["get a cab for {p} {d}", "have {p} picked up at the station {d}"],
    "notes": ["write down that {p} likes tea, {d}", "remember what {p} told me {d}"],
    "music": ["play something that {p} would dance to {d}", "songs of {p} for {d}, please"],
}
CATALOG = Catalog(
    Api(*own)
    for own in [
        ("mail", "Mail", "Sends email to people."),
        ("calendar", "Calendar", "Creates and lists appointments."),
        ("weather", "Weather", "Forecasts rain, wind and temperature."),
        ("taxi", "Taxi", "Orders a taxi to an address."),
        ("notes", "Notes", "Keeps notes and finds them."),
        ("music", "Music", "Plays songs and albums."),
    ]
)


def past(n_patterns=12, each=60):
    """Return requests, of which as many say the same about someone else, or on another day."""
    patterns = [(api, text) for api, texts in SAID.items() for text in texts][:n_patterns]
    slots = [(p, d) for p in PEOPLE for d in DAYS][:each]
    return [(text.format(p=p, d=d), api) for p, d in slots for api, text in patterns]


def n_groups(near):
    return len(np.unique(near.group))


def history(asked):
    return History(Mashup(str(i), text, (api,)) for i, (text, api) in enumerate(asked))


def said_by(asked):
    return Said.of([text for text, _ in asked], [(api,) for _, api in asked])


def check_that_none_is_apart(said):
    others = NearDuplicates([f"{row}x" for row in np.unique(said.text)])
    unlike = replace(said, near=others)
    plain = random_splits(unlike, 40, dated=False, random_state=0)
    found = random_splits(said, 40, dated=False, random_state=0)
    for own, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(own.train, other.train)
        np.testing.assert_array_equal(own.asked, other.asked)


def test_a_group_has_one_pattern():
    asked = past()
    group = NearDuplicates([text for text, _ in asked]).group
    for leader in np.unique(group):
        patterns = {row % 12 for row in np.flatnonzero(group == leader)}
        assert len(patterns) == 1
    assert 12 <= len(np.unique(group)) <= 60
    np.testing.assert_array_equal(group[group], group)


def test_names_that_few_say_part_no_group():
    """The longer a log, the more different names are in it, and the rarer is each."""
    names = [f"{a}{b}{c}" for a in "bdfglm" for b in "aeiou" for c in "klnrst"]
    patterns = [text for texts in SAID.values() for text in texts]
    texts = [text.format(p=p, d=DAYS[n % 6]) for n, p in enumerate(names) for text in patterns]
    assert len(patterns) <= n_groups(NearDuplicates(texts)) <= 2 * len(patterns)


def test_what_asks_for_something_else_too_is_like_what_asks_for_the_one_thing():
    texts = ["mail it to Ann", "mail it to Bob, then get me a cab to the old station at nine"]
    found = NearDuplicates([*texts, "will it rain"])
    assert found.group.tolist() == [0, 1, 2]
    assert found.like([0]).tolist() == [True, True, False]
    assert found.like([1]).tolist() == [False, True, False]


def test_what_is_like_a_text_is_also_in_other_groups():
    texts = ["mail it to Ann", "mail it to Ann, get me a cab", "get me a cab", "will it rain"]
    found = NearDuplicates(texts)
    assert found.group.tolist() == [0, 0, 2, 3]
    assert found.like([1]).tolist() == [True, True, True, False]
    assert not found.like([]).any()


@pytest.mark.parametrize("texts", [[], ["!"], ["", "?", "!"]])
def test_texts_without_words_are_like_no_others(texts):
    found = NearDuplicates(texts)
    assert found.group.tolist() == list(range(len(texts)))
    assert found.like([0][: len(texts)]).tolist() == [True, False, False][: len(texts)]


def test_as_many_folds_as_texts_know_nothing_that_is_like_what_they_ask():
    asked = past()
    said = said_by(asked)
    splits = random_splits(said, len(CATALOG), dated=False, random_state=0)
    texts = [text for text, _ in asked]
    near = NearDuplicates(texts)
    apart = [not near.like(split.asked)[split.train].any() for split in splits]
    assert n_groups(near) < len(texts) / 10
    assert sum(apart) == N_RANDOM - 1
    for split in splits:
        assert len(split.train)
        assert not set(split.train) & set(split.asked)


def test_of_a_long_history_all_folds_know_nothing_that_is_like_what_most_of_them_ask():
    patterns = [(api, text) for api, texts in SAID.items() for text in texts]
    asked = [
        (text.format(p=f"{p} {k}", d=f"{d} at {hour}"), api)
        for k in range(10)
        for hour in range(3)
        for p in PEOPLE
        for d in DAYS
        for api, text in patterns
    ]
    said = said_by(asked)
    assert len(asked) > FEW
    splits = random_splits(said, len(CATALOG), dated=False, random_state=0)
    assert len({id(split.train) for split in splits}) == 1
    apart = [not said.near.like(split.asked)[split.train].any() for split in splits]
    assert apart == [True, True, False, True, True]
    assert MAX_EXAMPLES / 2 < sum(len(split.asked) for split in splits) <= MAX_EXAMPLES
    known = set(splits[0].train.tolist())
    assert not known.intersection(*(split.asked.tolist() for split in splits))
    needed = {asked[row][1] for split in splits for row in split.asked.tolist()}
    assert needed == {asked[row][1] for row in known} and len(needed) == len(SAID) - 1
    again = asking_again(splits, said, random_state=0)
    assert len(again) == len(splits)


def test_the_more_is_nearly_the_same_the_more_folds_are_apart():
    other = [(" ".join(f"{i}x{k}" for k in range(9)), "mail") for i in range(600)]
    asked = [*past(), *other][120:]
    said = said_by(asked)
    splits = random_splits(said, len(CATALOG), dated=False, random_state=0)
    near = NearDuplicates([text for text, _ in asked])
    apart = [not near.like(split.asked)[split.train].any() for split in splits]
    assert 0.45 < 1 - n_groups(near) / len(asked) < 0.5
    assert apart == [False, True, False, True, False]


def test_where_nothing_is_nearly_the_same_folds_are_as_they_were():
    texts = [" ".join(f"{i}x{k}" for k in range(9)) for i in range(30)]
    said = said_by([(text, "mail") for text in texts])
    check_that_none_is_apart(said)


def test_where_nothing_else_is_known_of_an_api_none_is_apart():
    """A pattern a tool: without it, the fold would tell what a tool that nobody used is like."""
    asked = [own for place, own in enumerate(past()) if place % 2 == 0]
    said = said_by(asked)
    assert n_groups(said.near) < len(asked) / 10
    check_that_none_is_apart(said)


def test_what_is_asked_apart_needs_nothing_that_is_not_known():
    asked = past()
    said = said_by(asked)
    for split in random_splits(said, 40, dated=False, random_state=0):
        assert {asked[row][1] for row in split.asked} <= {asked[row][1] for row in split.train}


def test_with_fewer_patterns_than_folds_none_is_apart():
    said = said_by(past(2, 60))
    splits = random_splits(said, 40, dated=False, random_state=0)
    asked = np.sort(np.concatenate([split.asked for split in splits]))
    assert asked.tolist() == list(range(120))


def test_what_is_like_no_past_request_gets_no_high_probability():
    """.36 to .76 of what nothing speaks for, while folds had met nothing but the nearly same."""
    router = fit_router(CATALOG, history(past(each=10)))
    for text in (
        "Drop Lena a line about the invoice",
        "Is the afternoon still free for a call with Kim?",
        "Is a storm coming up over the lake?",
        "Lena needs a ride to the airport",
    ):
        assert router.score(text).probabilities.max() < 0.2
    for text, api in past(each=7)[-12:]:
        assert router.recommend(text.replace("Bob", "Zoe")) == (api,)


def test_where_all_is_nearly_the_same_it_is_still_known():
    router = fit_router(CATALOG, history(past()))
    for text, api in past(each=7)[-12:]:
        assert router.recommend(text.replace("Bob", "Zoe")) == (api,)
