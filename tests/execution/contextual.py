"""A world of contractors whose data has classes, for tests of executions with shared context."""

from __future__ import annotations

import asyncio
import json

from cnp_router import Api, Catalog, ContractNet, Executor, Filler, Job, Plan, offline_model
from cnp_router.context import SharedContext
from cnp_router.execution import ExecutionSettings, allow_writes
from cnp_router.sources import CallResult, Source
from cnp_router.sources.all_sources import Sources
from cnp_router.testing import FunctionChatModel

QUICK = ExecutionSettings(wait=(0, 0), timeout=20, attempts=1)
WHO = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
ANY = {"type": "object", "properties": {"value": {}}}

PAY = Api("hr__pay", "pay", "What somebody earns in a year.", ("People",), WHO, "reads")
WORDS = Api("hr__words", "words", "Puts a value into words.", ("People",), ANY, "reads")
TAX = Api("hr__tax", "tax", "The tax on a sum.", ("People",), SUM, "reads")
WAGE = Api("union__pay", "pay", "What somebody earns in a year.", ("People",), WHO, "reads")
TELL = Api("mail__tell", "tell", "Puts a text into a letter.", ("Mail",), TEXT, "reads")
SEND = Api("mail__send", "send", "Sends a text to people.", ("Mail",), TEXT, "writes")
NOTE = Api("chat__tell", "tell", "Puts a value into a message.", ("Mail",), ANY, "reads")
APIS = (PAY, WORDS, TAX, WAGE, TELL, SEND, NOTE)
CATALOG = Catalog(APIS)

CANARY = ("CANARY-4711", "773142", "2031-07-07", "canary_key")
SECRET = {"said": CANARY[0], "sum": int(CANARY[1]), "day": CANARY[2], "canary_key": True}


class Told(Source):
    """A source whose tools answer as the test says, and which keeps what it was told."""

    def __init__(self, name, answers):
        self.name = name
        self.answers = answers
        self.calls = []

    async def apis(self):
        return tuple(api for api in APIS if api.id.startswith(f"{self.name}__"))

    async def call(self, call):
        self.calls.append(call)
        answer = self.answers.get(call.api, "fine")
        if callable(answer):
            answer = answer(call)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, CallResult):
            return answer
        return CallResult(answer if isinstance(answer, str) else json.dumps(answer))


class World:
    """Executions over all sources, with one shared context."""

    def __init__(self, *, model=None, context=None, settings=QUICK, store=None, **answers):
        by_id = {name.replace("_", "__", 1): each for name, each in answers.items()}
        names = dict.fromkeys(api.id.partition("__")[0] for api in APIS)
        self.told = {name: Told(name, by_id) for name in names}
        self.context = SharedContext(alike=0.9) if context is None else context
        self.model = FunctionChatModel(model) if callable(model) else model
        self.events = []
        self.executor = Executor(
            ContractNet(CATALOG, offline_model(CATALOG)),
            Sources(self.told.values()),
            settings=settings,
            approve=allow_writes,
            filler=Filler(self.model),
            store=store,
            watch=self.events.append,
            context=self.context,
        )

    def run(self, *jobs, request="Do it.", **how):
        execution = asyncio.run(self.executor.execute(Plan(request, jobs), **how))
        self.executions = [*getattr(self, "executions", []), execution]
        return execution

    def calls(self, *names):
        return [call for name in names or self.told for call in self.told[name].calls]


PAID = Job("pay", api="hr__pay", inputs={"who": "Aiko"})


def outlines(request):
    """What a model that fills inputs is shown of results and of context."""
    shown = json.loads(request.messages[1].content.partition("\n")[2])
    return {**shown.get("results", {}), **shown.get("context", {})}
