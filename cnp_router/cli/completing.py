"""What the shell completes besides commands, options, choices and files: ids of APIs.

Nothing slow is imported, and what cannot be read completes nothing: there is nobody to tell.
"""

from __future__ import annotations

import json
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    import click

__all__ = ["api_ids", "listed_api_ids"]

_CATALOG, _MANIFEST = "catalog.jsonl", "manifest.json"  # of a model: see `cnp_router.storage`


def api_ids(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the APIs, of the catalog or model named before or else of the sample, that fit."""
    found = []
    with suppress(OSError, ValueError, LookupError, TypeError):
        for line in _catalog(context.params).splitlines():
            if incomplete in line:  # most lines need no parsing
                api = json.loads(line)
                if api["id"].startswith(incomplete):
                    found.append(CompletionItem(api["id"], help=api.get("name")))
    return found


def listed_api_ids(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the same for the last of several ids with commas between them."""
    before, comma, last = incomplete.rpartition(",")
    found = api_ids(context, parameter, last)
    return [CompletionItem(f"{before}{comma}{item.value}", help=item.help) for item in found]


def _catalog(options: dict[str, Any]) -> str:
    catalog, model = options.get("catalog"), options.get("model")
    if catalog is not None:
        return Path(str(catalog)).read_text(encoding="utf-8")
    if model is not None:
        folder = Path(model)
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return (folder / str(manifest["generation"]) / _CATALOG).read_text(encoding="utf-8")
    sample = resources.files("cnp_router.datasets") / "sample" / "apis.jsonl"
    return sample.read_text(encoding="utf-8")
