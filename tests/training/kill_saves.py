"""End a process that saves a router by SIGKILL at each thing it does to the disk. A script.

A child saves the new router, over the old one, where nothing is, or as the old one that has learned
more, all of whose unchanged files are linked; and is killed before its k-th operation on the disk
or, where that opens a file to write, after some bytes of it. What is found then is printed, a JSON
object for each k; then another save is killed, and found again; at last one goes through, and what
is left is listed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from itertools import count
from pathlib import Path

from planted import planted

from cnp_router import Mashup, kept_files
from cnp_router.exceptions import ModelNotFoundError
from cnp_router.training import fit_router, load_router

EVENTS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.link", "fcntl.flock"}
REQUEST = "a map of bars"
ROUTERS = {}


def kill_at(fatal, in_the_middle):
    """Have the process end at its `fatal`-th operation on the disk."""
    number = count(1)

    def deadly(event, arguments):
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not (event in EVENTS or writes):
            return
        path = os.fsdecode(arguments[0]) if not isinstance(arguments[0], int) else ""
        if path.endswith(".npy") and "usage.data" not in path:  # one array is as good as another
            return
        if next(number) == fatal:
            if writes and in_the_middle:
                with open(arguments[0], "ab") as file:  # noqa: PTH123, as it may be a descriptor
                    file.write(b'{"format"')
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(deadly)


def save_in_a_child(place, fatal, in_the_middle):
    """Save in a child that may be killed; return whether it was."""
    child = os.fork()
    if child == 0:
        new = ROUTERS["new"]
        kill_at(fatal, in_the_middle)
        new.save(place, overwrite=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def found_in(place):
    """Return which router is there, and whether what was observed is there still."""
    try:
        loaded = load_router(place)
    except ModelNotFoundError:
        return "nothing"
    except Exception as exc:  # whatever: it is to be seen
        return f"{type(exc).__name__}: {exc}"
    answer = loaded.score(REQUEST).probabilities.tolist()
    for name, router in ROUTERS.items():
        if answer == router.score(REQUEST).probabilities.tolist():
            observed = (place / "online.sqlite").exists() and (place / "online" / "log").exists()
            return f"{name}, {'observed' if observed else 'not observed'}"
    return "a router of neither"


def prepare(place, mode):
    shutil.rmtree(place.parent, ignore_errors=True)
    place.parent.mkdir()
    if mode != "first":
        ROUTERS["old"].save(place)
        (place / "online.sqlite").write_text("acknowledged", encoding="utf-8")
        (place / "online").mkdir()
        (place / "online" / "log").write_text("acknowledged", encoding="utf-8")
    if mode == "again":
        ROUTERS["new"] = load_router(place)
        api = ROUTERS["new"].apis[-1]
        ROUTERS["new"].observe([Mashup(f"new{i}", REQUEST, (api,)) for i in range(5)])


def main(place, mode):
    for name, cliques in (("old", 2), ("new", 3)):
        world = planted(n_cliques=cliques, size=3, rounds=2)
        ROUTERS[name] = fit_router(world.catalog, world.history)
    for in_the_middle in (False, True):
        for fatal in count(1):
            prepare(place, mode)
            if not save_in_a_child(place, fatal, in_the_middle):
                break
            found = found_in(place)
            after_loading = sorted(path.name for path in place.glob("*"))
            save_in_a_child(place, 1 + fatal * 7 % 20, in_the_middle)
            found_again = found_in(place)
            try:
                ROUTERS["old"].save(place, overwrite=True)
                at_the_end = found_in(place)
            except Exception as exc:  # whatever: it is to be seen
                at_the_end = f"{type(exc).__name__}: {exc}"
            point = {"fatal": fatal, "in_the_middle": in_the_middle, "found": found}
            point |= {"after_loading": after_loading, "found_again": found_again}
            left = sorted(path.name for path in (*place.parent.iterdir(), *place.glob("*")))
            sys.stdout.write(json.dumps({**point, "at_the_end": at_the_end, "left": left}) + "\n")


if __name__ == "__main__":
    os.fsync = lambda handle: None  # what is killed leaves its writes to the system, synced or not
    if sys.argv[2] == "again":
        kept_files.MAPPED = 1  # all of these files are small
    main(Path(sys.argv[1]) / "home" / "model", sys.argv[2])
