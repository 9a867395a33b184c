"""`Prices`: what tokens cost, by model; a model that is not listed has no price."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from cnp_router.exceptions import InputError
from cnp_router.files import read_json
from cnp_router.llm.chat import Usage
from cnp_router.records import Record, check_id, check_number, shown

__all__ = ["Bill", "ModelPrice", "Paid", "Prices", "money", "usages"]

_KEYS = {"in": "tokens_in", "out": "tokens_out", "cached_in": "tokens_cached"}


class Paid(Protocol):
    """What a bill is made of: who was asked, in which role, for how many tokens."""

    @property
    def role(self) -> str:
        """Who was asked."""

    @property
    def model(self) -> str:
        """The name of the model that answered."""

    @property
    def usage(self) -> Usage:
        """What that took."""


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What tokens of a model cost, in the currency and for the number of tokens of its `Prices`.

    Parameters
    ----------
    tokens_in, tokens_out : float >= 0
    tokens_cached : float >= 0 or None, default=None
        Of prompts that the server had kept; None is as `tokens_in`.
    """

    tokens_in: float
    tokens_out: float
    tokens_cached: float | None = None


@dataclass(frozen=True, slots=True)
class Bill:
    """What models have cost.

    Parameters
    ----------
    currency : str
    by_role, by_model : mapping of str to float >= 0 or None
        None where a model has no price.
    unpriced : tuple of str
        Models that were asked and have no price.
    is_estimated : bool
        Whether tokens of it are estimated: no server has counted them.
    """

    currency: str
    by_role: Mapping[str, float | None]
    by_model: Mapping[str, float | None]
    unpriced: tuple[str, ...]
    is_estimated: bool

    @property
    def total(self) -> float | None:
        """All of it; None if a model has no price."""
        return _sum(self.by_model.values())

    def divided(self, n: int) -> Bill:
        """Return one of `n` equal parts."""
        by_role, by_model = (
            {name: None if price is None else price / n for name, price in each.items()}
            for each in (self.by_role, self.by_model)
        )
        return replace(self, by_role=by_role, by_model=by_model)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "currency": self.currency,
            "total": self.total,
            "by_role": dict(self.by_role),
            "by_model": dict(self.by_model),
            "no_price": list(self.unpriced),
            "tokens_are": "estimated" if self.is_estimated else "server",
        }


