# ruff: noqa: RUF001  (the separators of other scripts)

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.text import clauses, cuts, quarters
from cnp_router.text.clauses import (
    _ASCII_SEPARATOR,
    _SEPARATOR,
    CONJUNCTIONS,
    UNSPACED_CONJUNCTIONS,
    _few_words,
    _words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Show a map. Send a mail!", "Show a map.|Send a mail!"),
        ("Show a map; send a mail", "Show a map|send a mail"),
        ("“Show a map.” Send a mail", "“Show a map.”|Send a mail"),
        ("Show a map\nSend a mail", "Show a map|Send a mail"),
        ("1. Show a map 2. Send a mail 3) Play jazz", "Show a map|Send a mail|Play jazz"),
        ("- Show a map\n - Send a mail\n* Play jazz", "Show a map|Send a mail|Play jazz"),
        ("• Show a map • Send a mail", "Show a map|Send a mail"),
        ("地図を表示して。メールを送って！音楽も", "地図を表示して。|メールを送って！音楽も"),
        ("显示地图；发送邮件", "显示地图|发送邮件"),
        ("नक्शा दिखाओ। संदेश भेजो", "नक्शा दिखाओ।|संदेश भेजो"),
        ("「地図を表示。」天気を調べて", "「地図を表示。」|天気を調べて"),
    ],
)
def test_sentences_lines_and_items_are_clauses(text, expected):
    assert clauses(text) == tuple(expected.split("|"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Show a map and send a mail", "Show a map|send a mail"),
        ("Show a map, and also send a mail", "Show a map|send a mail"),
        ("Show a map as well as mail friends", "Show a map|mail friends"),
        ("Show a map, send a mail", "Show a map|send a mail"),
        ("Zeige das Wetter und schicke Nachrichten", "Zeige das Wetter|schicke Nachrichten"),
        ("Montre la météo et envoie un message", "Montre la météo|envoie un message"),
        ("Muestra el tiempo y envía un mensaje", "Muestra el tiempo|envía un mensaje"),
        ("天気を調べて、地図に表示", "天気を調べて|地図に表示"),
        ("天気を調べてそれから地図に表示", "天気を調べて|地図に表示"),
        ("查询天气然后发送邮件", "查询天气|发送邮件"),
    ],
)
def test_conjunctions_and_commas_part_a_sentence(text, expected):
    assert clauses(text) == (text, *expected.split("|"))
    assert cuts(text) == (tuple(expected.split("|")),)


@pytest.mark.parametrize(
    "text",
    [
        "A map of Last.fm users by J. K. Rowling",
        "Rated 3.5 stars vs. 4,000 e.g. by Dr. Smith",
        "See https://a.b/c?x=1 for U.S. maps",
        "Photos with iOS 17.2, 18",
        "fish and chips",
        "black and white photos",
        "Hello. Photos",
        "雨、傘",
        "bands of the candy plant",
        "",
        " \n ",
    ],
)
def test_a_single_part_is_the_text(text):
    assert clauses(text) == (text,)
    assert cuts(text) == ()


def test_a_number_is_an_item_only_in_its_turn():
    assert clauses("Photos of iOS 17. Show park maps") == (
        "Photos of iOS 17.",
        "Show park maps",
    )


def test_what_is_too_short_stays_with_its_neighbour():
    assert clauses("Hi! Show me maps. Please. Send mails, now") == (
        "Hi! Show me maps.",
        "Please. Send mails, now",
    )


@pytest.mark.parametrize(
    "phrase",
    [p for line in UNSPACED_CONJUNCTIONS.values() for p in line.split(", ")]
    + [f" {p} " for line in CONJUNCTIONS.values() for p in line.split(", ")],
)
def test_every_conjunction_of_the_tables_parts(phrase):
    assert cuts(f"地図表示{phrase}天気予報") == (("地図表示", "天気予報"),)


