"""``cnp-router forget``: remove a mashup, a user's records or an API for good."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.completing import api_ids
from cnp_router.cli.output import counted, echo, echo_json, echo_pairs
from cnp_router.cli.progress import Progress
from cnp_router.exceptions import shown
from cnp_router.kept_beside import MEMORY_FILE, ONLINE_FILE, SEARCHES_FILE

if TYPE_CHECKING:
    from cnp_router.forgetting import Forgetting, Forgotten
    from cnp_router.training import Remainder

_NOT_REACHED = (
    "files of your own: histories, trajectories, catalogs, transcripts, exports, backups",
    "what language models and encoders keep, their caches (--encoder-cache) included",
    "other records whose texts say the same",
    "programs that still run with the old model",
)


@options.command(
    "cnp-router forget --model model --mashup m17",
    "cnp-router forget --model model --user ann --dry-run",
)
@options.folder("--model", required=True, help="Folder of a model, or one that was observed into.")
@options.several("--mashup", "mashups", metavar="ID", help="A mashup, and the run of the same id.")
@options.several("--user", "users", metavar="NAME", help="All mashups and runs of this user.")
@options.several(
    "--api",
    "apis",
    metavar="ID",
    shell_complete=api_ids,
    help="An API, with its part in mashups and runs.",
)
@llm_options.encoder_options
@options.count("--jobs", "n_jobs", type=int, default=-1, help="Cores to use; -1, the default: all.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@options.as_json
def forget(
    *,
    model: Path,
    mashups: tuple[str, ...],
    users: tuple[str, ...],
    apis: tuple[str, ...],
    vectors: llm_options.Vectors,
    n_jobs: int,
    dry_run: bool,
    json_: bool,
) -> None:
    """Remove a mashup, a user's records or an API from a model and from what was observed.

    First from what was observed (online.sqlite), then from the model, which is fitted again on
    what is left: it is then as if it had never known them. What is remembered of a user
    (memory.sqlite) and what one searched for (searches.sqlite) goes too, and so do plans of a user
    and plans that name an API (plans.jsonl). If the command is interrupted, give it once more. A
    mashup that used no other API than a forgotten one goes with it. Where a gateway asks for one
    token or none, whoever asks it is the user "anyone".
    """
    if not (mashups or users or apis):
        raise click.UsageError("Give --mashup, --user or --api.")
    from cnp_router.exceptions import ModelNotFoundError
    from cnp_router.forgetting import Forgetting
    from cnp_router.planning.proven import PLANS_FILE, ProvenPlans
    from cnp_router.storage import generation_of, is_model
    from cnp_router.training import fit_without, load_router, remainder

    what = Forgetting(mashups, users, apis)
    file, memory, searches = (model / name for name in (ONLINE_FILE, MEMORY_FILE, SEARCHES_FILE))
    plans = ProvenPlans(model / PLANS_FILE)
    there = any(each.exists() for each in (file, memory, searches, plans.path))
    if not (there or is_model(model)):
        raise ModelNotFoundError(f"{model}: no model there, and nothing observed (name another)")
    start = time.perf_counter()
    n_plans = plans.count(what)
    with (
        _opened(file, what, dry_run) as forget_observed,  # nobody writes meanwhile
        _remembered(memory, what, dry_run) as forget_remembered,
        _searched(searches, what, dry_run) as forget_searches,
    ):
        before = generation_of(model) if is_model(model) else None
        router = load_router(model, **vectors.made(model)) if before else None
        left = remainder(router, what) if router else None
        fitted = None
        if router and left and not dry_run:
            with Progress("Fitting") as progress:
                fitted = fit_without(router, what, n_jobs=n_jobs, progress=progress)
        # All that could go wrong has gone well.
        # First what may still be taught to the others.
        n_searches = forget_searches() if forget_searches else None
        observed = forget_observed() if forget_observed else None
        n_plans = n_plans if dry_run else plans.forget(what)
        n_remembered = forget_remembered() if forget_remembered else None
        if fitted:
            fitted.save(model, overwrite=True, replaces=before)
    seconds = time.perf_counter() - start
    result = {
        "observed": None if observed is None else _facts(observed),
        "remembered": n_remembered,
        "searches": n_searches,
        "model": None if left is None else _of_model(left, fitted=bool(left) and not dry_run),
        "plans": n_plans,
        "removed": not dry_run,
        "not_reached": list(_NOT_REACHED),
    }
    n_found = n_plans + (n_remembered or 0) + (n_searches or 0)
    is_found = bool(observed or left or n_found)
    if json_:
        echo_json(result)
    elif not is_found:
        echo(_nothing_of(mashups, users, apis))
    else:
        _echo(observed, n_remembered, n_searches, left, n_plans, seconds, dry_run=dry_run)


@contextmanager
def _opened(
    file: Path, what: Forgetting, dry_run: bool
) -> Iterator[Callable[[], Forgotten] | None]:
    """Yield what removes it from what was observed, or only looks what would be."""
    from cnp_router.online import OnlineStore

    if not file.exists():
        yield None
    elif dry_run:
        counter = _Counter(what)
        OnlineStore(file, [counter], read_only=True)
        yield lambda: counter.forgotten
    else:
        with OnlineStore(file, []) as store:
            yield lambda: store.forget(what)


@contextmanager
def _remembered(file: Path, what: Forgetting, dry_run: bool) -> Iterator[Callable[[], int] | None]:
    """Yield what removes users from the memory, or only counts what would be; None without one."""
    if not file.exists():
        yield None
        return
    from cnp_router.context import Memory

    with Memory(file) as memory:
        forget = memory.count if dry_run else memory.erase
        yield lambda: sum(forget(user=user) for user in what.users)


@contextmanager
def _searched(file: Path, what: Forgetting, dry_run: bool) -> Iterator[Callable[[], int] | None]:
    """Yield what removes it from the log of searches, or only counts it; None without one."""
    if not file.exists():
        yield None
        return
    from cnp_router.serving.search_log import SearchLog

    with SearchLog(file) as log:
        yield lambda: log.count(what) if dry_run else log.forget(what)


class _Counter:
    """Counts what would be forgotten, as an observer that a store does not know."""

    kind = "forgotten"

    def __init__(self, what: Forgetting) -> None:
        from cnp_router.forgetting import Forgotten

        self._what, self.forgotten = what, Forgotten()

    def check(self, records: Any) -> None:
        """Accept any record."""

    def apply(self, records: Any) -> None:
        """Count."""
        for record in records:
            self.forgotten.add(record, self._what.left_of(record))

    def state(self) -> dict[str, Any]:
        """Return nothing: it writes none."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take nothing."""


