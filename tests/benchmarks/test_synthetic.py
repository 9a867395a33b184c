"""Synthetic catalogs and histories: the same by seed, of the form that was asked for."""

from __future__ import annotations

import doctest
import gzip
import json
from collections import Counter

import numpy as np
import pytest

from benchmarks import synthetic, synthetic_words
from benchmarks.synthetic import Synthetic
from benchmarks.synthetic_words import (
    DERIVED,
    LONG,
    LONG_WORDS,
    SHORT,
    SHORT_WORDS,
    spelled,
)
from cnp_router.catalog import Catalog
from cnp_router.history import History


@pytest.fixture(scope="module")
def world():
    return Synthetic(300, 2_000, seed=1)


@pytest.fixture(scope="module")
def history(world):
    return world.history()


@pytest.mark.parametrize("module", [synthetic, synthetic_words])
def test_examples(module):
    found = doctest.testmod(module)
    assert (found.attempted > 0, found.failed) == (True, 0)


class TestWords:
    def test_no_two_are_the_same(self):
        numbers = np.concatenate(
            [
                np.arange(SHORT, SHORT + SHORT_WORDS, 7),
                np.arange(LONG, LONG + LONG_WORDS, 997),
                np.arange(LONG, LONG + LONG_WORDS, 997) + DERIVED,
            ]
        )
        words = spelled(numbers).tolist()
        assert len(set(words)) == len(words)

    def test_can_be_pronounced(self):
        words = spelled(np.arange(LONG, LONG + 100))
        assert all(word.isalpha() and 6 <= len(word) <= 10 for word in words)
        assert all(sum(word.count(vowel) for vowel in "aeiou") == 3 for word in words)


class TestSynthetic:
    def test_is_the_same_by_seed(self, world, history):
        again = Synthetic(300, 2_000, seed=1)
        assert again.catalog() == world.catalog()
        assert again.history() == history
        assert Synthetic(300, 2_000, seed=2).history() != history

    def test_texts_have_the_length_of_real_ones(self, world, history):
        said = np.mean([len(api.description.split()) for api in world.catalog()])
        asked = np.mean([len(text.split()) for text in history.texts])
        assert 35 < said < 45
        assert 17 < asked < 23
        longer = Synthetic(300, 200, seed=1, length=2.0).history()
        assert np.mean([len(text.split()) for text in longer.texts]) > 1.6 * asked

    def test_few_are_used_much_and_many_never(self, world, history):
        uses = Counter(api for mashup in history for api in mashup.apis)
        most = sum(n for _, n in uses.most_common(30))
        assert most > 0.4 * uses.total()
        assert 0.35 * 300 < 300 - len(uses) < 0.6 * 300

    def test_some_are_used_together_again_and_again(self, history):
        pairs = Counter(frozenset((a, b)) for m in history for a in m.apis[:1] for b in m.apis[1:])
        assert pairs.most_common(1)[0][1] > 10

    def test_apis_appear_over_the_years(self, history):
        half = len(history) // 2
        before = {api for mashup in history[:half] for api in mashup.apis}
        after = {api for mashup in history[half:] for api in mashup.apis}
        assert len(after - before) > len(before - after)

    def test_held_out_requests_are_new(self, world, history):
        said = set(history.texts)
        for kind in ("random", "later", "tuning"):
            held = world.held_out(kind, 100)
            assert said.isdisjoint(held.texts)
            assert {mashup.id for mashup in held}.isdisjoint(m.id for m in history)
        last = max(mashup.date for mashup in history)
        assert all(mashup.date > last for mashup in world.held_out("later", 100))
        assert all(mashup.date <= last for mashup in world.held_out("random", 100))

    def test_categories_of_requests_are_those_of_the_catalog(self, world, history):
        known = set(world.catalog().categories)
        assert known.issuperset(name for mashup in history for name in mashup.categories)

    def test_a_folder_holds_the_same(self, world, history, tmp_path):
        files = world.write(tmp_path / "data", asked=5)
        assert Catalog.read(tmp_path / "data" / "apis.jsonl") == world.catalog()
        assert History.read(files) == history
        assert len(History.read(tmp_path / "data" / "mashups-dev-later.jsonl")) == 5

    def test_shards_are_the_whole(self, world, history, tmp_path):
        files = world.write(tmp_path, shards=3, compressed=True)
        assert [file.name for file in files][:1] == ["mashups-train-00000.jsonl.gz"]
        lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
        assert [json.loads(line)["id"] for line in lines] == [mashup.id for mashup in history]

    def test_from_the_command_line(self, history, tmp_path):
        synthetic.main(
            f"{tmp_path} --apis 300 --mashups 2000 --seed 1 --shards 2 --asked 3".split()
        )
        assert History.read(sorted(tmp_path.glob("mashups-train-*.jsonl"))) == history
