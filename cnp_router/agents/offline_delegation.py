"""The offline model as an orchestrator: parts of a request matched to agents by words.

A stand-in for plumbing, as `cnp_router.agents.offline_plans`. It knows nothing, and composes by
putting what agents said one below the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cnp_router.agents.delegate import ComposeAnswer, Delegate
from cnp_router.agents.offline_plans import LEAST_MATCH, parts
from cnp_router.text import specification_text

__all__ = ["KNOWS_NOTHING", "OfflineDelegation"]

KNOWS_NOTHING = "I am a stand-in for a language model, and can only ask agents."


class OfflineDelegation:
    """Answers `Delegate` and `ComposeAnswer` by the similarity of two texts.

    Examples
    --------
    >>> from cnp_router import Api
    >>> def shared(left, right):
    ...     return len({*left.lower().split()} & {*right.lower().split()}) / 10
    >>> agents = (Api("places", "places", "Find a place"), Api("sms", "sms", "Text a note"))
    >>> offline = OfflineDelegation(shared)
    >>> offline.delegate(Delegate("Find a place", agents))["asks"]
    [{'agent': 'places', 'text': 'Find a place', 'arguments': {}}]
    >>> offline.delegate(Delegate("Good morning!", agents))["answer"] == KNOWS_NOTHING
    True
    """

    def __init__(self, similarity: Callable[[str, str], float]) -> None:
        self.similarity = similarity

    def delegate(self, task: Delegate) -> dict[str, Any]:
        """Give each part of the request to the nearest agent; parts of one agent go together."""
        texts: dict[str, list[str]] = {}
        for part in dict.fromkeys(parts(task.request)):
            scored = [(self.similarity(part, specification_text(a)), a.id) for a in task.agents]
            score, agent = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
            if score >= LEAST_MATCH:
                texts.setdefault(agent, []).append(part)
        asks = [
            {"agent": agent, "text": "\n".join(own), "arguments": {}}
            for agent, own in texts.items()
        ]
        return {"answer": "" if asks else KNOWS_NOTHING, "asks": asks, "missing": ""}

    @staticmethod
    def compose(task: ComposeAnswer) -> dict[str, Any]:
        """Put what agents said one below the other."""
        lines = [f"{agent}: {_text(said)}" for agent, said in task.analyses.items()]
        lines += [f"{agent} failed: {error}" for agent, error in task.errors.items()]
        return {"answer": "\n".join(lines)}


def _text(said: Any) -> str:
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
