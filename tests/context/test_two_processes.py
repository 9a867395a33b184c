"""Two processes over one SQLite store: what is one user's never reaches another."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CODE = """
import asyncio, json, sys
from cnp_router.catalog import Api
from cnp_router.context import SharedContext, SqliteContextStore
from cnp_router.sources import CallResult

path, does, user = sys.argv[1:]
sky = Api("sky__today", "today", "The weather of a city.", (), None, "reads")
map_ = Api("map__place", "place", "Where a city is.", (), None, "reads")
text = "the weather in Kyoto"

async def main():
    store = SqliteContextStore(path)
    async with SharedContext(store, classes=lambda api: "public", threshold=0) as context:
        if does == "keep":
            said = CallResult(f"canary of {user or 'nobody'}")
            name = await context.keep(sky, {"city": "Kyoto"}, said, text=text, user=user)
            return {"id": name}
        if does == "erase":
            return {"erased": await context.erase(user=user)}
        recalled = await context.recall(sky, {"city": "Kyoto"}, user=user)
        offered = await context.offer(text, map_, user=user)
        got = await context.get(does, user=user)
        return {
            "recalled": recalled and recalled.text,
            "offered": [each.text for each in offered.values()],
            "got": got and got.result.text,
        }

print(json.dumps(asyncio.run(main())))
"""


@pytest.fixture
def process(tmp_path):
    def run(does, user):
        """Do something as a user, in a process of its own."""
        command = [sys.executable, "-c", CODE, str(tmp_path / "context.db"), does, user]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return json.loads(said.stdout)

    return run


def test_an_entry_of_one_user_reaches_no_other(process):
    name = process("keep", "ann")["id"]
    for user in ("eve", "Ann", ""):
        assert process(name, user) == {"recalled": None, "offered": [], "got": None}
    said = "canary of ann"
    assert process(name, "ann") == {"recalled": said, "offered": [said], "got": said}


def test_the_same_call_of_another_user_leaves_it_as_it_is(process):
    ids = {user: process("keep", user)["id"] for user in ("ann", "eve", "")}
    assert len(set(ids.values())) == 3
    for user, name in ids.items():
        said = f"canary of {user or 'nobody'}"
        assert process(name, user) == {"recalled": said, "offered": [said], "got": said}


def test_erasing_one_user_leaves_the_others(process):
    name = process("keep", "ann")["id"]
    process("keep", "eve")
    assert process("erase", "ann") == {"erased": 1}
    assert process(name, "ann") == {"recalled": None, "offered": [], "got": None}
    assert process("any", "eve")["recalled"] == "canary of eve"
