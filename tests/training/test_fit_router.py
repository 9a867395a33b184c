from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from planted import planted

from cnp_router import checks
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.history import History, Mashup
from cnp_router.training import fit_router, load_router

TESTS = Path(__file__).resolve().parents[1]


def checksums(router, folder):
    """Of all that was learned. Equal checksums are equal routers, to the last bit."""
    router.save(folder)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return {name: file["sha256"] for name, file in manifest["files"].items()}


@pytest.fixture(scope="module")
def expected(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "model"
    return checksums(fit_router(small.catalog, small.history), folder)


class TestDeterminism:
    def test_the_same_seed_gives_the_same_router(self, world, router):
        again = fit_router(world.catalog, world.history)
        for case in world.cases:
            for known in ((), case.known):
                assert (
                    again.route(case.request, known).to_dict()
                    == router.route(case.request, known).to_dict()
                )

    def test_another_seed_gives_another_router(self, small, expected, tmp_path):
        router = fit_router(small.catalog, small.history, random_state=1)
        assert checksums(router, tmp_path / "model") != expected

    def test_the_global_generator_is_neither_used_nor_moved(self, small, expected, tmp_path):
        np.random.seed(7)
        before = np.random.get_state()[1].tolist()
        router = fit_router(small.catalog, small.history)
        assert np.random.get_state()[1].tolist() == before
        assert checksums(router, tmp_path / "model") == expected

    @pytest.mark.parametrize("n_jobs", [1, 2, -1])
    def test_the_number_of_jobs_does_not_matter(self, small, expected, tmp_path, n_jobs):
        router = fit_router(small.catalog, small.history, n_jobs=n_jobs)
        assert checksums(router, tmp_path / "model") == expected

    @pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
    def test_the_backend_of_joblib_does_not_matter(self, small, expected, tmp_path, backend):
        with joblib.parallel_config(backend=backend, n_jobs=2):
            router = fit_router(small.catalog, small.history)
        if backend == "loky":
            joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
        assert checksums(router, tmp_path / "model") == expected

    @pytest.mark.parametrize("hash_seed", ["1", "2"])
    def test_the_order_of_sets_does_not_matter(self, expected, tmp_path, hash_seed):
        code = (
            "import sys; from planted import planted; from cnp_router.training import fit_router\n"
            "world = planted(n_cliques=2, size=3, rounds=2)\n"
            "fit_router(world.catalog, world.history).save(sys.argv[1])"
        )
        paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "model")],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths},
            check=True,
        )
        manifest = json.loads((tmp_path / "model" / "manifest.json").read_text(encoding="utf-8"))
        assert {n: file["sha256"] for n, file in manifest["files"].items()} == expected

    def test_the_order_of_a_mashups_apis_does_not_matter(self, small, expected, tmp_path):
        history = History(
            [Mashup(m.id, m.description, (*m.apis[::-1], *m.apis)) for m in small.history]
        )
        found = checksums(fit_router(small.catalog, history), tmp_path / "model")
        own = {"history.jsonl", "history.offsets.npy"}  # of the file itself
        assert found["history.jsonl"] != expected["history.jsonl"]
        assert {name: sha for name, sha in found.items() if name not in own} == {
            name: sha for name, sha in expected.items() if name not in own
        }


class TestProgress:
    def test_it_counts_up_and_ends(self, small):
        told = []
        fit_router(small.catalog, small.history, progress=lambda *step: told.append(step))
        assert {total for _, _, total in told} == {13}
        assert [done for _, done, _ in told] == [*range(12), 11, 12, 13]
        stages = list(dict.fromkeys(stage for stage, _, _ in told))
        assert stages == ["texts", "folds", "views", "ranker", "done"]

    def test_few_mashups_are_few_steps(self, catalog, history):
        told = []
        fit_router(catalog, history[:2], progress=lambda *step: told.append(step))
        assert [step[1:] for step in told] == [(done, 5) for done in (0, 1, 2, 3, 3, 4, 5)]

    def test_what_it_raises_goes_through(self, catalog, history):
        def stop(stage, done, total):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit_router(catalog, history, progress=stop)


def test_the_input_stays_as_it_is(small):
    before = copy.deepcopy((small.catalog, small.history))
    fit_router(small.catalog, small.history)
    assert (small.catalog, small.history) == before


def test_the_summary_says_what_it_was_fitted_on(world, router):
    summary = dict(router.summary)
    assert summary.pop("fit_seconds") >= 0
    versions = summary.pop("versions")
    assert set(versions) == {"cnp-router", "python", "numpy", "scipy", "scikit-learn"}
    assert summary == {
        "apis": 24,
        "apis_with_history": 24,
        "categories": 6,
        "mashups": 120,
        "fitted_on": 120,
        "skipped": 0,
        "decides": "120 mashups: specifications and history decide together; 100% of what they "
        "used was used more than once",
        "random_state": 0,
    }
    assert repr(router) == "LearnedRouter(24 APIs, 120 mashups)"
    assert repr(router.categories) == "CategoryClassifier(6 categories)"
    assert repr(router.encoders.word).startswith("TfidfEncoder('word', ")
    assert repr(router.score("a map")).startswith("Scores(24 APIs, best '")
    assert len(repr(router.score("a map"))) < 100


