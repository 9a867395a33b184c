"""The switch for model requests: a test must not ask a real model by accident.

It stands in front of every request to a server: first ones, retries, and those that follow a
redirect. The environment variable ``CNP_ROUTER_MODEL_REQUESTS`` sets it for a process and its
children, `model_requests_allowed` for a block of code.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args
from urllib.parse import urlsplit

from cnp_router.exceptions import ChatDisallowedError, InputError

__all__ = ["SCOPE_VARIABLE", "check_model_request", "model_requests_allowed"]

Scope = Literal["any", "loopback", "none"]

SCOPE_VARIABLE = "CNP_ROUTER_MODEL_REQUESTS"

_scopes: list[str] = []


@contextmanager
def model_requests_allowed(scope: Scope = "any") -> Iterator[None]:
    """Allow model requests to some servers only, while the block runs.

    The switch belongs to the process, not to a thread or task. Of nested blocks the inner holds.

    Parameters
    ----------
    scope : {"any", "loopback", "none"}, default="any"
        To every server, to those on this machine, or to none.

    Raises
    ------
    InputError
        If there is no such scope.

    Examples
    --------
    >>> with model_requests_allowed("loopback"):
    ...     check_model_request("http://127.0.0.1:8000/v1")
    ...     check_model_request("https://api.example.com/v1", model="big")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.ChatDisallowedError: model 'big' at https://api.example.com/v1: model \
requests are allowed to 'loopback' only (see cnp_router.llm.model_requests_allowed and \
CNP_ROUTER_MODEL_REQUESTS)
    """
    _scopes.append(_checked(scope, "scope"))
    try:
        yield
    finally:
        _scopes.pop()


def check_model_request(server: str, *, model: str | None = None) -> None:
    """Raise ChatDisallowedError if a request to this URL is not allowed now."""
    scope = _scopes[-1] if _scopes else _checked(os.environ.get(SCOPE_VARIABLE) or "any")
    if scope == "any" or (scope == "loopback" and _is_loopback(urlsplit(server).hostname or "")):
        return
    raise ChatDisallowedError(
        f"model requests are allowed to {scope!r} only",
        model=model,
        server=server,
        cure=f"see cnp_router.llm.model_requests_allowed and {SCOPE_VARIABLE}",
    )


def _checked(scope: str, name: str = SCOPE_VARIABLE) -> str:
    if scope not in get_args(Scope):
        raise InputError(f"{name} must be 'any', 'loopback' or 'none', got {scope!r}")
    return scope


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
