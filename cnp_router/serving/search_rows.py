"""Rows of a `SearchLog`: its tables, and the records that they stand for."""

from __future__ import annotations

import json
from typing import Any

from cnp_router.serving.logged import LoggedCall, LoggedSearch

__all__ = ["COLUMNS", "SCHEMA", "call_of", "row_of", "search_of"]

SCHEMA = (
    "CREATE TABLE searches (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, "
    "client TEXT NOT NULL, time REAL NOT NULL, last REAL NOT NULL, worker TEXT NOT NULL, "
    "query TEXT NOT NULL, shown TEXT NOT NULL, chosen TEXT NOT NULL, confidence REAL NOT NULL, "
    "fits INTEGER NOT NULL, acted INTEGER NOT NULL, rating INTEGER, called TEXT NOT NULL, "
    "n_called INTEGER NOT NULL, n_correct INTEGER NOT NULL, parts INTEGER NOT NULL, "
    "is_over INTEGER NOT NULL, n_calls INTEGER NOT NULL)",
    "CREATE INDEX by_time ON searches (time)",
    "CREATE TABLE calls (number INTEGER PRIMARY KEY, search TEXT NOT NULL, part INTEGER, "
    "time REAL NOT NULL, api TEXT NOT NULL, inputs TEXT, observation TEXT NOT NULL, "
    "success INTEGER, served INTEGER NOT NULL, open_until REAL NOT NULL)",
    "CREATE INDEX by_search ON calls (search)",
    "CREATE TABLE keys (key TEXT PRIMARY KEY, time REAL NOT NULL)",
)
COLUMNS = "id, client, time, query, shown, chosen, confidence, fits, acted, rating, called"


def row_of(search: LoggedSearch, worker: str) -> tuple[Any, ...]:
    """Return a new search as a row, but for its number."""
    return (
        *(search.id, search.client, search.time, search.time, worker, search.query),
        *(json.dumps(search.shown), json.dumps(search.chosen)),
        *(search.confidence, search.fits, search.acted, search.rating),
        *("[]", 0, 0, 0, 0, 0),
    )


def search_of(row: tuple[Any, ...]) -> LoggedSearch:
    """Return the search of `COLUMNS`."""
    name, client, when, query, shown, chosen, confidence, fits, acted, rating, called = row
    return LoggedSearch(
        name,
        client,
        when,
        query,
        tuple(json.loads(shown)),
        tuple(json.loads(chosen)),
        confidence,
        bool(fits),
        bool(acted),
        rating,
        tuple(json.loads(called)),
    )


def call_of(row: tuple[Any, ...]) -> LoggedCall:
    """Return the call of API, inputs, observation, success, and whether it served."""
    api, inputs, observation, success, served = row
    return LoggedCall(
        api,
        None if inputs is None else json.loads(inputs),
        observation,
        None if success is None else bool(success),
        bool(served),
    )
