"""`BookedModel`: each answer of a model is booked, by the role that the task is for."""

from __future__ import annotations

from cnp_router.agents import Task
from cnp_router.exceptions import InputError
from cnp_router.llm import ChatModel, ChatRequest, ChatResponse, WrappedChatModel
from cnp_router.protocols.metered import Books, MeteredModel
from cnp_router.records import shown

__all__ = ["BookedModel"]


class BookedModel(WrappedChatModel):
    """A model whose answers are booked under the role and the stage of each task.

    Parameters
    ----------
    model : ChatModel
    books : Books

    Raises
    ------
    InputError
        At a request that was not made of a `Task`.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.agents import NextAct, ask
    >>> from cnp_router.testing import ScriptedChatModel
    >>> answer = {"thought": "", "tool": "", "inputs": {}, "done": True}
    >>> books = Books()
    >>> done = ask(BookedModel(ScriptedChatModel([answer]), books), NextAct("Find Kyoto.", ()))
    >>> asyncio.run(done).answer.is_done, [call.role for call in books.calls]
    (True, ['executor'])
    """

    def __init__(self, model: ChatModel, books: Books) -> None:
        super().__init__(model)
        self.books = books

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Ask the wrapped model; what it has cost is booked in any case."""
        task = request.task
        if not isinstance(task, Task):
            raise InputError(f"only requests of a Task can be booked, got {shown(task)}")
        return await MeteredModel(self.model, self.books, task, task.role).complete(request)
