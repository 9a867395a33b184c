"""A browser for report pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


# Not of the session: as long as it is open, an event loop runs in this thread.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser without a window; who asks for it is skipped where there is none."""
    for name in ("playwright", "starlette", "uvicorn"):
        pytest.importorskip(name)
    from tests.serving.page_server import CHROMIUM, browser

    if CHROMIUM.binary() is None:
        pytest.skip("there is no browser (make unpacks one from Debian's packages)")
    with browser() as started:
        yield started
