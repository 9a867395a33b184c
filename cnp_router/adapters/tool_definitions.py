"""`tool_api` and `tool_id`: a tool as a framework defines it, whoever named and described it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.records import check_id, shown

__all__ = ["tool_api", "tool_id"]

_log = logging.getLogger(__name__)


def tool_id(name: str) -> str:
    """Return the id of a tool by the name that its framework has for it.

    It is the name, unless that cannot be the id of an `Api`, as ``user`` cannot: nobody can rename
    a tool of somebody else's server. Of an id it is the same.

    Raises
    ------
    InputError
        If it is no string, or blank.

    Examples
    --------
    >>> tool_id("weather"), tool_id("user")
    ('weather', "tool-'user'")
    """
    try:
        return check_id("API", name)
    except InputError:
        if not isinstance(name, str) or not name.strip():
            raise
        return f"tool-{name!a}"


def tool_api(
    name: str, description: str | None = None, parameters: Mapping[str, Any] | None = None
) -> Api:
    """Return a tool as a framework defines it as an `Api`.

    What UTF-8 and JSON cannot hold, such as a default of NaN, is replaced, and the log says so: one
    odd tool among others is no reason not to choose among them.

    Parameters
    ----------
    name : str
        Its `tool_id` becomes the id.
    description : str, optional
    parameters : mapping, optional
        JSON Schema of its inputs.

    Raises
    ------
    InputError
        If the name is blank, or something is of another type.

    Examples
    --------
    >>> tool_api("weather", "Says whether it will rain.")
    Api('weather', 'weather', 'Says whether it will rain.')
    """
    own, said = tool_id(name), description or ""
    try:
        return Api(own, name, said, parameters=parameters)
    except InputError as exc:
        if not isinstance(said, str) or not isinstance(parameters, Mapping | None):
            raise
        made = Api(own, _readable(name), _readable(said), parameters=_plain(parameters))
        _log.warning("tool %s is taken without what cannot be used: %s", shown(name), exc)
        return made


def _readable(text: str) -> str:
    """Return a text with question marks for what UTF-8 cannot hold."""
    return text.encode(errors="replace").decode()


def _plain(parameters: Mapping[str, Any] | None) -> Any:
    """Return what JSON can hold of a schema: null for what is no number, and text for objects."""
    if parameters is None:
        return None
    try:
        text = json.dumps(dict(parameters), ensure_ascii=False, skipkeys=True, default=str)
        return json.loads(_readable(text), parse_constant=lambda _: None)
    except (TypeError, ValueError, RecursionError):  # it holds itself
        return None
