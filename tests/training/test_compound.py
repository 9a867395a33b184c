"""Requests for several things at once, of a router whose history asks one at a time."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from planted import COMMON, _words

from cnp_router.catalog import Api, Catalog
from cnp_router.datasets import load_sample
from cnp_router.history import History, Mashup
from cnp_router.routing import TopK
from cnp_router.text import cuts
from cnp_router.training import fit_router, load_router
from cnp_router.training.compound import (
    Compound,
    clause_reasons,
    most_doubt,
    prior_log_odds,
    read,
)

APIS = np.array([2, 3, 7, 9])
MAPS, MAIL, SONG, REST = np.eye(4)
UNSURE = np.full(4, 0.05)
REQUEST = "Show bars on maps, and mail them to friends"


def judge(**sure):
    """What is sure of an API where a word is in the text, and knows nothing of other texts."""

    def judged(texts):
        judged.texts.extend(texts)
        rows = [
            max((v for w, v in sure.items() if w in t), key=np.max, default=UNSURE) for t in texts
        ]
        return APIS, np.stack(rows)

    judged.texts = []
    return judged


def test_halves_that_are_sure_of_different_apis_are_both_needed():
    whole = 0.5 * MAPS + 0.1 * MAIL
    found = read(REQUEST, APIS, whole, judge(maps=0.9 * MAPS, mail=0.8 * MAIL))
    assert found.n_needs() == 2
    assert found.favourites.tolist() == [2, 3]
    assert found.probabilities[0] > 0.85
    assert found.probabilities[1] > 0.7
    assert found.probabilities[2] == found.probabilities[3] == 0
    assert found.texts == ("Show bars on maps", "mail them to friends")


def test_what_is_known_already_is_no_need():
    found = read(REQUEST, APIS, UNSURE, judge(maps=0.9 * MAPS, mail=0.8 * MAIL))
    assert found.n_needs([2]) == 1
    assert found.n_needs([2, 3]) == 1


def test_halves_that_favour_the_same_api_are_one_request():
    assert read(REQUEST, APIS, UNSURE, judge(maps=0.9 * MAPS, mail=0.8 * MAPS)) is None


def test_apis_that_only_the_halves_or_only_the_whole_name():
    def halves(texts):
        return np.array([4, 5]), np.array([[0.9, 0.0] if "maps" in t else [0, 0.8] for t in texts])

    found = read(REQUEST, np.array([1, 4]), np.array([0.3, 0.2]), halves)
    assert found.positions.tolist() == [1, 4, 5]
    assert found.probabilities[0] == 0.3
    assert found.probabilities[1:].min() > 0.4
    assert found.favourites.tolist() == [4, 5]
    assert set(clause_reasons(found, range(7))) == {4, 5}


def test_of_halves_that_nothing_serves_none_is_a_need():
    def nothing(texts):
        return np.zeros(0, dtype=int), np.zeros((len(texts), 0))

    assert read(REQUEST, APIS, MAPS, nothing) is None
    assert read(REQUEST, APIS, MAPS, judge(maps=0.9 * MAPS), nothing) is None


def test_halves_that_are_not_sure_decide_little():
    found = read(REQUEST, APIS, 0.6 * MAPS, judge(maps=0.9 * MAPS))
    assert found is None or found.probabilities[1:].max() < 0.05


def test_a_whole_that_is_sure_of_one_outvotes_the_halves():
    sure = judge(maps=0.9 * MAPS, mail=0.6 * MAIL)
    torn = read(REQUEST, APIS, 0.5 * MAPS + 0.2 * MAIL, sure)
    decided = read(REQUEST, APIS, 0.97 * MAPS + 0.002 * MAIL, sure)
    assert decided.probabilities[1] < 0.5 * torn.probabilities[1]
    assert read(REQUEST, APIS, 0.999 * MAPS, sure) is None


def test_a_fragment_counts_less_than_a_half():
    sure = judge(maps=0.9 * MAPS, mail=0.6 * MAIL)
    whole = 0.6 * MAPS + 0.02 * MAIL
    half = read("Show bars on maps, mail them to friends", APIS, whole, sure)
    fragment = read(
        "Show bars of every town and every kind on maps, mail them soon", APIS, whole, sure
    )
    assert fragment.probabilities[1] < half.probabilities[1]


def test_a_request_of_one_part_is_not_judged_again():
    found = judge()
    assert read("Show bars on maps", APIS, MAPS, found, found) is None
    assert not found.texts


def test_what_a_glance_does_not_believe_is_not_judged():
    closely = judge(maps=0.9 * MAPS, mail=0.8 * MAIL)
    assert read(REQUEST, APIS, UNSURE, closely, judge()) is None
    assert not closely.texts
    assert read(REQUEST, APIS, UNSURE, closely, judge(maps=0.5 * MAPS, mail=0.4 * MAIL)) is not None


@pytest.mark.parametrize("glance", [None, judge(maps=0.9 * MAPS, mail=0.8 * MAIL, song=0.8 * SONG)])
def test_few_cuts_are_judged(glance):
    closely = judge(maps=0.9 * MAPS, mail=0.8 * MAIL, song=0.8 * SONG)
    text = "bars on maps, shops on maps, mail my boss, mail my friend, song of birds, song of rain"
    assert read(text, APIS, UNSURE, closely, glance) is not None
    assert len(closely.texts) == 4  # both parts of two cuts


def test_without_a_glance_the_cuts_nearest_to_the_middle_are_judged():
    closely = judge()
    text = "bars on maps, shops on maps, mail my boss, mail my friend, song of birds, song of rain"
    read(text, APIS, UNSURE, closely)
    pairs = list(cuts(text))
    balance = [min(map(len, pair)) / max(map(len, pair)) for pair in pairs]
    halves = zip(closely.texts[::2], closely.texts[1::2], strict=True)
    judged = [pairs.index(pair) for pair in halves]
    assert len(pairs) > len(judged) == 2 and judged == sorted(judged)
    assert sorted(balance[i] for i in judged) == sorted(balance)[-2:]


def test_the_cuts_that_a_glance_believes_in_most_are_judged():
    text = "bars on maps, shops on maps, mail my boss, mail my friend, song of birds, song of rain"
    pairs, closely = list(cuts(text)), judge()
    believed = pairs[0], pairs[-1]

    def glance(texts):
        sure = [0.95 if pair in believed else 0.2 for pair in pairs for _ in pair]
        return APIS, np.array(sure)[:, None] * np.tile([MAPS, MAIL], (len(pairs), 1))

    read(text, APIS, UNSURE, closely, glance)
    assert tuple(closely.texts) == (*believed[0], *believed[1])


def test_only_the_halves_of_cuts_that_are_believed_are_kept():
    text = "Show bars on maps. Show shops on maps. Mail them to friends."
    found = read(text, APIS, UNSURE, judge(maps=0.9 * MAPS, Mail=0.8 * MAIL))
    assert found.texts == ("Show bars on maps. Show shops on maps.", "Mail them to friends.")
    assert found.n_needs() == 2


def test_three_things():
    sure = judge(maps=0.7 * MAPS, mail=0.8 * MAIL, song=0.9 * SONG)
    found = read(
        "Show bars on maps. Then mail old friends. Play a song of rain.", APIS, UNSURE, sure
    )
    assert found.n_needs() == 3
    assert found.probabilities[:3].min() > 0.3


@pytest.mark.parametrize(
    ("n_mashups", "n_compound", "expected"),
    [
        (0, 0, True),
        (1, 1, True),
        (5, 5, False),
        (1000, 0, True),
        (1000, 100, True),
        (1000, 300, False),
        (1000, 1000, False),
    ],
)
def test_a_history_of_several_needs_is_left_alone(n_mashups, n_compound, expected):
    assert (prior_log_odds(n_mashups, n_compound) is not None) is expected


def test_the_more_history_the_more_the_halves_are_trusted():
    odds = [prior_log_odds(n, 0) for n in (8, 15, 250, 4_000, 100_000)]
    assert odds == sorted(odds)
    assert odds[0] < -2 < 2 < odds[3]


def test_the_first_mashups_take_step_by_step_from_what_is_thought_without_any():
    odds = [prior_log_odds(n, 0) for n in range(200)]
    assert odds[0] == 0
    steps = np.diff(odds)
    assert np.abs(steps).max() < 0.7
    assert steps[:7].max() < 0 < steps[8:].min()


def test_a_whole_that_shares_what_is_probable_says_little_against_a_cut():
    sure = judge(maps=0.9 * MAPS, mail=0.8 * MAIL)
    whole = 0.97 * MAPS + 0.002 * MAIL
    doubts = [read(REQUEST, APIS, whole, sure, doubt=doubt) for doubt in (0.5, 2.0, math.inf)]
    mail = [found.probabilities[1] for found in doubts]
    assert mail == sorted(mail, reverse=True)
    assert mail[0] > 0.7
    assert mail[2] < 0.3
    assert most_doubt(0) == most_doubt(250) == 2
    assert most_doubt(251) == math.inf


@pytest.mark.parametrize(
    ("request_", "needed"),
    [
        ("Show the weather forecast and play a song", ("openweather", "spotify")),
        ("Translate a sentence, then print a map of Berlin", ("google-translate", "mapbox")),
        ("Text my sister, and what is on television tonight?", ("twilio", "tmdb")),
    ],
)
def test_without_history_either_half_may_be_a_need(request_, needed):
    sample = load_sample()
    router = fit_router(sample.catalog)
    places = np.sort([*map(sample.catalog.position, needed)])
    read_, whole = router.score(request_).at(places), without(router).score(request_).at(places)
    assert read_.min() > 1.2 * whole.min()
    assert read_.max() >= whole.max()


def test_reasons_name_the_half():
    found = read(REQUEST, APIS, UNSURE, judge(maps=0.9 * MAPS, mail=0.8 * MAIL + 0.2 * SONG))
    reasons = clause_reasons(found, [0, 2, 3, 7, 9, 10])
    assert {i: reason.text for i, reason in reasons.items()} == {
        2: "asked for in “Show bars on maps”",
        3: "asked for in “mail them to friends”",
        7: "asked for in “mail them to friends”",
    }
    assert {reason.kind for reason in reasons.values()} == {"clause"}


def test_of_halves_that_say_the_same_the_shortest_is_named():
    text = "Show bars on maps. Send them to friends. Play a song of rain."
    found = read(text, APIS, UNSURE, judge(maps=0.9 * MAPS, song=0.8 * SONG))
    assert len(found.texts) == 4
    assert clause_reasons(found, [7])[7].references == ("Play a song of rain.",)


@pytest.mark.parametrize(("short", "named"), [(0.75, "a song"), (0.7, "a song of all birds")])
def test_of_halves_that_say_about_the_same_the_shortest_is_named(short, named):
    halves = np.array([[0.9, 0.05, 0.05, 0.0], [short, 0.0, 0.0, 0.0]])
    found = Compound(APIS, UNSURE, ("a song of all birds", "a song"), halves, np.array([2, 3]))
    reasons = clause_reasons(found, APIS)
    assert reasons[2].references == (named,)
    # A favourite is asked for however improbable it is; what is no favourite is not.
    assert set(reasons) == {2, 3}


@pytest.fixture(scope="module")
def topics():
    """The words of each API."""
    draw = random.Random(3)
    words = _words(draw, 12 * 10)
    return {f"api{i}": words[10 * i : 10 * i + 10] for i in range(12)}


def said(draw, words):
    chosen = [*draw.sample(words, 4), *draw.sample(COMMON, 2)]
    return " ".join(draw.sample(chosen, len(chosen))).capitalize()


@pytest.fixture(scope="module")
def ones(topics):
    """A router of a history in which each request needs one API."""
    draw = random.Random(0)
    catalog = Catalog(
        [Api(api, api.capitalize(), f"{said(draw, words)}.") for api, words in topics.items()]
    )
    history = [
        Mashup(f"{api}-{i}", f"{said(draw, words)}.", (api,))
        for api, words in topics.items()
        for i in range(42)
    ]
    return fit_router(catalog, History(draw.sample(history, len(history))))


@pytest.fixture(scope="module")
def joined(topics):
    """Requests for two things in several forms, and what they need."""
    draw = random.Random(1)
    forms = ["{}. {}.", "{} and {}.", "{}, {}.", "1. {} 2. {}", "{}; then {}", "{}。{}。"]
    found = []
    for i in range(60):
        two = draw.sample(sorted(topics), 2)
        texts = (said(draw, topics[api]) for api in two)
        found.append((forms[i % len(forms)].format(*texts), set(two)))
    return found


def without(router):
    """Return the router as it is without looking at parts."""
    plain = type(router).from_state(router.catalog, router.history, router.state(), router.summary)
    plain.compound = False
    return plain


def test_joined_requests_find_both(ones, joined):
    both = [set(ones.recommend(text)) == needed for text, needed in joined]
    assert np.mean(both) > 0.9
    assert all(needed <= set(ones.route(text).contractors) for text, needed in joined)

    def least(router):
        at = router.catalog.position
        scored = zip(router.score_many([text for text, _ in joined]), joined, strict=True)
        return np.array([scores.at(np.array([*map(at, n)])).min() for scores, (_, n) in scored])

    assert np.mean(least(ones) > least(without(ones))) > 0.9


def test_single_requests_are_answered_as_before(ones, topics):
    draw, plain = random.Random(2), without(ones)
    for api, words in topics.items():
        text = f"{said(draw, words)}."
        assert np.array_equal(ones.score(text).probabilities, plain.score(text).probabilities)
        first, *others = said(draw, words).split()
        parted = f"{first} {others[0]}, {' '.join(others[1:])}."
        assert ones.recommend(parted) == (api,)
        assert ones.score(parted).n_needs == 1


def test_scores_say_how_many_things_are_asked_for(ones, joined):
    assert np.mean([ones.score(text).n_needs == 2 for text, _ in joined]) > 0.9


def test_the_reason_is_the_clause(ones, joined):
    text, needed = joined[0]
    routing = ones.route(text)
    first, second = (half.strip(" .") for half in text.split(". "))
    halves = {api: half for api in needed for half in (first, second) if _is_of(api, half, ones)}
    for recipient in routing.recipients:
        if recipient.contractor in needed:
            reason = recipient.reasons[0]
            assert reason.kind == "clause"
            assert reason.references[0].strip(" .") == halves[recipient.contractor]
            assert len(recipient.reasons) <= 3


def _is_of(api, text, router):
    return router.recommend(text)[0] == api


def test_a_known_api_leaves_the_other_need(ones, joined):
    for text, needed in joined[:12]:
        known, missing = sorted(needed)
        scores = ones.score(text, [known])
        assert scores.n_needs == 1
        assert scores.top(1)[0][0] == missing


def test_other_rules_ask_as_many_as_they_say(ones, joined):
    text, needed = joined[0]
    assert set(ones.route(text, select=TopK(2)).contractors) == needed


def test_it_can_be_switched_off_and_on(ones, joined, router, world):
    plain = without(ones)
    text, _ = joined[0]
    assert plain.score(text).n_needs == 1
    plain.compound = True
    assert plain.score(text).n_needs == 2
    # The planted world asks for several APIs at once: its router is left alone by default.
    left = [case.request + " " + world.cases[0].request for case in world.cases[1:]]
    switched = without(router)
    for text in left:
        expected = switched.score(text).probabilities
        assert np.array_equal(router.score(text).probabilities, expected)


def test_a_saved_router_reads_the_same(ones, joined, tmp_path):
    ones.save(tmp_path / "model")
    loaded = load_router(tmp_path / "model")
    for text, _ in joined[:6]:
        assert np.array_equal(loaded.score(text).probabilities, ones.score(text).probabilities)


def test_it_ends_once_the_history_knows_of_several_needs(ones, joined):
    learned = type(ones).from_state(ones.catalog, ones.history, ones.state(), ones.summary)
    more = [Mashup(f"j{i}-{n}", t, tuple(a)) for i, (t, a) in enumerate(joined) for n in range(3)]
    assert learned.score(joined[0][0]).n_needs == 2
    learned.observe(more)
    assert all(learned.score(text).n_needs == 1 for text, _ in joined)
