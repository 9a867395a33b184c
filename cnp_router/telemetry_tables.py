"""What there is to see by OpenTelemetry: `SPANS` and `METRICS`, with their attributes.

No other name and no other attribute is recorded. In none of them are texts of requests, inputs,
results, users or secrets. Names of tools are on spans alone, as there may be very many of them.
Names that begin with ``gen_ai`` are those of OpenTelemetry's conventions, which are marked
"Development": they may change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = ["METRICS", "SPANS", "Metric", "SpanKind"]


@dataclass(frozen=True, slots=True)
class SpanKind:
    """What spans of a name are.

    Parameters
    ----------
    name : str
        The first word of their names: ``"chat"`` of ``"chat gpt-oss:20b"``.
    about : str
        What the second word is, such as ``"model"``; empty where there is none.
    description : str
    attributes : tuple of str
        All that they may have, but ``error.type``, which each has where it failed.
    is_client : bool, default=False
        Whether something outside of this process is asked (the kind CLIENT).
    """

    name: str
    about: str
    description: str
    attributes: tuple[str, ...] = ()
    is_client: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric means.

    Parameters
    ----------
    name : str
    kind : {"counter", "histogram", "gauge"}
    unit : str
        As in UCUM: ``"s"``, ``"1"``, ``"{call}"``.
    description : str
    attributes : tuple of str
        All that its values may have.
    boundaries : tuple of float
        Of the buckets of a histogram, unless a view of the SDK says otherwise.
    lasts : float, seconds, default=inf
        For how long a value of a gauge says something, unless there is a newer one.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    unit: str
    description: str
    attributes: tuple[str, ...] = ()
    boundaries: tuple[float, ...] = ()
    lasts: float = math.inf


_SPANS = (
    SpanKind("fit", "", "A router is learned.", ("cnp_router.apis", "cnp_router.mashups")),
    SpanKind(
        "route",
        "",
        "The router decides who is asked.",
        (
            "cnp_router.apis",
            "cnp_router.recipients",
            "cnp_router.confidence",
            "cnp_router.source",
            "cnp_router.fits",
        ),
    ),
    SpanKind(
        "search",
        "",
        "A client of the gateway searches for tools.",
        (
            "cnp_router.most",
            "cnp_router.tools",
            "cnp_router.confidence",
            "cnp_router.fits",
            "cnp_router.acted_on",
        ),
    ),
    SpanKind(
        "round",
        "protocol",
        "One request goes through the Contract Net.",
        ("cnp_router.announcement", "cnp_router.messages", "cnp_router.recommended"),
    ),
    SpanKind(
        "execution",
        "",
        "A request or a plan is executed.",
        ("cnp_router.execution.id", "cnp_router.jobs", "cnp_router.outcome"),
    ),
    SpanKind(
        "job",
        "",
        "One job, from its first award to its end.",
        ("cnp_router.job.id", "cnp_router.acts", "cnp_router.outcome"),
    ),
    SpanKind(
        "execute_tool",
        "tool",
        "A tool is called: from sending to the answer, with the start of its source.",
        (
            "gen_ai.operation.name",
            "gen_ai.tool.name",
            "gen_ai.tool.type",
            "gen_ai.tool.call.id",
            "cnp_router.source.name",
            "cnp_router.effects",
        ),
    ),
    SpanKind(
        "chat",
        "model",
        "A language model is asked.",
        (
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.request.max_tokens",
            "gen_ai.request.temperature",
            "gen_ai.output.type",
            "gen_ai.response.model",
            "gen_ai.response.finish_reasons",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.cache_read.input_tokens",
            "server.address",
            "server.port",
            "cnp_router.role",
            "cnp_router.cached",
        ),
        is_client=True,
    ),
    SpanKind(
        "next_tool",
        "",
        "The next tool of an agent is said, by prediction or by a model.",
        ("cnp_router.source", "cnp_router.unsure", "cnp_router.confidence", "gen_ai.tool.name"),
    ),
    SpanKind(
        "plan",
        "",
        "A planner makes a plan, or another one for what is left.",
        ("gen_ai.operation.name", "cnp_router.jobs"),
    ),
    SpanKind(
        "invoke_agent",
        "agent",
        "A sub-agent, or an agent that chooses its tools itself, is asked.",
        (
            "gen_ai.operation.name",
            "gen_ai.agent.name",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "cnp_router.turns",
        ),
    ),
)

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
# Those of the GenAI conventions.
_DURATIONS = tuple(round(0.01 * 2**power, 2) for power in range(14))
_TOKENS = tuple(float(4**power) for power in range(14))

_METRICS = (
    Metric(
        "cnp_router.routings",
        "counter",
        "{routing}",
        "Decisions of a router, by who made them (source: learned, broadcast or another fallback), "
        "whether the confidence reached the threshold, and whether anything fits.",
        ("source", "confident", "fits"),
    ),
    Metric(
        "cnp_router.routing.confidence",
        "histogram",
        "1",
        "Confidence of routings: the probability that nobody else is needed.",
        ("source",),
        _SHARES,
    ),
    Metric(
        "cnp_router.routing.coverage",
        "gauge",
        "1",
        "Coverage of next-tool prediction: the share of the last 500 measured steps of agents that "
        "it could have predicted, with a confidence of the lowest threshold, before it learned "
        "them.",
    ),
    Metric(
        "cnp_router.next_tool.decisions",
        "counter",
        "{decision}",
        "Next tools that were said, by source (the name of the predictor; llm where a model was "
        "asked; none where nobody could say) and by why the prediction was not acted on (unsure: "
        "no where it was). The fallback rate is the share that is not unsure=no.",
        ("source", "unsure"),
    ),
    Metric(
        "cnp_router.context.propagation.duration",
        "histogram",
        "s",
        "How long it took to get shared context to a job or from it, by step: recall (of the same "
        "call), offer (of what is similar), send (to a server that keeps context itself), keep.",
        ("step",),
        _FAST,
    ),
    Metric(
        "cnp_router.capability.matches",
        "counter",
        "{match}",
        "Negotiations of a job, and whether anybody who can do it took it (hit).",
        ("hit",),
    ),
    Metric(
        "cnp_router.task_graph.duration",
        "histogram",
        "s",
        "How long all jobs of a plan took, from the first to the last, the time in which a person "
        "was asked included, by outcome (done, failed; cancelled: given up, or the time of the "
        "execution was over).",
        ("outcome",),
        _SLOW,
    ),
    Metric(
        "cnp_router.context.store.usage",
        "gauge",
        "1",
        "How full the store of shared context is: of its own limits (memory, sqlite: the larger "
        "of entries and bytes), or of maxmemory of the Redis server, if that is set. It is looked "
        "at when context is kept or looked for, and not shown where the last look is ten minutes "
        "ago: no entry lives longer.",
        ("store",),
        lasts=600.0,
    ),
    Metric(
        "cnp_router.dependencies",
        "counter",
        "{dependency}",
        "Jobs that wait for a job of another source, and whether that one was done and this one "
        "had its inputs (resolved). What was broken off is left out.",
        ("resolved",),
    ),
    Metric(
        "cnp_router.embedding.duration",
        "histogram",
        "s",
        "How long the user's encoder of texts took for one call, by what for: request (routing, at "
        "most 16 texts), fit (more texts, of a catalog or a history), context.",
        ("purpose",),
        _FAST,
    ),
    Metric(
        "cnp_router.tool.calls",
        "counter",
        "{call}",
        "Calls of tools, by source (of the tools), outcome (done, failed; cancelled: given up, "
        "also since the time of the execution was over) and kind of failure.",
        ("source", "outcome", "error.type"),
    ),
    Metric(
        "cnp_router.tool.duration",
        "histogram",
        "s",
        "How long calls of tools took, with the start of the source and the wait for a free place.",
        ("source", "outcome"),
        _SLOW,
    ),
    Metric(
        "gen_ai.client.operation.duration",
        "histogram",
        "s",
        "How long language models took to answer; what a cache answered is left out.",
        ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "error.type"),
        _DURATIONS,
    ),
    Metric(
        "gen_ai.client.token.usage",
        "histogram",
        "{token}",
        "Tokens of requests to language models, by type: input, output. What a cache answered is "
        "left out. Estimated where no server has counted them.",
        (
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.token.type",
        ),
        _TOKENS,
    ),
    Metric(
        "cnp_router.cost",
        "counter",
        "{currency}",
        "What language models cost, by the prices that they were given (ChatModel.prices); nothing "
        "without prices.",
        ("currency", "gen_ai.request.model"),
    ),
    Metric(
        "cnp_router.messages",
        "counter",
        "{message}",
        "Messages of rounds.",
        ("performative", "protocol"),
    ),
    Metric(
        "cnp_router.acts",
        "counter",
        "{act}",
        "Acts of contractors for jobs, by how they came to it (award, re-award, directed, "
        "fallback, direct, earlier, context) and outcome (done, failed; cancelled: broken off).",
        ("by", "outcome"),
    ),
    Metric(
        "cnp_router.jobs",
        "counter",
        "{job}",
        "Jobs of executions, by how they ended: done, failed, skipped, cancelled.",
        ("outcome",),
    ),
    Metric(
        "cnp_router.executions",
        "counter",
        "{execution}",
        "Executions, by how they ended: done, failed (a job or a rule), late, cancelled.",
        ("outcome",),
    ),
    Metric(
        "cnp_router.delegations",
        "counter",
        "{delegation}",
        "Questions to other agents (sub-agents, A2A agents), by outcome (done, failed, cancelled) "
        "and kind of failure.",
        ("outcome", "error.type"),
    ),
    Metric(
        "cnp_router.delegation.duration",
        "histogram",
        "s",
        "How long other agents took to answer, with all that they did for it.",
        ("outcome",),
        _SLOW,
    ),
    Metric(
        "cnp_router.selections",
        "counter",
        "{selection}",
        "Choices whose outcome is known, and whether they were right (correct). By gateway: the "
        "tool that a client called was among those that the router chose; award: the first API "
        "that a job was awarded to did it (left out where it was broken off); next_tool: the tool "
        "that was said was taken.",
        ("correct", "by"),
    ),
    Metric(
        "cnp_router.model.renewals",
        "counter",
        "{renewal}",
        "Models that replaced the one that a gateway answers by, by outcome: done, or failed (the "
        "one before goes on answering).",
        ("outcome",),
    ),
    Metric(
        "cnp_router.user.rating",
        "histogram",
        "1",
        "Ratings that users gave to what a search came to, 1 to 5.",
        (),
        (1.0, 2.0, 3.0, 4.0, 5.0),
    ),
    Metric(
        "http.server.request.duration",
        "histogram",
        "s",
        "How long requests to the HTTP front took, by method, route (of the front; other for all "
        "else) and status.",
        ("http.request.method", "http.route", "http.response.status_code"),
        (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    ),
    Metric(
        "cnp_router.errors",
        "counter",
        "{error}",
        "Operations that failed: of each name of a span, by kind of failure or class of error. The "
        "same fault is counted for each operation that it ended.",
        ("operation", "error.type"),
    ),
    Metric(
        "cnp_router.operation.duration",
        "histogram",
        "s",
        "How long operations took: one value a span, failed or not. The error rate is "
        "cnp_router.errors by its count.",
        ("operation",),
        (0.0025, 0.005, 0.01, 0.025, *_SLOW),
    ),
)

SPANS: Mapping[str, SpanKind] = MappingProxyType({each.name: each for each in _SPANS})
"""All spans, by the first word of their names."""

METRICS: Mapping[str, Metric] = MappingProxyType({each.name: each for each in _METRICS})
"""All metrics, by name."""
