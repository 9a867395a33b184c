"""What a user writes: checked by mypy and pyright, both strict, against the installed package."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import cnp_router
from cnp_router import (
    Api,
    Approval,
    Catalog,
    CnpRouterError,
    ContractNet,
    Evaluation,
    Execution,
    Executor,
    FunctionSource,
    History,
    Job,
    JobEvent,
    LearnedRouter,
    Mashup,
    MissingExtraError,
    Outcome,
    Plan,
    Router,
    Routing,
    Sources,
    TargetRecall,
    TopK,
    evaluate,
    fit_router,
    load_router,
    offline_model,
)
from cnp_router.adapters import ToolChoice

REQUEST = "Send a text message before it rains."
CATALOG = Catalog(
    [
        Api("sky__forecast", "Forecast", "Forecasts rain in a city.", ("Weather",)),
        Api("phone__send", "Send", "Sends text messages.", categories=("Messaging",)),
        Api("maps", "Maps", "Shows places on a map."),
    ]
)
HISTORY = History([Mashup("m1", "Text me when it rains.", ("sky__forecast", "phone__send"))])


def forecast(city: str) -> dict[str, str]:
    """Forecast tomorrow's weather in a city."""
    return {"city": city, "sky": "rain"}


def send(to: str, text: str) -> str:
    """Send a text message."""
    return f"to {to}: {text}"


def progress(stage: str, done: int, steps: int) -> None:
    """Get to know how far fitting is."""


def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    """Stand in for an encoder."""
    return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)


async def approve(question: Approval) -> bool:
    """Approve what goes to a number of ours."""
    assert_type(question.api, Api)
    return str(question.inputs["to"]).startswith("+47")


def route(router: Router) -> Routing:
    """Route, with each kind of argument."""
    routing = router.route(
        REQUEST,
        ["maps"],
        among=lambda api: api != "maps",
        exclude=("maps",),
        select=TopK(2),
        threshold=0.5,
        fallback="broadcast",
        date=date(2026, 3, 14),
    )
    assert_type(routing, Routing)
    assert_type(routing.recommendation, tuple[str, ...])
    assert_type(routing.confidence, float)
    assert_type([each.probability for each in routing.recipients], list[float])
    assert_type([why.text for each in routing.recipients for why in each.reasons], list[str])
    assert_type(routing.contractors, tuple[str, ...])
    assert_type(routing.verdict, str)
    assert_type(router.recommend(REQUEST), tuple[str, ...])
    return routing


def fit() -> LearnedRouter:
    """Fit, evaluate, and change what was fitted."""
    router = fit_router(CATALOG, HISTORY, progress=progress)
    assert_type(router, LearnedRouter)
    assert_type(router.catalog, Catalog)
    assert_type(CATALOG["maps"], Api)
    assert_type([api.id for api in CATALOG], list[str])
    assert_type(HISTORY[0], Mashup)
    assert_type(HISTORY[:1], History)
    found = evaluate(router, HISTORY, fallback="broadcast")
    assert_type(found, Evaluation)
    assert_type(found.recipients, Mapping[str, float])
    assert_type(found.to_dict(), dict[str, Any])
    return router.extended([Api("mail", "Mail", "Sends e-mail.")])


def keep(router: LearnedRouter, folder: str) -> LearnedRouter:
    """Save and load."""
    router.save(folder)
    return load_router(folder)


def negotiate(router: LearnedRouter) -> Outcome:
    """Hold a round."""
    net = ContractNet(router.catalog, offline_model(router.catalog), router=router)
    outcome = net.run_sync(REQUEST, protocol="contractor-led", announcement="routed")
    assert_type(outcome, Outcome)
    assert_type(outcome.ledger.tokens, int)
    assert_type(outcome.routing, Routing | None)
    return outcome


async def execute() -> Execution:
    """Have a plan done by functions."""
    events: list[JobEvent] = []
    sky = FunctionSource("sky", [forecast], effects={"forecast": "reads"})
    phone = FunctionSource("phone", [send], effects={"send": "writes"})
    plan = Plan(
        REQUEST,
        (
            Job("look", api="sky__forecast", inputs={"city": "Oslo"}),
            Job("tell", api="phone__send", inputs={"to": "+47 5", "text": "Rain"}, after=("look",)),
        ),
    )
    async with Sources([sky, phone]) as sources:
        catalog = await sources.catalog()
        assert_type(catalog, Catalog)
        net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
        executor = Executor(net, sources, approve=approve, watch=events.append)
        execution = await executor.execute(plan)
    assert_type(execution, Execution)
    assert_type(execution.is_done, bool)
    assert_type([job.id for job in execution.jobs], list[str])
    return execution


def choose() -> ToolChoice:
    """Choose tools for a framework."""
    return ToolChoice(fit_router(CATALOG, encoder=vectors), k=5, always=["maps"])


def refused() -> str:
    """Meet an error."""
    try:
        fit_router(CATALOG).route(" ", select=TargetRecall(0.9))
    except MissingExtraError as exc:
        return exc.extra
    except CnpRouterError as exc:
        return str(exc)
    return ""


def main() -> None:
    """Do all of it."""
    router = fit()
    assert_type(cnp_router.__version__, str)
    negotiate(router)
    verdict, execution = route(router).verdict, asyncio.run(execute())
    sys.stdout.write(f"{verdict} {execution.is_done} {refused()} {choose()}\n")


if __name__ == "__main__":
    main()
