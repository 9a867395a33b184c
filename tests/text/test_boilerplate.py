"""What requests have in common word for word is not read."""

import pytest

from cnp_router import load_sample
from cnp_router.text import Boilerplate

WISHES = [
    "a map of all bars in town",
    "rain",
    "text me when the parcel has arrived",
    "songs of the sixties, and who sang them?",
    "how much is a pound in yen",
    "the cheapest flight to Rome in May",
    "translate the menu",
]
PROMPT = "You are the assistant of Blue Harbour (Ltd). Use tools for maps, rain and songs. "
FORM = "\n\nAnswer in JSON with the keys answer and source."
USERS = ["Ann", "Bob", "Carla", "Dmitri"]


def learned(texts, n_apis=7):
    return Boilerplate.of(texts, [[f"api {row % n_apis}"] for row in range(len(texts))])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PROMPT, ""),
        ("", FORM),
        (PROMPT, FORM),
        (PROMPT + "User {user} of the {place} office writes: ", ""),
        ("Hello {user}, " + PROMPT, ""),
        ("Asked in {place}. " + PROMPT, "\nSent by {user} with the client of Blue Harbour."),
        ("あなたは親切なアシスタントです。道具を使ってください。", ""),
        ("Rule one is that nobody may see a key. " * 60, ""),
    ],
)
def test_what_is_asked_is_left(before, after):
    def logged(wish, number):
        of = {"user": USERS[number % 4], "place": ["Rome", "Paris", "Oslo"][number % 3]}
        return before.format(**of) + wish + after.format(**of)

    common = learned([logged(wish, number) for number, wish in enumerate(WISHES)])
    for number, wish in enumerate(["who sang the song of the rain?", "maps", "rain (and songs)"]):
        assert common.without(logged(wish, number)) == wish
        assert common.without(wish) is wish


def test_a_part_of_it_that_is_asked_is_left():
    common = learned([PROMPT + wish for wish in WISHES])
    for wish in ("Use tools for maps", "what is the assistant of Blue Harbour", PROMPT):
        assert common.without(wish) == wish


def test_what_requests_for_some_apis_have_in_common_says_what_they_ask():
    weather = ["what is the weather forecast for " + town for town in ("Rome", "Oslo", "Bonn")]
    used = [["weather"]] * 60 + [[wish] for wish in WISHES]
    assert not Boilerplate.of([*(weather * 20), *WISHES], used).runs
    assert not learned([PROMPT + wish for wish in WISHES], 4).runs


def test_requests_that_have_nothing_in_common_are_read_whole():
    history = load_sample().history
    for n in (0, 5, 15, 100, len(history)):
        used = [mashup.apis for mashup in history[:n]]
        assert Boilerplate.of(history.texts[:n], used) == Boilerplate()


def test_a_fifth_of_the_requests_may_come_from_elsewhere():
    texts = [PROMPT + wish for wish in WISHES * 10]
    texts[::10] = [f"{wish} please" for wish in WISHES]
    assert learned(texts).without(PROMPT + "tea") == "tea"
    texts[1::2] = ["something else"] * 35
    assert not learned(texts).runs


def test_it_is_kept_as_plain_data():
    common = learned([f"{PROMPT}User {user} writes: tea {user}" for user in "abcdefg"])
    assert common.runs
    assert common.after
    assert Boilerplate.from_state(common.state()) == common
    for broken in ({}, {**common.state(), "runs": [1]}, {**common.state(), "more": []}):
        with pytest.raises(ValueError, match=r"boilerplate|runs"):
            Boilerplate.from_state(broken)