def test_what_a_notebook_shows_is_escaped(small):
    catalog = Catalog(Api(a.id, a.name, a.description, ("<b>x",)) for a in small.catalog)
    router = fit_router(catalog, small.history)
    router.summary["note"] = "<script>"
    shown = router._repr_html_() + router.categories._repr_html_()
    assert "&lt;script&gt;" in shown and "&lt;b&gt;x" in shown
    assert "<script>" not in shown and "<b>" not in shown


class TestErrors:
    def test_an_unknown_api(self, catalog, history):
        wrong = History([*history, Mashup("m9", "Show the weather.", ("weathr",))])
        with pytest.raises(UnknownApiError) as caught:
            fit_router(catalog, wrong)
        assert str(caught.value) == "unknown API 'weathr' (did you mean 'weather'?)"


def nothing_said(catalog, history):
    mute = Catalog(Api(api.id, "?") for api in catalog)
    return mute, History(Mashup(m.id, "", m.apis) for m in history)


def in_other_tongues(catalog, history):
    apis = [
        Api("天気", "天気", "雨と風の予報", ("気象",)),
        Api("地図", "地図", "場所を地図に表示する", ("地図",)),
        Api("почта", "Почта", "Отправляет письма.", ("Сообщения",)),
    ]
    texts = ["地図に天気を表示する", "погода на карте", "Прислать прогноз по почте", "雨の予報"]
    used = [("天気", "地図"), ("地図",), ("天気", "почта"), ("天気",)]
    mashups = [Mashup(f"m{i}", *pair) for i, pair in enumerate(zip(texts, used, strict=True))]
    return Catalog(apis), History(mashups)


TINY = {
    "two mashups": lambda c, h: (c, h[:2]),
    "three mashups": lambda c, h: (c, h[:3]),
    "four mashups": lambda c, h: (c, h),
    "all use the same API": lambda c, h: (
        c,
        History(Mashup(m.id, m.description, ("maps",)) for m in h),
    ),
    "all use every API": lambda c, h: (c, History(Mashup(m.id, m.description, c.ids) for m in h)),
    "all say the same": lambda c, h: (c, History(Mashup(m.id, "a map", m.apis) for m in h)),
    "all are the same": lambda c, h: (
        c,
        History(Mashup(m.id, f"a{' ' * i}Map", h[0].apis) for i, m in enumerate(h, start=1)),
    ),
    "two APIs": lambda c, h: (
        Catalog(c[:2]),
        History([Mashup("m1", "rain", ("weather",)), Mashup("m2", "a map", ("maps",))]),
    ),
    "no categories": lambda c, h: (Catalog(Api(a.id, a.name, a.description) for a in c), h),
    "no category is used": lambda c, h: (
        Catalog([*(Api(a.id, a.name) for a in c), Api("new", "New", "", ("Unused",))]),
        h,
    ),
    "nothing said": nothing_said,
    "no descriptions": lambda c, h: (c, History(Mashup(m.id, "", m.apis) for m in h)),
    "no English": in_other_tongues,
    "an API many times in a mashup": lambda c, h: (
        c,
        History(Mashup(m.id, m.description, m.apis * 3) for m in h),
    ),
    "very long descriptions": lambda c, h: (
        Catalog(Api(a.id, a.name, a.description * 2000, a.categories) for a in c),
        History(Mashup(m.id, m.description * 2000, m.apis) for m in h),
    ),
}


@pytest.mark.parametrize("kind", TINY)
def test_the_smallest_histories_give_a_lawful_router(catalog, history, kind):
    router = fit_router(*TINY[kind](catalog, history))
    for law in ("recipients_descend", "known_are_not_asked"):
        checks.LAWS[law](router, checks.REQUESTS[0])
    checks.check_saved_answers_the_same(router, load_router, checks.REQUESTS)


@pytest.mark.parametrize("kind", ["two mashups", "nothing said", "no English"])
def test_they_obey_every_law(catalog, history, kind):
    checks.check_router(fit_router(*TINY[kind](catalog, history)))


def test_one_api(catalog):
    alone = Catalog(catalog[:1])
    history = History([Mashup("m1", "rain", ("weather",)), Mashup("m2", "sun", ("weather",))])
    router = fit_router(alone, history)
    assert router.route("will it rain").contractors == ("weather",)
    assert router.route("xyzzy").recommendation == ("weather",)
    assert router.recommend("xyzzy") == ()
    with pytest.raises(InputError, match="every API is already known"):
        router.route("rain", ["weather"])


def test_without_categories_there_is_no_classifier(catalog, history):
    bare = Catalog(Api(api.id, api.name, api.description) for api in catalog)
    assert fit_router(bare, history).categories is None


def test_apis_without_history_are_cold_from_the_start():
    world = planted(n_cliques=5, size=4, rounds=4)
    cold = tuple(world.cases[4 * i].missing for i in range(5))
    kept = [m for m in world.history if not set(m.apis) & set(cold)]
    router = fit_router(world.catalog, History(kept))
    assert router.summary["apis_with_history"] == 15
    for api in cold:
        scores = router.score(f"{world.catalog[api].description} {api}")
        assert scores.order.tolist().index(world.catalog.position(api)) < 5


def test_every_linear_algebra_library_has_one_thread_whatever_was_imported_before():
    code = """
from threadpoolctl import threadpool_info
from cnp_router import Api, Catalog, History, Mashup, fit_router
from cnp_router.training import fit

def threads(*_):
    import scipy.linalg
    print({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})

fit._fit = threads
fit_router(Catalog([Api("a", "A", "a")]), History([Mashup(i, "a", ("a",)) for i in "xy"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "{1}"
