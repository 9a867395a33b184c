"""What OpenTelemetry sees of a gateway: searches, calls, ratings; nothing of what was said."""

from __future__ import annotations

import asyncio

from doors import World, gateway, run

from cnp_router.context import SharedContext
from cnp_router.serving import Client

SECRET = "the-password-is-12345"


def test_a_search_is_above_its_route_though_that_is_in_a_thread(watched):
    async def main():
        async with gateway() as door:
            await asyncio.gather(door.search(f"rain {SECRET}", 2), door.search("wind"))

    run(main())
    assert watched.tree == 2 * ["search", "  route"]
    first = next(
        each
        for each in watched.spans
        if each.name == "search" and each.attributes["cnp_router.most"] == 2
    )
    assert first.attributes["cnp_router.acted_on"] is True
    assert 1 <= first.attributes["cnp_router.tools"] <= 2


def test_a_call_says_whether_the_router_had_chosen_it_and_what_came_of_it(watched):
    client = Client(SECRET, allow_write=True)

    async def main():
        async with gateway(World("sky", {"sky__rain": SECRET}), World("mail")) as door:
            found = await door.search(f"rain and sun {SECRET}", 1, client=client)
            (tool,) = found.tools
            await door.call(tool.api.id, {"city": SECRET}, found.search_id, client=client)
            await door.call("mail__read", {"text": SECRET}, found.search_id, client=client)
            await door.rate(found.search_id, 4, client=client)
            return tool.api.id

    name = run(main())
    assert f"execute_tool {name}" in watched.tree
    assert watched.values("cnp_router.selections") == {
        "by=gateway, correct=True": 1,
        "by=gateway, correct=False": 1,
    }
    assert watched.values("cnp_router.tool.calls") == {
        "outcome=done, source=sky": 1,
        "outcome=done, source=mail": 1,
    }
    assert watched.sums("cnp_router.user.rating") == {"": 4}
    assert SECRET not in watched.everything


def test_shared_context_is_timed_where_there_is_one(watched):
    async def main():
        async with SharedContext() as context, gateway(context=context) as door:
            for _ in range(2):
                await door.call("sky__rain", {"city": "Oslo"})

    run(main())
    steps = watched.values("cnp_router.context.propagation.duration")
    assert steps == {"step=recall": 2, "step=keep": 1}
