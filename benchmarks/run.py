"""The one entry point of the benchmarks.

::

    python benchmarks/run.py quality [--data DIR] [--json FILE] [--full]
    python benchmarks/run.py scaling --data DIR [--json FILE]
    python benchmarks/run.py speed   --data DIR [--json FILE]

DIR holds ``apis.jsonl``, ``mashups-train.jsonl`` and any number of held-out ``mashups-dev*.jsonl``,
and perhaps ``apis-all.jsonl``, a larger catalog. ``quality`` works on the bundled sample without.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

# This checkout, whatever is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import quality, scaling, speed
from cnp_router.exceptions import CnpRouterError
from cnp_router.files import atomic_write

TRACKS = {"quality": quality, "scaling": scaling, "speed": speed}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one track; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the routers.")
    tracks = parser.add_subparsers(dest="track", required=True, metavar="TRACK")
    for name, module in TRACKS.items():
        summary = str(module.__doc__).splitlines()[0]
        track = tracks.add_parser(name, help=summary, description=summary)
        optional = name == "quality"
        track.add_argument("--data", type=Path, metavar="DIR", required=not optional)
        track.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
        track.add_argument("--seed", type=int, default=0)
        if name == "quality":
            track.add_argument("--full", action="store_true", help="print every figure")
            track.add_argument(
                "--only", nargs="+", metavar="ROUTER", choices=list(quality.ROUTERS), help="not all"
            )
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
