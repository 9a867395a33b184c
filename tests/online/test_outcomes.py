"""`Outcomes`: which APIs do what they are asked to."""

from __future__ import annotations

import pytest
from worlds import run

from cnp_router.exceptions import InputError
from cnp_router.history import Mashup
from cnp_router.online import OnlineStore, Outcomes
from cnp_router.trajectories import Step


def steps(api, *successes):
    return [Step(api, success=success) for success in successes]


def learned(log, **settings):
    outcomes = Outcomes(**settings)
    outcomes.apply(log)
    return outcomes


def test_by_hand():
    log = [run(0, "", *steps("sms", True, True, False, None)), run(1, "", *steps("fax", False))]
    outcomes = learned(log, decay=1.0)
    assert outcomes.n_steps == 4
    assert outcomes.counts("sms") == (2, 1) and outcomes.counts("fax") == (0, 1)
    assert outcomes.rate("sms") == 3 / 5
    assert outcomes.rate("fax") == 1 / 3
    assert outcomes.rate("never used") == 1 / 2


def test_the_decay_is_by_steps_of_any_api():
    log = [run(0, "", *steps("sms", True)), run(1, "", *steps("fax", *[True] * 10))]
    outcomes = learned(log, decay=0.5, window=10)
    assert outcomes.counts("sms") == (0.5, 0)
    # As if all counts were multiplied at each step.
    expected = sum(0.5 ** (n / 10) for n in range(10))
    assert outcomes.counts("fax")[0] == pytest.approx(expected)


def test_whether_a_run_succeeded_says_nothing_of_its_steps():
    assert learned([run(0, "", "sms", success=False)]).rate("sms") == 1 / 2


def test_rates_stay_between_0_and_1():
    outcomes = learned([run(0, "", *steps("sms", *[True] * 5000), *steps("fax", *[False] * 5000))])
    assert 0 < outcomes.rate("fax") < 0.01
    assert 0.99 < outcomes.rate("sms") < 1


def test_it_goes_on_from_the_store(tmp_path):
    file = tmp_path / "online.sqlite"
    log = [run(n, "", *steps(f"api{n % 3}", n % 2 == 0, None, n % 5 > 0)) for n in range(20)]
    with OnlineStore(file, [Outcomes()], checkpoint_every=7) as store:
        for record in (*log[:11], Mashup("m", "Rain?", ("api0",))):
            store.observe(record)
        store._release()
    again = Outcomes()
    with OnlineStore(file, [again]) as store:
        for record in log[11:]:
            store.observe(record)
    last = Outcomes()
    OnlineStore(file, [last], read_only=True)
    whole = learned(log)
    for outcomes in (again, last):
        assert outcomes.n_steps == whole.n_steps == 40
        for n in range(3):
            assert outcomes.rate(f"api{n}") == pytest.approx(whole.rate(f"api{n}"), rel=1e-12)


def test_another_decay_does_not_go_with_what_was_learned(tmp_path):
    file = tmp_path / "online.sqlite"
    with OnlineStore(file, [Outcomes()]) as store:
        store.observe(run(0, "", *steps("sms", True)))
    with pytest.raises(InputError, match=r"decay is 0.9, and what was learned has 0.95"):
        OnlineStore(file, [Outcomes(decay=0.9)])


@pytest.mark.parametrize("settings", [{"decay": 0}, {"decay": 1.1}, {"window": 0}])
def test_settings(settings):
    with pytest.raises(InputError):
        Outcomes(**settings)


def test_counts_that_are_none():
    state = learned([run(0, "", *steps("sms", True))]).state()
    for counts in ([[-1, 0, 1]], [[1, 0, 2]], [[1, 0]]):
        with pytest.raises(ValueError):
            Outcomes().restore({**state, "counts": counts})
