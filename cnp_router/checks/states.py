"""Laws of a router's other states: saved and loaded, and not yet fitted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnp_router.exceptions import NotFittedError
from cnp_router.routing import Router

__all__ = ["Loader", "check_saved_answers_the_same", "check_unfitted_raises"]

Loader = Callable[[Path], Router]
"""What loads a saved router."""


def check_saved_answers_the_same(router: Any, load: Loader, requests: Sequence[str]) -> None:
    """Check that a router that was saved and loaded answers as before.

    Parameters
    ----------
    router : Router with ``save(path)``
    load : callable from Path to Router
    requests : sequence of str
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        router.save(path)
        loaded = load(path)
        for request in requests:
            for known in ((), router.apis[: len(router.apis) // 2]):
                answers = [
                    (each.score(request, known).probabilities, each.route(request, known).to_dict())
                    for each in (router, loaded)
                ]
                (before, routing), (after, again) = answers
                if not np.array_equal(before, after) or routing != again:
                    raise AssertionError("the loaded router answers differently")


def check_unfitted_raises(unfitted: Callable[[], Any]) -> None:
    """Check that a router that was not fitted raises a NotFittedError when it is asked.

    Parameters
    ----------
    unfitted : callable to an object
        Makes a router that was not fitted.
    """
    for method in ("score", "route"):
        router = unfitted()
        try:
            getattr(router, method)("a map")
        except NotFittedError:
            continue
        except Exception as error:
            raise AssertionError(
                f"{method} of an unfitted router raised {error!r}, not a NotFittedError"
            ) from error
        raise AssertionError(f"{method} of an unfitted router answered")
