from __future__ import annotations

import pytest

from cnp_router.llm.switch import SCOPE_VARIABLE


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, server or proxy of whoever runs the tests; model requests stay on the machine."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(SCOPE_VARIABLE, "loopback")
