"""Tools that answer by rote, agents that have a few of them, and the models that call them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cnp_router.agents import ComposeAnswer, Delegate, NextStep, offline_model, organise
from cnp_router.agents.offline_answers import TextSimilarity
from cnp_router.agents.offline_plans import LEAST_MATCH, parts
from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.history import History
from cnp_router.llm import ChatModel, ChatRequest
from cnp_router.sources import Call, CallResult, Source, Sources
from cnp_router.subagents import SubAgent
from cnp_router.testing import FunctionChatModel
from cnp_router.text import TfidfEncoder, specification_text

__all__ = [
    "SOURCE",
    "Tools",
    "agent_history",
    "groups",
    "offline",
    "scripted",
    "sub_agents",
    "written",
]

SOURCE = "tools"
_GROUP = 5  # tools of an agent, where a catalog has no categories


class Tools(Source):
    """The APIs of a catalog as tools; each gives back what depends on it and its inputs alone."""

    name = SOURCE
    max_concurrency = 64

    def __init__(self, catalog: Catalog) -> None:
        self.tools = tuple(replace(api, **_definition(api)) for api in catalog)

    async def apis(self) -> tuple[Api, ...]:
        """Return the tools."""
        return self.tools

    async def call(self, call: Call) -> CallResult:
        """Answer by rote."""
        said = f"{call.api} {json.dumps(dict(call.inputs), sort_keys=True)}"
        mark = hashlib.sha256(said.encode()).hexdigest()[:12]
        tool = call.api.partition("__")[2]
        return CallResult(f"{tool} has found entry {mark}, and two more that are older.")


def _definition(api: Api) -> dict[str, Any]:
    """Return the id and the schema of a tool: what it is asked, how much of it, in which form."""
    text = f"What {api.name} is to do or to look for, in plain language."
    properties = {
        "text": {"type": "string", "description": text},
        "limit": {"type": "integer", "minimum": 1, "description": "How many entries at most."},
        "format": {"type": "string", "enum": ["short", "full"]},
    }
    schema = {"type": "object", "properties": properties, "required": ["text"]}
    return {"id": f"{SOURCE}__{api.id}", "parameters": schema, "effects": "reads"}


def groups(catalog: Catalog, seed: int) -> tuple[Contractor, ...]:
    """Return the tools by agent: by main category, or else by likeness, some five to an agent."""
    found = organise(catalog, "category")
    if len(found) > 1:
        names = (re.sub("[^A-Za-z0-9]+", "-", each.id.partition(": ")[2]) for each in found)
        return tuple(Contractor(n, each.apis) for n, each in zip(names, found, strict=True))
    from sklearn.cluster import KMeans

    encoder = TfidfEncoder("content", min_df=1)
    vectors = encoder.fit_transform([specification_text(api) for api in catalog])
    n = max(len(catalog) // _GROUP, 1)
    labels = KMeans(n, random_state=seed, n_init=1).fit_predict(vectors)
    own: dict[int, list[Api]] = {}
    for label, api in zip(labels.tolist(), catalog, strict=True):
        own.setdefault(label, []).append(api)
    return tuple(Contractor(f"group-{n}", tuple(apis)) for n, apis in sorted(own.items()))


def sub_agents(
    held: Iterable[Contractor], tools: Sources, model: ChatModel, *, max_turns: int
) -> list[SubAgent]:
    """Return an agent for each group of tools: its description is theirs."""
    return [
        SubAgent.of_model(
            each.id,
            " ".join(f"{api.name}: {api.description}" for api in each.apis),
            model,
            tools,
            tools=[f"{SOURCE}__{api.id}" for api in each.apis],
            summary=f"{each.id}: {', '.join(api.name for api in each.apis)}",
            categories=each.apis[0].categories[:1],
            effects="reads",
            max_turns=max_turns,
        )
        for each in held
    ]


def agent_history(history: History, agent_of: Mapping[str, str]) -> History:
    """Return what requests needed, by agent instead of by tool."""
    return History(
        replace(mashup, apis=tuple(dict.fromkeys(agent_of[name] for name in mashup.apis)))
        for mashup in history
    )


def scripted(needs: Mapping[str, Sequence[str]], agent_of: Mapping[str, str]) -> FunctionChatModel:
    """Return a model that calls just the tools that a request needs, as far as it is shown them.

    It knows them from `needs`, by the text of the request. The same for one agent and for many.
    """

    def step(task: NextStep) -> dict[str, Any]:
        left = [f"{SOURCE}__{name}" for name in needs[task.job]]
        return _next(task, [(name, task.job) for name in left])

    def delegate(task: Delegate) -> dict[str, Any]:
        wanted = dict.fromkeys(agent_of[name] for name in needs[task.request])
        shown = {api.id for api in task.agents}
        asks = [
            {"agent": name, "text": task.request, "arguments": {}}
            for name in wanted
            if name in shown
        ]
        missing = task.request if set(wanted) - shown else ""
        return {"answer": "" if wanted else _GREETING, "asks": asks, "missing": missing}

    return _model("scripted", step, delegate)


def offline(catalog: Catalog) -> FunctionChatModel:
    """Return a model that calls the nearest tool for each part of a request, by words."""
    similarity = TextSimilarity(specification_text(api) for api in catalog)
    answers = offline_model(catalog).answers

    def step(task: NextStep) -> dict[str, Any]:
        wanted: list[tuple[str, str]] = []
        for part in dict.fromkeys(parts(task.job)):
            scored = [(similarity(part, specification_text(api)), api.id) for api in task.apis]
            score, name = max(scored, key=lambda pair: pair[0])
            if score >= LEAST_MATCH and name not in (known for known, _ in wanted):
                wanted.append((name, part))
        return _next(task, wanted)

    def delegate(task: Delegate) -> Any:
        said: Any = answers[Delegate](task)
        return said if said["asks"] else {**said, "answer": _GREETING}

    return _model("offline", step, delegate)


_GREETING = "You are welcome: that needs no tool."


def _model(
    name: str, step: Callable[[Any], Any], delegate: Callable[[Any], Any]
) -> FunctionChatModel:
    def answer(request: ChatRequest) -> Mapping[str, Any]:
        task = request.task
        if isinstance(task, NextStep):
            said: Mapping[str, Any] = step(task)
        elif isinstance(task, Delegate):
            said = delegate(task)
        elif isinstance(task, ComposeAnswer):
            found: dict[str, Any] = {}
            for results in task.analyses.values():
                found.update(results if isinstance(results, Mapping) else {})  # or called nothing
            said = {"answer": written(found)}
        else:
            raise TypeError(f"no answer to a {type(task).__name__}")
        return said

    return FunctionChatModel(answer, name=name)


def _next(task: NextStep, wanted: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Call the next wanted tool that is shown; after the last, write the answer and be done."""
    acts = task.history.last  # a few turns are shown word for word
    shown, called = {api.id for api in task.apis}, {act.tool for act in acts}
    for name, text in wanted:
        if name in shown and name not in called:
            return {"thought": "", "tool": name, "inputs": {"text": text}, "done": False}
    found = {act.tool: act.seen["result"] for act in acts if act.tool in shown}
    thought = written(found) if found else _GREETING
    return {"thought": thought, "tool": "", "inputs": {}, "done": True}


def written(found: Mapping[str, Any]) -> str:
    """Return the answer that results are: all of them, in one order."""
    return json.dumps(dict(sorted(found.items())))
