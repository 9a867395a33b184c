"""``cnp-router sample``: the bundled sample as files, to try the other commands on."""

from __future__ import annotations

from pathlib import Path

import click

from cnp_router.cli import options
from cnp_router.cli.output import counted, echo_pairs

_HELD_OUT = 7  # each seventh mashup: 98 of 680


@options.command("cnp-router sample data", "cnp-router sample . --overwrite")
@click.argument("folder", type=options.PLACE, metavar="DIR")
@click.option("--overwrite", is_flag=True, help="Replace files of these names that are there.")
def sample(*, folder: Path, overwrite: bool) -> None:
    """Write the bundled sample to DIR as files, to try the other commands on.

    They are apis.jsonl, a catalog; mashups.jsonl, past mashups to learn from; and held-out.jsonl,
    each seventh of all mashups, to measure with. The mashups were written for this project: figures
    measured on them say that it works, and not how well it would on your requests.
    """
    from cnp_router.catalog import Catalog
    from cnp_router.datasets import load_sample
    from cnp_router.exceptions import DataFileError
    from cnp_router.history import History

    data = load_sample()
    past = History(m for place, m in enumerate(data.history) if place % _HELD_OUT)
    held_out = History(m for place, m in enumerate(data.history) if not place % _HELD_OUT)
    files: dict[Path, tuple[Catalog | History, str, str]] = {
        folder / "apis.jsonl": (data.catalog, "API", "--catalog"),
        folder / "mashups.jsonl": (past, "mashup", "--history of fit"),
        folder / "held-out.jsonl": (held_out, "mashup", "--history of evaluate and compare"),
    }
    for file in files:
        if file.exists() and not overwrite:
            raise DataFileError(file, "is there already", cure="another DIR, or --overwrite")
    folder.mkdir(parents=True, exist_ok=True)
    for file, (records, _, _) in files.items():
        records.write(file)
    echo_pairs(
        (str(file), f"{counted(len(records), what)}, for {use}")
        for file, (records, what, use) in files.items()
    )