def test_of_many_cuts_the_telling_ones_are_tried():
    sentences = [f"Show maps of town{i}, or lakes near town{i}." for i in range(20)]
    found = cuts(" ".join(sentences))
    assert len(found) == 6
    assert all(first.endswith(".") for first, _ in found)
    assert {first.count("or") for first, _ in found} <= set(range(7, 14))


def test_the_first_2000_characters_count():
    text = "maps of Rome " * 153 + "x" * 10 + ". Send a mail"
    assert clauses(text) == (text,)


WORDS = [
    "maps",
    "Rome",
    "天気",
    "表示して",
    "e.g.",
    "3.5",
    "İ",
    "and",
    "then",
    "as well as",
    "そして",
]
MARKS = [" ", ",", ".", "。", "、", "\n", "- ", "1.", "2)", "!", '"', "」", "•", ";", "&", "—"]
TEXTS = st.lists(st.sampled_from([*WORDS, *MARKS, " "]), max_size=40).map("".join) | st.text()
# All that may be left out between clauses.
SEPARATORS = re.compile(
    r"[\s,;；•、，､،—–*&+\-]|\(?\d{1,2}[.)]|"
    + "|".join(
        phrase
        for table in (CONJUNCTIONS, UNSPACED_CONJUNCTIONS)
        for line in table.values()
        for phrase in sorted(line.split(", "), key=len, reverse=True)
    ),
    re.IGNORECASE,
)


@given(TEXTS)
def test_pieces_are_of_the_text_and_nothing_but_separators_is_lost(text):
    parts = clauses(text)
    assert parts
    assert all(part in text for part in parts)
    end = 0  # of the text that the sentences have covered
    for part in parts:
        at = text.find(part, end)
        if at < 0:
            continue  # a part of the sentence before it
        assert not SEPARATORS.sub("", text[end:at])
        end = at + len(part)
    assert not SEPARATORS.sub("", text[end:])


@given(TEXTS)
def test_halves_are_the_ends_of_the_text(text):
    found = cuts(text)
    assert len(found) <= 6
    assert len(set(found)) == len(found)
    for first, second in found:
        assert second in text
        before, _, after = text.partition(first)
        between, _, end = after.rpartition(second)
        assert not SEPARATORS.sub("", before + between + end)
    assert [len(first) for first, _ in found] == sorted(len(first) for first, _ in found)


@pytest.mark.parametrize(
    "unit", ["a, ", "! ", "!", " ", "and ", "x.\n", "。", "1. ", "\n  -", "(", "…"]
)
def test_a_long_text_is_cut_short(unit):
    assert len(cuts(unit * 100_000 + "x")) <= 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A map of bars", ""),
        ("", ""),
        ("Show a map, and send a mail", "Show a map|send a mail"),
        ("Show a map. Send a mail. Play a song.", "Show a map.|Send a mail.|Play a song."),
        (
            "Show a map. Send a mail. Play a song, then ring a bell",
            "Show a map.|Send a mail.|Play a song|ring a bell",
        ),
    ],
)
def test_the_halves_are_halved_again(text, expected):
    assert "|".join(quarters(text)) == expected


@given(st.text(max_size=300))
def test_quarters_are_two_to_four_or_none(text):
    found = quarters(text)
    assert len(found) in (0, 2, 3, 4)
    assert all(part in text for part in found)


_BITS = st.sampled_from(
    [
        *" \n\t\x1c.!?,;-*&+()\"')]1",
        "2. ",
        "(1) ",
        "and",
        "AND ",
        "as well as",
        "y ",
        "abc",
        "x",
        ".",
    ]
)


@given(st.lists(_BITS, max_size=15).map("".join))
def test_ascii_is_divided_as_any_text(text):
    names = ("stop", "number", "word", "comma")
    of_ascii, of_any = (
        [(match.span(), *(match[name] is not None for name in names)) for match in own]
        for own in (_ASCII_SEPARATOR.finditer(text.lower()), _SEPARATOR.finditer(text))
    )
    assert of_ascii == of_any


@given(st.text(alphabet="ab the_-. 地", max_size=30))
def test_words_are_counted_no_further_than_needed(text):
    assert _few_words(text) == min(_words(text), 2)
