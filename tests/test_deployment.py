"""Dockerfile, compose.yaml and what the container runs: that they hold together."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from cnp_router.cli.app import app as cli
from cnp_router.version import __version__

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
OPTION = re.compile(r"--[a-z][\w-]*")
SCRIPT = ROOT / "scripts" / "serve_in_container.sh"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def checker(name: str) -> str:
    found = BIN / name
    if not found.exists():
        pytest.skip(f"there is no {name} (make installs it where there is a package of it)")
    return str(found)


def instructions(name: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", " ", DOCKERFILE)
    return re.findall(rf"^{name}\s+(.*)$", joined, re.MULTILINE)


def options_of(command: str) -> set[str]:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    return {
        name for param in found.params if isinstance(param, click.Option) for name in param.opts
    }


def test_hadolint_accepts_the_dockerfile() -> None:
    linter = checker("hadolint")
    done = subprocess.run(
        [linter, "--no-color", "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    wrong = DOCKERFILE.replace(":3.11.13-slim-bookworm", "")
    done = subprocess.run([linter, "-"], input=wrong, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "DL3006" in done.stdout


def test_the_schema_of_compose_accepts_compose_yaml(tmp_path: Path) -> None:
    check = [checker("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    subprocess.run([*check, str(ROOT / "compose.yaml")], check=True, capture_output=True)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("services: {gateway: {imag: x}}\n")
    assert subprocess.run([*check, str(wrong)], check=False, capture_output=True).returncode != 0


def test_the_image_is_pinned_and_not_of_root() -> None:
    images = instructions("FROM")
    assert len(images) == 2
    for image in images:
        assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+( AS \w+)?", image)
    user = instructions("USER")[-1]
    assert int(user.partition(":")[0]) > 0
    assert DOCKERFILE.index("USER") < DOCKERFILE.index("ENTRYPOINT")


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    assert "*" in ignored
    for line in instructions("COPY"):
        if "--from=" in line:
            continue
        *sources, _ = [word for word in line.split() if not word.startswith("--")]
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignored, source


def test_the_image_is_healthy_when_the_gateway_says_so() -> None:
    (said,) = instructions("HEALTHCHECK")
    command = json.loads(said[said.index("[") :])
    assert command[:2] == ["python", "-c"]
    assert "/healthz" in command[2]
    assert "8000" in instructions("EXPOSE")
    # Nothing listens there: it has to fail, and not to wait.
    port = command[2].replace("8000", "9")
    done = subprocess.run(
        [sys.executable, "-c", port], capture_output=True, check=False, timeout=20
    )
    assert done.returncode == 1


def test_every_option_of_the_gateway_exists(compose: dict[str, Any]) -> None:
    lines = [line for line in SCRIPT.read_text().split("\n") if not line.startswith("#")]
    given = " ".join([*lines, *compose["services"]["gateway"]["command"]])
    assert set(OPTION.findall(given)) <= options_of("serve")


def test_every_option_of_the_model_exists(compose: dict[str, Any]) -> None:
    script = compose["services"]["model"]["command"][0]
    (tools,) = re.findall(r'tools="(.*)"', script)
    commands = re.findall(r"cnp-router (\w+) (.*)", script.replace("$$tools", tools))
    assert [name for name, _ in commands] == ["sync", "import", "fit"]
    for name, given in commands:
        assert set(OPTION.findall(given)) <= options_of(name), name


def test_every_option_that_the_page_names_exists() -> None:
    text = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    of_others = {"--detach", "--build", "--wait", "--rm", "--no-cache-dir"}  # Docker's and pip's
    ours = set().union(*map(options_of, ("serve", "import", "fit", "sync", "forget", "verify")))
    assert set(OPTION.findall(text)) - of_others <= ours
    for line in re.findall(r"^cnp-router serve (.*?)(?:#|$)", text, re.MULTILINE):
        assert set(OPTION.findall(line)) <= options_of("serve")


def test_services_are_locked_down_and_bounded(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not str(service["user"]).startswith(("0", "root")), name
        assert {"cpus", "memory", "pids"} <= set(service["deploy"]["resources"]["limits"]), name
        assert service["restart"] != "no", name
        assert not {"privileged", "network_mode", "pid"} & set(service), name
        assert re.fullmatch(r"[\w-]+:[\w.-]*\d[\w.-]*", service["image"]), name
    ports = [port for each in compose["services"].values() for port in each.get("ports", ())]
    assert ports == ["127.0.0.1:8000:8000"]
    assert compose["services"]["redis"]["networks"] == ["context"]
    assert compose["networks"]["context"]["internal"] is True
    assert compose["services"]["gateway"]["image"] == f"cnp-router:{__version__}"


def test_secrets_are_files(compose: dict[str, Any]) -> None:
    assert compose["secrets"]["token"] == {"file": "./token.txt"}
    gateway = compose["services"]["gateway"]
    assert gateway["environment"] == {"CNP_ROUTER_TOKEN_FILE": "/run/secrets/token"}
    assert gateway["secrets"] == ["token"]


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")
@pytest.mark.parametrize(
    ("variables", "options", "token"),
    [
        ({"CNP_ROUTER_TOKEN": "t1"}, ["--token-env", "CNP_ROUTER_TOKEN"], "t1"),
        ({"CNP_ROUTER_TOKEN_FILE": "token"}, ["--token-env", "CNP_ROUTER_TOKEN"], "from file"),
        ({}, [], None),
    ],
)
def test_what_the_container_runs(
    tmp_path: Path, variables: dict[str, str], options: list[str], token: str | None
) -> None:
    (tmp_path / "token").write_text("from file\n")
    program = tmp_path / "cnp-router"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps([sys.argv[1:], os.environ.get('CNP_ROUTER_TOKEN')]))\n"
    )
    program.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CNP_ROUTER_TOKEN")}
    done = subprocess.run(
        ["sh", str(SCRIPT), "--workers=2", "--k", "a b"],
        env={**kept, **variables, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    given, found = json.loads(done.stdout)
    assert given == [
        *("serve", "--http", "--host", "0.0.0.0"),
        *(*options, "--workers=2", "--k", "a b"),
    ]
    assert found == token


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")
def test_a_token_file_that_is_missing_stops_the_container(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", str(SCRIPT)],
        env={**os.environ, "CNP_ROUTER_TOKEN_FILE": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "none" in done.stderr
