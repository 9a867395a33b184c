"""`read_history`: a history of many files, each read by one of a pool."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cnp_router.catalog import Catalog
from cnp_router.data_files import data_files
from cnp_router.exceptions import DataFileError
from cnp_router.history import History, Mashup, UnknownPolicy
from cnp_router.pool import Pool

__all__ = ["read_history"]


def read_history(
    pool: Pool,
    paths: str | Path | Iterable[str | Path],
    *,
    catalog: Catalog | None = None,
    unknown: UnknownPolicy = "error",
) -> History:
    """Return what `History.read` returns, whose files a pool has read: the order is that of them.

    Patterns are expanded here; all workers must see the files under the same paths.

    Examples
    --------
    >>> import tempfile
    >>> from cnp_router.pool import LocalPool
    >>> folder = Path(tempfile.mkdtemp())
    >>> for n in range(2):
    ...     History([Mashup(f"m{n}", "Rain by text", ("rain",))]).write(folder / f"{n}.jsonl")
    >>> read_history(LocalPool(2, threads=True), folder / "*.jsonl")
    History(2 mashups)
    """
    files = [Path(path).absolute() for path in data_files(paths)]
    mashups: list[Mashup] = []
    seen: dict[str, Path] = {}
    skipped = 0
    shared = pool.share((catalog, unknown, pool.is_remote))
    found = pool.each(_read, [[file] for file in files], shared)
    for file, (own, left_out) in zip(files, found, strict=True):
        for mashup in own:
            if seen.setdefault(mashup.id, file) is not file:
                # Whoever reads both says in which lines.
                pool.begin(_read, [seen[mashup.id], file], shared)()
        mashups.extend(own)
        skipped += left_out
    return History(mashups, skipped=skipped)


def _read(shared: tuple[Any, Any, bool], files: list[Path]) -> tuple[tuple[Mashup, ...], int]:
    catalog, unknown, is_remote = shared
    for file in files:
        if is_remote and not file.exists():
            cure = "the workers read it: put it where all of them see it under this path"
            raise DataFileError(file, f"no such file on {socket.gethostname()}", cure=cure)
    history = History.read(files, catalog=catalog, unknown=unknown)
    return tuple(history), history.skipped
