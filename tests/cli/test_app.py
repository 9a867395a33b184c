"""What all commands have in common: help, exit codes, and which stream says what."""

from __future__ import annotations

import gzip
import json
import logging
import os
import shlex
import shutil
import warnings
from pathlib import Path

import click
import pytest
from sklearn.utils.parallel import delayed

from cnp_router.cli.app import COMMANDS as COMMAND_NAMES
from cnp_router.cli.app import GROUPS, app
from cnp_router.version import __version__

ROOT = Path(__file__).resolve().parents[2]


def commands(command=app, name="cnp-router"):
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            yield from commands(command.get_command(context, inner), f"{name} {inner}")


COMMANDS = dict(commands())
# A server does not end by itself: `test_serve.py` runs its examples.
EXAMPLES = sorted(
    {
        example
        for name, command in COMMANDS.items()
        for example in command.examples
        if name != "cnp-router serve"
    }
)


class TestHelp:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_each_command_has_help_with_an_example(self, run, name):
        result = run(*name.split()[1:], "--help")
        assert result.exit_code == 0
        assert f"Usage: {name} [OPTIONS]" in result.stdout
        assert "Example" in result.stdout
        assert result.stderr == ""
        assert max(map(len, result.stdout.splitlines())) <= 80

    @pytest.mark.parametrize("name", COMMANDS)
    def test_each_option_has_help(self, name):
        options = [p for p in COMMANDS[name].params if isinstance(p, click.Option)]
        assert [option.name for option in options if not option.help] == []

    @pytest.mark.parametrize("name", COMMANDS)
    def test_each_command_is_documented(self, name):
        text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
        assert f"<!-- run: {name} --help -->" in text

    @pytest.mark.usefixtures("fits", "kept", "files")
    @pytest.mark.parametrize("example", EXAMPLES)
    def test_each_example_runs(self, run, example, sample_model):
        if example.split()[1] != "fit":
            shutil.copytree(sample_model, "model")
        Path("part-1.jsonl.gz").write_bytes(gzip.compress(Path("mashups.jsonl").read_bytes()))
        result = run(*shlex.split(example)[1:])
        said = [line for line in result.stderr.splitlines() if not line.endswith(" ...")]
        assert (result.exit_code, said) == (0, [])
        assert result.stdout

    def test_all_commands_are_in_a_group_with_their_whole_summary(self, run):
        text = run("--help").stdout
        assert "..." not in text.partition("\n")[2]
        assert [line for line in text.splitlines() if line.endswith(":")][1:-1] == [
            f"{title}:" for title in GROUPS
        ]
        grouped = [name for names in GROUPS.values() for name in names]
        assert sorted(grouped) == list(COMMAND_NAMES)
        for name in grouped:
            assert f"\n  {name} " in text

    def test_the_version(self, run):
        assert run("--version").stdout == f"cnp-router, version {__version__}\n"

    def test_help_imports_nothing_heavy(self, process):
        code = (
            "import sys\n"
            "from cnp_router.cli.app import app\n"
            "for command in ([], ['fit'], ['recommend'], ['observe'], ['next'], ['replay']):\n"
            "    try:\n        app.main([*command, '--help'])\n"
            "    except SystemExit:\n        pass\n"
            "heavy = {'numpy', 'scipy', 'sklearn', 'networkx', 'openai', 'pydantic', 'rich'}\n"
            "print(sorted(heavy & set(sys.modules)))\n"
        )
        done = process(code=code)
        assert done.communicate()[0].splitlines()[-1] == b"[]"


