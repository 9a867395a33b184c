"""The script that unpacks Debian packages, as far as it goes without Debian's servers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unpacked import Unpacked

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "unpack_debian.sh"
pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")

# An apt-get and a dpkg of Debian, as far as the script asks them.
APT = """\
case "$1" in
  install) echo "Inst libnew (1.0 Debian)"; echo "Inst tool (2.0 Debian)"; echo "Conf tool" ;;
  download) shift; for each in "$@"; do echo "$each" > "$each.deb"; done ;;
  update) exit 1 ;;
esac
"""
DPKG = 'mkdir -p usr/bin; cp "$2" "usr/bin/$(cat "$2")"; chmod +x "usr/bin/$(cat "$2")"\n'


def run(folder: Path, program: str, path: str) -> int:
    done = subprocess.run(
        ["sh", str(SCRIPT), str(folder), program, "tool"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert done.stdout + done.stderr == b""
    return done.returncode


@pytest.fixture
def debian(tmp_path: Path) -> str:
    for name, said in (("apt-get", APT), ("dpkg", DPKG)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{said}")
        program.chmod(0o755)
    return f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"


def test_what_is_missing_is_unpacked(tmp_path: Path, debian: str) -> None:
    folder = tmp_path / "folder"
    assert run(folder, "usr/bin/tool", debian) == 0
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == ["libnew", "tool"]


def test_a_program_that_does_not_come_is_a_failure(tmp_path: Path, debian: str) -> None:
    assert run(tmp_path / "folder", "usr/bin/other", debian) == 1


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    program = tmp_path / "usr" / "bin" / "tool"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    assert run(tmp_path, "usr/bin/tool", os.environ["PATH"]) == 0


def test_without_apt_nothing_is_done(tmp_path: Path) -> None:
    only_sh = tmp_path / "bin"
    only_sh.mkdir()
    (only_sh / "sh").symlink_to(shutil.which("sh") or "")
    assert run(tmp_path / "folder", "usr/bin/tool", str(only_sh)) == 1
    assert not (tmp_path / "folder").exists()


def test_a_program_finds_its_libraries_and_fonts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    program = Unpacked("tools", "usr/bin/tool", "no-such-program")
    assert program.binary() is None
    assert "FONTCONFIG_SYSROOT" not in program.environment()
    for name in ("usr/bin/tool", "usr/lib/x/libtool.so.1", "etc/fonts/fonts.conf"):
        file = tmp_path / "tools" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert program.binary() == str(tmp_path / "tools" / "usr/bin/tool")
    found = program.environment()
    assert found["LD_LIBRARY_PATH"].split(os.pathsep)[0] == str(tmp_path / "tools/usr/lib/x")
    assert found["FONTCONFIG_SYSROOT"] == str(tmp_path / "tools")
