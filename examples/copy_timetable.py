"""Copy the forms and the courses of examples/timetable into the current folder."""

import shutil
import sys
from pathlib import Path

FILES = Path(__file__).parent / "timetable"
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
for file in sorted(FILES.glob("*.json*")):
    if folder is not None:
        shutil.copy(file, folder / file.name)
    print(file.name if folder is None else folder / file.name)
