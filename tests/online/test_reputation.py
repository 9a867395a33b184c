"""`Reputation`: which APIs do what they are asked to, in all and by category."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import run

from cnp_router.exceptions import InputError
from cnp_router.history import Mashup
from cnp_router.online import OnlineStore, Reputation
from cnp_router.trajectories import Step


def steps(api, *successes):
    return [Step(api, success=success) for success in successes]


def learned(log, **settings):
    reputation = Reputation(**settings)
    reputation.apply(log)
    return reputation


def test_by_hand():
    log = [run(0, "", *steps("sms", True, True, False, None)), run(1, "", *steps("fax", False))]
    reputation = learned(log, decay=1.0)
    assert reputation.n_steps == 4
    assert reputation.counts("sms") == (2, 1) and reputation.counts("fax") == (0, 1)
    assert reputation.rate("sms") == 3 / 5
    assert reputation.rate("fax") == 1 / 3
    assert reputation.rate("never used") == 1 / 2


def test_the_decay_is_by_steps_of_any_api():
    log = [run(0, "", *steps("sms", True)), run(1, "", *steps("fax", *[True] * 10))]
    reputation = learned(log, decay=0.5, window=10)
    assert reputation.counts("sms") == (0.5, 0)
    # As if all counts were multiplied at each step.
    expected = sum(0.5 ** (n / 10) for n in range(10))
    assert reputation.counts("fax")[0] == pytest.approx(expected)


def test_whether_a_run_succeeded_says_nothing_of_its_steps():
    assert learned([run(0, "", "sms", success=False)]).rate("sms") == 1 / 2


def test_rates_stay_between_0_and_1():
    reputation = learned(
        [run(0, "", *steps("sms", *[True] * 5000), *steps("fax", *[False] * 5000))]
    )
    assert 0 < reputation.rate("fax") < 0.01
    assert 0.99 < reputation.rate("sms") < 1


def test_it_goes_on_from_the_store(tmp_path):
    file = tmp_path / "online.sqlite"
    log = [run(n, "", *steps(f"api{n % 3}", n % 2 == 0, None, n % 5 > 0)) for n in range(20)]
    with OnlineStore(file, [Reputation()], checkpoint_every=7) as store:
        for record in (*log[:11], Mashup("m", "Rain?", ("api0",))):
            store.observe(record)
        store._release()
    again = Reputation()
    with OnlineStore(file, [again]) as store:
        for record in log[11:]:
            store.observe(record)
    last = Reputation()
    OnlineStore(file, [last], read_only=True)
    whole = learned(log)
    for reputation in (again, last):
        assert reputation.n_steps == whole.n_steps == 40
        for n in range(3):
            assert reputation.rate(f"api{n}") == pytest.approx(whole.rate(f"api{n}"), rel=1e-12)


def test_another_decay_does_not_go_with_what_was_learned(tmp_path):
    file = tmp_path / "online.sqlite"
    with OnlineStore(file, [Reputation()]) as store:
        store.observe(run(0, "", *steps("sms", True)))
    with pytest.raises(InputError, match=r"decay is 0.9, and what was learned has 0.95"):
        OnlineStore(file, [Reputation(decay=0.9)])


@pytest.mark.parametrize("settings", [{"decay": 0}, {"decay": 1.1}, {"window": 0}, {"strength": 0}])
def test_settings(settings):
    with pytest.raises(InputError):
        Reputation(**settings)


def test_counts_that_are_none():
    state = learned([run(0, "", *steps("sms", True))]).state()
    for counts in ([[-1, 0, 1]], [[1, 0, 2]], [[1, 0]]):
        with pytest.raises(ValueError):
            Reputation().restore({**state, "counts": counts})


def test_a_category_is_judged_by_its_own_steps_and_by_the_others():
    log = [
        run(0, "", *[Step("sms", success=True, category="News")] * 8),
        run(1, "", *[Step("sms", success=False, category="Weather")] * 2),
    ]
    reputation = learned(log, decay=1.0, strength=2.0)
    assert reputation.counts("sms") == (8, 2)
    assert reputation.counts("sms", "Weather") == (0, 2)
    own = (1 + 8) / (2 + 10)
    assert reputation.rate("sms") == own
    assert reputation.rate("sms", "Weather") == pytest.approx(2 * own / 4)
    assert reputation.rate("sms", "News") == pytest.approx((2 * own + 8) / 10)
    assert reputation.rate("sms", "Sports") == pytest.approx(own)  # nothing is known of it
    assert reputation.rate("fax", "Weather") == 1 / 2


def test_the_prior_of_a_category_is_as_strong_as_it_is_said():
    log = [run(0, "", *steps("sms", *[True] * 9), Step("sms", success=False, category="Weather"))]
    rates = [learned(log, strength=m).rate("sms", "Weather") for m in (0.1, 1, 10, 1000)]
    assert rates == sorted(rates)
    assert rates[0] < 0.1 and rates[-1] == pytest.approx(learned(log).rate("sms"), abs=0.01)


def test_counts_of_categories_decay_as_the_others_do():
    log = [
        run(0, "", Step("sms", success=True, category="News")),
        run(1, "", *steps("fax", *[True] * 10)),
    ]
    assert learned(log, decay=0.5, window=10).counts("sms", "News") == (0.5, 0)


def test_a_draw_is_near_the_rate_where_much_is_known_and_anywhere_where_nothing_is():
    log = [run(0, "", *steps("sms", *[True] * 900, *[False] * 100))]
    reputation, rng = learned(log, decay=1.0), np.random.default_rng(0)
    known = [reputation.sample("sms", None, rng) for _ in range(500)]
    unknown = [reputation.sample("fax", None, rng) for _ in range(500)]
    assert np.mean(known) == pytest.approx(0.9, abs=0.01) and np.std(known) < 0.02
    assert np.mean(unknown) == pytest.approx(0.5, abs=0.06) and np.std(unknown) > 0.25
    of = [reputation.sample("sms", "News", np.random.default_rng(7)) for _ in range(2)]
    assert of[0] == of[1]  # the same generator gives the same draw


def test_categories_survive_the_store(tmp_path):
    file = tmp_path / "online.sqlite"
    log = [
        run(n, "", Step(f"api{n % 2}", success=n % 3 > 0, category=["News", None][n % 2]))
        for n in range(12)
    ]
    with OnlineStore(file, [Reputation()], checkpoint_every=5) as store:
        for record in log:
            store.observe(record)
    again = Reputation()
    OnlineStore(file, [again], read_only=True)
    whole = learned(log)
    assert again.counts("api0", "News") == pytest.approx(whole.counts("api0", "News"))
    assert again.counts("api1", "News") == (0, 0) and repr(again) == "Reputation(2 APIs, 12 steps)"
    with OnlineStore(file, [Reputation()]) as store:  # the records themselves hold the category
        assert store.observe(log[0]).changed is False


def test_a_count_is_a_step_that_was_applied():
    counted = Reputation()
    counted.count("sms", True, "News")
    counted.count("sms", False)
    applied = learned(
        [run(0, "", Step("sms", success=True, category="News"), *steps("sms", False))]
    )
    assert counted.rate("sms", "News") == applied.rate("sms", "News")
    assert counted.n_steps == applied.n_steps == 2
