"""What `execute` prints of an execution: a table of jobs, what was changed, and other facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cnp_router.cli.output import counted, echo, echo_pairs, echo_table
from cnp_router.printing import printable

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.execution import Execution, JobReport
    from cnp_router.sources import CallResult

__all__ = ["changes", "echo_execution", "left_out"]

_RESULT = 300  # characters of a result
_INPUTS = 120  # of inputs
_ASKED = "contractors asked"


def echo_execution(execution: Execution, *more: tuple[str, str]) -> None:
    """Print what came of an execution, and more facts."""
    rows = []
    for job in execution.jobs:
        asked = str(job.asked) if job.asked else ""
        said = job.problem or _result(job.acts[-1].result if job.acts else None)
        rows.append([job.id, job.state, asked, job.api or "", said])
    if rows:
        heads = ["job", "state", _ASKED, "done by", "result"]
        if not any(row[2] for row in rows):
            heads, rows = [*heads[:2], *heads[3:]], [[*r[:2], *r[3:]] for r in rows]
        echo_table(heads, rows, numbers=[_ASKED])
        echo()
    for act in execution.acts:
        failure = act.result.failure
        if failure is not None and failure.kind == "changed" and act.result.text:
            echo(f"{act.api}:", *act.result.text.split("\n"), "")
    echo_pairs([*_facts(execution), *more])


def changes(jobs: Iterable[JobReport], catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Return each call that changed something, or may have, with its inputs."""
    for job in jobs:
        for act in job.acts:
            failure = act.result.failure
            effects = catalog[act.api].effects if act.api in catalog else "unknown"
            if not act.attempts or effects == "reads" or (failure and failure.was_done == "no"):
                continue
            sure = failure is None and effects == "writes"
            inputs = printable(_json(dict(act.inputs)), _INPUTS)
            said = f"{act.api} {'(its inputs are confidential)' if act.is_confidential else inputs}"
            end = "" if failure is None else f": {failure.message}"
            yield "Changed" if sure else "May have changed", f"job {job.id}: {said}{end}"


def _result(result: CallResult | None) -> str:
    if result is None:
        return ""
    text = result.data if isinstance(result.data, str) else _json(result.data)
    more = f"{len(result.attachments)} attachments" if result.attachments else ""
    return printable(text, _RESULT) or more


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)


def left_out(passed_over: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what is said of what would not, or was not, called."""
    for why in passed_over:
        yield "Left out", printable(why, _RESULT)


def _facts(execution: Execution) -> Iterator[tuple[str, str]]:
    from cnp_router.sources.source import SEPARATOR

    acts = [act for job in execution.jobs if not job.is_resumed for act in job.acts]
    done = sum(job.state == "done" for job in execution.jobs)
    resumed = sum(job.is_resumed for job in execution.jobs)
    before = f", {resumed} of them before" if resumed else ""
    if execution.problem:
        yield "Broken off", execution.problem
    yield from left_out(execution.passed_over)
    for why in dict.fromkeys(job.lost for job in execution.jobs if job.lost):
        names = ", ".join(job.id for job in execution.jobs if job.lost == why)
        yield "Called directly", f"{names}: {printable(why, _RESULT)}"
    if execution.jobs:
        yield "Jobs", f"{done} of {len(execution.jobs)} done{before}"
    if execution.plan is not None:
        levels = counted(len(execution.plan.levels), "level")
        together = counted(execution.plan.parallelism, "job")
        after = ", one after the other" if len(execution.plan.levels) > 1 else ""
        yield "Order", f"{levels}{after}; at most {together} at a time"
    moved = sum(act.by in ("re-award", "fallback") for act in acts)
    avoided = f", {execution.n_avoided} known already" if execution.n_avoided else ""
    calls = f"{execution.n_calls}, {execution.n_retries} repeated, {moved} awarded again"
    yield "Calls", calls + avoided
    asked = sum(t.ledger.messages.get("cfp", 0) for t in execution.transcripts)
    tokens = sum(t.ledger.tokens for t in execution.transcripts)
    if asked:
        yield "Announced", f"{asked} calls for proposals, {tokens:,} tokens"
    if tokens := sum(act.tokens for act in acts):
        yield "Inputs", f"{tokens:,} tokens to fill them"
    for act in acts:
        if act.result.start_seconds is not None:
            name = act.api.partition(SEPARATOR)[0]
            yield "Started", f"{name} in {act.result.start_seconds:.2f} s, for {act.api}"
    yield "Took", f"{execution.seconds:.2f} s"
