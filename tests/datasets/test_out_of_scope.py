from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.datasets import (
    OutOfScope,
    load_out_of_scope,
    load_sample,
    read_out_of_scope,
    served_by_none,
)
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.text import TfidfEncoder

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "cnp_router" / "datasets" / "nothing" / "texts.jsonl"
HELD_OUT = ROOT / "benchmarks" / "out_of_scope.jsonl"
KINDS = {"noise", "chit-chat", "arithmetic", "general knowledge"}


@pytest.fixture(scope="module")
def halves():
    return read_out_of_scope(BUNDLED), read_out_of_scope(HELD_OUT)


@pytest.mark.parametrize("half", [0, 1])
def test_each_half_is_as_promised(halves, half):
    texts = halves[half]
    assert len(texts) >= 150
    assert sum(not text.served_by for text in texts) >= 85
    assert {text.kind for text in texts} == KINDS
    assert {text.length for text in texts} == {"short", "long"}
    assert {text.language for text in texts} == {"en", "ja"}
    for text in texts:
        if text.language == "en":
            few, many = (2, 7) if text.length == "short" else (14, 60)
            assert few <= len(text.text.split()) <= many, text


def test_the_halves_are_of_the_same_make(halves):
    one, other = (Counter((t.kind, t.length, t.language) for t in half) for half in halves)
    assert set(one) == set(other)
    assert all(one[key] >= other[key] - 2 for key in one)  # more to learn from than to measure on


def test_no_text_is_in_both_halves_or_twice(halves):
    texts = [" ".join(text.text.casefold().split()) for half in halves for text in half]
    assert len(set(texts)) == len(texts)


def test_no_text_resembles_one_of_the_other_half(halves):
    one, other = ([text.text for text in half] for half in halves)
    encoder = TfidfEncoder("word", min_df=1).fit([*one, *other])
    cosines = (encoder.transform(one) @ encoder.transform(other).T).toarray()
    assert cosines.max() < 0.6


def test_what_is_loaded_is_the_bundled_half(halves):
    assert load_out_of_scope() == tuple(text.text for text in halves[0])


def test_no_text_is_a_request_of_the_sample(halves):
    requests = {text.casefold() for text in load_sample().history.texts}
    assert not requests & {text.text.casefold() for half in halves for text in half}


def test_what_the_catalog_may_serve_is_left_out():
    catalog = load_sample().catalog
    left = load_out_of_scope(catalog)
    assert 100 <= len(left) < len(load_out_of_scope())
    calculators = Catalog([*catalog, Api("sums", "Sums", categories=("Calculators",))])
    assert len(load_out_of_scope(calculators)) < len(left)


@pytest.mark.parametrize(
    ("api", "served"),
    [
        (Api("a", "Maps"), False),
        (Api("a", "Web Search"), True),
        (Api("a", "Pages", "It does a web search, and more."), True),
        (Api("a", "Pages", "It searches the web."), False),
        (Api("a", "Pages", categories=("Encyclopedias",)), True),
        (Api("a", "encyclopedia_lookup"), True),
        (Api("a", "Cyclopedia"), False),
        (Api("a", "The web", categories=("Search",)), False),
    ],
)
def test_who_may_serve_a_text(api, served):
    text = OutOfScope("Why?", "general knowledge", "short", "en", ("encyclopedia", "web search"))
    assert served_by_none([text], Catalog([api])) == (() if served else (text,))


def test_a_text_that_nothing_may_serve_is_kept():
    text = OutOfScope("zzz", "noise", "short", "en")
    assert served_by_none([text], load_sample().catalog) == (text,)


def test_a_broken_file_says_where(tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text('{"text": "zzz", "kind": "noise", "length": "short"}\n')
    with pytest.raises(DataFileError, match=r"line 1.*missing field 'language'"):
        read_out_of_scope(file)


def test_one_word_is_no_list():
    with pytest.raises(InputError, match="served_by must be a list of strings"):
        OutOfScope("zzz", "noise", "short", "en", "calculator")
