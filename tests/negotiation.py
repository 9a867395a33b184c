"""A toy contract net of six APIs, and a model for it whose agents behave as a test says."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from cnp_router.agents import offline_model
from cnp_router.catalog import Api, Catalog
from cnp_router.graph import TransitionGraph
from cnp_router.history import History, Mashup
from cnp_router.protocols import Acting, AwardedApi, ContractNet, Outcome
from cnp_router.routing import Reason, Router, Scores
from cnp_router.testing import FunctionChatModel
from cnp_router.training import CategoryClassifier

Act = Callable[[Any], Any]

CATALOG = Catalog(
    [
        Api("maps", "Maps", "Shows places and routes on a map.", ("Mapping",)),
        Api("places", "Places", "Finds restaurants and shops near you.", ("Mapping", "Travel")),
        Api("sms", "SMS", "Sends text messages to phones.", ("Messaging",)),
        Api("mail", "Mail", "Sends mail to one address or many.", ("Messaging",)),
        Api("weather", "Weather", "Forecasts rain, wind and sun.", ("Weather",)),
        Api("photos", "Photos", "Keeps photos and shows albums.", ("Photos",)),
    ]
)
HISTORY = History(
    [
        Mashup("m1", "Send me a text message when rain comes.", ("weather", "sms")),
        Mashup("m2", "Show the rain of today on a map.", ("weather", "maps")),
        Mashup("m3", "Mail me the photos of my holiday.", ("photos", "mail")),
        Mashup("m4", "Show restaurants on a map.", ("places", "maps")),
        Mashup("m5", "A text message with the rain of tomorrow.", ("weather", "sms")),
        Mashup("m6", "Photos of restaurants on a map.", ("photos", "places", "maps")),
    ]
)
REQUEST = "Send me a text message before rain, and show the places on a map."

_SAID = {
    "maps": "map",
    "places": "restaurant",
    "sms": "text",
    "mail": "mail",
    "weather": "rain",
    "photos": "photo",
}


class PlantedRouter(Router):
    """Routes to the APIs whose word the request says; as confident as the test wants."""

    def __init__(
        self,
        *,
        confidence: float = 0.9,
        catalog: Catalog = CATALOG,
        history: History = HISTORY,
    ) -> None:
        super().__init__(catalog.ids)
        self.confidence = confidence
        self.graph = TransitionGraph().fit(history)
        self.categories = _classifier()

    def _scores(self, request: str, known: Any, date: Any) -> Scores:
        said = [_SAID.get(name, name) in request for name in self.apis]
        return Scores(self.apis, np.where(said, 0.9, 0.02))

    def _confidence(self, scores: Scores, chosen: Any, allowed: Any) -> float:
        return self.confidence

    def _reasons(self, scores: Scores, chosen: Any) -> dict[int, tuple[Reason, ...]]:
        return {
            int(i): (Reason("name", f"the request says {_SAID.get(self.apis[i], self.apis[i])}"),)
            for i in chosen
            if scores.probabilities[i] > 0.5
        }


@cache
def _classifier() -> CategoryClassifier:
    return CategoryClassifier(n_folds=3).fit(
        [mashup.description for mashup in HISTORY],
        [{name for api in mashup.apis for name in CATALOG[api].categories} for mashup in HISTORY],
    )


def acting(
    contractors: Mapping[str, Act] | None = None,
    tasks: Mapping[type, Act] | None = None,
    *,
    catalog: Catalog = CATALOG,
) -> FunctionChatModel:
    """Return a model that answers offline, but for some contractors and some types of task.

    A contractor is named by the first API it holds.
    """
    offline = offline_model(catalog).answers
    contractors, tasks = contractors or {}, tasks or {}

    def answer(request: Any) -> Any:
        task = request.task
        act = contractors.get(task.apis[0].id) if task.role == "contractor" else None
        return (act or tasks.get(type(task)) or offline[type(task)])(task)

    return FunctionChatModel(answer)


def bid(task: Any, *ids: str, categories: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the answer of a contractor that proposes some APIs, or refuses."""
    said = {"functions": [], "categories": list(categories)}
    return {
        **{name: value for name, value in said.items() if name in task.schema["properties"]},
        "apis": list(ids),
        "grounds": [f"It is {name}." for name in ids] or ["No."],
    }


def propose(task: Any) -> dict[str, Any]:
    """Propose all it has."""
    return bid(task, *(api.id for api in task.apis))


def refuse(task: Any) -> dict[str, Any]:
    """Refuse."""
    return bid(task)


def award_all(task: Any) -> dict[str, Any]:
    """Award all that was proposed."""
    return {"apis": [proposed.api for proposed in task.proposals]}


class FakeActor:
    """Does what it is awarded: each API ends as the test says, by default with a result.

    An end is ``"done"``, ``"cancel"``, ``"open"`` or a kind of failure. What fails is awarded
    again, until nobody is left. `asked` are the APIs in the order of acting.
    """

    def __init__(
        self, ends: Mapping[str, str] | None = None, *, again: bool = True, says: str = ""
    ) -> None:
        self.ends = ends or {}
        self.again = again
        self.says = says  # in every result, error and reason
        self.asked: list[AwardedApi] = []
        self.acting: Acting | None = None

    async def act(self, acting: Acting) -> None:
        self.acting = acting
        for awarded in acting.awards:
            job: AwardedApi | None = awarded
            while job is not None:
                job = self._do(acting, job)

    def _do(self, acting: Acting, job: AwardedApi) -> AwardedApi | None:
        self.asked.append(job)
        end = self.ends.get(job.api, "done")
        cost: dict[str, Any] = {"attempts": 2, "seconds": 0.5, "n_bytes": 10}
        if end == "done":
            digest = hashlib.sha256(job.api.encode()).hexdigest()
            acting.done(job, text=f"{job.api} is done{self.says}", digest=digest, **cost)
        elif end == "cancel":
            acting.cancel(job, f"nobody needs it{self.says}")
        elif end != "open":
            kind: Any = end
            acting.failed(job, kind=kind, error=f"{job.api} is down{self.says}", **cost)
            return acting.next_for(job) if self.again else None
        return None


def of_type(model: FunctionChatModel, kind: type) -> list[Any]:
    """Return the tasks of a type that a model was asked."""
    return [request.task for request in model.calls if isinstance(request.task, kind)]


def hold(net: ContractNet, request: str = REQUEST, **how: Any) -> Outcome:
    """Hold a round, and see that no task is left of it."""
    from chat_server import run

    outcome: Outcome = run(net.run(request, **how))
    return outcome