@dataclass(frozen=True, slots=True, repr=False)
class Prices:
    """Prices of the tokens of models, by the name of the model.

    Parameters
    ----------
    currency : str
        Such as ``"USD"``.
    models : mapping of str to ModelPrice
        By name alone, as calls are booked: models of one name on two servers have one price and
        one row of a bill.
    per : int, default=1_000_000
        How many tokens a price is for.

    Raises
    ------
    InputError
        If a price is not a number of at least 0, or `per` not a whole number of at least 1.

    Examples
    --------
    >>> prices = Prices("USD", {"large": ModelPrice(2.0, 8.0, 0.5), "small": ModelPrice(0.1, 0.4)})
    >>> prices.price("small", Usage(1_000_000, 500_000, "server"))
    0.3
    >>> prices.price("large", Usage(1_000_000, 0, "server", tokens_cached=800_000))
    0.8
    >>> prices.price("other", Usage(1, 1, "server")) is None
    True
    """

    currency: str
    models: Mapping[str, ModelPrice]
    per: int = 1_000_000
    origin: str = field(default="the prices", compare=False)  # how messages call them

    def __post_init__(self) -> None:
        check_id("currency", self.currency)
        check_number("per", self.per, 1, 10**12, whole=True)
        if not isinstance(self.models, Mapping):
            raise InputError(f"models must be prices by name, got {shown(self.models)}")
        for name, price in self.models.items():
            check_id("model", name)
            if not isinstance(price, ModelPrice):
                raise InputError(f"the price of {name!r} must be a ModelPrice, got {shown(price)}")
            for key, part in _KEYS.items():
                value = getattr(price, part)
                if value is not None or part != "tokens_cached":
                    check_number(f"the price {key!r} of {name!r}", value, 0, 10**12)
        object.__setattr__(self, "models", MappingProxyType(dict(self.models)))

    @classmethod
    def read(cls, path: str | Path) -> Prices:
        """Read prices from a JSON file.

        ``{"currency": "USD", "per": 1000000, "models": {"small": {"in": 0.1, "out": 0.4}}}``;
        ``per`` may be left out, and ``cached_in`` may stand beside ``in``.

        Raises
        ------
        DataFileError
            If it cannot be read or a field is missing, unknown or not a price.
        """
        said = read_json(path)
        record = Record(said if isinstance(said, dict) else {}, path, None)
        form = 'write {"currency": "USD", "models": {"name": {"in": 0.1, "out": 0.4}}}'
        if not isinstance(said, dict):
            raise record.error(f"expected a JSON object, got {type(said).__name__}", cure=form)
        _refuse_unknown(record, said, ("currency", "per", "models"), "the prices")
        models = record.get("models", _object)
        if not models:
            raise record.error("it has the price of no model", cure=form)
        found = {}
        for name, fields in models.items():
            entry = Record(record.checked(_object, f"the price of {name!r}", fields), path, None)
            _refuse_unknown(record, entry.fields, _KEYS, f"the price of {name!r}")
            if missing := [key for key in ("in", "out") if key not in entry.fields]:
                raise record.error(f"the price of {name!r} has no {missing[0]!r}", cure=form)
            found[name] = ModelPrice(*(entry.fields.get(key) for key in _KEYS))  # type: ignore[arg-type]
        per = record.fields.get("per", 1_000_000)
        return record.checked(cls, record.get("currency"), found, per, str(path))

    def price(self, model: str, usage: Usage) -> float | None:
        """Return what some tokens of a model cost; None if it is not listed, for that is not 0."""
        price = self.models.get(model)
        if price is None:
            return None
        cached = price.tokens_in if price.tokens_cached is None else price.tokens_cached
        parts = (
            (usage.tokens_in - usage.tokens_cached) * price.tokens_in,
            usage.tokens_cached * cached,
            usage.tokens_out * price.tokens_out,
        )
        return math.fsum(parts) / self.per

    def bill(self, calls: Iterable[Paid]) -> Bill:
        """Return what some calls have cost, by role and by model.

        Answers from a cache are counted as those of the first time, as their tokens are.
        """
        paid = usages(calls)
        prices = {key: self.price(key[1], usage) for key, usage in paid.items()}
        roles, models = (list(dict.fromkeys(key[part] for key in prices)) for part in (0, 1))
        return Bill(
            currency=self.currency,
            by_role={r: _sum(p for key, p in prices.items() if key[0] == r) for r in roles},
            by_model={m: _sum(p for key, p in prices.items() if key[1] == m) for m in models},
            unpriced=tuple(name for name in models if name not in self.models),
            is_estimated=any(usage.source == "estimated" for usage in paid.values()),
        )

    def __repr__(self) -> str:
        return f"Prices({self.currency}, {len(self.models)} models)"


def usages(calls: Iterable[Paid]) -> dict[tuple[str, str], Usage]:
    """Return the sums of some calls, by role and model."""
    found: dict[tuple[str, str], Usage] = {}
    for call in calls:
        key = call.role, call.model
        found[key] = found[key] + call.usage if key in found else call.usage
    return found


def money(amount: float | None, currency: str = "") -> str:
    """Return an amount for a table, with three digits that say something.

    Examples
    --------
    >>> money(12.3456, "USD"), money(0.000012345), money(0.0), money(None)
    ('12.35 USD', '0.0000123', '0', 'unknown')
    """
    if amount is None:
        return "unknown"
    digits = 2 if amount >= 1 else 2 - math.floor(math.log10(amount)) if amount > 0 else 0
    return f"{amount:,.{digits}f} {currency}".rstrip()


def _sum(prices: Iterable[float | None]) -> float | None:
    known = list(prices)
    return None if None in known else math.fsum(price for price in known if price is not None)


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} must be an object, got {shown(value)}")
    return value


def _refuse_unknown(
    record: Record, fields: Mapping[str, Any], known: Iterable[str], what: str
) -> None:
    for key in fields:
        if key not in known:
            raise record.error(f"{what} cannot have {key!r}", cure=f"use {', '.join(known)}")
