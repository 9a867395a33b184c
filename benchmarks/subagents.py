"""One agent with all tools against routed sub-agents; category managers against flat rounds."""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.report import environment, heading, number, table
from benchmarks.routed_vs_broadcast import held_out_of
from benchmarks.simulated_tools import (
    SOURCE,
    Tools,
    agent_history,
    groups,
    offline,
    scripted,
    sub_agents,
    written,
)
from cnp_router.agents import NextStep, ask, offline_model
from cnp_router.catalog import Catalog
from cnp_router.evaluation.metrics import set_scores
from cnp_router.execution import Executor
from cnp_router.history import History
from cnp_router.llm import ChatModel, Prices, Usage
from cnp_router.llm.tokens import estimate_tokens
from cnp_router.planning import ReAct
from cnp_router.protocols import Announcement, ContractNet, Ledger, Outcome, Protocol
from cnp_router.protocols.hierarchical import Hierarchical
from cnp_router.sources import Sources
from cnp_router.subagents import Orchestrator
from cnp_router.training import LearnedRouter, fit_router

__all__ = ["KINDS", "LIMIT", "PRICES", "SHARES", "run"]

PRICES = Prices.read(Path(__file__).with_name("assumed_prices.json"))  # no price list
_SMALL, _LARGE = "scripted-small", "scripted-large"
# How many tools a request needs. The shares are those of the design that this follows.
KINDS = {"simple": (1, 1), "medium": (2, 2), "complex": (3, 99)}
SHARES = {"simple": 0.6, "medium": 0.3, "complex": 0.1}
# That design's own figures, in yen a request: not measured here.
_DESIGN = {"simple": 0.96, "medium": 1.5, "complex": 5.5}
_NOTHING = Usage(0, 0, "estimated")
_ANNOUNCEMENTS: tuple[Announcement, ...] = ("broadcast", "routed")
LIMIT = 120
SIZES = (1, 2, 5, 10, 20, 50)
_MOST_TURNS = 12
_LEAST_RATIO = 4
# What needs no tool.
PLAIN = (
    "Hello!",
    "Good morning, how are you?",
    "Thank you very much, that was all.",
    "Who are you?",
    "What is the capital of Italy?",
    "How many days does a week have?",
    "What does the word serendipity mean?",
    "Tell me a joke.",
    "Why is the sky blue?",
    "What is twelve times twelve?",
    "Good night, see you tomorrow.",
    "Who wrote Romeo and Juliet?",
)


