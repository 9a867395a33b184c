from __future__ import annotations

from dataclasses import replace

from doors import QUICK, World, gateway, run

from cnp_router.serving import Client
from cnp_router.sources import CallResult


def test_searches_calls_selections_and_ratings_are_seen(watched):
    async def main():
        async with gateway(settings=replace(QUICK, k=1)) as door:
            search = await door.search("rain and sun in a city")
            for name, inputs in (("sky__rain", {"city": "x"}), ("mail__read", {})):
                for _ in range(2):
                    await door.call(name, inputs, search.search_id)
            await door.rate(search.search_id, 4)
            return search

    search = run(main())
    assert watched.values("cnp_router.selections") == {
        "by=gateway, correct=True": 1,
        "by=gateway, correct=False": 1,
    }
    assert watched.values("cnp_router.user.rating") == {"": 1}
    assert watched.tree[:2] == ["search", "  route"]
    seen = watched.span("search").attributes
    assert seen["cnp_router.fits"] is True
    assert seen["cnp_router.acted_on"] is True
    assert seen["cnp_router.tools"] == len(search.tools)
    assert sum("execute_tool" in line for line in watched.tree) == 4


def test_nothing_private_is_exported(watched):
    canary = "CANARY-4711"
    sky = World("sky", {"sky__rain": CallResult(canary)})

    async def main():
        async with gateway(sky) as door:
            client = Client(f"name {canary}")
            search = await door.search(f"rain {canary}", client=client)
            await door.call("sky__rain", {"city": canary}, search.search_id, client=client)
            await door.call("sky__rain", {"wrong": canary}, search.search_id, client=client)

    run(main())
    assert canary not in watched.everything
