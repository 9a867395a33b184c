from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "docs_in_sync.py"


@pytest.fixture(scope="module")
def docs():
    spec = importlib.util.spec_from_file_location("docs_in_sync", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path, docs, monkeypatch):
    """A project with one example, which stands in for the repository."""
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "hello.py").write_text(
        "import pathlib, sys, time\n"
        "file = pathlib.Path('count')\n"
        "file.write_text((file.read_text() if file.exists() else '') + 'I')\n"
        "print('hello', *sys.argv[1:], file.read_text())\n"
        "print('took', time.time() % 1000, 'ms')\n"
        "print('progress', file=sys.stderr)\n"
    )
    return tmp_path


def block(command="python examples/hello.py", body="", language="text"):
    fenced = f"```{language}\n{body}```\n" if body or language else ""
    return f"Before\n\n<!-- run: {command} -->\n{fenced}<!-- end -->\n\nAfter\n"


HELLO = "hello I\ntook 5 ms\n"


class TestRenewed:
    def test_the_output_fills_the_block(self, docs):
        text = docs.renewed(block(body="old\n"), lambda command: f"{command}!\n")
        assert text == block(body="python examples/hello.py!\n")

    def test_a_block_need_not_have_a_fence_yet(self, docs):
        assert docs.renewed(block(language=""), lambda _: "new") == block(body="new\n")

    def test_the_word_after_the_fence_stays(self, docs):
        text = docs.renewed(block(body="{}\n", language="json"), lambda _: "[]\n")
        assert text == block(body="[]\n", language="json")

    def test_a_console_block_shows_the_command(self, docs):
        text = docs.renewed(block(language="console"), lambda _: "new\n")
        assert text == block(body="$ python examples/hello.py\nnew\n", language="console")

    def test_output_with_a_fence_gets_a_longer_one(self, docs):
        once = docs.renewed(block(), lambda _: "```python\nx\n```\n")
        assert "````text\n```python\nx\n```\n````\n" in once
        assert docs.renewed(once, lambda _: "```python\nx\n```\n") == once

    def test_output_with_backslashes_is_taken_as_it_is(self, docs):
        assert docs.renewed(block(), lambda _: r"\1 \g<0>") == block(body="\\1 \\g<0>\n")

    def test_durations_alone_change_nothing(self, docs):
        old = block(body="fitted in 12.3 s\nanswered in  9 ms\n")
        assert docs.renewed(old, lambda _: "fitted in 8 s\nanswered in 10.25 ms\n") == old
        assert docs.renewed(old, lambda _: "fitted in 8 s\nanswered in 10 MB\n") != old

    def test_what_varies_between_machines_is_kept_when_checking(self, docs):
        old = block(body="0.48\n").replace("run:", "run (varies):")
        new = block(body="0.46\n").replace("run:", "run (varies):")
        assert docs.renewed(old, lambda _: "0.46\n") == new
        assert docs.renewed(old, lambda _: "0.46\n", keep_varying=True) == old
        assert docs.renewed(block(body="1\n"), lambda _: "2\n", keep_varying=True) == block(
            body="2\n"
        )

    def test_but_its_command_is_run(self, docs):
        def failing(command):
            raise docs.DocsError(command)

        with pytest.raises(docs.DocsError):
            docs.renewed(block().replace("run:", "run (varies):"), failing, keep_varying=True)

    def test_text_without_blocks_is_left_alone(self, docs):
        text = "# Title\n\n```sh\ncnp-router --help\n```\n"
        assert docs.renewed(text, pytest.fail) == text

    def test_blocks_are_run_in_order(self, docs):
        commands = []
        docs.renewed(block("a") + block("b"), lambda command: commands.append(command) or "")
        assert commands == ["a", "b"]

    @pytest.mark.parametrize(
        "text",
        [
            "<!-- run: cnp-router -->\n```text\n```\n",
            "```text\n```\n<!-- end -->\n",
            "<!-- run: a -->\n<!-- run: b -->\n```text\n```\n<!-- end -->\n",
        ],
    )
    def test_a_mark_without_a_partner(self, docs, text):
        with pytest.raises(docs.DocsError, match="has no partner"):
            docs.renewed(text, lambda _: "")

    def test_prose_between_the_marks_is_not_overwritten(self, docs):
        text = "<!-- run: a -->\nA precious sentence.\n<!-- end -->\n"
        with pytest.raises(docs.DocsError, match="expected one fenced block after '<!-- run: a"):
            docs.renewed(text, lambda _: "")


class TestFiles:
    FILE = "<!-- file: own.py -->\n```python\nprint('own')\n```\n"

    def test_a_file_is_written_in_its_turn(self, docs):
        done = []
        text = block("a", "new\n") + self.FILE + block("b", "new\n")
        new = docs.renewed(
            text,
            lambda command: done.append(command) or "new",
            write=lambda name, content: done.append((name, content)),
        )
        assert done == ["a", ("own.py", "print('own')\n"), "b"]
        assert new == text

    def test_a_command_that_is_only_checked(self, docs):
        done = []
        text = "<!-- check: a -->\n" + block("b", "new\n")
        assert docs.renewed(text, lambda command: done.append(command) or "new") == text
        assert done == ["a", "b"]

    @pytest.mark.parametrize("name", ["../own.py", "/own.py", "a/own.py", ".profile", "own"])
    def test_only_into_the_folder(self, docs, name):
        with pytest.raises(docs.DocsError, match="has no partner"):
            docs.renewed(self.FILE.replace("own.py", name), lambda _: "", write=pytest.fail)

    def test_a_file_without_its_block(self, docs):
        with pytest.raises(docs.DocsError, match="'<!-- file' has no partner"):
            docs.renewed("<!-- file: own.py -->\nA sentence.\n", lambda _: "", write=pytest.fail)


