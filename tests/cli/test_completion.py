"""What the shell completes, by click's own protocol and in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cnp_router.cli import options
from cnp_router.protocols import PROTOCOLS

ROOT = Path(__file__).resolve().parents[2]
CLI = "import sys; sys.argv[0] = 'cnp-router'; from cnp_router.cli import main; main()"


@pytest.fixture
def completed(process, tmp_path):
    """Complete the last word, and return kinds and values, as bash gets them."""

    def completed(*words, code=CLI):
        environment = {
            "COMP_WORDS": " ".join(["cnp-router", *words]),
            "COMP_CWORD": str(len(words)),
            "_CNP_ROUTER_COMPLETE": "bash_complete",
        }
        done = process(code=code, environment=environment, cwd=tmp_path)
        out, err = done.communicate()
        assert err == b""
        return [tuple(line.split(",", 1)) for line in out.decode().splitlines() if line]

    return completed


class TestWords:
    def test_commands(self, completed):
        assert completed("re") == [("plain", "recommend"), ("plain", "replay")]
        assert ("plain", "next") in completed("graph", "")

    def test_options(self, completed):
        assert completed("recommend", "--fall") == [("plain", "--fallback")]

    def test_choices(self, completed):
        values = [value for _, value in completed("recommend", "--fallback", "")]
        assert values == ["none", "llm", "broadcast"]

    def test_files(self, completed):
        assert completed("recommend", "--model", "") == [("file", "")]

    def test_registered_names(self, completed):
        assert completed("recommend", "--llm", "of") == [("plain", "offline")]
        assert completed("recommend", "--where", "c") == [("plain", "category=")]
        values = [value for _, value in completed("negotiate", "--protocol", "")]
        assert values == list(PROTOCOLS)

    def test_another_protocol_is_completed_and_taken(self, monkeypatch):
        monkeypatch.setattr(
            "cnp_router.protocols.PROTOCOLS", {**PROTOCOLS, "own": PROTOCOLS["learned"]}
        )
        found = options.PROTOCOL.shell_complete(None, None, "o")
        assert [item.value for item in found] == ["own"]
        assert options.PROTOCOL.convert("own", None, None) == "own"

    def test_nothing_slow_is_imported(self, completed, tmp_path):
        heavy = ["numpy", "scipy", "sklearn", "networkx", "openai", "pydantic", "rich"]
        code = (
            "import atexit, sys\n"
            f"heavy = {heavy}\n"
            "atexit.register(lambda: print('plain,' + ' '.join(set(heavy) & set(sys.modules))))\n"
            f"{CLI}\n"
        )
        for words in (["re"], ["recommend", "--known", "twi"], ["negotiate", "--pro"]):
            assert completed(*words, code=code)[-1] == ("plain", "")


class TestApiIds:
    def test_those_of_the_sample(self, completed):
        assert completed("recommend", "--known", "twil") == [("plain", "twilio")]
        assert completed("recommend", "--why-not", "twil") == [("plain", "twilio")]
        assert completed("graph", "next", "twil") == [("plain", "twilio")]

    def test_the_last_of_several(self, completed):
        assert completed("recommend", "--exclude", "slack,twil") == [("plain", "slack,twilio")]

    def test_those_of_a_model_or_a_catalog(self, completed, sample_model, tmp_path):
        found = completed("recommend", "--model", str(sample_model), "--known", "twil")
        assert found == [("plain", "twilio")]
        (tmp_path / "apis.jsonl").write_text('{"id": "twilight", "name": "T"}\n')
        found = completed("recommend", "--catalog", "apis.jsonl", "--known", "twil")
        assert found == [("plain", "twilight")]

    @pytest.mark.parametrize("content", ["not JSON twil", '["twil"]', '{"name": "twil"}', '"twil"'])
    def test_what_cannot_be_read_completes_nothing(self, completed, tmp_path, content):
        (tmp_path / "apis.jsonl").write_text(content)
        assert completed("recommend", "--catalog", "apis.jsonl", "--known", "twil") == []
        assert completed("recommend", "--catalog", "none.jsonl", "--known", "twil") == []
        assert completed("recommend", "--model", "none", "--known", "twil") == []


class TestShells:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_there_is_a_script_for_each(self, process, shell):
        done = process(code=CLI, environment={"_CNP_ROUTER_COMPLETE": f"{shell}_source"})
        out, _ = done.communicate()
        assert f"_CNP_ROUTER_COMPLETE={shell}_complete".encode() in out
        text = (ROOT / "docs" / "shell-completion.md").read_text(encoding="utf-8")
        assert f"_CNP_ROUTER_COMPLETE={shell}_source cnp-router" in text

    @pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
    def test_in_bash(self, tmp_path):
        program = tmp_path / "cnp-router"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cnp_router "$@"\n')
        program.chmod(0o755)
        script = (
            'eval "$(_CNP_ROUTER_COMPLETE=bash_source cnp-router)"\n'
            "complete -p cnp-router\n"
            "COMP_WORDS=(cnp-router recommend --fallback b); COMP_CWORD=3; COMPREPLY=()\n"
            '_cnp_router_completion cnp-router; echo "${COMPREPLY[@]}"\n'
        )
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "broadcast"
        assert "-F _cnp_router_completion cnp-router" in done.stdout
