"""Copy the tools, the sources and the plan of examples/tools into the current folder."""

import shutil
import sys
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
for file in sorted(TOOLS.glob("*.*")):
    if folder is not None:
        shutil.copy(file, folder / file.name)
    print(file.name if folder is None else folder / file.name)
