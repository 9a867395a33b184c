"""How a history is parted."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from scipy import sparse

from cnp_router import Api, Catalog, History, Mashup, evaluate, fit_router, load_sample
from cnp_router.training.corpus import MANY
from cnp_router.training.near_duplicates import NearDuplicates
from cnp_router.training.splits import (
    FEW,
    HIDDEN_SHARES,
    MAX_EXAMPLES,
    MOST_SPLITS,
    UNUSED_NEEDED,
    Said,
    asking_again,
    by_train,
    dated_splits,
    hiding_more,
    random_splits,
    untried_of,
)


def said_by(text, record=None):
    """Return what is said where different texts have no word in common."""
    near = NearDuplicates([f"{row}x" for row in np.unique(text)])
    return Said(text, text if record is None else record, near, [("a",)] * len(text))


def all_new(n):
    """Return what is said where each says something else."""
    return said_by(np.arange(n))


@pytest.mark.parametrize("n", [0, 1, 2, 7, 30, 499, 500, 1_200])
@pytest.mark.parametrize("dated", [False, True])
def test_random_folds_ask_each_mashup_once_and_never_one_that_is_known(n, dated):
    splits = random_splits(all_new(n), 40, dated=dated, random_state=0)
    asked = [row for split in splits for row in split.asked.tolist()]
    assert sorted(asked) == (list(range(n)) if n > 1 else [])
    for split in splits:
        assert not set(split.train) & set(split.asked)
        assert len(split.train) + len(split.asked) == n
        assert set(split.undated) <= set(split.asked)
        assert split.is_random


@pytest.mark.parametrize(
    ("n", "n_texts"),
    [(2, 1), (40, 2), (300, 7), (900, 60), (3_000, 700), (FEW + 1, 3), (FEW + 1, 90)],
)
def test_what_is_said_again_is_no_news_to_any_fold(n, n_texts):
    first = np.arange(n) % n_texts
    days = np.arange(n, dtype=np.float32)
    splits = random_splits(said_by(first), 40, dated=True, random_state=0)
    assert bool(splits) == (n_texts > 1)
    splits += dated_splits(days, said_by(first), random_state=0)
    for split in splits:
        assert len(split.train)
        assert len(split.asked)
        assert not set(first[split.train]) & set(first[split.asked])
        np.testing.assert_array_equal(split.said, first[split.asked])
        assert len(np.unique(split.said)) == len(split.said)
    said = np.concatenate([split.said for split in splits if split.is_random] or [np.zeros(0)])
    assert len(np.unique(said)) == len(said)
    assert len(said) == (n_texts if n_texts > 1 and n <= FEW else n_texts // 2)


@pytest.mark.parametrize(
    ("n", "n_texts", "n_known"),
    [(3, 2, 1), (900, 60, 60), (FEW, 12_000, MAX_EXAMPLES), (FEW + 1, 9_000, 4_500)],
)
def test_what_is_said_again_is_also_asked_of_who_knows_it(n, n_texts, n_known):
    first = np.arange(n) % n_texts
    before = random_splits(said_by(first), 40, dated=False, random_state=0)
    *others, again = asking_again(before, said_by(first), random_state=0)
    assert len(others) == len(before)
    assert np.isin(first[again.asked], first[again.train]).all()
    assert len(np.unique(again.said)) == len(again.said) == n_known
    assert again.is_known
    assert not again.is_natural
    assert not again.is_random
    assert not set(again.train) & set(again.asked)
    if n > FEW:  # these views are fitted for others anyway
        assert len(by_train([*others, again])) == 1


@pytest.mark.parametrize("first", [np.zeros(0, int), np.zeros(300, int), np.arange(300)])
def test_where_nothing_is_said_twice_or_nothing_else_nothing_is_asked_again(first):
    before = random_splits(said_by(first), 40, dated=False, random_state=0)
    after = asking_again(before, said_by(first), random_state=0)
    assert all(old is new for old, new in zip(before, after, strict=True))


def test_the_same_is_said_but_for_case_and_spaces():
    texts = ["Map of bars", "text me", "map  of BARS\n", "", "text me!", " ", "text me"]
    apis = [("maps",), ("sms",), ("maps", "bars"), ("maps",), ("sms",), ("maps",), ("sms",)]
    said = Said.of(texts, apis)
    assert said.text.tolist() == [0, 1, 0, 3, 4, 5, 1]
    assert said.record.tolist() == [0, 1, 2, 3, 4, 5, 1]
    assert said.n_records == 6
    assert Said.of([], []).n_records == 0


def test_the_same_text_is_asked_once_with_the_same_apis():
    said = said_by(np.array([0, 0, 0, 3, 3, 5]), np.array([0, 1, 0, 3, 3, 5]))
    splits = random_splits(said, 40, dated=False, random_state=0)
    asked = [split.asked.tolist() for split in splits]
    assert sorted(len(rows) for rows in asked) == [1, 1, 2]
    assert [1] not in asked  # with the other of its text


def test_where_all_say_the_same_each_with_other_apis_is_left_out():
    said = said_by(np.zeros(4, dtype=int), np.array([0, 1, 0, 3]))
    splits = random_splits(said, 40, dated=False, random_state=0)
    assert sorted(said.record[split.asked].tolist() for split in splits) == [[0], [1], [3]]


def test_also_where_there_are_many():
    said = Said.of(["the same"] * (FEW + 1), [(f"api{i % 30}",) for i in range(FEW + 1)])
    splits = random_splits(said, 40, dated=False, random_state=0)
    assert sum(len(split.asked) for split in splits) == 15
    for split in splits:
        assert not set(split.asked % 30) & set(split.train % 30)


def test_a_dated_history_hides_nothing_and_asks_some_without_their_date():
    dated = random_splits(all_new(2_000), 40, dated=True, random_state=1)
    plain = random_splits(all_new(2_000), 5_000, dated=False, random_state=1)
    shares = [len(split.hidden) / 5_000 for split in plain]
    assert shares == pytest.approx(HIDDEN_SHARES, abs=0.013)
    assert [split.is_natural for split in plain] == [share == 0 for share in HIDDEN_SHARES]
    assert not any(len(split.hidden) for split in dated)
    assert all(split.is_natural for split in dated)
    assert not any(len(split.undated) for split in plain)
    assert sum(len(split.undated) for split in dated) == pytest.approx(800, abs=80)


def test_what_is_asked_is_later_than_all_that_is_known():
    days = np.random.default_rng(0).permutation(3_000).astype(np.float32)
    splits = dated_splits(days, all_new(3_000), random_state=0)
    assert [round(len(split.train) / 300) for split in splits] == [4, 5, 6, 7, 8, 9, 3, 5, 7]
    for split in splits:
        assert days[split.train].max() < days[split.asked].min()
        assert not split.is_random
    rolling, long = splits[:6], splits[6:]
    for split in rolling:
        assert days[split.asked].max() - days[split.train].max() <= 300
    assert all(days[split.asked].max() > 2_900 for split in long)
    assert (
        len(random_splits(all_new(3_000), 40, dated=True, random_state=0)) + len(splits)
        <= MOST_SPLITS
    )


def test_cost_is_bounded():
    n = 50_000
    splits = random_splits(all_new(n), 40, dated=True, random_state=0)
    assert sum(len(split.asked) for split in splits) == MAX_EXAMPLES
    assert (
        sum(len(s.asked) for s in dated_splits(np.arange(n), all_new(n), random_state=0))
        <= MAX_EXAMPLES
    )


def test_the_same_seed_parts_alike():
    one, other = (random_splits(all_new(900), 40, dated=True, random_state=7) for _ in range(2))
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left.asked, right.asked)
        np.testing.assert_array_equal(left.undated, right.undated)


def usage(n_mashups, n_used, n_apis, seed=0):
    """Return which of a few APIs each mashup used: one or two of those that are used at all."""
    rng = np.random.default_rng(seed)
    rows, columns = np.repeat(np.arange(n_mashups), 2), rng.integers(0, n_used, 2 * n_mashups)
    pairs = np.unique(np.stack([rows, columns]), axis=1)
    ones = np.ones(pairs.shape[1], dtype=np.float32)
    return sparse.csr_array((ones, pairs), shape=(n_mashups, n_apis))


@pytest.mark.parametrize("n", [200, 499, 900])
def test_where_nearly_all_of_the_catalog_was_never_used_some_of_what_was_is_hidden(n):
    used = usage(n, 40, 400)
    before = random_splits(all_new(n), 400, dated=False, random_state=0)
    after = hiding_more(before, used, random_state=0)
    natural = [split for split in after if split.is_natural]
    hidden = np.concatenate([split.hidden for split in natural])
    assert len(hidden) / 40 / len(natural) == pytest.approx(UNUSED_NEEDED * 0.9, abs=0.06)
    assert hidden.max() < 40
    n_turned = 3 if n < MANY else 0  # a little history has no others that hide something
    assert [split.is_natural for split in after] == [
        split.is_natural and number >= n_turned for number, split in enumerate(before)
    ]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new.asked, old.asked)
        if not old.is_natural:
            np.testing.assert_array_equal(new.hidden, old.hidden)
        # All that is left of the past was served by something that can be seen.
        gone = np.setdiff1d(old.train, new.train)
        assert np.isin(used[gone].indices, new.hidden).all()
        for row in new.train:
            assert not np.isin(used[[row]].indices, new.hidden).all()
    assert len(by_train(after)) == len(after)


@pytest.mark.parametrize("n", [100, 200, 499])
def test_a_little_history_of_all_of_the_catalog_hides_in_some_folds_what_a_longer_one_does(n):
    used = usage(n, 40, 40)
    after = hiding_more(
        random_splits(all_new(n), 40, dated=False, random_state=0), used, random_state=0
    )
    assert [split.is_natural for split in after] == [False] * 3 + [True] * 7
    sizes = [len(split.hidden) for split in after]
    assert 0 < sum(sizes[:3]) < 40
    assert not any(sizes[3:])


@pytest.mark.parametrize(
    ("n", "n_used", "n_apis"),
    [
        (600, 40, 40),  # all were used
        (99, 40, 40),  # there are no trees
        (60, 390, 400),  # most of what is asked is new as it is
        (0, 1, 40),
        (1, 1, 40),
        (FEW + 1, 40, 400),
    ],
)
def test_otherwise_nothing_more_is_hidden(n, n_used, n_apis):
    before = random_splits(all_new(n), n_apis, dated=False, random_state=0)
    after = hiding_more(before, usage(n, n_used, n_apis), random_state=0)
    assert all(old is new for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("n", "n_used", "n_apis", "expected"),
    [
        (600, 40, 400, range(40, 400)),
        (200, 3, 20, range(3, 20)),  # whatever the draw hides of so few
        (600, 40, 40, ()),
        (60, 39, 40, ()),  # much of what is asked is new as it is
        (FEW + 1, 40, 400, ()),
    ],
)
def test_what_nothing_used_is_untried_only_where_more_is_hidden(n, n_used, n_apis, expected):
    splits = random_splits(all_new(n), n_apis, dated=False, random_state=0)
    untried = untried_of(splits, usage(n, n_used, n_apis))
    np.testing.assert_array_equal(untried, np.array(expected, dtype=int))


def test_a_history_is_never_hidden_whole():
    before = random_splits(all_new(15), 200, dated=False, random_state=0)
    for split in hiding_more(before, usage(15, 1, 200), random_state=0):
        assert len(split.train)
        assert not len(split.hidden)


def asked_for_others(n_used):
    """Return what a fit on requests for the most used APIs says to requests for none of them."""
    sample = load_sample()
    used = [api for mashup in sample.history for api in mashup.apis]
    few = set(sorted(set(used), key=lambda api: (-used.count(api), api))[:n_used])
    past = History([mashup for mashup in sample.history if set(mashup.apis) <= few])
    others = History([m for m in sample.history if not few & set(m.apis)][:150])
    return evaluate(fit_router(sample.catalog, past), others).to_dict()


def test_who_has_seen_few_tools_in_use_finds_the_others_too(monkeypatch):
    found = asked_for_others(30)
    none = np.zeros(0, dtype=np.intp)
    monkeypatch.setattr("cnp_router.training.fit.hiding_more", lambda splits, *_, **__: splits)
    monkeypatch.setattr("cnp_router.training.fit.untried_of", lambda *_: none)
    before = asked_for_others(30)
    assert found["ranking"]["recall@5"] > before["ranking"]["recall@5"] + 0.04
    assert found["recipients"]["recall"] > before["recipients"]["recall"] + 0.04


def test_tools_that_nobody_tried_are_found_better_if_they_count_less_as_not_needed(monkeypatch):
    found = asked_for_others(45)
    monkeypatch.setattr("cnp_router.training.ranker.UNTRIED_WEIGHT", 1.0)
    before = asked_for_others(45)
    assert found["ranking"]["recall@5"] > before["ranking"]["recall@5"] + 0.03
    assert found["recommendation"]["f1"] > before["recommendation"]["f1"] + 0.02


def test_a_log_of_repeats_teaches_no_less_about_what_is_new():
    sample = load_sample()
    past, new = sample.history[:150], History(list(sample.history)[-150:])
    log = [Mashup(f"{i} {m.id}", m.description, m.apis) for i in range(8) for m in past]
    once, again = (
        evaluate(fit_router(sample.catalog, History(history)), new).to_dict()
        for history in (past, log)
    )
    assert again["recipients"]["recall"] > once["recipients"]["recall"] - 0.05
    assert again["ranking"]["recall@5"] > once["ranking"]["recall@5"] - 0.03
    assert again["recommendation"]["f1"] > once["recommendation"]["f1"] - 0.03
    assert again["nothing_fits_rate"] < once["nothing_fits_rate"] + 0.03


def test_a_repeat_is_asked_of_hardly_anyone_else():
    sample = load_sample()
    past = sample.history[:150]
    log = [Mashup(f"{i} {m.id}", m.description, m.apis) for i in range(8) for m in past]
    found = evaluate(fit_router(sample.catalog, History(log)), History(past)).to_dict()
    assert found["recipients"]["recall"] > 0.98
    assert found["recipients"]["mean"] < 6


@pytest.mark.parametrize("n_texts", [1, 2])
@pytest.mark.parametrize("date", [None, datetime.date(2026, 1, 1)])
def test_a_log_of_hardly_anything_else(n_texts, date):
    sample = load_sample()
    log = [
        Mashup(str(i), m.description, m.apis, date=date)
        for i, m in enumerate(list(sample.history[:n_texts]) * (300 // n_texts))
    ]
    router = fit_router(sample.catalog, History(log))
    for mashup in sample.history[:n_texts]:
        assert set(router.recommend(mashup.description)) == set(mashup.apis)
    assert router.route("Text me when it will rain in my town tomorrow.").n_recipients


SAID = {
    "deploy": ("Roll out a service version to a cluster", "release {} on {}"),
    "logs": ("Query application logs by time and level", "errors of {} on {}"),
    "alerts": ("List firing alerts and silence them", "mute {} on {}"),
    "secrets": ("Rotate passwords and API keys", "new password for {} on {}"),
    "dns": ("Create and change domain records", "point {} at {}"),
    "backup": ("Snapshot and restore databases", "save the data of {} on {}"),
    "billing": ("Cloud cost reports by team", "what does {} on {} cost us"),
    "certs": ("Issue and renew TLS certificates", "https of {} on {} runs out"),
    "registry": ("List and delete container images", "which images of {} are on {}"),
    "firewall": ("Open and close network ports", "let {} through to {}"),
    "tickets": ("Create and update incident tickets", "file a bug about {} on {}"),
    "wiki": ("Search runbooks and postmortems", "how did we fix {} on {}"),
    "vm": ("Start, stop and resize virtual machines", "make the {} box on {} bigger"),
    "queue": ("Inspect and purge message queues", "how long is the backlog of {} on {}"),
    "users": ("Invite people and set their permissions", "let Jo into {} on {}"),
    "cdn": ("Purge cached pages at the edge", "clear the cache of {} on {}"),
}
SERVICES = ("checkout", "search", "payments", "auth", "cart", "mailer", "ledger", "gateway")
PLACES = ("prod", "staging", "eu-west", "canary", "the test cluster")


@pytest.mark.parametrize("n", [120, 250, 400])
def test_after_a_history_that_repeats_itself_other_words_do_not_make_all_probable(n):
    catalog = Catalog([Api(name, name, text) for name, (text, _) in SAID.items()])
    past = [
        Mashup(f"{name} {service} {place}", pattern.format(service, place), (name,))
        for name, (_, pattern) in SAID.items()
        for service in SERVICES
        for place in PLACES
    ]
    order = np.random.default_rng(0).permutation(len(past))[:n]
    router = fit_router(catalog, History([past[i] for i in order.tolist()]))
    for request, api in {
        "renew the TLS certificate of the shop": "certs",
        "give Maya permissions": "users",
        "restore the database from yesterday's snapshot": "backup",
        "open port 8443": "firewall",
    }.items():
        routing = router.route(request)
        assert routing.recommendation == (api,)
        assert router.score(request).probabilities.sum() < 1.5
