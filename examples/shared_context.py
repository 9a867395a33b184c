"""Share what calls gave: what is known is not called again, what is confidential stays."""

import asyncio
from collections.abc import Callable

from cnp_router import (
    ContractNet,
    Execution,
    Executor,
    FunctionSource,
    Job,
    Plan,
    SharedContext,
    Sources,
    offline_model,
)


def forecast(city: str) -> dict[str, str]:
    """Forecast tomorrow's weather in a city."""
    return {"city": city, "sky": "rain until noon"}


def salary(name: str) -> dict[str, object]:
    """Say what somebody earns."""
    return {"name": name, "salary": 52_000}


def tax(salary: int) -> str:
    """Say which tax is paid for a salary."""
    return f"{salary // 5} a year"


def letter(text: str) -> str:
    """Write a letter."""
    return f"Dear all, {text}"


CLASSES = {"sky__forecast": "public", "hr__*": "confidential"}
LOOK = Job("look", api="sky__forecast", inputs={"city": "Oslo"})
PAY = Job("pay", api="hr__salary", inputs={"name": "Aiko"})


def using(job: str, path: str, api: str, into: str) -> Job:
    """Return a job that uses a part of what another one gave."""
    return Job(into, api=api, inputs={into: {"$from": job, "path": path}}, after=(job,))


def say(execution: Execution) -> None:
    """Print who did each job, how, and what came of it."""
    for job in execution.jobs:
        if job.result:
            print(f"  {job.id}: by {job.acts[-1].by}: {job.result.text}")
        else:
            print(f"  {job.id}: {job.problem}")


async def main() -> None:
    """Execute three plans with one shared context."""
    tools: dict[str, list[Callable[..., object]]]
    tools = {"sky": [forecast], "hr": [salary, tax], "post": [letter]}
    offered = [
        FunctionSource(name, some, effects={each.__name__: "reads" for each in some})
        for name, some in tools.items()
    ]
    async with SharedContext(classes=CLASSES) as context, Sources(offered) as sources:
        catalog = await sources.catalog()
        net = ContractNet(catalog, offline_model(catalog))
        executor = Executor(net, sources, context=context)
        for title, *jobs in (
            ("A forecast, in a letter", LOOK, using("look", "/sky", "post__letter", "text")),
            ("The same forecast once more", LOOK),
            ("A salary, for its own source", PAY, using("pay", "/salary", "hr__tax", "salary")),
            ("A salary, in a letter", PAY, using("pay", "/name", "post__letter", "text")),
        ):
            print(title)
            say(await executor.execute(Plan(title, tuple(jobs))))
        print(f"kept {context.counts['kept']}, not called again {context.counts['recalled']}")


asyncio.run(main())
