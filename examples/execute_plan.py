"""Have a plan done by functions: results travel by reference, and what writes is approved."""

import asyncio

from cnp_router import (
    ContractNet,
    Executor,
    FunctionSource,
    Job,
    Plan,
    Sources,
    allow_writes,
    fit_router,
    offline_model,
)


def forecast(city: str) -> dict[str, str]:
    """Forecast tomorrow's weather in a city."""
    return {"city": city, "sky": "rain until noon"}


def send(to: str, text: str) -> str:
    """Send a text message to a phone."""
    return f"to {to}: {text}"


PLAN = Plan(
    "Text me tomorrow's weather in Oslo.",
    (
        Job("look", api="sky__forecast", inputs={"city": "Oslo"}),
        Job(
            "tell",
            api="phone__send",
            inputs={"to": "+47 555", "text": {"$text": "Oslo: {look#/sky}."}},
            after=("look",),
        ),
    ),
)


async def main() -> None:
    """Offer the functions as tools, and execute the plan."""
    sky = FunctionSource("sky", [forecast], effects={"forecast": "reads"})
    phone = FunctionSource("phone", [send], effects={"send": "writes"})
    async with Sources([sky, phone]) as sources:
        catalog = await sources.catalog()
        net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
        execution = await Executor(net, sources, approve=allow_writes).execute(PLAN)
    print(PLAN.draw(), "\n")
    for job in execution.jobs:
        print(f"{job.id}: {job.state}, {execution.results[job.id].text}")


asyncio.run(main())
