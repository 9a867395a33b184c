"""An MCP server by hand, on standard input and output, that misbehaves as it is told.

``python odd.py [START]``: how it misbehaves from the start. Its tools do so when they are called.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

START = sys.argv[1] if len(sys.argv) > 1 else ""
TOOLS = [
    "say",
    "ask",
    "big",
    "block",
    "cancelled",
    "change",
    "die",
    "error",
    "flood",
    "hang",
    "image",
    "key",
    "line",
    "pid",
    "progress",
    "result",
]
ANY = {"type": "object"}
cancelled: list[Any] = []
extra: list[str] = []


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def send(**fields: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **fields}))


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def text(request: Any, value: object, **fields: Any) -> None:
    said = value if isinstance(value, str) else json.dumps(value)
    send(id=request, result={"content": [{"type": "text", "text": said}], **fields})


def tools() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": n, "inputSchema": ANY} for n in (*TOOLS, *extra)]
    if START == "versions":
        found[0]["description"] = f"Version {Path(sys.argv[2]).stat().st_size}"
    if START == "no-schema":
        found[2]["inputSchema"] = {**ANY, "properties": {"n": {"type": "sideways"}}}
    if START == "promise":
        properties = {"code": {"type": "string", "pattern": "^(a+)+$"}}
        found[-1]["outputSchema"] = {"type": "object", "properties": properties}
    if START == "text-schema":
        found[2]["inputSchema"] = "anything"
    if START == "twice":
        found.append({"name": "say", "inputSchema": ANY})
    if START == "bad-name":
        found[2]["name"] = "two\nlines"
    return found


def page(cursor: str | None) -> dict[str, Any]:
    if START == "circle":
        return {"tools": [], "nextCursor": "again"}
    if START == "endless":
        number = int(cursor or 0)
        found = [{"name": f"t{number}", "inputSchema": ANY}]
        return {"tools": found, "nextCursor": f"{number + 1}"}
    if START == "pages":
        number = int(cursor or 0)
        more = {"nextCursor": f"{number + 1}"} if number < 3 else {}
        return {"tools": [{"name": f"t{number}", "inputSchema": ANY}], **more}
    return {"tools": tools()}


def flood(kind: str) -> None:
    while True:
        if kind == "line":
            sys.stdout.write("x" * 65_536)
        elif kind == "text":
            sys.stdout.write("You have new mail.\n" * 1_000)
        elif kind == "notes":
            send(method="notifications/message", params={"level": "info", "data": "note " * 10})
        elif kind == "answers":
            text("nobody", "asked")
        elif kind == "requests":
            send(id="flood", method="roots/list")


def ask(request: Any) -> None:
    wishes = {
        "sampling/createMessage": {"messages": [], "maxTokens": 1},
        "elicitation/create": {
            "message": "Your password?",
            "requestedSchema": {"type": "object", "properties": {}},
        },
        "roots/list": {},
    }
    answers = {}
    for method, params in wishes.items():
        send(id=f"wish {method}", method=method, params=params)
        answers[method] = receive().get("error", {}).get("code")
    text(request, answers)


def call(  # noqa: PLR0912
    request: Any, name: str, inputs: dict[str, Any], meta: dict[str, Any]
) -> None:
    if name == "say" or name in extra:
        text(request, inputs.get("text", ""))
    elif name == "ask":
        ask(request)
    elif name == "big":
        text(request, "x" * inputs["n"])
    elif name == "block":
        time.sleep(1000)
    elif name == "cancelled":
        text(request, len(cancelled))
    elif name == "change":
        extra.append("new")
        send(method="notifications/tools/list_changed")
        text(request, "changed")
    elif name == "die":
        sys.stderr.write(f"out of ink, {os.environ.get('TOKEN')}\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "error":
        send(id=request, error=inputs)
    elif name == "flood":
        flood(inputs["kind"])
    elif name == "image":
        image = {"type": "image", "data": "AAAA" * inputs["n"], "mimeType": "image/png"}
        send(id=request, result={"content": [image]})
    elif name == "key":
        text(request, meta.get("idempotencyKey"))
    elif name == "line":
        write(inputs["line"])
        if inputs.get("answer"):
            text(request, "answered")
    elif name == "pid":
        text(request, os.getpid())
    elif name == "progress":
        for done in range(inputs["n"]):
            params = {"progressToken": meta.get("progressToken"), "progress": done + 1, "total": 3}
            send(method="notifications/progress", params=params | {"message": "step"})
        text(request, "done")
    elif name == "result":
        send(id=request, result=inputs)


def serve() -> None:
    while True:
        message = receive()
        method, request = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if START == "nonsense" and request is not None:
            write('{"jsonrpc": "2.0", "id": 1, "result": {"this": is no')
        elif method == "initialize" and START != "silent":
            send(
                id=request,
                result={
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "odd", "version": "1"},
                },
            )
        elif method == "tools/list" and START != "hang-in-list":
            send(id=request, result=page(params.get("cursor")))
        elif method == "tools/call":
            call(request, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
        elif method == "notifications/cancelled":
            cancelled.append(params["requestId"])
        elif method == "server/discover":
            send(id=request, error={"code": -32601, "message": "no such method"})


def with_children(file: Path) -> None:
    """Start a child, and one that leaves the group; all three are hard to end."""
    sleep = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pids = [os.getpid()]
    for leaves in (False, True):
        child = subprocess.Popen([sys.executable, "-c", sleep], start_new_session=leaves)
        pids.append(child.pid)
    file.write_text(json.dumps(pids))


def main() -> None:
    if START == "exit":
        sys.stderr.write(f"first\nno licence for {os.environ.get('TOKEN')}\n")
        sys.exit(7)
    if START == "banner":
        write("Welcome to the odd server!")
    if START == "noisy":
        sys.stderr.write("noise\n" * 200_000)
    if START == "flood":
        flood("text")
    if START == "children":
        with_children(Path(sys.argv[2]))
        try:
            serve()
        except SystemExit:
            time.sleep(1000)
    if START == "versions":  # another one at each start
        with Path(sys.argv[2]).open("a") as counts:
            counts.write("x")
    if START == "flaky":  # fails at every start but those after the first few
        file = Path(sys.argv[2])
        starts = int(file.read_text()) + 1 if file.exists() else 1
        file.write_text(str(starts))
        if starts <= int(sys.argv[3]):
            sys.exit(9)
    serve()


if __name__ == "__main__":
    main()
