"""What somebody may have meant who wrote a name that is not there."""

import random

import pytest

from cnp_router import Api, Catalog, UnknownApiError
from cnp_router.closest import closest

MANY = [f"source{i % 97}__{verb}_{i}" for verb in ("get", "put", "list") for i in range(2_000)]


@pytest.mark.parametrize("n", [10, len(MANY)])
def test_a_slip_of_the_pen_is_found_among_few_and_many(n):
    known = [*MANY[:n], "stripe__refund_payment"]
    for wrong in ("strpe__refund_payment", "stripe__refnud_paymnet", "stripe_refund_payments"):
        assert closest(wrong, known) == ["stripe__refund_payment"]


def test_what_is_like_none_of_them_has_none():
    for name in ("", "x", "q" * 10, "q" * 100_000):
        assert closest(name, MANY) == []


def test_of_many_few_are_compared_letter_by_letter(monkeypatch):
    compared = []
    monkeypatch.setattr(
        "difflib.get_close_matches", lambda name, known, n: compared.append(len(known)) or []
    )
    for size in (100, 1_001, len(MANY)):
        closest("source1__get_thing", MANY[:size])
    assert compared[0] == 100 and compared[1] == compared[2] < 100


def test_it_is_that_of_all_where_a_few_letters_differ():
    rng = random.Random(0)
    for _ in range(20):
        name = rng.choice(MANY)
        place = rng.randrange(len("source"))
        wrong = name[:place] + rng.choice("xyz") + name[place + 1 :]
        (found,) = closest(wrong, MANY)
        assert sum(a != b for a, b in zip(found, name, strict=False)) <= 2


def test_a_large_catalog_says_which_api_may_be_meant():
    catalog = Catalog(Api(name, name) for name in [*MANY, "stripe__refund_payment"])
    with pytest.raises(UnknownApiError, match="did you mean 'stripe__refund_payment'"):
        catalog["strpe__refund_payment"]
