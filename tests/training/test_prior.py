"""What is known before a history is, and the script that learns it."""

from __future__ import annotations

import importlib.util
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from cnp_router.datasets import load_sample
from cnp_router.history import History
from cnp_router.pool import one_thread
from cnp_router.storage import state_from_bytes, state_to_bytes
from cnp_router.training.answerable import BOTH, SAID, fitting
from cnp_router.training.decision import CONFIDENCE
from cnp_router.training.examples import Past
from cnp_router.training.linear import sigmoid
from cnp_router.training.prior import (
    MOST,
    PRIOR_FILE,
    Belief,
    BySize,
    EpisodePrior,
    Prior,
    bundled_prior,
)
from cnp_router.training.ranker import LEVELS

SIZES = (0, 5, 60, 250)
NAMES = ("alike", "used", "noise")


def planted_weights(n_mashups):
    """Return the true weights: what was used counts more, the more mashups there are."""
    grown = np.log1p(n_mashups) / np.log1p(MOST)
    return np.array([2.0, 3.0 * grown, 0.0, -1.0])


@pytest.fixture(scope="module")
def planted_prior():
    rng = np.random.default_rng(0)
    size = np.repeat(SIZES, 8_000)
    X = rng.normal([1.0, -2.0, 0.5], [1.0, 0.5, 3.0], (len(size), 3))
    weights = np.array([planted_weights(n) for n in size])
    x = np.einsum("ij,ij->i", X, weights[:, :3]) + weights[:, 3]
    y = rng.random(len(size)) < sigmoid(x)
    return EpisodePrior.fit(NAMES, X, y, size, np.ones(len(size)))


