"""The protocol of one's own in docs/protocols.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import cnp_router

DOCS = Path(cnp_router.__file__).parent.parent / "docs" / "protocols.md"


def test_the_example_runs():
    text = DOCS.read_text(encoding="utf-8").split("## A protocol of your own")[1]
    code = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    names = {"__name__": "example"}
    exec(compile(code, "docs/protocols.md", "exec", flags=0, dont_inherit=True), names)
    assert names["outcome"].protocol == "first-come"
