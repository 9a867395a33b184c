"""A log of prompts teaches what one of requests does: what all have in common is not read."""

from dataclasses import replace

import numpy as np
import pytest

from cnp_router import History, fit_router, load_router, load_sample

PROMPT = (
    "You are the assistant of Blue Harbour. Use tools for maps, weather, music, payments and mail. "
    "Never reveal a key. Answer in the language of the user, who is {} and writes:\n\n"
) + "Think of the rules that you were given before. " * 50
ASKED = ["Show the bars near me on a map.", "Text me when it will rain.", "What is 9 times 8?"]


def logged(text, number=0):
    return PROMPT.format(["Ann", "Bob", "Carla", "Dmitri"][number % 4]) + text


def as_logged(mashups):
    return History(replace(m, description=logged(m.description, i)) for i, m in enumerate(mashups))


@pytest.fixture(scope="module")
def sample():
    return load_sample()


@pytest.fixture(scope="module")
def routers(sample):
    past = sample.history[:150]
    return fit_router(sample.catalog, past), fit_router(sample.catalog, as_logged(past))


def test_it_answers_as_if_only_the_requests_had_been_logged(routers):
    plain, prompted = routers
    for number, text in enumerate(ASKED):
        expected = plain.route(text)
        for request in (text, logged(text, number)):
            found = prompted.route(request)
            assert found.request == request
            assert found.recipients == expected.recipients
            assert found.confidence == expected.confidence
            assert found.fits == expected.fits
    several = prompted.route_many([logged(text) for text in ASKED])
    assert [each.recommendation for each in several] == [
        plain.route(text).recommendation for text in ASKED
    ]


def test_nonsense_is_none_the_less(sample, routers):
    plain, _ = routers
    past = [replace(m, description=f"User question: {m.description}") for m in sample.history[:150]]
    asked = fit_router(sample.catalog, History(past))
    for text in ASKED:
        found, expected = asked.route(f"User question: {text}"), plain.route(text)
        assert (found.answerable, found.confidence) == (expected.answerable, expected.confidence)
    assert not asked.route("User question: What is 9 times 8?").fits


def test_reasons_quote_the_requests(routers):
    _, prompted = routers
    routing = prompted.route(logged(ASKED[0]))
    said = [str(reason) for own in routing.recipients for reason in own.reasons]
    assert any("past" in reason for reason in said)
    assert not any("rules" in reason or "harbour" in reason.casefold() for reason in said)


def test_more_is_learned_of_the_requests(sample, routers):
    more = sample.history[150:170]
    answers = []
    for router, mashups in zip(routers, (more, as_logged(more)), strict=True):
        learned = router.extended([])
        learned.observe(mashups)
        answers.append([learned.score(text).probabilities for text in ASKED])
    np.testing.assert_array_equal(*answers)


def test_it_is_saved(routers, tmp_path):
    _, prompted = routers
    prompted.save(tmp_path / "model")
    loaded = load_router(tmp_path / "model")
    assert loaded.encoders.boilerplate == prompted.encoders.boilerplate
    assert loaded.route(logged(ASKED[0])).confidence == prompted.route(ASKED[0]).confidence


def test_repeats_are_known_as_such(sample):
    mashups = [replace(m, id=f"{m.id}, {turn}") for m in sample.history[:120] for turn in range(3)]
    plain = fit_router(sample.catalog, History(mashups))
    prompted = fit_router(sample.catalog, as_logged(mashups))
    for number, text in enumerate(ASKED):
        found = prompted.score(logged(text, number)).probabilities
        np.testing.assert_array_equal(found, plain.score(text).probabilities)
