"""The command line: a skin over the library. Heavy imports happen inside the commands."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, and leave the process with its exit code."""
    try:
        from cnp_router.cli.app import app

        app.main(prog_name="cnp-router")
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(_INTERRUPTED)
    finally:
        # Python may end by the signal itself although it was handled, as where it came in the
        # middle of an import. What is left to do is quick.
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