def _nothing_of(mashups: tuple[str, ...], users: tuple[str, ...], apis: tuple[str, ...]) -> str:
    """Return that there is no record of what was named."""
    of = [
        f"{kind} {shown(each)}"
        for kind, all_ in (("mashup", mashups), ("user", users), ("API", apis))
        for each in all_
    ]
    return f"No record of {', '.join(of)}; nothing was removed."


def _facts(found: Forgotten) -> dict[str, Any]:
    return {
        "mashups": found.mashups,
        "trajectories": found.trajectories,
        "changed": found.n_changed,
        "steps": found.n_steps,
    }


def _of_model(left: Remainder, *, fitted: bool) -> dict[str, Any]:
    return {
        "mashups": left.forgotten.mashups,
        "changed": left.forgotten.n_changed,
        "apis": list(left.apis),
        "fitted": fitted,
    }


def _echo(
    observed: Forgotten | None,
    n_remembered: int | None,
    n_searches: int | None,
    left: Remainder | None,
    n_plans: int,
    seconds: float,
    *,
    dry_run: bool,
) -> None:
    would = "would be " if dry_run else ""
    pairs = list(_pairs(observed, left, seconds, would))
    if n_remembered is not None:
        gone = f"{counted(n_remembered, 'item')} {would}removed"
        pairs.insert(int(observed is not None), ("Remembered", gone if n_remembered else "nothing"))
    if n_searches:
        pairs.append(("Searches", f"{counted(n_searches, 'record')} {would}removed"))
    if n_plans:
        pairs.append(("Plans", f"{counted(n_plans, 'plan')} {would}removed"))
    echo_pairs(pairs)
    if observed or n_remembered or n_searches or left or n_plans:
        echo()
        echo("Not reached:", *(f"- {each}" for each in _NOT_REACHED))


def _pairs(
    observed: Forgotten | None, left: Remainder | None, seconds: float, would: str
) -> Iterator[tuple[str, str]]:
    if observed is not None:
        gone = _said(observed)
        steps = f", {counted(observed.n_steps, 'step')} of runs" if observed.n_steps else ""
        yield "Observed", f"{gone}{steps} {would}removed" if observed else "nothing of it"
    if left is None:
        return
    if not left:
        yield "Model", "nothing of it"
        return
    apis = f"{counted(len(left.apis), 'API')}, " if left.apis else ""
    yield "Model", f"{apis}{_said(left.forgotten)} {would}removed"
    past = f"{counted(len(left.history), 'mashup')} over {counted(len(left.catalog), 'API')}"
    took = "" if would else f" in {seconds:.1f} s"
    yield "Fitted again", f"{would and 'on '}{past}{took}"


def _said(found: Forgotten) -> str:
    runs = f", {counted(len(found.trajectories), 'run')}" if found.trajectories else ""
    changed = f", an API of {counted(found.n_changed, 'record')}" if found.n_changed else ""
    return f"{counted(len(found.mashups), 'mashup')}{runs}{changed}"
