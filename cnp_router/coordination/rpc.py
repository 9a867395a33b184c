"""The messages of coordination: JSON-RPC 2.0, with what is asked and what may be answered.

Three methods (Li and Liu, arXiv:2601.11595), each with params and an answer:

- ``context/propagate``: `ContextPropagate`, `ContextKept`
- ``capability/discover``: `CapabilityDiscover`, `CapabilitiesFound`
- ``capability/negotiate``: `CapabilityNegotiate`, `Negotiated`

A server can take the params as the types of its own handlers. Fields that are not known are passed
over, since protocols add their own; longer texts are cut; all else is strict, and bounded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from cnp_router.exceptions import InputError

__all__ = [
    "DISCOVER",
    "METHODS",
    "NEGOTIATE",
    "PROPAGATE",
    "CapabilitiesFound",
    "Capability",
    "CapabilityDiscover",
    "CapabilityNegotiate",
    "ContextKept",
    "ContextPropagate",
    "Negotiated",
    "RpcError",
    "RpcRequest",
    "RpcResponse",
    "declared_methods",
    "read_message",
]

PROPAGATE = "context/propagate"
DISCOVER = "capability/discover"
NEGOTIATE = "capability/negotiate"
METHODS = (PROPAGATE, DISCOVER, NEGOTIATE)
"""The methods that a server may declare."""

MOST_SAID = 2_000
"""Characters of a task, a reason or a description in a message; what is longer is cut."""

Content = TypeVar("Content", bound=BaseModel)

_Name = Annotated[str, Field(min_length=1, max_length=300)]
_Text = Annotated[str, AfterValidator(lambda text: text[:MOST_SAID])]
_Seconds = Annotated[int | float, Field(ge=0, le=86_400)]


class _Content(BaseModel):
    """What is asked or answered."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class ContextPropagate(_Content):
    """A piece of context for another server.

    Parameters
    ----------
    source_server : str
        Whose result it is.
    context_id : str
    data : dict of str to JSON value
        The result.
    embedding : list of float, default=[]
        Its vector; empty where only the coordinator has one.
    ttl : int or float in [0, 86,400], seconds, default=300
        How long it holds from now on.
    dependencies : list of str, default=[]
        Ids of the context that it was made from.

    Examples
    --------
    >>> ContextPropagate(source_server="a", context_id="ctx_1", data={"rows": 3}).ttl
    300
    """

    source_server: _Name
    context_id: _Name
    data: dict[str, JsonValue]
    embedding: Annotated[list[float], Field(max_length=10_000)] = []
    ttl: _Seconds = 300
    dependencies: Annotated[list[_Name], Field(max_length=1_000)] = []


class ContextKept(_Content):
    """Whether a server has kept what was propagated to it."""

    kept: bool
    reason: _Text = ""


class CapabilityDiscover(_Content):
    """Asks a server what it can do now."""


class Capability(_Content):
    """Something that a server can do.

    Parameters
    ----------
    name : str
        Of its tool.
    description : str, default=""
    """

    name: _Name
    description: _Text = ""


class CapabilitiesFound(_Content):
    """What a server can do now."""

    capabilities: Annotated[list[Capability], Field(max_length=10_000)]


class CapabilityNegotiate(_Content):
    """Asks a server whether it takes a task.

    Parameters
    ----------
    capability : str
        Name of the tool that is wanted.
    task : str, default=""
        What is to be done, where servers may be told (`Negotiator(tell_task=True)`).
    category : str or None, default=None
        Of the task.
    """

    capability: _Name
    task: _Text = ""
    category: _Name | None = None


class Negotiated(_Content):
    """Whether a server takes a task, and why not.

    Examples
    --------
    >>> read_message(Negotiated, {"status": "declined", "reason": "under repair"}).status
    'declined'
    """

    status: Literal["accepted", "declined"]
    reason: _Text = ""


class _Exact(BaseModel):
    """What has no fields but its own, and is written with those that were given."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _given(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {k: v for k, v in written(self).items() if k in self.model_fields_set}


class _Envelope(_Exact):
    jsonrpc: Literal["2.0"]


class RpcRequest(_Envelope):
    """A request of JSON-RPC 2.0.

    Parameters
    ----------
    jsonrpc : {"2.0"}
    method : str
    params : dict of str to JSON value, default={}
    id : int or str, optional
        Without one it is a notification, which has no answer; `id` is None then.

    Examples
    --------
    >>> text = ('{"jsonrpc": "2.0", "id": 1, "method": "capability/negotiate", '
    ...         '"params": {"capability": "scrape"}}')
    >>> RpcRequest.model_validate_json(text).content
    CapabilityNegotiate(capability='scrape', task='', category=None)
    >>> RpcRequest(jsonrpc="2.0", method="capability/discover").model_dump_json()
    '{"jsonrpc":"2.0","method":"capability/discover"}'
    """

    method: _Name
    params: dict[str, JsonValue] = {}
    id: int | str | None = None

    @field_validator("id")
    @classmethod
    def _not_null(cls, value: int | str | None) -> int | str:
        if value is None:
            raise ValueError("must not be null (a notification has none)")
        return value

    @property
    def content(self) -> BaseModel:
        """The params, checked; an InputError if they are not those of the method."""
        if self.method not in _PARAMS:
            raise InputError(f"unknown method {self.method!r} (use one of {', '.join(METHODS)})")
        return read_message(_PARAMS[self.method], self.params)


class RpcError(_Exact):
    """Why there is no result."""

    code: int
    message: _Text
    data: JsonValue = None


class RpcResponse(_Envelope):
    """The answer to a request: a result or an error."""

    id: int | str | None
    result: JsonValue = None
    error: RpcError | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        has_error = self.error is not None
        if self.model_fields_set & {"result", "error"} != {"error" if has_error else "result"}:
            raise ValueError("either result or error must be there")
        return self


_PARAMS: dict[str, type[BaseModel]] = {
    PROPAGATE: ContextPropagate,
    DISCOVER: CapabilityDiscover,
    NEGOTIATE: CapabilityNegotiate,
}


def read_message(kind: type[Content], data: Mapping[str, Any]) -> Content:
    """Return params or an answer, checked.

    Raises
    ------
    InputError
        If the data is something else; it names the field, and not what is in it.

    Examples
    --------
    >>> read_message(Negotiated, {"status": "perhaps"})
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.InputError: not a Negotiated: status: Input should be 'accepted' or \
'declined'
    """
    try:
        return kind.model_validate_json(json.dumps(dict(data), allow_nan=False))
    except ValidationError as exc:
        found = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, found["loc"])) or "the message"
        raise InputError(f"not a {kind.__name__}: {where}: {found['msg']}") from None
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"not a {kind.__name__}: not JSON") from None


def declared_methods(extensions: Mapping[str, Any]) -> frozenset[str]:
    """Return which of the methods a server declares, by what `Source.extensions` says.

    A method is declared by an entry of its name, or in the list ``methods`` of any entry.

    Examples
    --------
    >>> sorted(declared_methods({"cnp-router/coordination": {"methods": ["capability/discover"]},
    ...                          "capability/negotiate": {}}))
    ['capability/discover', 'capability/negotiate']
    """
    said: list[Any] = list(extensions)
    for settings in extensions.values():
        methods = settings.get("methods") if isinstance(settings, Mapping) else None
        said += methods if isinstance(methods, list) else []
    return frozenset(each for each in said if isinstance(each, str) and each in METHODS)
