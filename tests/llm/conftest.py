from __future__ import annotations

import pytest
from chat_server import stay_on_this_machine


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model requests stay on the machine."""
    stay_on_this_machine(monkeypatch)
