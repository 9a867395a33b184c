"""What entries are called, and what they are about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from cnp_router.catalog import Api
from cnp_router.context.canonical import canonical
from cnp_router.context.data_classes import contractor_of
from cnp_router.text import specification_text

__all__ = ["about", "call_id", "mark_of"]

_MOST_WORDS = 1_000  # characters of inputs in the text of an entry


def mark_of(api: str) -> str:
    """Return the id of what says which write of the contractor of an API was the last."""
    return f"written_{contractor_of(api)}"


def call_id(api: Api, inputs: Mapping[str, Any], user: str) -> str:
    """Return the id of what a call gives: the same for the same call of the same user."""
    call = json.dumps([user, api.id, canonical(api, inputs)])
    return f"ctx_{hashlib.sha256(call.encode()).hexdigest()[:24]}"


def about(api: Api, inputs: Mapping[str, Any], text: str) -> str:
    """Return what an entry is about: what it was for, who gave it, and for which inputs."""
    values = " ".join(str(value) for value in inputs.values() if isinstance(value, str | int))
    return " . ".join(p for p in (text, specification_text(api), values[:_MOST_WORDS]) if p)
