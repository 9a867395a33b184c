"""Runs one command, and ends all that it started as soon as whoever started it is gone.

A script of its own, run as ``python -I -S mcp_launcher.py PARENT GRACE PROGRAM [ARGUMENT ...]``. It
hands its standard streams on to the program and never reads or writes them. When its standard
input is closed at the other end, when the process PARENT has died (however), or when it is itself
told to terminate, it waits GRACE seconds for the program to end by itself; then it terminates and
at last kills what is left. On Linux that reaches every descendant, also one that has left the
process group: orphans are handed to this process. Elsewhere it reaches the program's process
group.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_PAUSE = 0.02
_KILL_SECONDS = 5.0  # only a process that the kernel cannot end runs this out
_PR_SET_CHILD_SUBREAPER = 36


def main(parent: int, grace: float, command: list[str]) -> int:
    """Run the command; return its exit code, or 128 and the number of the signal that ended it."""
    _adopt_orphans()
    told: list[int] = []
    wake, alarm = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: told.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)

    child = os.fork()
    if child == 0:
        _become(command)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # else the end of the program would not be the end of its output
    os.dup2(null, 2)

    ends = select.poll()
    ends.register(0, 0)  # no event but that it was hung up
    ends.register(wake, select.POLLIN)
    watched = _handle_of(parent)
    if watched is not None:
        ends.register(watched, select.POLLIN)
    status = None
    while status is None and not told and os.getppid() == parent:
        ready = {number for number, _ in ends.poll(None if watched is not None else 1000)}
        if ready - {wake}:
            break
        _drain(wake)
        status = _reap(child)

    deadline = time.monotonic() + grace
    while status is None and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        status = _reap(child)
    last = _end_all(child, grace)
    status = last if status is None else status
    code = 1 if status is None else os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(command: list[str]) -> None:
    """Replace this process by the program."""
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and that would be inherited
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    if sys.platform != "linux":
        os.setpgid(0, 0)  # so that there is one to be ended
    try:
        os.execv(command[0], command)
    except OSError as exc:
        os.write(2, f"cannot run {command[0]}: {exc.strerror}\n".encode())
    finally:
        os._exit(127)


def _adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _handle_of(pid: int) -> int | None:
    """Return a file descriptor that becomes readable when a process ends, where there is such."""
    try:
        return os.pidfd_open(pid) if sys.platform == "linux" else None
    except OSError:
        return None


def _drain(wake: int) -> None:
    try:
        while os.read(wake, 4096):
            pass
    except BlockingIOError:
        pass


def _reap(child: int) -> int | None:
    """Take note of all children that have ended; return the status of one, if it is among them."""
    found = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                found = status
    except ChildProcessError:
        pass
    return found


def _end_all(child: int, grace: float) -> int | None:
    """Terminate, then kill, all descendants; return the status of the child if it ends now."""
    found = None
    told: set[int] = set()
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILL_SECONDS)):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            status = _reap(child)
            found = status if found is None else found
            left = _descendants() if sys.platform == "linux" else _group(child)
            if not left:
                return found
            for pid in left:
                if number == signal.SIGKILL or pid not in told:
                    told.add(pid)
                    _signal(pid, number)
            time.sleep(_PAUSE)
    return found


def _signal(pid: int, number: int) -> bool:
    """Send a signal to a process, or to the group of a negative number; False if none is there."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _group(child: int) -> set[int]:
    """Return the group of the child, if anybody is left of it."""
    return {-child} if _signal(-child, 0) else set()


def _descendants() -> set[int]:
    """Return all living descendants of this process."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  (it is to import little)
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:
                continue
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    ahead = [os.getpid()]
    while ahead:
        below = children.get(ahead.pop(), [])
        found.update(below)
        ahead.extend(below)
    return found


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
