"""Writing the report page of --html, and saying so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cnp_router.cli.output import echo, echo_pairs, note

__all__ = ["write_page"]


def write_page(result: Any, path: Path | None, *, aside: bool, **context: Any) -> None:
    """Write what came of a command as a page, if it is wanted, and say where it is.

    `aside` says it on standard error: for where standard output is a JSON document.
    """
    if path is None:
        return
    from cnp_router.reports import write_html

    write_html(result, path, **context)
    if aside:
        note(str(path), "Page")
        return
    echo()
    echo_pairs([("Page", str(path))])
