"""``cnp-router observe``: learn online from what agents did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.models import online_file
from cnp_router.cli.output import cold_start, counted, echo_json, echo_pairs, note
from cnp_router.cli.progress import Progress

if TYPE_CHECKING:
    from cnp_router.online import Receipt
    from cnp_router.prediction import NextToolRouter

AT_ONCE = 200  # records: all of them move the threshold of target recalls


@options.command(
    "cnp-router observe --model model --trajectories trajectories.jsonl",
    "cnp-router observe --model new-model --history mashups.jsonl",
)
@options.folder(
    "--model",
    required=True,
    help="Folder of a model, or a new one. What is learned is kept in DIR/online.sqlite.",
)
@llm_options.encoder_options
@options.files("--trajectories", help="What agents did.")
@options.files(
    "--history",
    "histories",
    help="Mashups: a fitted model learns from them, and from those in order which API follows "
    "which.",
)
@options.as_json
def observe(
    *,
    model: Path,
    vectors: llm_options.Vectors,
    trajectories: tuple[Path, ...],
    histories: tuple[Path, ...],
    json_: bool,
) -> None:
    """Learn from trajectories and mashups, without fitting again.

    All files are checked before anything is learned, and records are on disk before they are
    learned from, 200 at once. What was observed before, by its id, is not counted again, so
    a command that was interrupted can be given once more.
    """
    if not (trajectories or histories):
        raise click.UsageError("Give --trajectories or --history.")
    from cnp_router.history import History
    from cnp_router.online import OnlineStore, RouterObserver
    from cnp_router.prediction import NextToolRouter
    from cnp_router.storage import how_to_fit, is_model
    from cnp_router.trajectories import read_trajectories

    file, router, fitted = online_file(model), NextToolRouter(), None
    removed: frozenset[str] = frozenset()
    n_fitted = 0
    if is_model(model):
        from cnp_router.training import load_router

        learned = load_router(model, **vectors.made(model))
        fitted, removed = RouterObserver(learned), frozenset(learned.removed)
        n_fitted = learned.n_fitted
    records: list[Any] = [*read_trajectories(trajectories)] if trajectories else []
    if histories:
        past = History.read(histories, catalog=fitted.catalog if fitted else None)
        records += past
        if n_naming := sum(not removed.isdisjoint(mashup.apis) for mashup in past):
            what = f"{counted(n_naming, 'mashup')} with APIs that were removed from the catalog"
            note(f"{what}: those teach the model nothing", "Warning")
        if past and not fitted and not any(mashup.ordered for mashup in past):
            note(
                f"no fitted model in {model}, and no mashup is in order: they are kept, and teach "
                f"nothing yet ({how_to_fit(model)})",
                "Warning",
            )
    with OnlineStore(file, [router, fitted] if fitted else [router]) as store:
        before = fitted.n_learned if fitted else 0
        receipts: list[Receipt] = []
        with Progress("Observing") as progress:
            for start in range(0, len(records), AT_ONCE):
                receipts += store.observe_many(records[start : start + AT_ONCE])
                progress("record", len(receipts), len(records))
    observed = sum(receipt.counted for receipt in receipts)
    changed = sum(receipt.changed for receipt in receipts)
    result = {
        "observed": observed,
        "repeated": len(receipts) - observed - changed,
        "changed": changed,
        "new_to_model": fitted.n_learned - before if fitted else None,
        "records": store.sequence,
        "trajectories": router.n_trajectories,
        "steps": router.n_steps,
        "coverage": router.coverage,
        "threshold": router.threshold,
        "trajectories_needed": router.policy.ask_first,
    }
    if changed:
        note(
            f"{counted(changed, 'record')} not learned: other content than what was observed "
            "before under the same id (give a new id)",
            "Warning",
        )
    if fitted and fitted.n_learned > n_fitted:
        note(
            f"the model was fitted on {counted(n_fitted, 'mashup')} and has observed "
            f"{fitted.n_learned:,}: it ranks better once it is fitted again, with all of them as "
            "--history",
            "Note",
        )
    echo_json(result) if json_ else echo_pairs(_pairs(result, router))


def _pairs(result: dict[str, Any], router: NextToolRouter) -> Iterator[tuple[str, str]]:
    repeated = result["repeated"]
    again = f" ({repeated:,} had been observed before)" if repeated else ""
    yield "Observed", f"{counted(result['observed'], 'record')}{again}"
    yield "In all", counted(result["records"], "record")
    if result["new_to_model"] is not None:
        yield "Fitted model", f"{counted(result['new_to_model'], 'mashup')} new to it"
    runs, steps = counted(result["trajectories"], "run"), counted(result["steps"], "step")
    yield "Next tools", f"learned from {runs}, {steps}"
    coverage, threshold = f"{result['coverage']:.0%} of the steps", f"{result['threshold']:.2f}"
    acts = f"so predictions are acted upon from a confidence of {threshold}"
    if router.n_trajectories < router.policy.ask_first:
        acts = cold_start(router)
    yield "Predicted", f"{coverage}, {acts}"
