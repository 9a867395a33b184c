r"""The one entry point of the benchmarks.

::

    python benchmarks/run.py quality [--data DIR] [--vectors FILE.npz] [--full] \
        [--only ROUTER ...] [--without-history] [--limit N] [--scheduler ADDRESS]
    python benchmarks/run.py learning_curve [--data DIR] [--vectors FILE.npz] [--sizes N ...] \
        [--draws N] [--limit N] [--plots DIR] [--scheduler ADDRESS]
    python benchmarks/run.py trust [--data DIR] [--limit N] [--final] [--scheduler ADDRESS]
    python benchmarks/run.py cold [--data DIR] [--limit N] [--scheduler ADDRESS]
    python benchmarks/run.py removed [--data DIR] [--limit N]
    python benchmarks/run.py languages [--data DIR] [--scheduler ADDRESS]
    python benchmarks/run.py patterns
    python benchmarks/run.py scaling --data DIR
    python benchmarks/run.py scale [--data DIR] [--quick] [--only ROW ...] [--routers ROUTER ...] \
        [--asked N] [--growth N] [--limit SECONDS] [--peer-limit SECONDS] [--memory GB]
    python benchmarks/run.py sizing [--tools N ...] [--vectors N ...]
    python benchmarks/run.py speed --data DIR
    python benchmarks/run.py next_tool --data DIR [--plots DIR]
    python benchmarks/run.py next_tool_history --data DIR [--plots DIR]
    python benchmarks/run.py routed_vs_broadcast [--data DIR] [--model DIR] [--split NAME] \
        [--limit N] [--organise] [--resume FILE] [--report DIR] [--scheduler ADDRESS]
    python benchmarks/run.py evidence [--data DIR] [--model DIR] [--split NAME] [--limit N] \
        [--waves] [--scheduler ADDRESS]
    python benchmarks/run.py models [--base-url URL[=MODEL] ...] [--prices FILE] [--data DIR] \
        [--model DIR] [--split NAME] [--limit N]
    python benchmarks/run.py context [--redis URL]
    python benchmarks/run.py compound [--data DIR] [--history N]
    python benchmarks/run.py quotations [--data DIR] [--history N] [--limit N]
    python benchmarks/run.py engine [--data DIR] [--contractors N] [--requests N ...]
    python benchmarks/run.py execution [--jobs N] [--executions N]
    python benchmarks/run.py coordination [--servers N] [--sessions N] [--limit SECONDS]
    python benchmarks/run.py injection [--limit N]
    python benchmarks/run.py reputation [--runs N] [--contractors N ...]
    python benchmarks/run.py planning [--forms N]
    python benchmarks/run.py tool_servers [--node NODE_MODULES] [--calls N]
    python benchmarks/run.py serving [--node NODE_MODULES] [--quick] [--parts PART ...]
    python benchmarks/run.py subagents [--data DIR] [--split NAME] [--limit N]
    python benchmarks/run.py telemetry [--repeats N]

Each takes ``--seed N`` and ``--json FILE`` too, and says what it measures with ``--help``.

DIR holds ``apis.jsonl``, ``mashups-train.jsonl`` and any number of held-out ``mashups-dev*.jsonl``;
for ``speed`` perhaps ``apis-all.jsonl``, a larger catalog. Where it may be left out, the bundled
sample is used.
For ``languages``, DIR holds a folder a language, each with ``apis.jsonl`` and ``mashups*.jsonl``.
For ``next_tool``, DIR holds two or more logs ``trajectories*.jsonl``; for ``next_tool_history``
too, or ``mashups-train.jsonl`` and ``mashups-dev*.jsonl`` whose APIs are in order.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

# This checkout, whatever is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import (
    cold,
    compound,
    context,
    coordination,
    engine,
    evidence,
    execution,
    injection,
    languages,
    learning_curve,
    models,
    next_tool,
    next_tool_history,
    patterns,
    planning,
    quality,
    quotations,
    removed,
    reputation,
    routed_vs_broadcast,
    scale,
    scaling,
    serving,
    sizing,
    speed,
    subagents,
    telemetry,
    tool_servers,
    trust,
)
from benchmarks.data import FORMS
from benchmarks.office_tasks import KINDS
from benchmarks.peers import PEERS
from cnp_router.exceptions import CnpRouterError
from cnp_router.files import atomic_write

TRACKS = {
    "quality": quality,
    "learning_curve": learning_curve,
    "trust": trust,
    "cold": cold,
    "removed": removed,
    "languages": languages,
    "patterns": patterns,
    "scaling": scaling,
    "scale": scale,
    "sizing": sizing,
    "speed": speed,
    "next_tool": next_tool,
    "next_tool_history": next_tool_history,
    "routed_vs_broadcast": routed_vs_broadcast,
    "evidence": evidence,
    "models": models,
    "compound": compound,
    "quotations": quotations,
    "context": context,
    "engine": engine,
    "execution": execution,
    "coordination": coordination,
    "injection": injection,
    "reputation": reputation,
    "tool_servers": tool_servers,
    "subagents": subagents,
    "planning": planning,
    "serving": serving,
    "telemetry": telemetry,
}
_NEED_DATA = ("scaling", "speed", "next_tool", "next_tool_history")


def _quality(track: argparse.ArgumentParser) -> None:
    track.add_argument("--full", action="store_true", help="print every figure")
    names = [*quality.ROUTERS, *PEERS]
    track.add_argument("--only", nargs="+", metavar="ROUTER", choices=names, help="not all")
    track.add_argument(
        "--without-history", action="store_true", help="learn from specifications alone"
    )
    track.add_argument(
        "--form", choices=FORMS, help="log and ask each request in what applications put around it"
    )
    _limit(track, 0)
    _vectors(track)
    _scheduler(track)


def _scheduler(track: argparse.ArgumentParser) -> None:
    track.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="let the workers of a Dask cluster answer the requests: tcp://HOST:PORT of its "
        "scheduler; both must find this checkout, as by PYTHONPATH; routers are fitted here",
    )


def _vectors(track: argparse.ArgumentParser) -> None:
    track.add_argument(
        "--vectors",
        type=Path,
        metavar="FILE.npz",
        help="for those that need them: api_ids, api_vectors, mashup_ids, mashup_vectors",
    )


def _rounds(track: argparse.ArgumentParser) -> None:
    track.add_argument("--model", type=Path, metavar="DIR", help="do not fit, load this one")
    track.add_argument("--split", metavar="NAME", help="held-out mashups, such as dev")
    track.add_argument("--limit", type=int, metavar="N", help="the first N requests only")
    _scheduler(track)


def _evidence(track: argparse.ArgumentParser) -> None:
    _rounds(track)
    track.add_argument("--waves", action="store_true", help="call the recipients in waves")


def _models(track: argparse.ArgumentParser) -> None:
    track.add_argument(
        "--base-url",
        nargs="+",
        metavar="URL[=MODEL]",
        help="a server and one of its models, or all that it lists; keys are read from "
        "OPENAI_API_KEY for OpenAI and OPENAI_BASE_URL, and OPENAI_API_KEY_HOST for other hosts",
    )
    track.add_argument("--prices", type=Path, metavar="FILE", help="what tokens cost, as JSON")
    track.add_argument("--model", type=Path, metavar="DIR", help="a router that is fitted already")
    track.add_argument("--split", metavar="NAME", help="held-out mashups, such as dev")
    _limit(track, models.LIMIT)


def _routed_vs_broadcast(track: argparse.ArgumentParser) -> None:
    _rounds(track)
    track.add_argument(
        "--organise", action="store_true", help="compare the organisations of contractors instead"
    )
    track.add_argument("--resume", type=Path, metavar="FILE", help="keep finished requests there")
    track.add_argument("--report", type=Path, metavar="DIR", help="write tables and pictures")


def _size(text: str) -> str:
    if text != "all" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a number or 'all', not {text!r}")
    return text


def _count(track: argparse.ArgumentParser, option: str, default: int, help: str) -> None:
    said = f"{help} (default: %(default)s)"
    track.add_argument(option, type=int, metavar="N", default=default, help=said)


def _limit(track: argparse.ArgumentParser, default: int) -> None:
    track.add_argument(
        "--limit",
        type=int,
        metavar="N",
        default=default,
        help=f"so many requests of each split, drawn at random; 0 is all (default: {default})",
    )


def _learning_curve(track: argparse.ArgumentParser) -> None:
    track.add_argument(
        "--sizes",
        nargs="+",
        type=_size,
        metavar="N",
        default=learning_curve.SIZES,
        help="numbers of past mashups, or 'all'",
    )
    _count(track, "--draws", learning_curve.DRAWS, "draws of each size")
    _limit(track, learning_curve.LIMIT)
    _vectors(track)
    _plots(track)
    _scheduler(track)


def _trust(track: argparse.ArgumentParser) -> None:
    _limit(track, trust.LIMIT)
    track.add_argument(
        "--final", action="store_true", help="measure the texts kept for the end, too"
    )
    _scheduler(track)


def _cold(track: argparse.ArgumentParser) -> None:
    _limit(track, cold.LIMIT)
    _scheduler(track)


def _removed(track: argparse.ArgumentParser) -> None:
    _limit(track, removed.LIMIT)


def _plots(track: argparse.ArgumentParser) -> None:
    track.add_argument("--plots", type=Path, metavar="DIR", help="draw into that folder, as SVG")


def _engine(track: argparse.ArgumentParser) -> None:
    _count(track, "--contractors", engine.CONTRACTORS, "contractors of a round")
    track.add_argument(
        "--requests",
        type=int,
        nargs="+",
        metavar="N",
        default=engine.REQUESTS,
        help="after so many, the memory is looked at (default: %(default)s)",
    )


def _execution(track: argparse.ArgumentParser) -> None:
    _count(track, "--jobs", execution.JOBS, "jobs of a plan")
    track.add_argument(
        "--executions",
        type=int,
        metavar="N",
        default=execution.EXECUTIONS,
        help="for the memory (default: %(default)s)",
    )


def _injection(track: argparse.ArgumentParser) -> None:
    track.add_argument("--limit", type=int, metavar="N", help="the first N orders only")


def _reputation(track: argparse.ArgumentParser) -> None:
    _count(track, "--runs", reputation.RUNS, "simulations of each method")
    track.add_argument(
        "--contractors",
        type=int,
        nargs="+",
        metavar="N",
        default=reputation.CONTRACTORS,
        help="among so many, what a negotiation costs (default: %(default)s)",
    )


def _tool_servers(track: argparse.ArgumentParser) -> None:
    track.add_argument(
        "--node",
        type=Path,
        metavar="NODE_MODULES",
        help=f"a folder with servers that run in Node (default: {tool_servers.NODE_SERVERS})",
    )
    _count(track, "--calls", tool_servers.CALLS, "later calls, of which the median is shown")


def _serving(track: argparse.ArgumentParser) -> None:
    track.add_argument(
        "--node",
        type=Path,
        metavar="NODE_MODULES",
        help="a folder with servers that run in Node (default: that of `make`)",
    )
    track.add_argument("--quick", action="store_true", help="see that it works, in some seconds")
    track.add_argument(
        "--parts", nargs="+", choices=serving.PARTS, default=serving.PARTS, help="not all"
    )


def _scale(track: argparse.ArgumentParser) -> None:
    track.add_argument("--quick", action="store_true", help="see that it works, on tiny sizes")
    for option, names, metavar in (
        ("--only", scale.NAMES, "ROW"),
        ("--routers", scale.ROUTERS, "ROUTER"),
    ):
        said = f"not all of: {', '.join(names)}"
        track.add_argument(option, nargs="+", metavar=metavar, choices=names, help=said)
    _count(track, "--asked", scale.ASKED, "requests of each kind")
    _count(track, "--growth", scale.GROWTH, "mashups and contractors of the largest point")
    for option, default, unit, what in (
        ("--limit", scale.LIMIT, "SECONDS", "that a step of the learned router may take"),
        ("--peer-limit", scale.PEER_LIMIT, "SECONDS", "that another router may take"),
        ("--memory", scale.MEMORY, "GB", "that a step may use"),
    ):
        said = f"{what} (default: %(default)g)"
        track.add_argument(option, type=float, metavar=unit, default=default, help=said)


def _subagents(track: argparse.ArgumentParser) -> None:
    track.add_argument("--split", metavar="NAME", help="held-out mashups, such as dev")
    _limit(track, subagents.LIMIT)


def _planning(track: argparse.ArgumentParser) -> None:
    _count(track, "--forms", planning.FORMS, "forms, each of which makes two requests")


def _compound(track: argparse.ArgumentParser) -> None:
    track.add_argument(
        "--history", type=int, metavar="N", help="learn from N past mashups, drawn by the seed"
    )


def _quotations(track: argparse.ArgumentParser) -> None:
    _compound(track)
    _limit(track, quotations.LIMIT)


def _coordination(track: argparse.ArgumentParser) -> None:
    _count(track, "--servers", coordination.SERVERS, "servers; of up to ten, two are processes")
    track.add_argument(
        "--sessions",
        type=int,
        metavar="N",
        default=coordination.SESSIONS,
        help=f"of {len(KINDS)} tasks each (default: %(default)s)",
    )
    track.add_argument(
        "--before",
        type=int,
        metavar="N",
        default=coordination.BEFORE,
        help="sessions before them that are not counted: what is on learns (default: %(default)s)",
    )
    track.add_argument(
        "--limit",
        type=float,
        metavar="SECONDS",
        default=coordination.LIMIT,
        help="that a task may take (default: %(default)s)",
    )
    shown = ", ".join(map(str, coordination.SEEDS))
    track.set_defaults(seed=None)  # then several
    track.epilog = f"Without --seed: the mean over seeds {shown}."


def _sizing(track: argparse.ArgumentParser) -> None:
    for option, default in (("--tools", sizing.TOOLS), ("--vectors", sizing.VECTORS)):
        said = "so many (default: %(default)s)"
        track.add_argument(option, type=int, nargs="+", metavar="N", default=default, help=said)


def _context(track: argparse.ArgumentParser) -> None:
    track.add_argument("--redis", metavar="URL", help="measure that server too, as redis://...")


def _telemetry(track: argparse.ArgumentParser) -> None:
    _count(track, "--repeats", telemetry.REPEATS, "times each is done in each way")


_OPTIONS = {
    "context": _context,
    "coordination": _coordination,
    "compound": _compound,
    "quotations": _quotations,
    "next_tool": _plots,
    "next_tool_history": _plots,
    "quality": _quality,
    "learning_curve": _learning_curve,
    "trust": _trust,
    "cold": _cold,
    "removed": _removed,
    "languages": _scheduler,
    "routed_vs_broadcast": _routed_vs_broadcast,
    "evidence": _evidence,
    "models": _models,
    "engine": _engine,
    "execution": _execution,
    "injection": _injection,
    "reputation": _reputation,
    "tool_servers": _tool_servers,
    "scale": _scale,
    "serving": _serving,
    "subagents": _subagents,
    "planning": _planning,
    "sizing": _sizing,
    "telemetry": _telemetry,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one track; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure routers, rounds and predictors.")
    tracks = parser.add_subparsers(dest="track", required=True, metavar="TRACK")
    for name, module in TRACKS.items():
        said = str(module.__doc__).strip()
        track = tracks.add_parser(
            name,
            help=said.splitlines()[0],
            description=said,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        track.add_argument(
            "--data",
            type=Path,
            metavar="DIR",
            required=name in _NEED_DATA,
            help="a folder of data, for tracks that take one (python benchmarks/run.py says which)",
        )
        track.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
        track.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
        _OPTIONS.get(name, lambda _: None)(track)
    options = parser.parse_args(argv)
    try:
        results = TRACKS[options.track].run(options)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(options.json) as out:
                out.write(json.dumps(results, indent=1) + "\n")
    except CnpRouterError as exc:
        print(f"Error: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