class TestNormalised:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("took 3 ms", "took  12.5 ms"),
            ("| 3.1ms | 2 s |", "| 10ms | 40 s |"),
            ("1 second", "2 second"),
            ("1,234 ms", "999 ms"),
        ],
    )
    def test_durations_compare_equal(self, docs, one, other):
        assert docs.normalised(one) == docs.normalised(other)

    @pytest.mark.parametrize(
        ("one", "other"), [("3 samples", "4 samples"), ("F1 .68", "F1 .69"), ("3 ms", "3 s")]
    )
    def test_other_numbers_do_not(self, docs, one, other):
        assert docs.normalised(one) != docs.normalised(other)


class TestRun:
    @pytest.mark.parametrize(
        "command",
        [
            "rm -rf x",
            "python -c pass",
            "python examples/../setup.py",
            "python scripts/docs_in_sync.py",
            "/usr/bin/cnp-router",
            "",
        ],
    )
    def test_other_commands_are_not_run(self, docs, project, command):
        with pytest.raises(docs.DocsError, match="will not run"):
            docs.run(command, project)

    def test_a_script_of_the_folder_is_run(self, docs, project):
        (project / "own.py").write_text("import sys; print('own', *sys.argv[1:])")
        assert docs.run("python own.py 1", project) == "own 1\n"

    def test_there_is_no_shell(self, docs, project):
        output = docs.run("python examples/hello.py '$HOME' ; rm -rf '*'", project)
        assert output.startswith("hello $HOME ; rm -rf * I")

    def test_a_failing_command_says_why(self, docs, project):
        (project / "examples" / "bad.py").write_text("raise SystemExit('no such model')")
        with pytest.raises(docs.DocsError, match=r"exits with 1:\nno such model"):
            docs.run("python examples/bad.py", project)

    def test_a_command_without_end(self, docs, project, monkeypatch):
        (project / "examples" / "slow.py").write_text("import time; time.sleep(60)")
        monkeypatch.setattr(docs, "_TIMEOUT", 0.1)
        with pytest.raises(docs.DocsError, match="takes longer than"):
            docs.run("python examples/slow.py", project)

    def test_the_folder_is_not_in_the_output(self, docs, project):
        (project / "examples" / "where.py").write_text(
            "import pathlib; print(pathlib.Path('model').resolve())"
        )
        assert docs.run("python examples/where.py", project) == "model\n"


class TestMain:
    def test_renewing_then_checking(self, docs, project, capsys):
        (project / "docs").mkdir()
        readme, page = project / "README.md", project / "docs" / "page.md"
        readme.write_text(block())
        page.write_text(block() + block())
        assert docs.main(["--check"], root=project) == 1
        assert readme.read_text() == block()
        diff = capsys.readouterr().out
        assert "--- README.md\n+++ README.md (run)\n" in diff
        assert "+hello I\n" in diff
        assert docs.main([], root=project) == 0
        assert capsys.readouterr().err == "README.md: renewed\ndocs/page.md: renewed\n"
        # Commands of one document share a folder, those of two do not; nothing stays behind.
        assert "hello I\n" in readme.read_text()
        assert "hello I\n" in page.read_text()
        assert "hello II\n" in page.read_text()
        assert {path.name for path in project.iterdir()} == {"README.md", "docs", "examples"}
        assert docs.main(["--check"], root=project) == 0
        assert capsys.readouterr() == ("", "")

    def test_a_broken_document_is_named_and_the_others_are_still_done(self, docs, project, capsys):
        (project / "docs").mkdir()
        (project / "README.md").write_text("<!-- end -->\n")
        page = project / "docs" / "page.md"
        page.write_text(block())
        assert docs.main([], root=project) == 1
        assert capsys.readouterr().err.startswith("README.md: '<!-- end' has no partner")
        assert "hello I" in page.read_text()

    def test_a_tutorial_writes_its_files(self, docs, project):
        (project / "docs" / "tutorials").mkdir(parents=True)
        page = project / "docs" / "tutorials" / "page.md"
        page.write_text(TestFiles.FILE + block("python own.py"))
        assert docs.main([], root=project) == 0
        assert page.read_text() == TestFiles.FILE + block("python own.py", body="own\n")
        assert docs.main(["--check"], root=project) == 0

    def test_a_project_without_docs_is_in_sync(self, docs, project):
        assert docs.main(["--check"], root=project) == 0

    def test_it_runs_as_a_script(self):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--help"],
            env=os.environ | {"PYTHONPATH": str(SCRIPT.parents[1])},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "--check" in done.stdout
