"""What the commands say of models, and of what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cnp_router.llm import Bill, Prices, money

if TYPE_CHECKING:
    from cnp_router.protocols import Cost

__all__ = ["model_facts", "money", "price", "price_facts", "with_price"]


def model_facts(by_model: Mapping[str, Cost]) -> Iterator[tuple[str, str]]:
    """Yield what each model has taken, where there are several."""
    if len(by_model) > 1:
        for name, cost in by_model.items():
            yield f"  {name}", f"{cost.tokens_in:,} in, {cost.tokens_out:,} out"


def price(bill: Bill) -> str:
    """Return the sum of a bill, in words where a model has no price."""
    return money(bill.total, "" if bill.total is None else bill.currency)


def price_facts(bill: Bill | None, prices: Prices | None) -> Iterator[tuple[str, str]]:
    """Yield what was paid, in all and by role; of a model without a price, that there is none."""
    if bill is None or prices is None:
        return
    parts = ", ".join(f"{role} {money(amount)}" for role, amount in bill.by_role.items())
    estimated = ", of estimated tokens" if bill.is_estimated else ""
    yield "Price", f"{price(bill)} ({parts}){estimated}" if parts else price(bill)
    if bill.unpriced:
        yield "No price", f"{prices.origin} does not list {', '.join(map(repr, bill.unpriced))}"


def with_price(document: dict[str, Any], bill: Bill | None) -> dict[str, Any]:
    """Return a JSON object, with the price if there are prices."""
    return document if bill is None else {**document, "price": bill.to_dict()}
