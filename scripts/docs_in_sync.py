r"""Keep the output shown in the docs true: run the commands in them, and renew or compare.

In ``README.md``, ``docs/*.md`` and ``docs/tutorials/*.md``, what stands between these two comments
is generated::

    <!-- run: cnp-router --help -->
    ```text
    Usage: cnp-router ...
    ```
    <!-- end -->

The command's standard output fills the fenced block. The word after the fence stays (``text``
where there is none yet); after ``console``, the block opens with ``$`` and the command.

Only ``cnp-router ...``, ``python examples/NAME.py ...`` and ``python NAME.py ...`` of a script that
is in the document's folder are run, without a shell, 80 columns wide. The commands of one document
run in order in one empty folder, so that a later one finds the files of an earlier one; several
documents are done at a time.

A file that the reader is to write is a fenced block after ``<!-- file: NAME -->``: it is written to
that folder when its turn comes, and never changed here. ``<!-- check: COMMAND -->`` runs a command
that the text shows without its output, or with a piece of it: it must succeed.

What differs from run to run compares equal, and is left as it stands: numbers before ``ms``,
``s``, ``seconds`` or ``minutes``, together with the space before them. What differs from machine to
machine, such as a probability in its second digit, is marked ``<!-- run (varies): ... -->``: the
check runs the command, which must succeed, and takes any output for good.

Usage: ``python scripts/docs_in_sync.py`` renews the files; with ``--check`` it changes nothing,
shows the difference and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cnp_router.exceptions import CnpRouterError, DataFileError
from cnp_router.files import atomic_write, read_text

__all__ = ["DocsError", "main", "normalised", "renewed", "run"]

ROOT = Path(__file__).resolve().parents[1]

_BLOCK = re.compile(
    r"^<!-- run(?P<varies> \(varies\))?: (?P<command>[^\n]+?) -->\n(?P<body>.*?)^<!-- end -->$"
    r"|^<!-- check: (?P<check>[^\n]+?) -->$"
    r"|^<!-- file: (?P<file>[\w-]+\.\w+) -->\n```\w*\n(?P<content>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^<!-- (?:run\b|end\b|check\b|file\b)", re.MULTILINE)
_DOCUMENTS = ("README.md", "docs/*.md", "docs/tutorials/*.md")
_FENCED = re.compile(r"\s*(?P<fence>`{3,})(?P<language>\w*)\n.*^(?P=fence)\s*", re.M | re.DOTALL)
_TIMEOUT = 600
_VARYING = re.compile(r"[ \t]*\d[\d.,]*[ \t]*(ms|s|seconds?|minutes?)\b")
# sys.argv is what click names the program by; the installed script may not be on the path.
_CLI = "import sys; sys.argv[0] = 'cnp-router'; from cnp_router.cli import main; sys.exit(main())"


class DocsError(CnpRouterError):
    """A document is not as this script needs it, or a command in it fails."""


def normalised(text: str) -> str:
    """Return `text` with a ``#`` for each duration.

    Examples
    --------
    >>> normalised("fitted in  12.3 s, 2 samples")
    'fitted in # s, 2 samples'
    """
    return _VARYING.sub(r" # \1", text)


def run(command: str, folder: Path) -> str:
    """Run one command of a document and return what it writes to standard output.

    Parameters
    ----------
    command : str
        ``cnp-router ...``, ``python examples/NAME.py ...``, or ``python NAME.py ...``.
    folder : Path
        Where to run it.

    Raises
    ------
    DocsError
        If it is not such a command, or fails.
    """
    match shlex.split(command):
        case ["cnp-router", *arguments]:
            argv = [sys.executable, "-c", _CLI, *arguments]
        case ["python", script, *arguments] if re.fullmatch(r"examples/\w+\.py", script):
            argv = [sys.executable, str(ROOT / script), *arguments]
        case ["python", script, *arguments] if re.fullmatch(r"\w+\.py", script):
            argv = [sys.executable, script, *arguments]
        case _:
            raise DocsError(
                f"will not run {command!r} (write cnp-router ..., python examples/NAME.py ... or "
                "python NAME.py ...)"
            )
    environment = {
        **os.environ,
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
        # What commands start is of the same environment.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        # This checkout, whatever is installed.
        "PYTHONPATH": str(ROOT),
        # A model that an earlier version of this checkout has kept would answer otherwise.
        "XDG_CACHE_HOME": str(folder / ".cache"),
    }
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise DocsError(f"{command!r} takes longer than {_TIMEOUT} seconds") from exc
    if done.returncode != 0:
        raise DocsError(f"{command!r} exits with {done.returncode}:\n{done.stderr.rstrip()}")
    return done.stdout.replace(f"{folder}{os.sep}", "")


def renewed(
    text: str,
    execute: Callable[[str], str],
    *,
    write: Callable[[str, str], object] = lambda name, content: None,
    keep_varying: bool = False,
) -> str:
    """Return a document with its generated blocks renewed.

    Parameters
    ----------
    text : str
        The document.
    execute : callable
        From a command to its output.
    write : callable, default=does nothing
        Given name and content of each file that the reader is to write, when its turn comes.
    keep_varying : bool, default=False
        Leave the blocks that vary between machines as they are, once their command has succeeded.

    Raises
    ------
    DocsError
        If a mark has no partner, or what stands between two is not a fenced block.
    """
    blocks = list(_BLOCK.finditer(text))
    rest = _BLOCK.sub(lambda match: "\n" * match[0].count("\n"), text)
    inside = (m for b in blocks if (m := _MARK.search(b["body"] or b["content"] or "")))
    for found in [*_MARK.finditer(rest), *inside]:
        raise DocsError(
            f"{found[0]!r} has no partner (write <!-- run: ... -->, then <!-- end -->; or "
            "<!-- file: NAME -->, then a fenced block)"
        )

    def fill(match: re.Match[str]) -> str:
        if match["check"]:
            execute(match["check"])
            return match[0]
        if match["file"]:
            write(match["file"], match["content"])
            return match[0]
        command, body = match["command"], match["body"]
        fenced = _FENCED.fullmatch(body)
        if body.strip() and not fenced:
            raise DocsError(f"expected one fenced block after '<!-- run: {command} -->'")
        language = (fenced["language"] if fenced else "") or "text"
        output = execute(command).rstrip("\n") + "\n"
        if language == "console":
            output = f"$ {command}\n{output}"
        longest = max((len(ticks) for ticks in re.findall(r"`+", output)), default=0)
        fence = "`" * max(3, longest + 1)
        new = f"{fence}{language}\n{output}{fence}\n"
        kept = keep_varying and match["varies"] and fenced
        if kept or normalised(new) == normalised(body):
            new = body
        return f"<!-- run{match['varies'] or ''}: {command} -->\n{new}<!-- end -->"

    return _BLOCK.sub(fill, text)


def _write(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content, encoding="utf-8")


def _done(document: Path, *, check: bool) -> tuple[str, str] | CnpRouterError:
    """Renew a document, or only `check`; return it as it was and as it is, or what is wrong."""
    try:
        old = read_text(document)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder).resolve()
            execute, write = functools.partial(run, folder=place), functools.partial(_write, place)
            new = renewed(old, execute, write=write, keep_varying=check)
        if new != old and not check:
            with atomic_write(document) as out:
                out.write(new)
    except (DocsError, DataFileError) as exc:
        return exc
    return old, new


def main(argv: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Renew or check all documents; return the exit code."""
    parser = argparse.ArgumentParser(
        description="Run the commands in the docs, renew their output."
    )
    parser.add_argument("--check", action="store_true", help="change nothing, show the difference")
    check = parser.parse_args(argv).check
    outdated = broken = False
    documents = [file for pattern in _DOCUMENTS for file in sorted(root.glob(pattern))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # what takes time are the commands
        done = pool.map(functools.partial(_done, check=check), documents)
        for document, result in zip(documents, done, strict=True):
            name = str(document.relative_to(root))
            if isinstance(result, CnpRouterError):
                sys.stderr.write(f"{name}: {result}\n")
                broken = True
                continue
            old, new = (text.splitlines(keepends=True) for text in result)
            if new != old:
                outdated = True
                lines = difflib.unified_diff(old, new, name, f"{name} (run)")
                sys.stdout.writelines(lines) if check else sys.stderr.write(f"{name}: renewed\n")
    if outdated and check:
        sys.stderr.write("the docs are out of date (run: make docs)\n")
    return 1 if broken or (outdated and check) else 0


if __name__ == "__main__":
    sys.exit(main())
