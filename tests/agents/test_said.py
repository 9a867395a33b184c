"""The values that stand in a text, and what stands beside them."""

from __future__ import annotations

import pytest

from cnp_router.agents.said import Said


def values(text, kind):
    return [value.value for value in Said(text).of(kind)]


@pytest.mark.parametrize(
    ("text", "kind", "inside"),
    [
        ("Get https://a.example/a.txt or https://b.example/b.txt", "url", "path"),
        ("Get https://a.example/2024-01-05/at/12:30/b.txt", "url", "date time path number"),
        ("Write to ann.5@mail.example.org", "email", "path number"),
        ("Be there on 2024-01-05 12:30", "datetime", "date time number"),
        ("Save it in /tmp/2/notes.txt", "path", "number"),
    ],
)
def test_what_stands_within_a_value_is_none_of_another_kind(text, kind, inside):
    assert values(text, kind)
    assert [values(text, other) for other in inside.split()] == [[]] * len(inside.split())


def test_what_only_looks_like_a_day_is_none():
    assert values("On 2024-02-30, 2024-02-29 or 2024-13-01", "date") == ["2024-02-29"]
    assert values("At 2024-02-29T25:00 or 2024-02-29T23:00:59Z", "datetime") == [
        "2024-02-29T23:00:59Z"
    ]


def test_a_time_may_have_seconds():
    assert values("Between 9:05 and 12:30:15.", "time") == ["9:05", "12:30:15"]


def test_numbers_may_be_negative_and_have_a_point():
    assert values("It is -4 degrees here, and 2.5 there", "number") == [-4, 2.5]
    assert values("The one of v2 is none", "number") == []


@pytest.mark.parametrize(
    "text", ["Connect to 10.0.0.5", "Install version 1.2.3", "Open 24/7", "Since 5.1.2024"]
)
def test_a_part_of_something_longer_is_no_number(text):
    assert values(text, "number") == []


def test_a_number_of_very_many_digits_is_none():
    assert values("Card 4111111111111111", "number") == []


@pytest.mark.parametrize("joined", ["3 and 5", "3 to 5", "3 until 5", "3, 5", "3-5", "3 or 5"])
def test_one_of_several_numbers_is_of_no_word(joined):
    assert [number.of for number in Said(f"Book room {joined} days").of("number")] == [(), ()]


def test_what_a_number_is_of_stands_beside_it_however_long_the_text():
    long = " and the guests come back from the beach at noon" * 3
    for text in (f"Room 5 is cold{long}", f"The rest is easy{long}: room 5 is cold"):
        (number,) = Said(text).of("number")
        assert (number.value, number.before, number.of) == (5, "room", ("room", "is"))


def test_the_word_before_is_in_lower_case():
    assert [value.before for value in Said("FROM Asia/Tokyo To Asia/Seoul").of("zone")] == [
        "from",
        "to",
    ]


def test_words_stand_in_a_text_whole_and_in_any_case():
    said = Said("Tell the Asian office in ASIA MINOR.")
    assert said.has("asia minor") and said.has("asia") and said.has("office")
    assert not said.has("off") and not said.has("ice") and not Said("Asian").has("Asia")