class TestEpisodes:
    @pytest.mark.parametrize("n", SIZES)
    def test_planted_weights_are_found(self, planted_prior, n):
        found = planted_prior.at(n, NAMES).most_probable
        np.testing.assert_allclose(found.coefficients, planted_weights(n)[:3], atol=0.25)
        assert found.intercept == pytest.approx(-1, abs=0.5)

    def test_a_belief_is_of_a_feature_that_they_do_not_know(self, planted_prior):
        names = (*NAMES, "new", "other")
        plain = planted_prior.at(0, names)
        found = planted_prior.at(0, names, {"new": Belief(0.3, 0.25, 1.4)})
        weights = found.most_probable
        assert weights.coefficients[3:].tolist() == pytest.approx([0.3, 0])
        # What is usual of it changes nothing.
        usual = np.array([1.0, -2.0, 0.5, 1.4, 0.0])
        both = [prior.most_probable.log_odds(usual[None]) for prior in (plain, found)]
        assert both[0] == pytest.approx(both[1])
        assert found.precision[3, 3] == pytest.approx(16)

    @pytest.mark.parametrize("n", [1, 15, 120])
    def test_between_the_sizes_of_episodes(self, planted_prior, n):
        found = planted_prior.at(n, NAMES).most_probable
        np.testing.assert_allclose(found.coefficients, planted_weights(n)[:3], atol=0.35)

    def test_weights_move_with_the_logarithm_of_the_mashups(self, planted_prior):
        few, some, many = (planted_prior.at(n, NAMES).mean for n in (5, 60, 250))
        at = (np.log1p(60) - np.log1p(5)) / (np.log1p(250) - np.log1p(5))
        np.testing.assert_allclose(some, few + at * (many - few), atol=1e-9)

    def test_more_than_the_most_is_the_most(self, planted_prior):
        most, more = planted_prior.at(MOST, NAMES), planted_prior.at(100 * MOST, NAMES)
        np.testing.assert_array_equal(more.mean, most.mean)
        np.testing.assert_array_equal(more.precision, most.precision)

    def test_no_history_is_a_case_of_its_own(self):
        """A feature that misleads where there is no history counts nothing there."""
        rng = np.random.default_rng(1)
        size = np.repeat([0, 5, 60], 5_000)
        X = rng.normal(size=(len(size), 1))
        y = rng.random(len(size)) < sigmoid(np.where(size == 0, 0.0, 2.0) * X[:, 0])
        prior = EpisodePrior.fit(["used"], X, y, size, np.ones(len(size)))
        assert prior.at(0, ["used"]).most_probable.coefficients == pytest.approx([0], abs=0.15)
        assert prior.at(5, ["used"]).most_probable.coefficients == pytest.approx([2], abs=0.3)

    @pytest.mark.parametrize("n", [0, 30])
    def test_features_are_found_whatever_their_order(self, planted_prior, n):
        order = [2, 0, 1]
        one = planted_prior.at(n, NAMES)
        other = planted_prior.at(n, [NAMES[i] for i in order])
        places = [*order, 3]
        np.testing.assert_array_equal(other.center, one.center[order])
        np.testing.assert_array_equal(other.scale, one.scale[order])
        np.testing.assert_array_equal(other.mean, one.mean[places])
        np.testing.assert_array_equal(other.precision, one.precision[np.ix_(places, places)])

    @pytest.mark.parametrize("n", [0, 30])
    def test_an_unknown_feature_weighs_nothing(self, planted_prior, n):
        one = planted_prior.at(n, NAMES)
        other = planted_prior.at(n, ["alike", "new", "used", "noise"])
        assert other.most_probable.coefficients[1] == 0
        np.testing.assert_array_equal(np.delete(other.mean, 1), one.mean)
        rows = np.random.default_rng(0).normal(size=(5, 4))
        np.testing.assert_allclose(
            other.most_probable.log_odds(rows),
            one.most_probable.log_odds(np.delete(rows, 1, axis=1)),
        )
        assert other.precision[1, 1] > 0 and not np.delete(other.precision[1], 1).any()

    def test_a_feature_that_is_not_asked_for_is_left_out(self, planted_prior):
        whole, part = planted_prior.at(30, NAMES), planted_prior.at(30, ["used"])
        np.testing.assert_array_equal(part.mean, whole.mean[[1, 3]])

    def test_more_episodes_are_surer(self):
        rng = np.random.default_rng(2)
        X = rng.normal(size=(600, 1))
        y = rng.random(600) < sigmoid(X[:, 0])
        size = np.repeat(SIZES, 150)
        light, heavy = (
            EpisodePrior.fit(["a"], X, y, size, np.full(600, w)).at(60, ["a"]) for w in (0.1, 10.0)
        )
        assert (np.linalg.eigvalsh(heavy.precision - light.precision) > 0).all()

    def test_a_constant_feature_does_no_harm(self):
        X = np.column_stack([np.zeros(40), np.arange(40.0)])
        prior = EpisodePrior.fit(["a", "b"], X, X[:, 1] > 20, np.zeros(40), np.ones(40))
        gaussian = prior.at(0, ["a", "b"])
        assert np.isfinite(gaussian.mean).all() and np.isfinite(gaussian.precision).all()
        assert gaussian.most_probable.coefficients[0] == 0

    def test_rising_no_feature_lowers_the_answer(self):
        rng = np.random.default_rng(3)
        size = np.repeat(SIZES, 500)
        X = rng.normal(size=(len(size), 2))
        y = rng.random(len(size)) < sigmoid(2 * X[:, 0] - 2 * X[:, 1])
        free, rising = (
            EpisodePrior.fit(["a", "b"], X, y, size, np.ones(len(size)), is_rising=is_rising)
            for is_rising in (False, True)
        )
        for n in (0, 5, 100):
            assert free.at(n, ["a", "b"]).most_probable.coefficients[1] < -1
            assert (rising.at(n, ["a", "b"]).most_probable.coefficients >= 0).all()
            assert rising.at(n, ["a", "b"]).most_probable.coefficients[0] > 0.5


class TestBySize:
    @pytest.mark.parametrize(
        ("n", "found"), [(0, 1), (1, 1), (2, 2), (5, 2), (13, 2), (60, 3), (10**6, 3)]
    )
    def test_it_is_that_of_about_the_size(self, n, found):
        by_size = BySize(np.array([0, 5, 60]), np.array([1.0, 2.0, 3.0]))
        assert by_size.at(n) == found

    @pytest.mark.parametrize(("n_own", "found"), [(0, 2.0), (MOST, 3.5), (10**9, 5.0)])
    def test_ones_own_counts_by_how_much_there_is(self, n_own, found):
        by_size = BySize(np.array([0, 60]), np.array([1.0, 2.0]))
        assert by_size.blended(5.0, n_own, 60) == pytest.approx(found)

    def test_a_row_for_each_size(self):
        by_size = BySize(np.array([0, 5]), np.array([[0.1, 0.2], [0.3, 0.4]]))
        assert by_size.at(7).tolist() == [0.3, 0.4]


def numbers(prior):
    """Return all numbers of a prior, by their place."""
    found = {}

    def walk(part, place):
        if isinstance(part, dict):
            for name, inner in part.items():
                walk(inner, f"{place}.{name}")
        elif isinstance(part, list):
            found[place] = part
        else:
            found[place] = np.asarray(part, dtype=float)

    walk(prior.state(), "")
    return found


