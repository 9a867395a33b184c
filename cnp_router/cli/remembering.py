"""`Remembering`: what a user's earlier requests were, told to who plans the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from cnp_router.kept_beside import MEMORY_FILE

if TYPE_CHECKING:
    from cnp_router.planning import Run

_TOKENS = 800  # of what a planner is told
_REQUEST = 500  # characters of a request


class Remembering:
    """What is remembered beside a model: requests, who served them, how they ended; no results."""

    def __init__(
        self, model: Path | None, user: str | None, session: str | None, thread: str | None
    ) -> None:
        self.file = None if model is None else model / MEMORY_FILE
        self.whose = {"user": user, "session": session, "thread": thread}
        self.is_on = self.file is not None and any(self.whose.values())

    def told(self) -> str:
        """Return what a planner is told, as JSON; "" if nothing is remembered."""
        if not self.is_on or self.file is None or not self.file.exists():
            return ""
        from cnp_router.context import Memory

        with Memory(self.file) as memory:
            items = memory.for_prompt(_TOKENS, **self.whose)
        return json.dumps(items, ensure_ascii=False) if items else ""

    def keep(self, run: Run) -> None:
        """Remember a request that was served, or not, for session, thread and user."""
        if not self.is_on or self.file is None:
            return
        from cnp_router.context import Memory

        done = {
            "request": run.execution.request[:_REQUEST],
            "done": run.is_done,
            "by": list(run.execution.apis),
        }
        with Memory(self.file) as memory:
            for level, name in self.whose.items():
                if name:
                    memory.remember(level, done, **self.whose)  # type: ignore[arg-type]
