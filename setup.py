"""The README as package indexes show it: its relative links work in a clone only."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Where the repository is; without it, links become their text, and pictures are left out.
REPOSITORY = PROJECT.get("urls", {}).get("Repository", "").rstrip("/")
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")
PICTURE = re.compile(r"<picture\b.*?</picture>\s*|<img\b[^>]*>\s*", re.DOTALL)
PLACE = re.compile(r'\b(src|srcset)="(?!https?:)([^"]+)"')


def linked(match: re.Match[str]) -> str:
    """Return a link or picture of the README, to the repository if there is one."""
    mark, text, target = match.groups()
    if not REPOSITORY:
        return "" if mark else text
    return f"{mark}[{text}]({REPOSITORY}/{'raw' if mark else 'blob'}/HEAD/{target})"


def placed(match: re.Match[str]) -> str:
    """Return a picture written as HTML, from the repository."""
    return PLACE.sub(rf'\1="{REPOSITORY}/raw/HEAD/\2"', match[0]) if REPOSITORY else ""


readme = (ROOT / "README.md").read_text(encoding="utf-8")
setup(
    long_description=PICTURE.sub(placed, LINK.sub(linked, readme)),
    long_description_content_type="text/markdown",
)
