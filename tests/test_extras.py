"""The libraries of extras: each is imported where it is needed, and by nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# By the name of the package. The HTTP clients are left out: that of language models brings them.
MODULES = {
    "matplotlib": ("matplotlib",),
    "jinja2": ("jinja2",),
    "mcp": ("mcp", "mcp_types"),
    "openapi-pydantic": ("openapi_pydantic",),
    "pyyaml": ("yaml",),
    "a2a-sdk": ("a2a", "google"),
    "redis": ("redis",),
    "pyarrow": ("pyarrow",),
    "distributed": ("distributed", "dask"),
    "starlette": ("starlette", "sse_starlette"),
    "uvicorn": ("uvicorn",),
    "opentelemetry-sdk": ("opentelemetry",),
    "opentelemetry-exporter-prometheus": ("opentelemetry",),
    "prometheus-client": ("prometheus_client",),
    "httpx": (),
    "httpx2": (),
}
FRAMEWORKS = {"agents", "langchain", "langchain_core", "langgraph", "fastmcp", "pydantic_ai"}
OPTIONAL = {module for modules in MODULES.values() for module in modules} | FRAMEWORKS

# What stands on such a library, and is imported by whoever uses it.
FRONTS = re.compile(
    r"cnp_router\.(adapters\.(fastmcp|langchain|openai_agents|pydantic_ai)\w*"
    r"|serving\.(http_front|http_server|mcp_\w+)"
    r"|sources\.a2a_(answer|connection))"
)

WITHOUT = f"""
import importlib, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
import cnp_router

for module in pkgutil.walk_packages(cnp_router.__path__, "cnp_router."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError:
            print(module.name)
"""

COMMAND = f"""
import sys
from cnp_router.cli.app import app

try:
    app.main(sys.argv[1:], "cnp-router")
except SystemExit as end:
    assert not end.code, end.code
print("imported:", sorted({OPTIONAL!r} & set(sys.modules)))
"""


def run(code: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.splitlines()


def test_the_modules_of_every_extra_are_known() -> None:
    needed = {
        re.split(r"[^a-z0-9-]", line)[0]
        for lines in PROJECT["optional-dependencies"].values()
        for line in lines
    }
    assert needed == set(MODULES)


def test_only_fronts_and_adapters_need_an_extra_to_be_imported() -> None:
    missing = run(WITHOUT)
    assert [name for name in missing if not FRONTS.fullmatch(name)] == []
    assert "cnp_router.serving.http_front" in missing  # the libraries were away


@pytest.mark.parametrize("arguments", [("--help",), ("serve", "--help"), ("import", "--help")])
def test_help_imports_no_optional_library(arguments: tuple[str, ...]) -> None:
    assert run(COMMAND, *arguments)[-1] == "imported: []"


def test_a_recommendation_imports_no_optional_library(sample_model: Path) -> None:
    said = run(COMMAND, "recommend", "--model", str(sample_model), "text me when it rains")
    assert said[-1] == "imported: []"


def test_the_package_imports_no_optional_library() -> None:
    names = OPTIONAL | {"httpx", "httpx2"}
    assert run(f"import sys, cnp_router; print(sorted({names!r} & set(sys.modules)))") == ["[]"]
