"""Programs in Node that test a server: the Inspector, and the conformance suite."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tool_servers import NODE_SERVERS

_LEAST = 22  # what both need of Node


def run_in_node(
    program: str, *args: str, home: Path, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a program in Node; the test is skipped where it, or a Node for it, is not installed."""
    folder = os.environ.get(NODE_SERVERS) or Path(sys.prefix, "node", "node_modules")
    programs = Path(folder).resolve() / ".bin"
    if not (programs / program).exists():
        pytest.skip(f"{programs / program} is not installed")
    path = os.pathsep.join((str(programs), os.environ.get("PATH", "")))
    environment = {**os.environ, "PATH": path, "HOME": str(home)}
    node = shutil.which("node", path=path)
    if node is None:
        pytest.skip("needs node")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(re.findall(r"\d+", said)[0]) < _LEAST:
        pytest.skip(f"needs node {_LEAST}, and it is {said.strip()}")
    return subprocess.run(
        [programs / program, *args],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
