"""Composed and decomposed text is the same everywhere: in ids that are given, and in requests."""

from __future__ import annotations

from unicodedata import normalize

import numpy as np
import pytest

from cnp_router import (
    Api,
    Catalog,
    History,
    Mashup,
    SpecificationRouter,
    fit_router,
    shortlist,
)
from cnp_router.routing import MaxCost, Ranked
from cnp_router.serving import Client
from cnp_router.text import Boilerplate
from cnp_router.training.encoders import as_learned

FERRY = "flotte__fähre"
CATALOG = Catalog([Api(FERRY, "fähre", "Zählt die Fähren."), Api("mail", "mail", "Sends mail.")])


@pytest.fixture(params=["NFC", "NFD"])
def form(request):
    return lambda text: normalize(request.param, text)


def test_patterns_of_a_client(form):
    assert not Client("a", exclude=(form(FERRY),)).may_see(FERRY)
    assert Client("a", among=(form("*fähre"),)).may_see(FERRY)


def test_costs(form):
    ranked = Ranked((FERRY, "mail"), np.array([0.9, 0.8]))
    assert MaxCost(1.5, {form(FERRY): 100.0}).places(ranked).tolist() == [1]


def test_what_is_always_shown(form):
    found = shortlist(SpecificationRouter(CATALOG), "Fähren", k=2, always=[form(FERRY)])
    assert found.apis[0] == FERRY
    assert len(set(found.apis)) == len(found.apis)


def test_what_was_asked_before(form):
    history = History([Mashup("1", "Zähle die Fähren", (FERRY,))])
    assert history.asked(form("zähle die Fähren")) == (0,)


def test_boilerplate_of_requests(form):
    prompt = "Du bist der höfliche Gehilfe der großen Fähre am Fluß. Frage: {}"
    texts = [prompt.format(wish) for wish in ("Regen", "Jazz", "Tee", "ein Kredit", "Suppe")]
    common = Boilerplate.of(list(map(form, texts)), [["a"], ["b"], ["c"], ["d"], ["e"]], 5)
    assert common == Boilerplate.of(texts, [["a"], ["b"], ["c"], ["d"], ["e"]], 5)
    assert common.without(form(prompt.format("Und Käse?"))) == "Und Käse?"
    assert as_learned([form(prompt.format("Und Käse?"))], common) == ["Und Käse?"]


def test_a_request(form):
    history = History([Mashup("1", form("Zähle die Fähren"), (FERRY,))])
    router, other = fit_router(CATALOG, history), fit_router(CATALOG, history)
    for text in ("Zähle die Fähren", "Wie viele Fähren fahren über den Fluß?"):
        one, same = router.score(text), other.score(form(text))
        assert np.array_equal(one.probabilities, same.probabilities)
