"""Any models side by side, by nothing but their servers' base URLs: F1, tokens, seconds, price.

Each holds the same contractor-led rounds, announced to the recipients that the router chooses, and
takes all roles. The offline model comes first, as the stand-in it is: it is no language model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from benchmarks import data
from benchmarks.report import environment, heading, number
from benchmarks.routed_vs_broadcast import fitted, held_out_of
from cnp_router.agents import offline_model
from cnp_router.evaluation import ComparisonRow, Table, compare
from cnp_router.exceptions import CnpRouterError, InputError
from cnp_router.llm import ChatModel, OfflineChatModel, OpenAIChatModel, Prices, money, run_sync
from cnp_router.llm.openai_model_list import model_names
from cnp_router.llm.providers import key_beside

__all__ = ["LIMIT", "run"]

LIMIT = 3  # requests: each takes some 30 answers of a model
_CONCURRENT = 2
_STAND_IN = "text similarity, a stand-in"


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Hold the same rounds with each model, and print a row for each."""
    prices = None if options.prices is None else Prices.read(options.prices)
    splits = data.load(options.data, options.seed)
    name, held_out = held_out_of(splits, options.split)
    held_out = data.limited(held_out.known_to(splits.catalog), options.limit, options.seed)
    router = fitted(splits, options)
    facts = environment(options.seed)
    heading(f"Models in contractor-led rounds, routed, on {splits.name}, {name}", facts)
    rows = []
    for model in [offline_model(router.catalog), *_named(options.base_url or [])]:
        try:
            made = compare(
                router.catalog,
                model,
                held_out,
                router=router,
                protocols=["contractor-led"],
                announcements=["routed"],
                concurrent_requests=1 if model.server is None else _CONCURRENT,
            )
            rows.append(_row(model, made.rows[0], made.tokens_are, prices))
        except CnpRouterError as exc:  # one model does not end the comparison of the others
            rows.append(_failed(model, str(exc), len(held_out), prices))
    _print(rows, len(held_out))
    return {"environment": facts, "data": splits.name, "requests": len(held_out), "rows": rows}


def _named(given: list[str]) -> Iterator[ChatModel]:
    """Yield the models of ``URL=MODEL``, and all that a server lists for a bare ``URL``."""
    for each in given:
        url, named, model = each.partition("=")
        if named and not model.strip():
            raise InputError(f"{each!r} names no model (write URL=MODEL, or the URL alone)")
        key = key_beside(url)
        names = (
            [model]
            if named
            else run_sync(lambda: model_names(url, api_key=key), instead="model_names(url)")  # noqa: B023
        )
        for name in names:
            yield OpenAIChatModel(name, base_url=url, api_key=key)


def _row(
    model: ChatModel, row: ComparisonRow, tokens_are: str, prices: Prices | None
) -> dict[str, Any]:
    bill = None if prices is None else row.price(prices)
    return {
        **_who(model, prices),
        "rounds": row.rounds,
        "f1": row.score("final", "f1"),
        "bid_recall": row.score("bid", "recall"),
        "tokens": row.tokens,
        "tokens_are": tokens_are,
        "seconds": row.seconds,
        "model_calls": row.model_calls,
        "price": None if bill is None else bill.total,
        "failed_rounds": row.failed_rounds,
        "failed_calls": row.failed,
        "hallucinated": row.hallucinated,
        "reason": row.reason,
    }


def _failed(model: ChatModel, reason: str, n: int, prices: Prices | None) -> dict[str, Any]:
    figures = ("f1", "bid_recall", "tokens", "tokens_are", "seconds", "model_calls", "price")
    return {
        **_who(model, prices),
        "rounds": 0,
        **dict.fromkeys(figures),
        "failed_rounds": n,
        "failed_calls": None,
        "hallucinated": None,
        "reason": reason,
    }


def _who(model: ChatModel, prices: Prices | None) -> dict[str, Any]:
    is_stand_in = isinstance(model, OfflineChatModel)
    return {
        "model": model.name,
        "server": _STAND_IN if is_stand_in else model.server,
        "is_stand_in": is_stand_in,
        "currency": None if prices is None else prices.currency,
    }


def _print(rows: list[dict[str, Any]], n_requests: int) -> None:
    print(f"{n_requests} requests; figures are means of the rounds that did not fail.\n")
    heads = ["model", "server", "final F1", "recall after bidding", "tokens", "seconds", "price"]
    cells = tuple(tuple(_cells(row)) for row in rows)
    shown = Table("", (*heads, "failed rounds", "failed calls"), cells, labels=2)
    print(f"{shown.markdown()}\n", flush=True)
    for row in rows:
        if row["reason"]:
            print(f"{row['model']} at {row['server']}: {row['reason']}\n")


def _cells(row: dict[str, Any]) -> list[str]:
    tokens = "" if row["tokens"] is None else f"{row['tokens']:,.0f}"
    estimated = " (estimated)" if row["tokens_are"] == "estimated" else ""
    priced = row["currency"] is not None and row["rounds"]
    return [
        row["model"],
        row["server"],
        number(row["f1"]),
        number(row["bid_recall"]),
        tokens + estimated,
        number(row["seconds"], 2),
        money(row["price"], "" if row["price"] is None else row["currency"]) if priced else "",
        str(row["failed_rounds"]),
        "" if row["failed_calls"] is None else str(row["failed_calls"]),
    ]