class TestExitCodes:
    def test_usage(self, run):
        result = run("negotiate")
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr == (
            "Usage: cnp-router negotiate [OPTIONS] TEXT\n"
            "Try 'cnp-router negotiate --help' for help.\n"
            "\n"
            "Error: Missing argument 'TEXT'.\n"
        )

    def test_an_unknown_command(self, run):
        result = run("teach")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "No such command 'teach'" in result.stderr

    def test_a_domain_error_is_one_line(self, run):
        result = run("evaluate", "--model", "m", "--history", "no\nsuch.jsonl")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1

    def test_too_little_memory_is_one_line(self, run, monkeypatch):
        def greedy(path):
            raise MemoryError

        monkeypatch.setattr("cnp_router.training.load_router", greedy)
        result = run("recommend", "--model", "m", "rain")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: there is too little memory (give it more")
        assert result.stderr.count("\n") == 1

    def test_a_bug_is_not_hidden(self, run, monkeypatch):
        def broken(path):
            raise ZeroDivisionError

        monkeypatch.setattr("cnp_router.training.load_router", broken)
        with pytest.raises(ZeroDivisionError):
            run("recommend", "--model", "m", "rain")

    def test_as_a_module(self, process):
        done = process("recommend", " ")
        out, err = done.communicate()
        assert (done.returncode, out) == (2, b"")
        assert err.endswith(b"Error: The request is empty. Say what is needed.\n")


class TestStreams:
    def test_logs_go_to_stderr(self, run, monkeypatch, sample_router):
        def logging_load(path):
            logging.getLogger("cnp_router.training").warning("old but good")
            return sample_router

        monkeypatch.setattr("cnp_router.training.load_router", logging_load)
        result = run("recommend", "--model", "m", "--json", "rain")
        assert result.exit_code == 0
        assert result.stderr == "Warning: old but good\n"
        assert json.loads(result.stdout)["request"] == "rain"

    def test_warnings_go_there_too_but_for_one_that_is_a_mistake(
        self, run, monkeypatch, sample_router
    ):
        def warning_load(path):
            function, *_ = delayed(len)(())  # as of a thread that sees no filters of warnings
            warnings.simplefilter("always")
            assert function(()) == 0
            warnings.warn("odd but good", UserWarning, stacklevel=1)
            return sample_router

        monkeypatch.setattr("cnp_router.training.load_router", warning_load)
        result = run("recommend", "--model", "m", "--json", "rain")
        assert result.exit_code == 0
        assert result.stderr == "Warning: odd but good\n"

    def test_the_log_handler_does_not_outlive_the_command(self, run):
        run("graph", "stats")
        run("graph", "stats")
        assert logging.getLogger("cnp_router").handlers == []

    def test_a_reader_that_leaves_early(self, process, sample_model):
        command = process("recommend", "--model", sample_model, "--all", "rain")
        command.stdout.close()
        with command:
            err = command.stderr.read()
        assert (command.returncode, err) == (141, b"")

    @pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fit", "--help"]])
    def test_help_that_nobody_reads(self, process, arguments):
        unread, written = os.pipe()
        os.close(unread)
        with os.fdopen(written, "wb") as stdout:
            command = process(*arguments, stdout=stdout)
            _, err = command.communicate()
        assert (command.returncode, err) == (141, b"")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no /dev/full")
    @pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fit", "--help"]])
    def test_help_that_cannot_be_written(self, process, arguments):
        with Path("/dev/full").open("wb") as stdout:
            command = process(*arguments, stdout=stdout)
            _, err = command.communicate()
        said = b"Error: the output cannot be written: No space left on device"
        assert (command.returncode, err.splitlines()) == (1, [said])

    @pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
    def test_any_encoding(self, process, sample_model, encoding):
        environment = {"PYTHONIOENCODING": encoding, "LC_ALL": "C"}
        request = "雨の日に Köln \N{UMBRELLA WITH RAIN DROPS}"
        arguments = ["recommend", "--model", sample_model, "--json", request]
        command = process(*arguments, environment={**environment, "PYTHONUTF8": "1"})
        out, err = command.communicate()
        assert (command.returncode, err) == (0, b"")
        assert json.loads(out.decode(encoding))["request"] == request


class TestInterrupt:
    # The signal comes in the middle of a real fit: when it first tells how far it is.
    CODE = (
        "import os, signal, sys, cnp_router.training as t\n"
        "from cnp_router.cli import main\n"
        # As in a terminal: what starts the tests in the background has it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "fit = t.fit_router\n"
        "def told(*_): os.kill(os.getpid(), signal.SIGINT)\n"
        "t.fit_router = lambda *a, **k: fit(*a, **{**k, 'progress': told})\n"
        "main()\n"
    )

    @pytest.mark.skipif(os.name == "nt", reason="no SIGINT to oneself")
    @pytest.mark.parametrize(
        "arguments", [("fit", "--sample", "--output", "model"), ("recommend", "rain")]
    )
    def test_nothing_is_left_behind(self, process, tmp_path, arguments):
        (tmp_path / "cache").mkdir()
        command = process(
            *arguments,
            code=self.CODE,
            environment={"XDG_CACHE_HOME": tmp_path / "cache"},
            cwd=tmp_path,
        )
        out, err = command.communicate()
        assert (command.returncode, out, err.strip()) == (130, b"", b"Interrupted.")
        assert [path.name for path in tmp_path.rglob("*")] == ["cache"]

    # The signal comes when a module is looked for; what is executed from a string, as in the
    # making of named tuples, has Python end by the signal even where it is handled.
    IMPORTING = (
        "import os, signal, sys\n"
        "from cnp_router.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == {module!r}:\n"
        "            exec('os.kill(os.getpid(), signal.SIGINT)\\nfor _ in range(99999): pass')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "main()\n"
    )

    @pytest.mark.skipif(os.name == "nt", reason="no SIGINT to oneself")
    @pytest.mark.parametrize("module", ["cnp_router.cli.app", "cnp_router.cli.recommend", "numpy"])
    def test_while_modules_are_imported(self, process, sample_model, module, tmp_path):
        (tmp_path / "program.py").write_text(self.IMPORTING.format(module=module))
        arguments = ("recommend", "--model", sample_model, "rain")
        command = process(*arguments, module="program", cwd=tmp_path)
        out, err = command.communicate()
        assert (command.returncode, out, err.strip()) == (130, b"", b"Interrupted.")
