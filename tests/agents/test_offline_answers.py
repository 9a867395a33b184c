"""The offline model takes every task, the same each time, and its answers fit."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hostile import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from negotiation import CATALOG, REQUEST

from cnp_router.agents import (
    CategoryFallback,
    ComposeAlone,
    Decompose,
    InterpretRequest,
    MapCategories,
    MatchFunction,
    ProposedApi,
    SelectApis,
    ServeFunction,
    ask,
    offline_answers,
    offline_model,
)
from cnp_router.agents.offline_answers import TextSimilarity
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError
from cnp_router.llm.schema import misfit
from cnp_router.routing import Scores
from cnp_router.testing import ScriptedChatModel

APIS = tuple(CATALOG)


def answer(task, catalog=CATALOG):
    return asyncio.run(ask(offline_model(catalog), task)).answer


def tasks(text):
    proposals = tuple(ProposedApi(api.id, f"{text} {api.description}") for api in APIS[:3])
    return [
        Decompose(text),
        MapCategories(text, (text, "show a map"), CATALOG.categories),
        MatchFunction(APIS, text, None),
        InterpretRequest(APIS[:2], text),
        ServeFunction(APIS, text),
        SelectApis(text, (text,), proposals, proposals[:1]),
        SelectApis(text, (), ()),
        ComposeAlone(text, APIS),
    ]


@given(st.text() | st.sampled_from([*HOSTILE, "", " ", ".,;", "and and", REQUEST]))
def test_any_text_gets_an_answer_that_fits_twice_the_same(text):
    answers = offline_model(CATALOG).answers
    again = offline_model(CATALOG).answers
    for task in tasks(text):
        data = answers[type(task)](task)
        assert misfit(data, task.schema) is None
        assert again[type(task)](task) == data
        assert getattr(task.read(data), "hallucinated", ()) == ()  # it makes nothing up


def test_of_a_large_catalog_some_specifications_tell_how_common_words_are(monkeypatch):
    read = []
    monkeypatch.setattr(offline_answers, "_MOST_READ", 3)
    monkeypatch.setattr(offline_answers, "TextSimilarity", read.extend)
    for n in (1, 3, 4, 7):
        read.clear()
        offline_model(Catalog([Api(f"a{place}", f"A {place}") for place in range(n)]))
        wanted = {1: "0", 3: "012", 4: "012", 7: "024"}[n]  # as many as may be, from all over
        assert [text.split()[1] for text in read] == list(wanted)


def test_it_reads_what_the_prompt_shows():
    assert answer(Decompose(REQUEST)).functions == (
        "Send me a text message before rain",
        "show the places on a map",
    )
    mapping = answer(MapCategories(REQUEST, ("show it on a map",), CATALOG.categories))
    assert mapping.all_categories == ("Mapping",)
    assert answer(MatchFunction(APIS, "text message", None)).apis[0].api == "sms"
    assert answer(MatchFunction(APIS, "play the violin", None)).apis == ()
    proposals = (ProposedApi("sms", "Sends text messages."), ProposedApi("tides", "High water."))
    assert answer(SelectApis("a text message", (), proposals)).apis == ("sms",)


def test_a_bid_is_the_same_whoever_else_is_in_the_catalog_of_the_task():
    alone = answer(InterpretRequest((CATALOG["sms"],), REQUEST)).apis
    among = answer(InterpretRequest(APIS, REQUEST)).apis
    assert alone[0] in among


@given(st.text(max_size=60), st.text(max_size=60))
def test_similarity_is_symmetric_and_between_0_and_1(left, right):
    similarity = TextSimilarity(["a map of places", "a text message", left])
    assert 0 <= similarity(left, right) <= 1 + 1e-9
    assert similarity(left, right) == pytest.approx(similarity(right, left))
    if similarity.vector(left):
        assert similarity(left, left) == pytest.approx(1)


class TestCategoryFallback:
    def test_it_names_all_apis_of_the_categories_that_the_router_knows(self):
        data = {"mappings": [{"function": 0, "categories": ["Messaging", "Travel", "Made up"]}]}
        fallback = CategoryFallback(ScriptedChatModel([data]), CATALOG)
        known = ("maps", "places", "sms", "weather")
        named = fallback.recipients("text me", Scores(known, np.zeros(4)), ["maps"])
        assert named == ["places", "sms"]
        assert fallback.source == "llm"

    def test_it_needs_categories(self):
        with pytest.raises(InputError, match="a catalog with categories"):
            CategoryFallback(ScriptedChatModel([]), Catalog([Api("maps", "Maps")]))
