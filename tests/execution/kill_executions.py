"""End an execution by SIGKILL, resume it, and see what was done. A script.

A child runs a plan whose writes go into a file, the world. It is killed before the k-th line that
it runs in the room, within the k-th line that it writes to the journal, or at any moment; another
one, which nobody approves a repetition for, is killed while it resumes. Then it is resumed to its
end, first without such approval and then with it. A JSON object a kill says what the world holds
after each.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path

from cnp_router.agents import offline_model
from cnp_router.catalog import Api, Catalog
from cnp_router.execution import ExecutionSettings, Executor, Job, Plan, allow_writes
from cnp_router.line_file import LineFile
from cnp_router.protocols import ContractNet
from cnp_router.sources import CallResult, Source, Sources

ROOM = f"{os.sep}cnp_router{os.sep}execution{os.sep}"
PLAN = Plan(
    "Text everyone when it rains.",
    (
        Job("rain", api="world__read"),
        Job("one", api="world__write", inputs={"to": 1}, after=("rain",)),
        Job("two", api="world__write", inputs={"to": 2}),
        Job("three", api="world__write", inputs={"to": 3}, after=("one", "two")),
        Job("busy", api="world__write", inputs={"to": 4}, after=("rain",)),
        Job("end", api="world__read", after=("three",)),
    ),
)
APIS = (Api("world__read", "read", effects="reads"), Api("world__write", "write"))


class World(Source):
    """Where writes are done: a line each. One of them is busy when it is first asked."""

    name = "world"

    def __init__(self, file):
        self.file = file
        self.is_busy = True

    async def apis(self):
        return APIS

    async def call(self, call):
        await asyncio.sleep(0.001)
        if call.api == "world__write":
            if call.inputs["to"] == 4 and self.is_busy:
                self.is_busy = False
                return CallResult.failed("busy", "come again")
            with self.file.open("ab", buffering=0) as out:
                out.write(b"%d\n" % call.inputs["to"])
            await asyncio.sleep(0)
        return CallResult(f"result of {call.api}")


def execute(folder, approve):
    """Execute the plan, or go on with it; return the jobs that are done and what was asked."""
    asked = []

    def note(approval):
        asked.append([approval.job, approval.why])
        return approve(approval)

    async def main():
        catalog = Catalog(APIS)
        async with Sources([World(folder / "world")]) as sources:
            executor = Executor(
                ContractNet(catalog, offline_model(catalog)),
                sources,
                settings=ExecutionSettings(wait=(0, 0)),
                approve=note,
            )
            execution = await executor.execute(PLAN, journal=folder / "journal")
        return sorted(job.id for job in execution.jobs if job.state == "done")

    return asyncio.run(main()), asked


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def at_line(fatal):
    """Have the process end before the `fatal`-th line that it runs in the room."""
    number = count(1)

    def trace(frame, event, _):
        if ROOM not in frame.f_code.co_filename:
            return None
        if event == "line" and next(number) == fatal:
            die()
        return trace

    sys.settrace(trace)


def in_a_line(fatal):
    """Have the process end when a part of the `fatal`-th line of the journal is written."""
    number, append = count(1), LineFile.append

    def torn(self, line):
        if next(number) == fatal:
            os.write(self._file.fileno(), line[: random.Random(fatal).randrange(len(line) + 1)])
            die()
        append(self, line)

    LineFile.append = torn


def at_moment(fatal):
    """Have the process end after some thousandths of a second."""
    seconds = random.Random(fatal).random() * 0.05
    threading.Thread(target=lambda: (time.sleep(seconds), die()), daemon=True).start()


def in_a_child(folder, way, fatal):
    """Execute in a child that may be killed; return whether it was."""
    child = os.fork()
    if child == 0:
        way(fatal)
        execute(folder, allow_writes)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def world(folder):
    file = folder / "world"
    lines = file.read_text().split() if file.exists() else []
    names = {job.inputs["to"]: job.id for job in PLAN.jobs if job.inputs}
    return dict(sorted(Counter(names[int(line)] for line in lines).items()))


def main(folder):
    for way, stride, most in ((at_line, 53, 50_000), (in_a_line, 1, 100), (at_moment, 1, 30)):
        for fatal in range(1, most, stride):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            was_killed = in_a_child(folder, way, fatal)
            if not was_killed and way is not at_moment:
                break
            killed = world(folder)
            in_a_child(folder, at_line, 100 + 37 * fatal % 1_000)
            killed_again = world(folder)
            cautious, _ = execute(folder, allow_writes)
            without = world(folder)
            done, asked = execute(folder, lambda approval: True)
            point = {"way": way.__name__, "fatal": fatal, "killed": killed}
            point |= {"killed_again": killed_again, "cautious": cautious, "without": without}
            point |= {"done": done, "asked": asked, "with_approval": world(folder)}
            sys.stdout.write(json.dumps(point) + "\n")


if __name__ == "__main__":
    logging.disable()
    main(Path(sys.argv[1]) / "execution")
