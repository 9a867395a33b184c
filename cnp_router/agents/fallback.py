"""`CategoryFallback`: where a router is not confident, a model names categories to widen to."""

from __future__ import annotations

from collections.abc import Sequence

from cnp_router.agents.agent import read_response
from cnp_router.agents.tasks import MapCategories
from cnp_router.catalog import Catalog
from cnp_router.exceptions import InputError
from cnp_router.llm import ChatModel, complete_sync
from cnp_router.routing import Scores
from cnp_router.routing.result import Source

__all__ = ["CategoryFallback"]


class CategoryFallback:
    """A fallback of `Router.route`: the model maps the request to categories (thesis, step 2).

    Rounds of the Contract Net ask by themselves (`cnp_router.protocols.RoundSettings`).

    Parameters
    ----------
    model : ChatModel
    catalog : Catalog
        With categories; all its APIs in the named ones become recipients too.

    Attributes
    ----------
    source : {"llm"}

    Raises
    ------
    InputError
        If no API of the catalog has a category.

    Examples
    --------
    >>> import numpy as np
    >>> from cnp_router import Api
    >>> from cnp_router.routing import PopularityRouter
    >>> from cnp_router.testing import ScriptedChatModel
    >>> catalog = Catalog([Api("maps", "Maps", categories=("Mapping",)),
    ...                    Api("sms", "SMS", categories=("Messaging",)), Api("mail", "Mail")])
    >>> answer = {"mappings": [{"function": 0, "categories": ["Messaging"]}]}
    >>> fallback = CategoryFallback(ScriptedChatModel([answer]), catalog)
    >>> fallback.recipients("text me", Scores(catalog.ids, np.zeros(3)), ["maps"])
    ['sms']
    """

    source: Source = "llm"

    def __init__(self, model: ChatModel, catalog: Catalog) -> None:
        if not catalog.categories:
            raise InputError("a fallback by categories needs a catalog with categories")
        self.model = model
        self.catalog = catalog

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        """Return the APIs in the categories that the model names.

        Raises
        ------
        InputError
            If an event loop is running; rounds ask by themselves.
        LanguageModelError
            If there is no usable answer.
        """
        task = MapCategories(request, (request,), self.catalog.categories)
        asked = read_response(task, complete_sync(self.model, task.chat_request()))
        known = set(scores.apis)
        return [api for api in self.catalog.ids_in(asked.answer.all_categories) if api in known]

    def __repr__(self) -> str:
        return f"CategoryFallback({self.model!r}, {self.catalog!r})"
