"""How alike specifications are, in catalogs of any size."""

from __future__ import annotations

import copy
import pickle

import pytest
from sklearn.metrics.pairwise import cosine_similarity

from cnp_router.catalog import Api
from cnp_router.exceptions import UnknownApiError
from cnp_router.protocols import substitutes
from cnp_router.protocols.substitutes import Likeness
from cnp_router.text import TfidfEncoder, specification_text


@pytest.fixture
def reading(monkeypatch):
    """How many specifications were read as texts."""
    read = []

    def text(api, **how):
        read.append(api.id)
        return specification_text(api, **how)

    monkeypatch.setattr(substitutes, "specification_text", text)
    return read


def test_it_is_the_cosine_of_all_specifications(sample):
    likeness, ids = Likeness(sample.catalog), list(sample.catalog.ids)
    texts = [specification_text(api) for api in sample.catalog]
    wanted = cosine_similarity(TfidfEncoder("content", min_df=1).fit_transform(texts))
    for place in (3, 0, 70):
        some = ids[place : place + 9] if place else ids
        found = likeness.of(ids[place], some)
        assert list(found) == some
        expected = wanted[place][[ids.index(name) for name in some]]
        assert list(found.values()) == pytest.approx(expected, abs=2e-6)


def test_only_what_is_asked_for_is_read_of_a_large_catalog(sample, reading, monkeypatch):
    monkeypatch.setattr(substitutes, "_MOST_READ", 20)
    likeness, ids = Likeness(sample.catalog), list(sample.catalog.ids)
    assert not reading
    likeness.of(ids[1], ids[2:5])
    assert len(reading) <= 20 + 4
    n = len(reading)
    likeness.of(ids[1], ids[2:5])
    assert len(reading) == n


def test_words_that_tell_nothing_of_the_others_count_in_a_large_catalog(monkeypatch):
    monkeypatch.setattr(substitutes, "_MOST_READ", 2)
    names = ("sms", "maps", "owl", "music", "bird", "books")
    said = ("Sends texts.", "Shows places.", "Zeppelin nocturnal owl.", "Plays songs.")
    said = (*said, "Zeppelin nocturnal bird.", "Lends books.")
    apis = [Api(n, n.title(), text) for n, text in zip(names, said, strict=True)]
    likeness = Likeness(apis)
    found = likeness.of("owl", ["sms", "bird"])
    assert found["bird"] > 0.3 and found["sms"] == 0
    assert likeness.of("owl", names) == pytest.approx(
        {**dict.fromkeys(names, 0.0), **found, "owl": 1}
    )


def test_an_unknown_api_is_named(sample):
    with pytest.raises(UnknownApiError, match="nobody"):
        Likeness(sample.catalog).of("nobody", sample.catalog.ids)


def test_of_nobody_nothing_is_read(sample, reading):
    assert Likeness(sample.catalog).of("twilio", []) == {}
    assert not reading


def test_it_can_be_copied_and_sent(sample):
    likeness, ids = Likeness(sample.catalog), sample.catalog.ids
    found = likeness.of(ids[0], ids)
    for copied in (pickle.loads(pickle.dumps(likeness)), copy.deepcopy(likeness)):
        assert copied.of(ids[0], ids) == found


def test_copies_go_on_alone(sample, monkeypatch):
    monkeypatch.setattr(substitutes, "_MOST_READ", 5)
    ids = sample.catalog.ids
    one, other = Likeness(sample.catalog), Likeness(sample.catalog)
    one.of(ids[1], ids[2:4])
    twin = copy.copy(one)
    one.of(ids[10], ids[11:20])
    assert twin.of(ids[30], ids[31:40]) == other.of(ids[30], ids[31:40])
    assert one.of(ids[30], ids[31:40]) == other.of(ids[30], ids[31:40])
