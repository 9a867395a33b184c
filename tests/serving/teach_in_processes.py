"""Search and call as one worker of several, and teach one store. A script.

With ``written`` it ends itself by SIGKILL while it teaches: after records were written, before the
log says so; with ``half``, before it has learned from them itself. Else it says as JSON what it has
taught and learned.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from cnp_router import Api, Catalog
from cnp_router.online.database import Database
from cnp_router.routing import SpecificationRouter
from cnp_router.serving import Client, Gateway, GatewaySettings, SearchLog, Teaching
from cnp_router.sources import CallResult, Source, Sources


class World(Source):
    name = "sky"

    async def apis(self):
        return (Api("sky__rain", "rain", "Forecasts rain.", effects="reads"),)

    async def call(self, call):
        return CallResult("sun")


class QuickLog(SearchLog):
    """Soon takes a call as broken off: none is slow here."""

    def begin(self, *given, within, **about):
        return super().begin(*given, within=0.2, **about)


class Killed(QuickLog):
    """Ends the process when the third part of a search was taught."""

    n_taught = 0

    def was_taught(self, finished):
        self.n_taught += 1
        if self.n_taught == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        super().was_taught(finished)


def kill_half_way():
    """End the process when records were written for the second time, before any is learned."""
    append, written = Database.append, []

    def appended(*given):
        append(*given)
        written.append(given)
        if len(written) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    Database.append = appended


async def main(folder, name, n, kill):
    kind = Killed if kill == ["written"] else QuickLog
    if kill == ["half"]:
        kill_half_way()
    teaching, taught = Teaching(folder / "online.sqlite", every=0.02, idle=0.5), 0
    original = teaching.turn

    def turn(*given):
        nonlocal taught
        taught += (n_taught := original(*given))
        return n_taught

    teaching.turn = turn
    client = Client(name)
    with kind(folder / "log.sqlite") as log:
        async with Sources([World()]) as sources:
            catalog = await sources.catalog()
            async with Gateway(
                SpecificationRouter(catalog),
                Catalog(catalog),
                sources,
                settings=GatewaySettings(refresh_seconds=0),
                log=log,
                teaching=teaching,
            ) as gateway:
                for number in range(n):
                    search = await gateway.search("rain", client=client)
                    inputs = {"n": f"{name} {number}"}
                    await gateway.call("sky__rain", inputs, search.search_id, client=client)
                    if number % 2:
                        await gateway.rate(search.search_id, 5, client=client)
                    await asyncio.sleep(0.01)
        for _ in range(500):  # what others have begun, and what they did not end
            if teaching.turn(log) == 0 and not log.finished(idle=0.0):
                break
            await asyncio.sleep(0.02)
        teaching.take_over()
    said = {
        "taught": taught,
        "n_trajectories": teaching.next_tool.n_trajectories,
        "rate": teaching.reputation.rate("sky__rain"),
    }
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    folder, name, n, *more = sys.argv[1:]
    asyncio.run(main(Path(folder), name, int(n), more))
