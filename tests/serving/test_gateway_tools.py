"""What a gateway says of its tools, and to whom."""

from __future__ import annotations

import difflib
from dataclasses import replace

import pytest
from doors import APIS, RAIN, World, gateway, run

from cnp_router.exceptions import InputError, SourceUnavailableError
from cnp_router.serving import Client
from cnp_router.testing import ScriptedSource


def test_how_it_is_is_said_of_what_a_client_may_see():
    broken = ScriptedSource(
        "sky", {}, unavailable=SourceUnavailableError("sky", "no"), apis=APIS[:2]
    )

    async def main():
        async with gateway(World("mail"), broken) as door:
            clients = (
                *(None, Client()),
                *(Client("ann", among=("mail__read",)), Client("bob", exclude=("mail__*",))),
            )
            said = [door.status(client) for client in clients]
            return [(each["tools"], each["sources"]) for each in said]

    everything = (2, {"mail": "ready", "sky": "failed"})
    assert run(main()) == [everything, everything, (1, {"mail": "ready"}), (0, {"sky": "failed"})]


def test_an_unknown_name_is_compared_with_few(monkeypatch):
    compared, close = [], difflib.get_close_matches

    def count(word, possibilities, **options):
        compared.extend(possibilities)
        return close(word, possibilities, **options)

    monkeypatch.setattr(difflib, "get_close_matches", count)
    apis = (RAIN, *(replace(RAIN, id=f"sky__rain_{n}-day") for n in range(3000)))

    async def main():
        said = []
        async with gateway(World("sky", apis=apis), apis=apis) as door:
            for name in ("sky__rane", "sky__rain_1700_days", "wind", "sky_" * 100, ""):
                with pytest.raises(InputError) as error:
                    await door.call(name, {})
                said.append(str(error.value))
        return said

    said = run(main())
    assert "did you mean 'sky__rain'" in said[0]
    assert "did you mean 'sky__rain_1700-day'" in said[1]
    assert all("did you mean" not in each for each in said[2:])
    assert len(compared) <= 100
