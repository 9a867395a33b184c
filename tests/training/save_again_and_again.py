"""Save two routers over each other in turn, so often or until the parent says so. A script."""

from __future__ import annotations

import select
import sys
from itertools import count

from planted import planted

from cnp_router.training import fit_router


def routers():
    """Return two small routers that differ in their APIs and in their answers."""
    worlds = [planted(n_cliques=cliques, size=3, rounds=2) for cliques in (2, 3)]
    return [fit_router(world.catalog, world.history) for world in worlds]


if __name__ == "__main__":
    both = routers()
    for number in count():
        both[number % 2].save(sys.argv[1], overwrite=True)
        if number == int(sys.argv[2]) or select.select([sys.stdin], [], [], 0)[0]:
            break
    sys.stdout.write(str(number))
