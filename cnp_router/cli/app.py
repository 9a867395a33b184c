"""The command ``cnp-router``, and what all commands have in common: errors and exit codes."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from cnp_router.cli.compare import compare
from cnp_router.cli.evaluate import evaluate
from cnp_router.cli.fit import fit
from cnp_router.cli.graph import graph
from cnp_router.cli.next import next_
from cnp_router.cli.observe import observe
from cnp_router.cli.options import Group
from cnp_router.cli.recommend import recommend
from cnp_router.cli.replay import replay
from cnp_router.exceptions import CnpRouterError
from cnp_router.version import __version__

__all__ = ["app", "main"]

_INTERRUPTED = 130
_BROKEN_PIPE = 141  # as a shell reports a program that SIGPIPE has ended


class Application(Group):
    """A group of commands that ends with 0 done, 1 error, 2 usage or 130 interrupted."""

    def main(  # type: ignore[override]  # click's has a return type that depends on a flag
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run a command and leave the process with its exit code."""
        extra["standalone_mode"] = False
        _tolerate_any_character()
        try:
            code = super().main(args, prog_name, **extra)
        except click.ClickException as exc:
            exc.show()
            code = exc.exit_code
        except click.Abort:
            click.echo("Interrupted.", err=True)
            code = _INTERRUPTED
        except CnpRouterError as exc:
            click.echo(f"Error: {' '.join(str(exc).splitlines())}", err=True)
            code = 1
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and end silently where nobody reads on, as after ``| head``."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _let_go_of_stdout()
            ctx.exit(_BROKEN_PIPE)
        except OSError as exc:
            if exc.filename is not None:
                raise
            # Files are read and written with errors of our own: this is the output itself.
            _let_go_of_stdout()
            raise CnpRouterError(f"the output cannot be written: {exc.strerror or exc}") from exc


class _StderrHandler(logging.Handler):
    """Logs to standard error as it is at that moment, which a test may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"{record.levelname.capitalize()}: {record.getMessage()}", err=True)


@click.group(
    "cnp-router",
    cls=Application,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=['cnp-router recommend "Send me a text message when it rains."'],
)
@click.version_option(__version__, prog_name="cnp-router")
@click.pass_context
def app(context: click.Context) -> None:
    """Learn from past mashups which APIs a request needs, and whom to announce it to."""
    logger = logging.getLogger("cnp_router")
    handler = _StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    context.call_on_close(lambda: logger.removeHandler(handler))


for command in (fit, recommend, evaluate, compare, graph, observe, next_, replay):
    app.add_command(command)


def main() -> None:
    """Run the command line."""
    app.main(prog_name="cnp-router")


def _tolerate_any_character() -> None:
    """Escape, rather than fail on, what the terminal's encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _let_go_of_stdout() -> None:
    """Keep the interpreter from writing to the closed pipe once more when it ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
