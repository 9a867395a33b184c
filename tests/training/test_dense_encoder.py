"""The user's encoder: what it may return, how often it is asked, and whether it is the same one."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest
from word_vectors import WordVectors

from cnp_router import checks
from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.history import Mashup
from cnp_router.online import OnlineStore, RouterObserver
from cnp_router.text import specification_text
from cnp_router.training import fit_router, load_router, verify_router
from cnp_router.training.dense_encoder import DenseEncoder


@pytest.fixture(scope="module")
def encoder():
    return WordVectors()


@pytest.fixture(scope="module")
def router(small, encoder):
    return fit_router(small.catalog, small.history, encoder=encoder)


@pytest.fixture(scope="module")
def model(router, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dense") / "model"
    router.save(folder)
    return folder


def returning(value):
    return lambda texts: value(len(texts)) if callable(value) else value


class TestWhatItReturns:
    def test_vectors_are_brought_to_unit_length_and_zeros_stay(self):
        dense = DenseEncoder.of(lambda texts: [[0, 0] if t == "x" else [3, 4] for t in texts])
        found = dense.encode(["a", "x", "a"])
        np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0], [0.6, 0.8]])
        assert found.dtype == np.float32

    @pytest.mark.parametrize("scale", [1e-30, 1e-24, 1e20, 1e38])
    def test_vectors_may_be_of_any_length(self, scale):
        found = DenseEncoder.of(lambda texts: [[scale, scale] for _ in texts]).encode(["a"])
        np.testing.assert_allclose(found, [[0.5**0.5, 0.5**0.5]], rtol=1e-6)

    @pytest.mark.parametrize(
        ("returned", "words"),
        [
            (object(), "returned what is no array of numbers: <object"),
            ("vectors", "what is no array of numbers: 'vectors'"),
            ([[1.0], [1.0, 2.0]], "what is no array of numbers"),
            (np.ones, "an array of shape (1,)"),
            (lambda n: np.ones((n + 1, 3)), "an array of shape (2, 3)"),
            (lambda n: np.ones((n, 0)), "an array of shape (1, 0)"),
            (lambda n: np.ones((n, 2, 2)), "an array of shape (1, 2, 2)"),
            (lambda n: np.full((n, 3), np.nan), "numbers that are not finite for 'Show the"),
        ],
    )
    def test_what_is_not_a_vector_a_text_is_an_error_that_names_the_encoder(
        self, small, returned, words
    ):
        with pytest.raises(InputError) as caught:
            fit_router(small.catalog, small.history, encoder=returning(returned))
        assert "the encoder 'returning.<locals>.<lambda>'" in str(caught.value)
        assert words in str(caught.value)
        assert "(it must return a vector of finite numbers for each text" in str(caught.value)

    def test_dimensions_stay_the_same(self):
        sizes = iter([3, 4])
        dense = DenseEncoder.of(lambda texts: np.ones((len(texts), next(sizes))))
        with pytest.raises(InputError, match=r"of shape \(1, 4\) .* of shape \(1, 3\)"):
            dense.encode(["rain"])

    def test_its_own_errors_are_its_own(self, small):
        def broken(texts):
            raise ZeroDivisionError("no GPU")

        with pytest.raises(ZeroDivisionError, match="no GPU"):
            fit_router(small.catalog, small.history, encoder=broken)

    def test_what_cannot_be_called(self, small):
        with pytest.raises(InputError, match=r"encoder must be callable, got 'minilm' \(give a"):
            fit_router(small.catalog, small.history, encoder="minilm")


class TestHowOftenItIsAsked:
    def test_all_that_is_fitted_on_goes_to_it_at_once(self, small):
        counting = WordVectors()
        fit_router(small.catalog, small.history, encoder=counting)
        everything = [*small.history.texts, *map(specification_text, small.catalog)]
        assert counting.calls[1] == list(dict.fromkeys(everything))
        assert len(counting.calls[0]) == 1  # so that what cannot be used is found before that

    def test_a_request_is_one_call_and_the_same_again_none(self, router, encoder):
        before = len(encoder.calls)
        request = "bars that nobody asked about"
        router.score(request)
        router.route(request)
        assert encoder.calls[before:] == [[request]]

    def test_the_halves_of_a_request_are_one_call(self, small, encoder, router, monkeypatch):
        monkeypatch.setattr(router, "compound", True)
        request = f"{small.cases[0].request}, and then {small.cases[-1].request}"
        before = len(encoder.calls)
        assert router.score(request) is not None
        whole, halves = encoder.calls[before:]
        assert whole == [request]
        assert 2 <= len(halves) <= 4

    def test_blank_texts_are_not_given_to_it(self, router, encoder):
        before = len(encoder.calls)
        assert not router.encoders.encode(["", " "]).dense.any()
        assert len(encoder.calls) == before

    def test_it_is_called_by_one_thread_at_a_time_unless_it_allows_more(self):
        most = {}

        class Watched:
            def __init__(self, thread_safe):
                self.thread_safe = thread_safe
                self.under_way = self.most = 0
                self.barrier = threading.Barrier(2, timeout=20 if thread_safe else 0.2)

            def __call__(self, texts):
                self.under_way += 1
                self.most = max(self.most, self.under_way)
                if texts[0].startswith("text"):
                    with suppress(threading.BrokenBarrierError):
                        self.barrier.wait()
                self.under_way -= 1
                return np.ones((len(texts), 2))

        for is_safe in (False, True):
            watched = Watched(is_safe)
            dense = DenseEncoder.of(watched)
            threads = [
                threading.Thread(target=dense.encode, args=([f"text {i}"],)) for i in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            most[is_safe] = watched.most
        assert most == {False: 1, True: 2}


class TestWhetherItIsTheSame:
    def test_a_loaded_router_answers_as_the_saved_one(self, router, model, small, encoder):
        request = small.cases[0].request
        for load in (load_router, verify_router):
            again = load(model, encoder=encoder)
            assert again.route(request).to_dict() == router.route(request).to_dict()
        assert router.summary["encoder"] == again.summary["encoder"] == "word vectors"

    def test_without_it_no_request_is_read(self, model):
        loaded = load_router(model)  # to look at
        assert len(loaded.catalog) == len(loaded.views.corpus.counts)
        for reads in (
            lambda: loaded.route("rain"),
            lambda: loaded.observe(Mashup("x", "rain", (loaded.apis[0],))),
            lambda: loaded.extended([Api("x", "X", "Rain.")]),
        ):
            with pytest.raises(InputError) as caught:
                reads()
            assert "fitted with the encoder 'word vectors'" in str(caught.value)
            assert "load_router(path, encoder=...), or --encoder URL" in str(caught.value)
        assert "x" not in {mashup.id for mashup in loaded.history}

    def test_another_one_is_refused(self, model):
        with pytest.raises(InputError, match=r"'other' is not the encoder of the model: .* is -?0"):
            load_router(model, encoder=WordVectors(seed=1, name="other"))
        with pytest.raises(InputError, match="have 8 dimensions, not 48"):
            load_router(model, encoder=WordVectors(size=8))

    def test_small_differences_are_not_looked_at(self, model):
        words = WordVectors()

        def rounded(texts):
            return words(texts).astype(np.float16) * 2

        assert load_router(model, encoder=rounded).route("rain").recipients

    def test_a_model_without_one_takes_none(self, small, tmp_path):
        fit_router(small.catalog, small.history).save(tmp_path / "model")
        with pytest.raises(InputError, match="fitted without an encoder"):
            load_router(tmp_path / "model", encoder=WordVectors())

    def test_it_is_named_by_what_it_is(self):
        assert DenseEncoder.of(WordVectors()).name == "word vectors"
        assert DenseEncoder.of(WordVectors(name=None)).name == "WordVectors"
        assert DenseEncoder.of(WordVectors(name=None).__call__).name == "WordVectors.__call__"


def test_a_router_with_one_obeys_the_laws(router, encoder):
    checks.check_router(router, load=lambda path: load_router(path, encoder=encoder))


def test_copies_share_it(router, encoder):
    assert copy.deepcopy(router).encoders.dense.encoder is encoder
    assert pickle.loads(pickle.dumps(router)).route("rain").to_dict() == (
        router.route("rain").to_dict()
    )


def test_without_one_nothing_of_it_is_there(small, tmp_path):
    plain = fit_router(small.catalog, small.history)
    assert not [name for name in plain.views.feature_names if "dense" in name]
    assert "encoder" not in plain.summary
    for folder, router in (("a", plain), ("b", fit_router(small.catalog, small.history))):
        router.save(tmp_path / folder)
    files = [sorted((tmp_path / folder).glob("generation-*/*.npy")) for folder in "ab"]
    assert [f.name for f in files[0]] == [f.name for f in files[1]]
    assert not [f for f in files[0] if "dense" in f.name]
    sizes = {f.name: np.load(f).size for f in files[0] if "vectors" in f.name}
    assert set(sizes.values()) == {0}
    for left, right in zip(*files, strict=True):
        assert left.read_bytes() == right.read_bytes()


def test_without_one_nothing_more_is_imported():
    code = (
        "import sys, cnp_router\n"
        "sample = cnp_router.load_sample()\n"
        "cnp_router.fit_router(sample.catalog).recommend('text me when it rains')\n"
        "print([m for m in sys.modules if m == 'openai' or m.startswith('cnp_router.llm.openai')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_it_cannot_read_is_not_kept(model, small, tmp_path):
    words, is_down = WordVectors(), []

    def server(texts):
        if is_down:
            raise ConnectionError("the server is down")
        return words(texts)

    loaded = load_router(model, encoder=server)
    mashup = Mashup("late", "something quite new", (loaded.apis[0],))
    with OnlineStore(tmp_path / "online.sqlite", [RouterObserver(loaded)]) as store:
        is_down.append(True)
        with pytest.raises(ConnectionError):
            store.observe(mashup)
        is_down.clear()
        assert store.observe(mashup).counted
        assert store.sequence == 1
    assert len(words.calls[-1]) == 1


def test_texts_that_are_observed_together_are_encoded_in_one_call(model, tmp_path):
    words = WordVectors()
    loaded = load_router(model, encoder=words)
    before = len(words.calls)
    late = [Mashup(f"late {n}", f"something new {n}", (loaded.apis[0],)) for n in range(200)]
    with OnlineStore(tmp_path / "online.sqlite", [RouterObserver(loaded)]) as store:
        assert all(receipt.counted for receipt in store.observe_many(late))
    assert [len(texts) for texts in words.calls[before:]] == [200]
