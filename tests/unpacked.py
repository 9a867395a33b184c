"""Programs that scripts/unpack_debian.sh unpacked into the environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


class Unpacked:
    """A program in a folder of the environment; one that is installed is preferred."""

    def __init__(self, folder: str, program: str, installed: str) -> None:
        self.folder = Path(sys.prefix) / folder
        self.program = self.folder / program
        self.installed = installed

    def binary(self) -> str | None:
        """Return where the program is; None if it is not there."""
        return shutil.which(self.installed) or (
            str(self.program) if self.program.exists() else None
        )

    def environment(self) -> dict[str, str]:
        """Return the environment in which it finds its libraries, and fonts if they came along."""
        libraries = {str(path.parent) for path in self.folder.rglob("*.so*")}
        known = os.environ.get("LD_LIBRARY_PATH")
        paths = [*sorted(libraries), *([known] if known else [])]
        fonts = {"FONTCONFIG_SYSROOT": str(self.folder)}
        has_fonts = (self.folder / "etc" / "fonts" / "fonts.conf").exists()
        return {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(paths),
            **(fonts if has_fonts else {}),
        }