@dataclass(frozen=True, slots=True)
class Done:
    """What came of one request by one way."""

    request: str
    answer: str
    tools: frozenset[str]  # that were called
    own: Usage  # of the one agent, or of the orchestrator
    agents: Usage = _NOTHING
    first: Usage = _NOTHING  # of the first prompt
    found: frozenset[str] = frozenset()  # agents that the router found
    recommended: frozenset[str] = frozenset()  # agents that it would ask itself
    source: str = ""
    n_widened: int = 0  # how often the orchestrator looked among the other agents
    kind: str = ""
    needed: frozenset[str] = frozenset()

    @property
    def usage(self) -> Usage:
        """Of all models."""
        return self.own + self.agents

    @property
    def tokens(self) -> int:
        """In and out."""
        return self.usage.tokens_in + self.usage.tokens_out

    @property
    def f1(self) -> float:
        """Of the tools that were called."""
        return set_scores(self.tools, self.needed).f1

    def price(self, model: str = _SMALL) -> float:
        """Return what it costs, with `model` for the one agent or the orchestrator."""
        parts = PRICES.price(model, self.own), PRICES.price(_SMALL, self.agents)
        return sum(part for part in parts if part is not None)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure agents, then rounds, and print tables."""
    splits = data.load(options.data, options.seed)
    name, held_out = held_out_of(splits, options.split)
    asked = data.limited(held_out.known_to(splits.catalog), options.limit, options.seed)
    facts = environment(options.seed)
    heading(f"Agents as tools on {splits.name}, {len(asked)} requests of {name}", facts)
    agents = asyncio.run(_agents(splits, asked, options.seed))
    router = fit_router(splits.catalog, splits.train, random_state=options.seed)
    levels = _levels(splits.catalog, router, asked)
    sizes = _sizes(splits.catalog, router, asked)
    rows = [
        {name: row[name] for name in ("method", "tokens", "f1", "cost")}
        for row in (*agents["methods"], *levels, *sizes)
    ]
    results = {"rows": rows, "agents": agents, "levels": levels, "sizes": sizes}
    return {"environment": facts, "data": splits.name, "results": results}


async def _agents(splits: data.Splits, asked: History, seed: int) -> dict[str, Any]:
    """Compare one agent with routed sub-agents, by a scripted model and by the offline one."""
    catalog = splits.catalog
    held = groups(catalog, seed)
    agent_of = {api.id: each.id for each in held for api in each.apis}
    needs: dict[str, tuple[str, ...]] = {m.description: m.apis for m in asked}
    needs |= dict.fromkeys(PLAIN, ())
    past = agent_history(splits.train, agent_of)
    models = {"scripted": scripted(needs, agent_of), "offline": offline(catalog)}
    found = {}
    async with Sources([Tools(catalog)]) as tools:
        definitions = await tools.catalog()
        for name, model in models.items():
            agents = sub_agents(held, tools, model, max_turns=_MOST_TURNS)
            router = fit_router(Catalog(a.api for a in agents), past, random_state=seed)
            orchestrator = Orchestrator(model, agents, router)
            one = [await _alone(model, each, tools, definitions) for each in needs]
            many = [await _orchestrated(orchestrator, each) for each in needs]
            found[name] = [
                [
                    replace(d, kind=_kind(needs[d.request]), needed=frozenset(needs[d.request]))
                    for d in done
                ]
                for done in (one, many)
            ]
    prompt = estimate_tokens(NextStep("", tuple(definitions)).information())
    print(
        f"{len(held)} sub-agents hold {len(catalog)} tools. All definitions in a prompt: "
        f"{prompt:,} tokens (estimated), {prompt / len(catalog):.0f} each.\n"
    )
    return {
        "tools": len(catalog),
        "agents": len(held),
        "tokens_of_definitions": prompt,
        **_methods(found),
        "kinds": {name: _kinds(name, *both) for name, both in found.items()},
        "selection": _selection(found["scripted"][1], agent_of),
    }


async def _alone(model: ChatModel, request: str, tools: Sources, catalog: Catalog) -> Done:
    """Have one agent serve a request, with all tools in each prompt."""
    shown = tuple(catalog)
    first = await ask(model, NextStep(request, shown))
    paid = first.response.usage
    if first.answer.is_done:  # it calls nothing, which ReAct takes for no end
        return Done(request, first.answer.thought, frozenset(), paid, first=paid)
    executor = Executor(ContractNet(catalog, model), tools)
    ran = await ReAct(executor, max_turns=_MOST_TURNS).run(request, apis=shown)
    found = {turn.tool: turn.seen["result"] for turn in ran.turns if turn.kind == "called"}
    return Done(request, written(found), _plain(found), ran.ledger.usage, first=paid)


async def _orchestrated(orchestrator: Orchestrator, request: str) -> Done:
    """Have an orchestrator serve a request."""
    served = await orchestrator.serve(request)
    own = [call.usage for call in served.calls]
    said = served.merged.analyses.values()
    called = {name for data in said if isinstance(data, dict) for name in data}  # or no tool
    return Done(
        request,
        served.answer,
        _plain(called),
        sum(own[1:], own[0]),
        sum((each.usage for each in served.results), _NOTHING),
        found=frozenset(served.routing.contractors if served.routing.fits else ()),
        recommended=frozenset(served.routing.recommendation),
        source=served.source,
        n_widened=sum(call.stage == "delegation" for call in served.calls) - 1,
    )


def _plain(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.removeprefix(f"{SOURCE}__") for name in names)


def _kind(needed: Sequence[str]) -> str:
    bounds = ((name, least, most) for name, (least, most) in KINDS.items())
    return next((name for name, least, most in bounds if least <= len(needed) <= most), "none")


def _methods(found: Mapping[str, Sequence[Sequence[Done]]]) -> dict[str, Any]:
    """Return a row for each way, and what both ways of a model have in common; print both."""
    methods: list[dict[str, Any]] = []
    same: dict[str, dict[str, Any]] = {}
    for model, (one, many) in found.items():
        pairs = list(zip(one, many, strict=True))
        alike = [(a, b) for a, b in pairs if a.answer == b.answer]
        for name, done in (("one agent, all tools", one), ("routed sub-agents", many)):
            needing = [d for d in done if d.needed]
            methods.append(
                {
                    "method": f"{name} ({model} model)",
                    "tokens": _mean(d.tokens for d in done),
                    "f1": _mean(d.f1 for d in needing),
                    "cost": _weighted(done),
                }
            )
        same[model] = {
            "requests": len(pairs),
            "same_answer": len(alike) / len(pairs),
            "share_of_tokens": _ratio(pairs),
            "share_of_tokens_same_answer": _ratio(alike),
            "largest_share_same_answer": max(b.tokens / a.tokens for a, b in alike),
            "share_of_first_prompt": sum(b.tokens for _, b in pairs)
            / sum(_count(a.first) for a, _ in pairs),
            "widened": _mean(b.n_widened for b in many),
            "plain_alone": _mean(b.source == "alone" for b in many if not b.needed),
            "passed": _ratio(alike) <= 1 / _LEAST_RATIO,
        }
    table(
        [
            ["method", "tokens a request", "F1 of the tools", "assumed price, USD per 1,000"],
            *(
                [m["method"], f"{m['tokens']:,.0f}", number(m["f1"]), number(1000 * m["cost"], 2)]
                for m in methods
            ),
        ]
    )
    table(
        [
            [
                "model",
                "requests",
                "same answer",
                "tokens, share of the one agent's",
                "where the answer is the same",
                "of its first prompt alone",
                "asked once more",
                "answered alone where no tool is needed",
                f"at most 1/{_LEAST_RATIO}",
            ],
            *(
                [
                    name,
                    str(s["requests"]),
                    *(
                        number(s[key])
                        for key in (
                            "same_answer",
                            "share_of_tokens",
                            "share_of_tokens_same_answer",
                            "share_of_first_prompt",
                            "widened",
                            "plain_alone",
                        )
                    ),
                    "pass" if s["passed"] else "FAIL",
                ]
                for name, s in same.items()
            ),
        ]
    )
    return {"methods": methods, "same_answers": same}


def _kinds(model: str, one: Sequence[Done], many: Sequence[Done]) -> list[dict[str, Any]]:
    """Return what each kind of request costs, and print it."""
    rows: list[dict[str, Any]] = []
    for kind in ("none", *KINDS):
        alone, routed = ([d for d in done if d.kind == kind] for done in (one, many))
        if not alone:
            continue
        large = _LARGE if kind == "complex" else _SMALL
        rows.append(
            {
                "kind": kind,
                "share": SHARES.get(kind),
                "requests": len(alone),
                "tokens_one": _mean(d.tokens for d in alone),
                "tokens_agents": _mean(d.tokens for d in routed),
                "orchestrator": _mean(_count(d.own) for d in routed),
                "cost_one": _mean(d.price() for d in alone),
                "cost_one_large": _mean(d.price(_LARGE) for d in alone),
                "cost_agents": _mean(d.price() for d in routed),
                "cost_agents_mixed": _mean(d.price(large) for d in routed),
                "design_yen": _DESIGN.get(kind),
            }
        )
    weights = {row["kind"]: row["share"] for row in rows if row["share"]}
    mean: dict[str, Any] = {"kind": "weighted mean", "share": sum(weights.values())}
    for key in rows[0]:
        if key not in mean and key != "requests":
            values = [(row[key], weights[row["kind"]]) for row in rows if row["kind"] in weights]
            mean[key] = sum(v * w for v, w in values) / sum(w for _, w in values)
    rows.append({**mean, "requests": len(one)})
    print(f"By kind of request, {model} model. Prices are assumed, USD per 1,000 requests.\n")
    keys = ("cost_one", "cost_one_large", "cost_agents", "cost_agents_mixed")
    table(
        [
            [
                "kind",
                "share",
                "requests",
                "tokens, one agent",
                "tokens, sub-agents",
                "of the orchestrator",
                "one agent, small",
                "one agent, large",
                "sub-agents, all small",
                "large orchestrator where complex",
                "the design's figure, yen each",
            ],
            *(
                [
                    row["kind"],
                    number(row["share"], 2),
                    str(row["requests"]),
                    *(
                        f"{row[key]:,.0f}"
                        for key in ("tokens_one", "tokens_agents", "orchestrator")
                    ),
                    *(number(1000 * row[key], 2) for key in keys),
                    number(row["design_yen"], 2),
                ]
                for row in rows
            ),
        ]
    )
    return rows


def _selection(many: Sequence[Done], agent_of: Mapping[str, str]) -> dict[str, Any]:
    """Return how well the router found the agents that requests need, and print it."""
    needing = [d for d in many if d.needed]
    rows: dict[str, Any] = {}
    for name in ("found", "recommended"):
        sets = [(getattr(d, name), {agent_of[tool] for tool in d.needed}) for d in needing]
        scores = [set_scores(chosen, needed) for chosen, needed in sets]
        rows[name] = {
            "agents": _mean(len(chosen) for chosen, _ in sets),
            "precision": _mean(s.precision for s in scores),
            "recall": _mean(s.recall for s in scores),
            "f1": _mean(s.f1 for s in scores),
        }
    rows["none_where_none_needed"] = _mean(not d.found for d in many if not d.needed)
    print("Agents that the router finds, against those needed.\n")
    table(
        [
            ["by the router", "agents", "precision", "recall", "F1"],
            *(
                [name, *(number(value) for value in rows[key].values())]
                for name, key in (
                    ("shown to the orchestrator", "found"),
                    ("of the highest expected F1", "recommended"),
                )
            ),
        ]
    )
    return rows


def _levels(catalog: Catalog, router: LearnedRouter, asked: History) -> list[dict[str, Any]]:
    """Compare rounds with category managers to flat ones."""
    net = ContractNet(catalog, offline_model(catalog), router=router)
    ways: list[tuple[str, str | Protocol, Announcement]] = [
        ("flat, broadcast", "contractor-led", "broadcast"),
        ("category managers, broadcast", "hierarchical", "broadcast"),
        ("flat, routed", "contractor-led", "routed"),
        ("category managers, routed", "hierarchical", "routed"),
        ("category managers, routed to all members", Hierarchical("category"), "routed"),
    ]
    rows = [_round(f"{name} (offline model)", net, how, to, asked) for name, how, to in ways]
    print("Rounds with category managers against flat ones.\n")
    _print_rounds(rows)
    return rows


def _sizes(catalog: Catalog, router: LearnedRouter, asked: History) -> list[dict[str, Any]]:
    """Compare contractors of several sizes."""
    rows = []
    for size in SIZES:
        net = ContractNet(
            catalog, offline_model(catalog), router=router, organisation="size", max_size=size
        )
        for to in _ANNOUNCEMENTS:
            name = f"contractors of {size} APIs, {to} (offline model)"
            rows.append(_round(name, net, "contractor-led", to, asked))
    print("Contractor-led rounds, by how many APIs a contractor holds at most.\n")
    _print_rounds(rows)
    return rows


def _round(
    method: str, net: ContractNet, how: str | Protocol, to: Announcement, asked: History
) -> dict[str, Any]:
    """Return the means of a round over all requests."""

    async def hold() -> list[tuple[Outcome, Sequence[str]]]:
        return [
            (await net.run(m.description, protocol=how, announcement=to), m.apis) for m in asked
        ]

    held = asyncio.run(hold())
    ledgers = [outcome.ledger for outcome, _ in held]
    proposed = [(outcome.stages.proposed or frozenset(), needed) for outcome, needed in held]
    return {
        "method": method,
        "messages": _mean(ledger.n_messages for ledger in ledgers),
        "tokens": _mean(ledger.tokens for ledger in ledgers),
        "tokens_of_manager": _mean(_tokens_of(ledger, "manager") for ledger in ledgers),
        "contractors_asked": _mean(len(outcome.recipients) for outcome, _ in held),
        "bid_recall": _mean(set_scores(p, needed).recall for p, needed in proposed),
        "proposals_per_truth": sum(len(p) for p, _ in proposed)
        / sum(len(needed) for _, needed in proposed),
        "f1": _mean(set_scores(o.stages.selected, needed).f1 for o, needed in held),
        "cost": _mean(PRICES.price(_SMALL, ledger.usage) or 0.0 for ledger in ledgers),
    }


def _print_rounds(rows: Sequence[Mapping[str, Any]]) -> None:
    table(
        [
            [
                "rounds",
                "messages",
                "tokens",
                "of the manager",
                "contractors asked",
                "recall after bidding",
                "proposals per API needed",
                "final F1",
            ],
            *(
                [
                    row["method"],
                    *(f"{row[key]:,.0f}" for key in ("messages", "tokens", "tokens_of_manager")),
                    number(row["contractors_asked"], 1),
                    number(row["bid_recall"]),
                    number(row["proposals_per_truth"], 2),
                    number(row["f1"]),
                ]
                for row in rows
            ),
        ]
    )


def _tokens_of(ledger: Ledger, role: str) -> int:
    cost = ledger.by_role[role]
    return cost.tokens_in + cost.tokens_out


def _ratio(pairs: Sequence[tuple[Done, Done]]) -> float:
    """Return the tokens of sub-agents as a share of those of the one agent."""
    one = sum(a.tokens for a, _ in pairs)
    return sum(b.tokens for _, b in pairs) / one if one else 1.0


def _weighted(done: Sequence[Done]) -> float:
    """Return the mean price of a request, the kinds by their shares."""
    by_kind = {kind: [d.price() for d in done if d.kind == kind] for kind in SHARES}
    known = {kind: prices for kind, prices in by_kind.items() if prices}
    return sum(SHARES[k] * _mean(p) for k, p in known.items()) / sum(SHARES[k] for k in known)


def _count(usage: Usage) -> int:
    return usage.tokens_in + usage.tokens_out


def _mean(values: Iterable[float]) -> float:
    found = [float(value) for value in values]
    return statistics.fmean(found) if found else 0.0
