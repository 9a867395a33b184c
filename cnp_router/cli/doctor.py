"""``cnp-router doctor``: what is installed, fitted and reachable."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnp_router.cli import options
from cnp_router.cli.output import counted, echo_json
from cnp_router.cli.source_options import Origins, source_places
from cnp_router.printing import printable

if TYPE_CHECKING:
    from cnp_router.cli.finding import Finding

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}
_INDENT = " " * 9


@options.command(
    "cnp-router doctor",
    "cnp-router doctor --model model --sources mcp.json",
    "cnp-router doctor --json",
)
@options.folder("--model", help="Check the model in this folder, and what was observed there.")
@source_places
@click.option("--encoder", metavar="URL", help="Ask this server of text vectors.")
@click.option(
    "--encoder-model",
    metavar="NAME",
    help="Have this encoder make a vector.  [default: that of the --model]",
)
@click.option("--base-url", metavar="URL", help="Ask this server of language models.")
@click.option(
    "--context",
    metavar="FILE|URL",
    help="Read this shared context: a file, or redis://host:port/0.",
)
@options.file("--store", help="Read this file of what was observed, such as online.sqlite.")
@options.seconds(
    "--timeout",
    default=30.0,
    show_default=True,
    help="How long each source or server may take to answer.",
)
@options.as_json
def doctor(
    *,
    model: Path | None,
    origins: Origins,
    encoder: str | None,
    encoder_model: str | None,
    base_url: str | None,
    context: str | None,
    store: Path | None,
    timeout: float,
    json_: bool,
) -> None:
    """Say what is installed, what is fitted and what can be reached.

    A line each says ok, warning or problem, and what cures it. What the options name is looked at
    too: sources are started and asked for their tools. Nothing is written or changed. Keys and
    passwords are not shown. The exit code is 1 if there is a problem.
    """
    if encoder_model and not encoder:
        raise click.UsageError("--encoder-model needs --encoder.")

    def areas() -> Iterator[tuple[str, Iterable[Finding]]]:
        from cnp_router.cli import installed, reachable

        yield "Installed", installed.packages()
        yield "This computer", installed.environment()
        yield "Fitted", _fitted(model)
        asked: list[Finding] = []
        if origins:
            asked += reachable.sources_found(origins, timeout)
        if encoder:
            asked.append(reachable.encoder_found(encoder, encoder_model, model, timeout))
        if base_url:
            asked.append(reachable.language_model_found(base_url, timeout))
        if context:
            asked.append(reachable.context_found(context, timeout))
        if store:
            asked.append(reachable.observed_found(store))
        yield "Reachable", asked

    found: list[tuple[str, Finding]] = []
    for area, findings in areas():
        for finding in findings:
            if not json_:
                _echo(finding, area if area not in dict(found) else None)
            found.append((area, finding))
    n_problems, n_warnings = (
        sum(finding.status == status for _, finding in found) for status in ("problem", "warning")
    )
    if json_:
        each = [{"area": area, **dataclasses.asdict(finding)} for area, finding in found]
        echo_json({"problems": n_problems, "warnings": n_warnings, "findings": each})
    else:
        problems, warnings = counted(n_problems, "problem"), counted(n_warnings, "warning")
        click.echo(f"\n{problems}, {warnings}")
    if n_problems:
        click.get_current_context().exit(1)


def _fitted(model: Path | None) -> Iterator[Finding]:
    from cnp_router.cli import reachable

    if model is not None:
        yield from reachable.model_found(model)
    yield reachable.sample_found()


def _echo(finding: Finding, heading: str | None) -> None:
    """Print a finding, by itself: the library that prints tables may be what is broken."""
    if heading is not None:
        click.echo(f"\n{heading}" if heading != "Installed" else heading)
    cure = f" (cure: {finding.cure})" if finding.cure else ""
    text = printable(f"{finding.about}: {finding.said}{cure}")
    width = max(40, min(shutil.get_terminal_size((80, 24)).columns, 110))
    lines = textwrap.wrap(text, width - len(_INDENT), break_on_hyphens=False) or [""]
    status = f"{finding.status:<{len(_INDENT)}}"
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        status = click.style(status, fg=_COLOURS[finding.status])
    click.echo(status + f"\n{_INDENT}".join(lines))
