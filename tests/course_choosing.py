"""A stand-in for a language model that makes timetables: it searches, and adds what it finds."""

from __future__ import annotations

import json
from typing import Any

JOB = {"id": "pick", "task": "Find courses on film.", "api": None, "inputs": None, "after": []}
PLAN = {"guideline": "Film first.", "jobs": [JOB]}
QUERIES = ("film", "statistics", "economics", "law", "politics")


def next_call(prompt: str) -> dict[str, Any]:
    """Return the next call of an agent whose prompt this is."""
    told = json.loads(prompt.partition("\n")[2])
    acts = told.get("acts", [])
    tried = {act["inputs"].get("course_id") for act in acts}
    for act in reversed(acts):
        courses = (act["seen"].get("result") or {}).get("courses", [])
        if left := [each["id"] for each in courses if each["id"] not in tried]:
            return _call("add", course_id=left[0])
    n_searches = sum(act["tool"] == "timetable__search" for act in acts)
    return _call("search", query=QUERIES[n_searches % len(QUERIES)])


def _call(tool: str, **inputs: Any) -> dict[str, Any]:
    return {"thought": "", "tool": f"timetable__{tool}", "inputs": inputs, "done": False}
