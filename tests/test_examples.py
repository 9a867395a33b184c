"""Each example runs, and says what it is there to say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SAYS = {
    "agent_loop.py": "Model calls saved: ",
    "contract_net.py": "contractor-led  broadcast       3",
    "copy_tools.py": "plan.json",
    "copy_timetable.py": "evening.jsonl",
    "execute_plan.py": "tell: done, to +47 555: Oslo: rain until noon.",
    "fit_and_save.py": "the same after loading: True",
    "graph.py": "for Gephi: ['graph.gexf']",
    "plan_scaling.py": "past, of each worker",
    "negotiation.py": "declined: closed on Sundays (server)",
    "new_apis.py": "park-here",
    "serve_tools.py": 'call_tool: ["Oak"]',
    "shared_context.py": "kept 4, not called again 2",
    "timetable.py": "In conflict:",
    "traces.py": "      execute_tool air__weather",
    "with_fastmcp.py": "Translate a poem -> No tool fits this request.",
    "with_langchain.py": "tool: Rain in Kyoto from noon.",
    "with_openai_agents.py": "the model saw 5 of 149 tools: ",
    "with_pydantic_ai.py": "learned that it was served by: openweather, twilio",
}


def test_no_example_is_forgotten():
    assert {file.name for file in (ROOT / "examples").glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_example(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert SAYS[name] in done.stdout
    assert list(tmp_path.iterdir()) == []
