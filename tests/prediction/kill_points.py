"""End a writer by SIGKILL at each thing it does to the disk, and see what is left. A script.

A child observes, and says on a pipe what was acknowledged. It is killed before its k-th operation
on the disk or, where that writes, in the middle of it; then another one is killed while it
recovers. What is found afterwards is printed, a JSON object for each k.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from itertools import count
from pathlib import Path

from cnp_router.prediction import OnlineStore, disk
from cnp_router.trajectories import Step, Trajectory

OPERATIONS = ("append", "cut", "create_folder", "write_file", "put", "remove", "sync_folder")
RECORDS = [Trajectory(f"t{n}", "Rain?", (Step("weather"),)) for n in range(7)]


class Tally:
    """Remembers what it was shown, and how often."""

    kind = "tally"

    def __init__(self):
        self.ids = []

    def check(self, record):
        pass

    def apply(self, records):
        self.ids += [record.id for record in records]

    def state(self):
        return {"ids": list(self.ids)}

    def restore(self, state):
        self.ids = list(state["ids"])


def kill_at(fatal, in_the_middle):
    """Have the process end at its `fatal`-th operation."""
    number = count(1)

    def deadly(original, writes):
        def operation(path, *rest):
            if next(number) != fatal:
                original(path, *rest)
                return
            if in_the_middle and writes:
                with path.open("ab") as file:
                    file.write(rest[0][: len(rest[0]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

        return operation

    for name in OPERATIONS:
        writes = name in ("append", "write_file")
        setattr(disk, name, deadly(getattr(disk, name), writes))


def observe_all(folder, say=lambda name: None):
    tally = Tally()
    with OnlineStore(folder, [tally], every=2) as store:
        for record in (*RECORDS, RECORDS[0]):
            if store.observe(record).counted:
                say(record.id)
    return tally.ids


def in_a_child(folder, fatal, in_the_middle):
    """Observe in a child that may be killed; return whether it was, and what it acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        kill_at(fatal, in_the_middle)
        observe_all(folder, lambda name: os.write(writing, f"{name}\n".encode()))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().split()
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), said


def found_in(folder):
    tally = Tally()
    if folder.exists() and any(p.name != "lock" for p in folder.iterdir()):
        OnlineStore(folder, [tally], read_only=True)
    return tally.ids


def main(folder):
    for in_the_middle in (False, True):
        for fatal in count(1):
            shutil.rmtree(folder, ignore_errors=True)
            was_killed, said = in_a_child(folder, fatal, in_the_middle)
            if not was_killed:
                break
            found = found_in(folder)
            again = 1 + fatal % 6
            _, said_again = in_a_child(folder, again, in_the_middle)
            found_again = found_in(folder)
            at_the_end = observe_all(folder)
            point = {"fatal": fatal, "in_the_middle": in_the_middle, "said": said, "found": found}
            rest = {"said_again": said_again, "found_again": found_again, "at_the_end": at_the_end}
            sys.stdout.write(json.dumps({**point, **rest}) + "\n")


if __name__ == "__main__":
    os.fsync = lambda handle: None  # what is killed leaves its writes to the system, synced or not
    main(Path(sys.argv[1]) / "online")
