"""What requests have in common word for word is not read."""

from collections import Counter

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
    return Boilerplate.of(texts, [[f"api {row % n_apis}"] for row in range(len(texts))], n_apis)


@pytest.fixture(scope="module")
def history():
    return load_sample().history


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PROMPT, ""),
        ("", FORM),
        (PROMPT, FORM),
        ("User question: ", ""),
        ("<|user|> ", " <|assistant|>"),
        ("あなたは親切なアシスタントです。道具を使ってください。", ""),
        ("Rule one is that nobody may see a key. " * 60, ""),
        (PROMPT + "It is 2026-{number}-1{number} {number}:5{number}. User: ", ""),
    ],
)
def test_what_is_asked_is_left(before, after):
    def logged(wish, number):
        return before.format(number=number) + wish + after

    common = learned([logged(wish, number) for number, wish in enumerate(WISHES)])
    for number, wish in enumerate(["who sang the song of the rain?", "maps", "rain (and songs)"]):
        assert common.without(logged(wish, number)).strip(" <|>") == wish


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PROMPT + "User {user} of the {place} office writes: ", ""),
        ("Hello {user}, " + PROMPT, ""),
        ("Asked in {place}. " + PROMPT, "\nSent by {user} with the client of Blue Harbour."),
        ('{{"query": "', '", "user": "{user}", "locale": "en-US", "place": "{place}"}}'),
        ("[2026-10-03 04:05] INFO agent {user}, session 7f8a, request=", ""),
    ],
)
def test_names_that_differ_are_no_part_of_what_is_asked(history, before, after):
    def logged(wish, number):
        of = {"user": USERS[number % 4], "place": ["Rome", "Paris", "Oslo"][number % 3]}
        return before.format(**of) + wish + after.format(**of)

    texts = [logged(mashup.description, number) for number, mashup in enumerate(history)]
    common = Boilerplate.of(texts, [mashup.apis for mashup in history], 149)
    for number, wish in enumerate(["who sang the song of the rain?", "maps", "rain (and songs)"]):
        assert common.without(logged(wish, number)).strip("[{<|>}] ") == wish


def test_a_word_that_tells_what_is_used_is_read_wherever_it_stands():
    verbs = ["create", "delete", "list", "move", "share", "export"]
    texts = [f"{PROMPT}{verb} calendar event {n}" for n in range(20) for verb in verbs]
    common = Boilerplate.of(texts, [[verb] for verb in verbs] * 20, 6)
    for verb in verbs:
        assert verb in common.without(f"{PROMPT}{verb} calendar event 7")
    plain = Boilerplate.of([t.removeprefix(PROMPT) for t in texts], [[v] for v in verbs] * 20, 6)
    assert all(verb in plain.without(f"{verb} calendar event 7") for verb in verbs)


def test_a_part_of_it_that_is_asked_is_left():
    common = learned([PROMPT + wish for wish in WISHES])
    for wish in ("Use tools for maps", "what is the assistant of Blue Harbour", PROMPT):
        assert common.without(wish) == wish


def test_prompts_of_several_applications_and_requests_without(history):
    prompts = [PROMPT + "{}", "{}" + FORM, "A ticket for the help desk of Porto, by mail: {}", "{}"]
    texts = [prompts[i % 4].format(mashup.description) for i, mashup in enumerate(history)]
    common = Boilerplate.of(texts, [mashup.apis for mashup in history], 149)
    for prompt in prompts:
        for wish in ("I need rain", "Show the assistant of my tickets", "maps"):
            assert common.without(prompt.format(wish)) == wish


def test_what_is_said_where_an_api_is_used_tells_that_it_is(history):
    wish = ", and then send all of it to me by mail please"
    texts = [m.description + wish * (i % 3 == 0) for i, m in enumerate(history)]
    used = [(*m.apis, *["mail"] * (i % 3 == 0)) for i, m in enumerate(history)]
    assert not Boilerplate.of(texts, used, 150).runs
    assert Boilerplate.of(
        texts, [mashup.apis for mashup in history], 149
    ).runs  # nothing is used for it


def test_what_requests_for_some_apis_have_in_common_says_what_they_ask(history):
    times = Counter(api for mashup in history for api in mashup.apis)
    some = {api for api, _ in times.most_common(15)}
    texts = [
        ("show me all that is near here on a map: " if some & set(mashup.apis) else "")
        + mashup.description
        for mashup in history
    ]
    assert not Boilerplate.of(texts, [mashup.apis for mashup in history], 149).runs
    weather = ["what is the weather forecast for " + town for town in ("Rome", "Oslo", "Bonn")]
    used = [["weather"]] * 60 + [[wish] for wish in WISHES]
    assert not Boilerplate.of([*(weather * 20), *WISHES], used, 8).runs
    assert not learned([PROMPT + wish for wish in WISHES], 4).runs


def test_requests_that_have_nothing_in_common_are_read_whole(history):
    for n in (0, 5, 15, 100, len(history)):
        used = [mashup.apis for mashup in history[:n]]
        assert Boilerplate.of(history.texts[:n], used, 149) == Boilerplate()


def test_what_the_few_apis_that_were_used_do_is_what_is_asked():
    places = ["the board", "my sister", "all guests", "the press", "sales"]
    texts = [f"send a note to {place}, {n} words long" for n in range(10) for place in places]
    used = [[place] for place in places] * 10
    assert Boilerplate.of(texts, used, 40).without("send 3 letters") == "send 3 letters"
    assert Boilerplate.of(texts, used, 6).without("send 3 letters") == "3 letters"


def test_a_word_with_which_many_requests_begin_is_none_of_it(history):
    texts = [PROMPT + "Today " * (i % 2) + m.description for i, m in enumerate(history)]
    common = Boilerplate.of(texts, [mashup.apis for mashup in history], 149)
    assert common.without(PROMPT + "Today it rains") == "Today it rains"


def test_it_is_kept_as_plain_data():
    common = learned([f"{PROMPT}User {user} writes: tea {user}" for user in "1234567"])
    assert common.runs
    assert common.after
    assert Boilerplate.from_state(common.state()) == common
    for broken in ({}, {**common.state(), "runs": [1]}, {**common.state(), "more": []}):
        with pytest.raises(ValueError, match=r"boilerplate|runs"):
            Boilerplate.from_state(broken)