@pytest.fixture(scope="module")
def sample_views():
    """Views of the bundled sample, from which the bundled prior was learned."""
    return Past.of(load_sample().catalog, History([]), random_state=0).views(
        np.arange(0), sparse.csr_array((0, len(load_sample().catalog)), dtype=np.float32)
    )


class TestTheBundledOne:
    def test_its_names_are_those_of_the_features(self, sample_views):
        """A view that was added or renamed needs the prior made anew: scripts/fit_prior.py."""
        prior = bundled_prior()
        assert tuple(prior.ranker.names) == sample_views.feature_names
        assert tuple(prior.calibration.names) == LEVELS
        assert tuple(prior.answerable.says.names) == SAID
        assert tuple(prior.answerable.fits.names) == fitting(sample_views.likeness_names)
        assert tuple(prior.answerable.both.names) == BOTH
        assert tuple(prior.confidence.covered.names) == CONFIDENCE

    @pytest.mark.parametrize("n", [0, 1, 5, 33, MOST, 10_000])
    def test_it_is_sound_at_any_size(self, n, sample_views):
        prior = bundled_prior()
        for part, names in (
            (prior.ranker, sample_views.feature_names),
            (prior.calibration, LEVELS),
            (prior.answerable.says, SAID),
            (prior.answerable.fits, fitting(sample_views.likeness_names)),
            (prior.answerable.both, BOTH),
            (prior.confidence.covered, CONFIDENCE),
        ):
            gaussian = part.at(n, names)
            assert gaussian.mean.shape == (len(names) + 1,)
            np.testing.assert_allclose(gaussian.precision, gaussian.precision.T, rtol=1e-6)
            assert (np.linalg.eigvalsh(gaussian.precision) > 0).all()
        shares = prior.recall.at(n)
        assert (np.diff(shares) >= 0).all() and shares[0] >= 0 and shares[-1] <= 1

    def test_it_is_the_same_however_many_threads_are_allowed(self):
        def fresh():
            return Prior.from_state(bundled_prior().state()).ranker

        with one_thread:
            expected = fresh().at(5, fresh().names)
        found = fresh().at(5, fresh().names)
        np.testing.assert_array_equal(found.precision, expected.precision)

    @pytest.mark.parametrize("n", [0, 5, 250])
    def test_likeness_never_speaks_against_being_served(self, n, sample_views):
        prior = bundled_prior().answerable
        fits = fitting(sample_views.likeness_names)
        for part, names in ((prior.says, SAID), (prior.fits, fits), (prior.both, BOTH)):
            assert (part.at(n, names).most_probable.coefficients >= -1e-12).all()

    def test_it_is_data_and_never_code(self):
        with zipfile.ZipFile(io.BytesIO(PRIOR_FILE.read_bytes())) as file:
            assert {Path(name).suffix for name in file.namelist()} == {".npy"}
        with np.load(PRIOR_FILE, allow_pickle=False) as file:
            assert all(file[name].dtype.kind in "uif" for name in file.files)

    def test_what_is_written_is_what_is_read(self):
        prior = bundled_prior()
        again = Prior.from_state(state_from_bytes(state_to_bytes(prior.state())))
        for place, expected in numbers(prior).items():
            np.testing.assert_array_equal(numbers(again)[place], expected)

    def test_one_with_more_or_less_in_it_is_refused(self):
        state = bundled_prior().state()
        with pytest.raises(ValueError, match="Prior of"):
            Prior.from_state({**state, "more": 1.0})
        with pytest.raises(ValueError, match="Prior of"):
            Prior.from_state({name: state[name] for name in list(state)[1:]})

    def test_the_script_makes_it_anew(self, tmp_path, monkeypatch):
        script = Path(__file__).resolve().parents[2] / "scripts" / "fit_prior.py"
        spec = importlib.util.spec_from_file_location("fit_prior", script)
        fit_prior = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "fit_prior", fit_prior)
        spec.loader.exec_module(fit_prior)
        monkeypatch.setattr("sys.argv", ["fit_prior.py", "--output", str(tmp_path / "prior.npz")])
        fit_prior.main()
        made = numbers(Prior.from_state(state_from_bytes((tmp_path / "prior.npz").read_bytes())))
        expected = numbers(bundled_prior())
        assert set(made) == set(expected)
        for place, values in expected.items():
            if isinstance(values, list):
                assert made[place] == values
            else:
                scale = float(np.abs(values).max(initial=0))
                np.testing.assert_allclose(
                    made[place], values, rtol=1e-4, atol=1e-5 * scale, err_msg=place
                )
