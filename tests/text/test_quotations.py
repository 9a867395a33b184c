"""What a text quotes at length."""

from __future__ import annotations

import pytest

from cnp_router.text import clauses, without_quotations
from cnp_router.text.quotations import put_back, set_aside


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('Tell Tom: "the lights are out"', "Tell Tom: “…”"),
        ("Tell Tom 'I don't know what it's for' today", "Tell Tom “…” today"),
        ('"The lights are out." Send that to Tom', "“…” Send that to Tom"),
        ('Say "one two three four", then "one two three five"', "Say “…”, then “…”"),
        ("Run `git commit --amend --quiet` here", "Run “…” here"),
        ("Run\n```\nstart the container\nand stop it\n```\nnow", "Run\n“…”\nnow"),
        ("Übersetze „Das ist ein guter Tag“ bitte", "Übersetze “…” bitte"),
        ("Traduis « Il fait très beau » en anglais", "Traduis “…” en anglais"),
        ("「明日の会議は延期になりました」とメールして", "“…”とメールして"),
        ('Tell Tom:\n"the lights\nare out"', "Tell Tom:\n“…”"),
    ],
)
def test_what_is_quoted_at_length_goes(text, rest):
    assert without_quotations(text) == rest
    assert put_back(*set_aside(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No marks in here at all",
        'Play "Hotel California" on "Radio Paradise"',
        'A 5" screen and a 7" tablet of theirs, and a 9" one',
        "The users' wishes and the dogs' food are here",
        'It is not closed: "the lights are out',
        '" The lights are out "',
        '{"query": "show me the way home", "user":"bob is a good man"}',
        "「東京の天気」を調べて",
        "\"\" '' ``",
    ],
)
def test_what_is_no_long_quotation_stays(text):
    assert without_quotations(text) == text
    assert set_aside(text) == (text, [])


def test_a_quotation_is_not_cut_from_what_it_stands_in():
    text = 'Tell Tom: "I am late, and it rains." Then play jazz, and write "so are we, and Tom"'
    assert clauses(text, cut_quotations=False) == (
        'Tell Tom: "I am late, and it rains." Then play jazz, and write "so are we, and Tom"',
        'Tell Tom: "I am late, and it rains."',
        "play jazz",
        'write "so are we, and Tom"',
    )
    cut = clauses('Write: "I am late, and it rains a lot"')
    assert cut[1:] == ('Write: "I am late', 'it rains a lot"')
    whole = '"I am late, and it rains a lot"'
    assert clauses(whole, cut_quotations=False) == clauses(whole)
