"""A small workspace for tests: five slots, two notes that must be pinned into different ones."""

from __future__ import annotations

import json

from cnp_router import Api, Catalog, ContractNet
from cnp_router.execution import ExecutionSettings, Executor, allow_writes
from cnp_router.planning import Workspace
from cnp_router.sources import CallResult, Source, Sources

TEXT = {"type": "string"}
APIS = (
    Api("desk__find", "find", "Finds notes.", (), {
        "type": "object", "properties": {"query": TEXT}, "required": ["query"]}, "reads"),
    Api("desk__pin", "pin", "Pins a note into a slot.", (), {
        "type": "object", "properties": {"note": TEXT, "slot": TEXT},
        "required": ["note", "slot"]}, "writes"),
    Api("desk__ask", "ask", "Asks a colleague.", (), {"type": "object"}, "unknown"),
)  # fmt: skip
CATALOG = Catalog(APIS)
QUICK = ExecutionSettings(wait=(0, 0), timeout=20)


class Desk(Workspace, Source):
    """The board, its tools, and every call that they saw."""

    name = "desk"
    max_concurrency = 8
    is_stale = False

    def __init__(self, n_notes=2, answers=()):
        self.pinned = {}
        self.n_notes = n_notes
        self.seen = []
        self.answers = list(answers)  # of desk__ask
        self.pause = None

    async def apis(self):
        return APIS

    async def call(self, call):
        self.seen.append((call.api, dict(call.inputs)))
        if self.pause is not None:
            await self.pause()
        if call.api == "desk__find":
            return CallResult(json.dumps({"notes": [f"{call.inputs['query']} {n}" for n in "ab"]}))
        if call.api == "desk__ask":
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        self.pinned[call.inputs["slot"]] = call.inputs["note"]  # whatever was there
        return CallResult("pinned")

    def state(self):
        free = [slot for slot in "12345" if slot not in self.pinned]
        return {"free slots": free, "pinned": dict(self.pinned)}

    def refusal(self, api, inputs):
        if api == "desk__pin" and inputs.get("slot") in self.pinned:
            return f"slot {inputs['slot']} is taken"
        return None

    def unmet(self):
        left = self.n_notes - len(self.pinned)
        return (f"{left} more notes are needed",) if left > 0 else ()

    def hints(self):
        return ("Pin short notes first.",)

    def recommended(self):
        return ({"note": "tea"},)

    @property
    def pins(self):
        return [inputs for api, inputs in self.seen if api == "desk__pin"]


def executor_of(desk, model, **how):
    how = {"settings": QUICK, "approve": allow_writes, **how}
    return Executor(ContractNet(CATALOG, model), Sources([desk]), **how)


def call(tool, done=False, **inputs):
    return {"thought": "", "tool": f"desk__{tool}", "inputs": inputs, "done": done}


def pin(note, slot, **more):
    return call("pin", note=note, slot=slot, **more)


DONE = {"thought": "", "tool": "", "inputs": {}, "done": True}


def job(id_, task="", api=None, inputs=None, after=()):
    task = task or f"Do {id_}."
    return {"id": id_, "task": task, "api": api, "inputs": inputs, "after": list(after)}


def plan(*jobs, guideline="Pin with care."):
    return {"guideline": guideline, "jobs": list(jobs)}
