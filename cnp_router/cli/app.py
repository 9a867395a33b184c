"""The command ``cnp-router``, and what all commands have in common: errors and exit codes."""

from __future__ import annotations

import contextlib
import importlib
import io
import keyword
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import click

from cnp_router.cli.help_pages import Group
from cnp_router.cli.output import echo_error, note
from cnp_router.exceptions import CnpRouterError
from cnp_router.version import __version__

# Each command is a function of its name, in a module of its name, imported when it is needed. Where
# Python uses the name itself, both end in "_". The help has them by what one wants to do.
GROUPS = {
    "Try it": ("demo", "sample"),
    "Get an answer": ("recommend", "negotiate", "next", "timetable"),
    "Learn": ("import", "fit", "observe", "graph"),
    "Measure": ("evaluate", "compare", "replay"),
    "Have it done": ("call", "execute"),
    "Serve agents": ("serve",),
    "Keep it up to date and sound": ("sync", "forget", "verify", "doctor"),
}
COMMANDS = tuple(sorted(name for names in GROUPS.values() for name in names))
_BROKEN_PIPE = 141  # as a shell reports a program that SIGPIPE has ended


class Application(Group):
    """The commands, which end with 0 done, 1 error or 2 usage; `main` ends with 130 interrupted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        return getattr(importlib.import_module(f"cnp_router.cli.{name}"), name)  # type: ignore[no-any-return]

    def main(  # type: ignore[override]  # click's has a return type that depends on a flag
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run a command and leave the process with its exit code."""
        extra["standalone_mode"] = False
        _open_what_is_closed()
        _tolerate_any_character()
        try:
            code = super().main(args, prog_name, **extra)
        except (click.ClickException, CnpRouterError) as exc:
            echo_error(exc)
            code = getattr(exc, "exit_code", 1)
        except click.Abort:
            raise KeyboardInterrupt from None
        sys.exit(code)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the command line; help and version are written here."""
        with _system_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _system_errors():
            return super().invoke(ctx)


@contextlib.contextmanager
def _system_errors() -> Iterator[None]:
    """End silently where nobody reads on, as after ``| head``; else say what is wrong."""
    try:
        yield
    except BrokenPipeError:
        _let_go_of_stdout()
        raise click.exceptions.Exit(_BROKEN_PIPE) from None
    except MemoryError as exc:
        cure = "give it more; fewer --jobs take less, where there are some"
        raise CnpRouterError(f"there is too little memory ({cure})") from exc
    except OSError as exc:
        if exc.filename is not None:
            raise CnpRouterError(f"{exc.filename}: {exc.strerror}") from exc
        _let_go_of_stdout()  # it is the output itself
        raise CnpRouterError(f"the output cannot be written: {exc.strerror or exc}") from exc


# scikit-learn warns of this where two threads fit at once: each sees the filters of warnings that
# the other is just setting. Nothing is wrong, and no filter would be seen, either.
_MISTAKEN = "`sklearn.utils.parallel.delayed` should be used with"


class _StderrHandler(logging.Handler):
    """Logs to standard error as it is at that moment, which a test may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage(), record.levelname.capitalize())


@click.group(
    "cnp-router",
    cls=Application,
    groups=GROUPS,
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
    context.with_resource(warnings.catch_warnings())
    warnings.showwarning = _show


def _show(message: Warning | str, *_: Any, **__: Any) -> None:
    if not str(message).startswith(_MISTAKEN):
        note(str(message), "Warning")


def _open_what_is_closed() -> None:
    """Have somewhere to write to, where the caller has closed standard output or error."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8"))


def _tolerate_any_character() -> None:
    """Escape, rather than fail on, what the terminal's encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _let_go_of_stdout() -> None:
    """Keep the interpreter from writing to the closed pipe once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
