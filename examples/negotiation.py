"""Three services can do the same: one declines, one fails, and what they do is remembered."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from cnp_router import (
    ContractNet,
    ExecutionSettings,
    Executor,
    FunctionSource,
    Job,
    Negotiator,
    Plan,
    Sources,
    offline_model,
)


def forecast(city: str) -> str:
    """Forecast the weather of a city."""
    return f"rain in {city}"


def broken(city: str) -> str:
    """Forecast the weather of a city."""
    raise RuntimeError("no data today")


class Speaking(FunctionSource):
    """Functions whose server says itself whether it takes a job."""

    extensions: Mapping[str, Any] = {"capability/negotiate": {}}

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float = 10.0
    ) -> dict[str, Any]:
        """Decline everything: it is closed."""
        return {"status": "declined", "reason": "closed on Sundays"}


async def main() -> None:
    """Execute a plan of three jobs, which all name the same tool."""
    reads: dict[str, Literal["reads", "writes", "unknown"]] = {"forecast": "reads"}
    services = [
        FunctionSource("north", {"forecast": broken}, effects=reads),
        FunctionSource("south", {"forecast": forecast}, effects=reads),
        Speaking("west", {"forecast": forecast}, effects=reads),
    ]
    async with Sources(services) as sources:
        catalog = await sources.catalog()
        negotiator = Negotiator(sources)
        net = ContractNet(catalog, offline_model(catalog))
        one_by_one = ExecutionSettings(max_concurrency=1)
        executor = Executor(net, sources, settings=one_by_one, negotiator=negotiator)
        jobs = [
            Job(city.lower(), api="north__forecast", inputs={"city": city})
            for city in ("Oslo", "Bergen", "Tromso")
        ]
        execution = await executor.execute(Plan("Will it rain?", tuple(jobs)))
        for job in execution.jobs:
            print(f"{job.id}:", ", then ".join(act.api for act in job.acts), f"({job.state})")
        print("The last negotiation")
        for offer in negotiator.held[-1].offers:
            said = "accepted" if offer.is_accepted else f"declined: {offer.reason}"
            print(
                f"  {offer.api}: {offer.score:.2f} = .5 * {offer.match:.2f} + .3 / {offer.load}"
                f" + .2 * {offer.past:.2f}, {said} ({offer.said_by})"
            )


asyncio.run(main())
