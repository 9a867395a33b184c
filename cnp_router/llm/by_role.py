"""`ModelsByRole`: a strong model where it pays, a cheap one for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Literal, Self, get_args

from cnp_router.exceptions import InputError
from cnp_router.llm.chat import (
    ChatModel,
    ChatRequest,
    ChatResponse,
    WrappedChatModel,
    check_response,
)

__all__ = ["AgentRole", "ModelsByRole", "unwrapped"]

AgentRole = Literal["manager", "contractor", "single-agent", "planner", "executor"]
"""Who takes a reasoning task."""


class ModelsByRole(ChatModel):
    """Several models as one: each request goes to the model of the role of its task.

    Caches and meters wrap it, or the models in it, as they wrap any model. Names, errors and
    the `model` of each answer are those of the model that is asked.

    Parameters
    ----------
    default : ChatModel
        Who answers all other roles, and requests without a task.
    **by_role : ChatModel
        For ``manager``, ``contractor``, ``single_agent``, ``planner`` or ``executor``.

    Attributes
    ----------
    name : str
        The names of all of them.
    server : str or None
        That of the default.
    models : mapping of str to ChatModel
        By role, as it was given.

    Raises
    ------
    InputError
        If there is no such role, or one of them is not a ChatModel.

    Examples
    --------
    >>> from cnp_router.llm import OpenAIChatModel
    >>> server = {"base_url": "http://localhost:11434/v1"}
    >>> model = ModelsByRole(OpenAIChatModel("large", **server),
    ...                      contractor=OpenAIChatModel("small", **server))
    >>> model.name, model.model_of("manager").name, model.model_of("contractor").name
    ('large (contractor: small)', 'large', 'small')
    """

    def __init__(self, default: ChatModel, **by_role: ChatModel) -> None:
        models = {role.replace("_", "-"): model for role, model in by_role.items()}
        for role in models:
            if role not in get_args(AgentRole):
                known = ", ".join(get_args(AgentRole))
                raise InputError(f"there is no role {role!r} (use one of: {known})")
        for model in (default, *models.values()):
            if not isinstance(model, ChatModel):
                raise InputError(f"a ChatModel is needed, got {model!r:.60} (derive from it)")
        self.default = default
        self.models: Mapping[str, ChatModel] = MappingProxyType(models)
        named = ", ".join(f"{role}: {model.name}" for role, model in models.items())
        self.name: str = f"{default.name} ({named})" if named else default.name
        self.server: str | None = default.server
        self._open: list[AsyncExitStack] = []

    def model_of(self, role: str | None) -> ChatModel:
        """Return who answers a role; for None, who answers requests without a task."""
        return self.default if role is None else self.models.get(role, self.default)

    def name_for(self, request: ChatRequest) -> str:
        """Return the name of the model that a request goes to."""
        return self._asked(request).name_for(request)

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Ask the model of the role of the task."""
        model = self._asked(request)
        return check_response(model, await model.complete(request))

    def _asked(self, request: ChatRequest) -> ChatModel:
        return self.model_of(getattr(request.task, "role", None))

    def _each(self) -> list[ChatModel]:
        return list({id(m): m for m in (self.default, *self.models.values())}.values())

    async def aclose(self) -> None:
        """Close the connections of all of them, even if closing one fails."""
        async with AsyncExitStack() as stack:
            for model in self._each():
                stack.push_async_callback(model.aclose)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for model in self._each():
                await stack.enter_async_context(model)
            self._open.append(stack.pop_all())
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.pop().aclose()

    def __repr__(self) -> str:
        models = "".join(f", {role}={model!r}" for role, model in self.models.items())
        return f"ModelsByRole({self.default!r}{models})"


def unwrapped(model: ChatModel, role: str | None = None) -> ChatModel:
    """Return the model that answers a role, below caches and the like."""
    while isinstance(model, WrappedChatModel | ModelsByRole):
        model = model.model if isinstance(model, WrappedChatModel) else model.model_of(role)
    return model
