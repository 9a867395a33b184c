"""End a writer by SIGKILL while it observes, and see what is left. A script.

A child observes, and says on a pipe what was acknowledged. It is killed before the k-th statement
that it gives to SQLite, before the k-th line that it runs in the room, or at any moment; then
another one is killed while it recovers. What is found afterwards is printed, a JSON object a kill.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import threading
import time
from itertools import count, product
from pathlib import Path

from cnp_router.online import OnlineStore
from cnp_router.trajectories import Step, Trajectory

RECORDS = [Trajectory(f"t{n}", "Rain?", (Step("weather"),)) for n in range(7)]
ROOM = f"{os.sep}online{os.sep}"


class Tally:
    """Remembers what it was shown, and how often."""

    kind = "tally"

    def __init__(self):
        self.ids = []

    def check(self, records):
        pass

    def apply(self, records):
        self.ids += [record.id for record in records]

    def state(self):
        return {"ids": list(self.ids)}

    def restore(self, state):
        self.ids = list(state["ids"])


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def at_statement(fatal):
    """Have the process end before its `fatal`-th statement."""
    number, connect = count(1), sqlite3.connect

    def deadly(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda _: next(number) == fatal and die())
        return connection

    sqlite3.connect = deadly


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


def at_moment(fatal):
    """Have the process end after some thousandths of a second."""
    seconds = random.Random(fatal).random() * 0.05
    threading.Thread(target=lambda: (time.sleep(seconds), die()), daemon=True).start()


def observe_all(file, say=lambda name: None, at_once=1):
    tally = Tally()
    records = [*RECORDS, RECORDS[0]]
    with OnlineStore(file, [tally], checkpoint_every=2) as store:
        for start in range(0, len(records), at_once):
            piece = records[start : start + at_once]
            for record, receipt in zip(piece, store.observe_many(piece), strict=True):
                if receipt.counted:
                    say(record.id)
    return tally.ids


def in_a_child(file, way, fatal, at_once):
    """Observe in a child that may be killed; return whether it was, and what it acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        way(fatal)
        observe_all(file, lambda name: os.write(writing, f"{name}\n".encode()), at_once)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().split()
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), said


def found_in(file):
    tally = Tally()
    if file.exists():
        OnlineStore(file, [tally], read_only=True)
    return tally.ids


def main(file):
    ways = ((at_statement, 1, 500), (at_line, 29, 5_000), (at_moment, 1, 20))
    for (way, stride, most), at_once in product(ways, (1, 3)):
        for fatal in range(1, most, stride):
            shutil.rmtree(file.parent, ignore_errors=True)
            was_killed, said = in_a_child(file, way, fatal, at_once)
            if not was_killed and way is not at_moment:
                break
            found = found_in(file)
            _, said_again = in_a_child(file, at_line, 100 + 37 * fatal % 400, at_once)
            found_again = found_in(file)
            at_the_end = observe_all(file)
            point = {"way": way.__name__, "fatal": fatal, "at_once": at_once}
            point |= {"said": said, "found": found}
            rest = {"said_again": said_again, "found_again": found_again, "at_the_end": at_the_end}
            left = sorted(path.name for path in file.parent.iterdir())
            sys.stdout.write(json.dumps({**point, **rest, "left": left}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "model" / "online.sqlite")
