"""What may be given as the steps of a prefix."""

from __future__ import annotations

import pytest

from cnp_router.exceptions import InputError
from cnp_router.prediction.predictor import as_steps
from cnp_router.trajectories import Step

ONE, TWO = Step("one"), Step("two")


class Own(Step):
    """A step of somebody's own."""


@pytest.mark.parametrize("kind", [list, tuple, iter])
@pytest.mark.parametrize("given", [[], [ONE, TWO], [ONE, "two"], ["one", "two"], [Own("one")]])
def test_steps_and_ids_in_whatever_holds_them(kind, given):
    found = as_steps(kind(given))
    assert [step.tool for step in found] == [getattr(step, "tool", step) for step in given]
    assert all(isinstance(step, Step) for step in found)


def test_what_was_given_stays_as_it_is():
    given = [ONE, TWO]
    as_steps(given).append(ONE)
    assert given == [ONE, TWO]


@pytest.mark.parametrize("given", ["one", None, 3, [ONE, 3], [None]])
def test_all_else_is_an_error(given):
    with pytest.raises(InputError):
        as_steps(given)
