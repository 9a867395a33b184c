"""What a reason quotes of a past request."""

# ruff: noqa: RUF001  (the commas of other scripts)

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router import Api, Catalog, History, Mashup, fit_router
from cnp_router.text import words
from cnp_router.training.views.quotation import LONGEST, beginning, best_quote

LONG = (
    "Dog walkers pick a client on the map; the owner pays through the app after the walk, gets a "
    "text message that all went well, and receives a song that fits the weather of the day. "
    "Everything is kept in a spreadsheet for the tax office."
)


def even(word):
    return 2.0


def quoted(wanted, said=(), texts=(LONG,), idf=even):
    return best_quote(list(texts), set(wanted), set(said), idf)


def is_cut_between_words(quote, text):
    """Whether a quote is a part of a text on one line, and what is missing is marked."""
    line = " ".join(text.split())
    inside = quote.removeprefix("…").removesuffix("…")
    at = line.find(inside)
    begins = at == 0 or quote.startswith("…")
    ends = at + len(inside) == len(line) or quote.endswith("…")
    within = set(words(inside)) <= set(words(line))
    return at >= 0 and begins and ends and within


@pytest.mark.parametrize(
    ("wanted", "quote"),
    [
        ({"map"}, "Dog walkers pick a client on the map…"),
        ({"text", "message"}, "…gets a text message that all went well…"),
        ({"spreadsheet"}, "Everything is kept in a spreadsheet for the tax office."),
        ({"song", "weather"}, "…and receives a song that fits the weather of the day.…"),
    ],
)
def test_the_part_that_the_request_is_about(wanted, quote):
    found = quoted(wanted)
    assert found.strip("…") == quote.strip("…")
    assert is_cut_between_words(found, LONG)


def test_what_the_api_says_too_counts_more():
    assert "text message" in quoted({"message", "map"}, {"message"})
    assert "map" in quoted({"message", "map"}, {"map"})


def test_what_the_api_alone_says_decides_where_nothing_else_does():
    assert "spreadsheet" in quoted({"horse"}, {"spreadsheet"})
    assert "map" in quoted({"map"}, {"spreadsheet"})


def test_a_rare_word_counts_more():
    rarity = {"map": 1.0, "tax": 5.0}
    assert "tax office" in quoted({"map", "tax"}, idf=rarity.get)


def test_of_several_texts_the_one_whose_part_fits_best():
    texts = ["Photos of owls.", "Rain on a map, each hour.", "A map."]
    assert quoted({"rain", "map"}, texts=texts) == "Rain on a map, each hour."
    assert quoted({"owl"}, texts=texts) == "Photos of owls."
    assert quoted({"horse"}, texts=texts) == "Photos of owls."


def test_without_a_common_word_it_is_the_beginning():
    assert quoted({"horse"}).startswith("Dog walkers pick")


def test_a_word_that_comes_again_and_again_says_no_more():
    text = "Maps, maps, maps, maps, maps, maps, maps and maps of the world. " + "So it is. " * 9
    text += "Send a text with a photo."
    assert "photo" in quoted({"map", "text", "photo"}, texts=[text])


def test_a_plural_is_the_same_word():
    text = "It all began with nothing at all. " * 3 + "We collect stories of sailors."
    assert "stories" in quoted({"story"}, texts=[text])


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        (
            "毎朝のニュースをまとめて読み上げてほしい。明日の天気予報を地図に表示して、雨が降りそうなら"
            "家族全員にメッセージを送って知らせてくれるアプリを作りたいと思っています。ありがとうございます。",
            {"天気", "気予", "予報", "地図"},
            "天気予報を地図",
        ),
        (
            "每天早上把新闻读给我听，并且整理成一份清单发给全家人，让大家一起讨论今天发生的事情。"
            "然后把明天的天气预报显示在地图上，如果要下雨就发短信通知我的家人，谢谢。",
            {"天气", "气预", "预报", "地图"},
            "天气预报",
        ),
    ],
)
def test_a_script_without_spaces(text, wanted, expected):
    quote = quoted(wanted, texts=[text])
    assert expected in quote
    assert len(quote) <= LONGEST + 2
    assert quote.strip("…") in text


def test_letters_and_their_marks_stay_together():
    text = "cafe\u0301 " * 40
    inside = quoted({"x"}, texts=[text]).strip("…")
    assert set(inside.split()) == {"caf\u00e9"}


def test_no_word_that_leads_on_is_the_last():
    assert beginning("A bot that sorts photos by the year and by the place", 40) == (
        "A bot that sorts photos by the year…"
    )
    assert quoted({"to"}, texts=["to be or not to be that is the question " * 9])


def test_a_word_longer_than_a_quote_is_cut():
    quote = quoted({"x"}, texts=["x" * 500])
    assert 0 < len(quote) <= LONGEST + 2


@given(
    st.text(max_size=400),
    st.sets(st.sampled_from(["a", "b", "map", "rain", "天気"])),
    st.sets(st.sampled_from(["map", "text"])),
)
def test_any_text(text, wanted, said):
    quote = quoted(wanted, said, texts=[text])
    assert len(quote) <= LONGEST + 2
    line = unicodedata.normalize("NFC", " ".join(text.split()))
    assert quote.removeprefix("…").removesuffix("…") in line
    assert bool(quote) == bool(line) or not line.strip(" \t,;:-–—(、，；：…")


@given(st.text(max_size=400), st.integers(5, 70))
def test_the_beginning_of_any_text(text, longest):
    found = beginning(text, longest)
    assert len(found) <= longest + 1
    assert found == " ".join(text.split()) or found.endswith("…")


class TestReasons:
    @pytest.fixture(scope="class")
    @staticmethod
    def router():
        catalog = Catalog(
            [
                Api("maps", "Maps", "Shows places on a map."),
                Api("sms", "SMS", "Sends text messages to phones."),
                Api("news", "News", "Headlines of the day."),
            ]
        )
        text = (
            "Runners meet at another place each week. Those who are new need a map of the streets. "
            "Send a text message to all phones when the training is called off for rain."
        )
        asked = [
            Mashup("both", text, ("maps", "sms")),
            Mashup("more", "Headlines of sports for runners, each morning.", ("news",)),
            Mashup("less", "The headlines of the day, read aloud.", ("news",)),
        ]
        return fit_router(catalog, History(asked), n_jobs=1)

    def test_each_api_has_its_own_part_of_one_past_request(self, router):
        routing = router.route("Map and text message, please.")
        text = {
            each.contractor: reason.text
            for each in routing.recipients
            for reason in each.reasons
            if reason.references == ("both",)
        }
        assert "map" in text["maps"]
        assert "text message" in text["sms"]
        assert text["maps"] != text["sms"]

    def test_the_same_request_has_the_same_reasons(self, router):
        first, second = (router.route("A map of runners") for _ in range(2))
        assert first.recipients == second.recipients
