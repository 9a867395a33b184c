"""What tokens cost, by model."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.llm import ModelPrice, Prices, Usage, money

GOOD = {"currency": "USD", "per": 1000, "models": {"small": {"in": 1, "out": 4, "cached_in": 0.5}}}


@dataclass(frozen=True)
class Call:
    role: str
    model: str
    usage: Usage


def read(tmp_path, document):
    path = tmp_path / "prices.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return Prices.read(path)


def test_tokens_in_out_and_those_that_the_server_had(tmp_path):
    prices = read(tmp_path, GOOD)
    assert (prices.currency, prices.per) == ("USD", 1000)
    assert prices.price("small", Usage(1000, 500, "server")) == 3.0
    assert prices.price("small", Usage(1000, 0, "server", tokens_cached=1000)) == 0.5
    whole = Prices("USD", {"small": ModelPrice(1, 4)}, per=1000)
    assert whole.price("small", Usage(1000, 0, "server", tokens_cached=1000)) == 1.0


def test_a_million_unless_it_is_said(tmp_path):
    prices = read(tmp_path, {"currency": "EUR", "models": {"a": {"in": 2, "out": 0}}})
    assert prices.price("a", Usage(1_000_000, 9, "server")) == 2.0


def test_a_model_that_is_not_listed_has_no_price_which_is_not_0(tmp_path):
    prices = read(tmp_path, GOOD)
    assert prices.price("large", Usage(0, 0, "server")) is None
    bill = prices.bill(
        [
            Call("manager", "large", Usage(10, 1, "server")),
            Call("manager", "small", Usage(10, 1, "server")),
            Call("contractor", "small", Usage(1000, 0, "estimated")),
        ]
    )
    assert (bill.total, bill.by_role) == (None, {"manager": None, "contractor": 1.0})
    assert (bill.unpriced, bill.is_estimated) == (("large",), True)
    assert bill.to_dict()["no_price"] == ["large"]
    assert bill.divided(2).by_role == {"manager": None, "contractor": 0.5}
    assert money(bill.total) == "unknown"


def test_nothing_asked_costs_nothing(tmp_path):
    bill = read(tmp_path, GOOD).bill([])
    assert (bill.total, bill.is_estimated, bill.unpriced) == (0.0, False, ())


def test_sums_by_role_and_by_model():
    prices = Prices("USD", {"a": ModelPrice(1, 0), "b": ModelPrice(10, 0)}, per=1)
    bill = prices.bill(
        [
            Call("manager", "a", Usage(1, 0, "server")),
            Call("contractor", "b", Usage(2, 0, "server")),
            Call("contractor", "b", Usage(3, 0, "server")),
            Call("contractor", "a", Usage(4, 0, "server")),
        ]
    )
    assert bill.by_role == {"manager": 1.0, "contractor": 54.0}
    assert bill.by_model == {"a": 5.0, "b": 50.0}
    assert (bill.total, bill.is_estimated) == (55.0, False)


def without(key):
    return {name: value for name, value in GOOD.items() if name != key}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([1], "expected a JSON object, got list .write"),
        ("{", "prices.json"),
        (without("currency"), "missing field 'currency'"),
        ({**GOOD, "currency": " "}, "currency"),
        ({**GOOD, "currency": 3}, "currency"),
        (without("models"), "missing field 'models'"),
        ({**GOOD, "models": {}}, "it has the price of no model"),
        ({**GOOD, "models": []}, "field 'models' must be an object"),
        ({**GOOD, "per": 0}, "per must be a whole number from 1"),
        ({**GOOD, "per": 1.5}, "per must be a whole number"),
        ({**GOOD, "pro": 1}, "the prices cannot have 'pro' .use currency, per, models"),
        ({**GOOD, "models": {"a": 3}}, "the price of 'a' must be an object"),
        ({**GOOD, "models": {"a": {"in": 1}}}, "the price of 'a' has no 'out'"),
        ({**GOOD, "models": {"a": {"in": 1, "out": -1}}}, "the price 'out' of 'a' must be a numb"),
        ({**GOOD, "models": {"a": {"in": None, "out": 1}}}, "the price 'in' of 'a' must be a num"),
        ({**GOOD, "models": {"a": {"in": "1", "out": 1}}}, "the price 'in' of 'a' must be a numb"),
        ({**GOOD, "models": {"a": {"in": True, "out": 1}}}, "the price 'in' of 'a' must be a num"),
        ({**GOOD, "models": {"a": {"in": 1, "out": 1, "cached": 1}}}, "cannot have 'cached'"),
        ('{"currency": "USD", "models": {"a": {"in": 1, "in": 2, "out": 1}}}', "'in'"),
        ('{"currency": "USD", "models": {"a": {"in": NaN, "out": 1}}}', "NaN"),
    ],
)
def test_what_is_not_a_file_of_prices(document, message, tmp_path):
    with pytest.raises(DataFileError, match=message) as caught:
        read(tmp_path, document)
    assert "prices.json" in str(caught.value)


def test_wrong_arguments():
    with pytest.raises(InputError, match="must be a ModelPrice"):
        Prices("USD", {"a": 3})
    with pytest.raises(InputError, match="models must be prices by name"):
        Prices("USD", [1])
