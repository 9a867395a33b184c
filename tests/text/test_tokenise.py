from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnp_router.catalog import Api, Catalog
from cnp_router.routing import SpecificationRouter
from cnp_router.text import STOP_WORDS, content_words, pieces, singular, split_identifier, words
from cnp_router.text.tokenise import character_grams, standing_words, word_grams


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("get_weather_v2", "get_weather_v2 get weather v2"),
        ("readFile", "readfile read file"),
        ("HTTPServer2", "httpserver2 http server 2"),
        ("getHTTPResponse", "gethttpresponse get http response"),
        ("server__read_file", "server__read_file server read file"),
        ("__init__", "init"),
        ("READ_FILE", "read_file read file"),
        ("Last.fm and read-file", "last fm and read file"),
        ("k8s v2 s3", "k8s v2 s3"),
        ("_ __ !", ""),
    ],
)
def test_an_identifier_gives_its_words_and_the_whole(text, expected):
    assert words(text) == tuple(expected.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("地図に天気を表示", "地図 図に に天 天気 気を を表 表示"),
        ("天気API", "天気 api"),
        ("サーバー", "サー ーバ バー"),
        ("雨", "雨"),
        ("ｶﾒﾗ", "カメ メラ"),
        ("ไทย", "ไท ทย"),
        ("น้ำ", "น้ ้ํ ํา"),
        ("날씨 지도", "날씨 지도"),
        ("मौसम का नक्शा", "मौसम का नक्शा"),
        ("погода на карте", "погода на карте"),
        ("o\u0323\u0300ro\u0323\u0300 a\u0300wo", "\u1ecd\u0300r\u1ecd\u0300 \u00e0wo"),
        ("\u0645\u064f\u062f\u064e\u0631", "\u0645\u064f\u062f\u064e\u0631"),
        ("\u05de\u05b6\u05dc\u05b6\u05da", "\u05de\u05b6\u05dc\u05b6\u05da"),
        ("\u0f66\u0f90\u0f51", "\u0f66\u0f90\u0f51"),
        ("it\u00b4s \u02dcso", "it s so"),  # an accent alone
    ],
)
def test_a_script_without_spaces_gives_its_pairs_of_characters(text, expected):
    assert words(text) == tuple(expected.split())


def test_a_request_in_japanese_shares_words_with_a_specification():
    """A whole clause was one word, which no other text says."""
    catalog = Catalog(
        [Api("a", "A", "音楽を再生するサービス"), Api("b", "B", "世界の天気予報を提供する")]
    )
    router = SpecificationRouter(catalog)
    assert router.route("明日の天気を知りたい").contractors[0] == "b"


def test_a_request_in_prose_shares_words_with_an_identifier():
    catalog = Catalog([Api("a", "play_song_v2", "?"), Api("b", "readFile", "?")])
    router = SpecificationRouter(catalog)
    assert router.route("please read the file").contractors[0] == "b"
    assert router.route("play a song").contractors[0] == "a"


@settings(max_examples=60)
@given(st.text(max_size=60))
def test_words_of_any_text(text):
    for word in words(text):
        assert word and not word.isspace()
        assert word == word.lower() == word.strip("_")
    assert set(content_words(text)) <= {singular(word) for word in words(text)}
    assert all("_" not in piece and piece == piece.lower() for piece in pieces(text))
    single = {gram for gram in word_grams(text) if " " not in gram}
    assert set(map(singular, standing_words(text))) <= single <= set(map(singular, words(text)))
    assert all(3 <= len(gram) <= 5 for gram in character_grams(text))


def test_pairs_stay_within_a_text_or_within_an_identifier():
    grams = list(word_grams("Call readFile now"))
    assert grams[:5] == ["call", "readfile", "now", "read", "file"]
    assert grams[5:] == ["call readfile", "readfile now", "read file"]


def test_stop_words_are_no_terms():
    assert list(word_grams("Please help me to find a map of the parks")) == [
        *("find", "map", "park"),
        *("find map", "map park"),
    ]
    assert not list(character_grams("please help me with this"))


@pytest.mark.parametrize("brand", ["YouTube", "SoundCloud", "eBay"])
def test_the_parts_of_a_brand_count_together_only(brand):
    apart = " ".join(words(brand)[1:])
    assert set(word_grams(brand)) == {brand.lower(), apart}
    told_apart = set(word_grams(split_identifier(brand)))
    assert apart in told_apart or STOP_WORDS & set(apart.split())


@pytest.mark.parametrize(
    ("compound", "expected"),
    [
        ("getWeatherAlerts", "get Weather Alerts"),
        ("YouTube", "You Tube"),
        ("HTTP2", "HTTP 2"),
        ("snake_case", "snake case"),
        ("", ""),
    ],
)
def test_split_identifier(compound, expected):
    assert split_identifier(compound) == expected


@pytest.mark.parametrize("name", ["YouTube Data", "get_weather_v2", "天気予報", "Last.fm"])
def test_the_pieces_of_a_name_are_the_name_however_it_is_written(name):
    joined = "".join(pieces(name))
    assert joined == "".join(pieces(split_identifier(name))) == "".join(pieces(name.upper()))


@pytest.mark.parametrize("word", ["s", "as", "bus", "gas", "pass", "news", "", "ies"])
def test_singular_never_empties_a_word(word):
    assert len(singular(word)) >= min(len(word), 2)


class TestStopWords:
    def test_they_are_as_the_words_of_a_text_are(self):
        assert all(words(word) == (word,) for word in STOP_WORDS)

    @pytest.mark.parametrize("word", ["the", "of", "please", "want", "looking", "i"])
    def test_function_words_and_those_of_asking(self, word):
        assert word in STOP_WORDS

    @pytest.mark.parametrize(
        "word", ["find", "search", "send", "list", "create", "weather", "translate", "read"]
    )
    def test_what_apis_do_is_none(self, word):
        assert word not in STOP_WORDS

    def test_they_are_left_out_everywhere_but_among_the_words(self):
        text = "Please show me the way to Rome"
        assert words(text) == ("please", "show", "me", "the", "way", "to", "rome")
        assert list(content_words(text)) == ["way", "rome"]
        assert standing_words(text) == ("way", "rome")
        assert list(word_grams(text)) == ["way", "rome", "way rome"]
        assert set(character_grams(text)) == set(character_grams("way Rome"))

    def test_part_of_an_identifier_they_stay(self):
        """The name of a tool says them on purpose."""
        assert "get user" in set(word_grams("get_user"))

    def test_a_text_of_nothing_else_has_no_terms(self):
        assert not [*word_grams("Can you help me with this?"), *content_words("what is it")]


def test_of_a_long_text_the_beginning_alone_is_read_and_remembered():
    word = "map " * 500
    assert words(word + "rain") == words(word + "wind") == ("map",) * 500
    assert pieces(word + "rain") == pieces(word)
    assert list(content_words(word + "rain")) == ["map"] * 500
