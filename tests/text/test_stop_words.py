"""Words that say nothing, in several languages."""

from __future__ import annotations

import pytest

from cnp_router import Api, Catalog, History, Mashup, fit_router
from cnp_router.text import STOP_WORDS, content_words, placed_words
from cnp_router.text.stop_words import _BY_LANGUAGE, foreign_stop_words
from cnp_router.text.tokenise import character_grams, word_grams

SAID = {
    "German": ("Mach bitte das Licht im Bad aus", ["mach", "licht", "bad"]),
    "French": ("Éteins la lumière dans la salle de bain", ["étein", "lumière", "salle", "bain"]),
    "Spanish": ("Apaga la luz de mi baño, por favor", ["apaga", "luz", "baño"]),
    "Italian": ("Spegni la luce nel bagno per favore", ["spegni", "luce", "bagno"]),
    "Portuguese": ("Apaga a luz da casa de banho", ["apaga", "luz", "casa", "banho"]),
    "Dutch": ("Doe het licht in de badkamer uit", ["doe", "licht", "badkamer"]),
    "Swedish": ("Kan du släcka ljuset på toaletten", ["släcka", "ljuset", "toaletten"]),
    "Danish": ("Kan du slukke lyset på badet og i stuen", ["slukke", "lyset", "badet", "stuen"]),
}
ENGLISH = [
    "Turn off the light in the bathroom",
    "IM and SMS for MIT students",
    "IM API",
    "van rental in Los Angeles and Las Vegas",
    "La La Land: where to watch it",
    "Bestseller list for Germany's Amazon.de",
    "die casting and den furniture",
    "hmm um er",
    "",
    "42",
    "天気予報 API",
]


@pytest.mark.parametrize("language", SAID)
def test_function_words_of_other_languages_are_left_out(language):
    text, telling = SAID[language]
    assert list(content_words(text)) == telling
    assert [word for word, _, _ in placed_words(text)] == telling
    assert [term for term in word_grams(text) if " " not in term] == telling
    assert " bad" in set(character_grams(text)) or language != "German"
    assert " im " not in set(character_grams(text))


@pytest.mark.parametrize("text", ENGLISH)
def test_english_texts_keep_what_looks_like_another_language(text):
    assert not foreign_stop_words(text.lower().split())


def test_each_list_has_each_word_once_in_lower_case():
    for words in _BY_LANGUAGE.values():
        own = words.split()
        assert own == sorted(set(own))
        assert words == words.lower()
        assert set(own) - STOP_WORDS


def test_what_two_requests_share_are_not_their_function_words():
    apis = [
        Api("licht", "Licht", "Licht in einem Raum einschalten."),
        Api("musik", "Musik", "Musik auf einem Lautsprecher abspielen."),
        Api("garten", "Garten", "Garten bewässern."),
        Api("wecker", "Wecker", "Timer oder Wecker stellen."),
    ]
    past = [
        ("Mach mir bitte das Licht im Flur an", "licht"),
        ("Ist es so, dass die Lampe im Bad noch an ist", "licht"),
        ("Kannst du mir was von Bach spielen", "musik"),
        ("Ich möchte ein Lied von dir hören", "musik"),
        ("Gieß doch mal den Rasen für mich", "garten"),
        ("Und die Blumen, die brauchen noch Wasser", "garten"),
        ("Wecke mich bitte um sechs", "wecker"),
        ("Stell mir einen Timer auf zehn Minuten", "wecker"),
    ]
    history = History(Mashup(str(i), text, (api,)) for i, (text, api) in enumerate(past))
    router = fit_router(Catalog(apis), history)
    for text, api in (
        ("Kannst du mir bitte im Flur eine Lampe an machen", "licht"),
        ("Für mich bitte noch ein Lied", "musik"),
        ("Die brauchen doch noch was auf den Rasen, mal Wasser", "garten"),
        ("Ich möchte, dass du mich um zehn weckst, stell den Timer", "wecker"),
    ):
        assert router.score(text).top(1)[0][0] == api
