from __future__ import annotations

import random

import numpy as np
import pytest

from cnp_router.exceptions import InputError, NotFittedError
from cnp_router.training import CategoryClassifier

TOPICS = {
    "Mapping": "map place street route city address",
    "Messaging": "text message phone send sms reply",
    "Music": "song band album concert listen playlist",
    "Weather": "rain sun wind forecast storm snow",
}


def requests(n, *, seed, said=0.9, meant=0.05):
    """Texts in the words of their topics; a topic that is said is meant with probability `said`."""
    draw = random.Random(seed)
    texts, categories = [], []
    for _ in range(n):
        spoken = draw.sample(sorted(TOPICS), draw.choice([1, 1, 2]))
        words = ["please", "show"]
        for topic in spoken:
            words += draw.sample(TOPICS[topic].split(), 3)
        draw.shuffle(words)
        texts.append(" ".join(words))
        categories.append([t for t in TOPICS if draw.random() < (said if t in spoken else meant)])
    return texts, categories


def error(p, truth, bins=10):
    """Expected calibration error (Naeini et al., 2015)."""
    p, truth = np.ravel(p), np.ravel(truth)
    place = np.minimum((p * bins).astype(int), bins - 1)
    return sum(
        abs(p[place == b].mean() - truth[place == b].mean()) * (place == b).mean()
        for b in np.unique(place)
    )


@pytest.fixture(scope="module")
def classifier():
    return CategoryClassifier().fit(*requests(400, seed=0))


def test_it_finds_the_planted_categories():
    texts, categories = requests(200, seed=1, said=1, meant=0)
    classifier = CategoryClassifier().fit(texts, categories)
    assert classifier.classes_ == tuple(sorted(TOPICS))
    unseen, truth = requests(50, seed=2, said=1, meant=0)
    assert [set(found) for found in classifier.predict(unseen)] == [set(t) for t in truth]


def test_it_is_calibrated(classifier):
    texts, categories = requests(800, seed=3)
    p = classifier.predict_proba(texts)
    truth = np.array([[name in names for name in classifier.classes_] for names in categories])
    assert error(p, truth) < 0.04
    # Far from always saying the mean.
    assert np.mean((p - truth) ** 2) < 0.6 * truth.mean() * (1 - truth.mean())


def test_probabilities(classifier):
    p = classifier.predict_proba(["rain on the map", "", "xyzzy", "地図", "rain " * 5000])
    assert p.shape == (5, 4)
    assert np.isfinite(p).all() and (p >= 0).all() and (p <= 1).all()
    assert p[0, 3] > p[1, 3] and p[4, 3] > p[1, 3]
    assert classifier.predict_proba([]).shape == (0, 4)
    assert classifier.predict([]) == ()


def test_the_most_probable_comes_first(classifier):
    (names,) = classifier.predict(["rain forecast storm and a map"])
    p = dict(
        zip(
            classifier.classes_,
            classifier.predict_proba(["rain forecast storm and a map"])[0],
            strict=True,
        )
    )
    assert names[0] == "Weather"
    assert [p[name] for name in names] == sorted((p[name] for name in names), reverse=True)


def test_the_same_seed_gives_the_same_classifier(classifier):
    again = CategoryClassifier().fit(*requests(400, seed=0))
    other = CategoryClassifier(random_state=1).fit(*requests(400, seed=0))
    texts = requests(20, seed=4)[0]
    np.testing.assert_array_equal(again.predict_proba(texts), classifier.predict_proba(texts))
    assert (other.predict_proba(texts) != classifier.predict_proba(texts)).any()


def test_the_order_and_the_number_of_a_requests_categories_do_not_matter(classifier):
    texts, categories = requests(400, seed=0)
    again = CategoryClassifier().fit(texts, [(*names[::-1], *names) for names in categories])
    np.testing.assert_array_equal(again.predict_proba(texts), classifier.predict_proba(texts))


def test_requests_without_a_category_teach_too():
    texts = ["rain", "rain", "sun", "sun", "snow"]
    p = CategoryClassifier().fit(texts, [["Wet"], ["Wet"], [], [], []]).predict_proba(texts)
    assert p[0, 0] > p[2, 0]


@pytest.mark.parametrize(
    ("texts", "categories"),
    [
        (["a map", "a song"], [["M"], ["M"]]),
        (["", ""], [["M"], []]),
        (["same", "same", "same"], [["M"], ["N"], []]),
        (["地図", "天気"], [["M"], ["N"]]),
    ],
    ids=["one class", "no words", "all the same", "no English"],
)
def test_little_to_learn_from(texts, categories):
    classifier = CategoryClassifier().fit(texts, categories)
    p = classifier.predict_proba([*texts, "xyzzy"])
    assert np.isfinite(p).all() and (p > 0).all() and (p < 1).all()
    assert all(len(names) >= 1 for names in classifier.predict(texts))


@pytest.mark.parametrize(
    ("options", "texts", "categories", "message"),
    [
        ({}, ["a"], [["M"], ["N"]], "1 texts but 2 lists of categories"),
        ({}, [], [], "a classifier needs at least two requests and two folds"),
        ({}, ["a"], [["M"]], "a classifier needs at least two requests and two folds"),
        (
            {"n_folds": 1},
            ["a", "b"],
            [["M"], ["N"]],
            "a classifier needs at least two requests and two folds",
        ),
        ({}, ["a", "b"], [[], []], "no request has a category (give at least one)"),
        ({}, ["a", "b"], ["M", "N"], "categories must be lists of names, got the string 'M'"),
        ({}, "ab", [["M"], ["N"]], "texts must be a list of strings, got the string 'ab'"),
        ({}, ["a", None], [["M"], ["N"]], "a text must be a string, got None"),
    ],
)
def test_what_it_refuses(options, texts, categories, message):
    with pytest.raises(InputError) as caught:
        CategoryClassifier(**options).fit(texts, categories)
    assert str(caught.value) == message


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_unfitted(method):
    with pytest.raises(NotFittedError) as caught:
        getattr(CategoryClassifier(), method)(["a map"])
    assert str(caught.value) == "this CategoryClassifier is not fitted yet (call fit first)"


@pytest.mark.parametrize("texts", ["a map", [b"a map"], [None]])
def test_predicting_what_is_no_text(classifier, texts):
    with pytest.raises(InputError):
        classifier.predict_proba(texts)


def test_the_routers_own_classifier(world, router):
    assert router.categories.classes_ == world.catalog.categories
    for case in world.cases:
        (names,) = router.categories.predict([case.request])
        assert names == world.catalog[case.clique[0]].categories


def test_state_round_trip(classifier):
    state = classifier.state()
    again = CategoryClassifier.from_state(classifier._encoder, classifier._weights, state)
    texts = requests(20, seed=5)[0]
    np.testing.assert_array_equal(again.predict_proba(texts), classifier.predict_proba(texts))
    assert again.classes_ == classifier.classes_
