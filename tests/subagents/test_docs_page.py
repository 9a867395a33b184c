"""The examples of docs/subagents.md run as they stand, and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import cnp_router

PAGE = Path(cnp_router.__file__).parent.parent / "docs" / "subagents.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_examples_run():
    text = PAGE.read_text(encoding="utf-8")
    examples = EXAMPLE.findall(text)
    assert len(examples) == text.count("```python")
    names: dict[str, object] = {"__name__": "page"}
    for code, printed in examples:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, PAGE.name, "exec", dont_inherit=True), names)
        assert out.getvalue() == printed
