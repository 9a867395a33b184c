"""The three protocols: which agent takes which of the four steps, and what is announced to whom.

============== ============== =================== ==============================
protocol       manager        contractors         announcement carries
============== ============== =================== ==============================
manager-led    1, 2, 4        3                   a function and its category
contractor-led 4              1, 2, 3             the request
collaborative  1, integration 2, 3, 4             a function
============== ============== =================== ==============================

What happens before the announcement is a plan; from there on all three go the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cnp_router.agents import (
    Decompose,
    InterpretRequest,
    MapCategories,
    MatchFunction,
    ServeFunction,
)
from cnp_router.catalog import Contractor
from cnp_router.exceptions import InputError
from cnp_router.protocols.round import Invitation, Round
from cnp_router.routing import Routing
from cnp_router.training import CategoryClassifier

__all__ = ["PLANS", "Audience", "Plan", "collaborative", "contractor_led", "manager_led"]


@dataclass(frozen=True)
class Audience:
    """Whom an announcement may reach.

    Parameters
    ----------
    contractors : tuple of Contractor
        All of them.
    recipients : tuple of Contractor or None
        Those that the router chose; None in a broadcast.
    routing : Routing or None
    classifier : CategoryClassifier or None
        The router's.
    """

    contractors: tuple[Contractor, ...]
    recipients: tuple[Contractor, ...] | None = None
    routing: Routing | None = None
    classifier: CategoryClassifier | None = None


class Plan(ABC):
    """What is announced, after the manager's first steps.

    Attributes
    ----------
    functions : tuple of str
        After step 1, if the manager has taken it.
    widens : bool
        Whether contractors that the router did not choose are called too, if a task is for them.
    """

    functions: tuple[str, ...] = ()
    widens: bool = False

    @abstractmethod
    def invitations(self, contractor: Contractor, *, chosen: bool = False) -> list[Invitation]:
        """Return what is announced to a contractor: one task each, or nothing.

        One that was chosen, by the router or by the graph, is called for something.
        """


class _WholeRequest(Plan):
    def __init__(self, request: str) -> None:
        self.request = request

    def invitations(self, contractor: Contractor, *, chosen: bool = False) -> list[Invitation]:
        task = InterpretRequest(contractor.apis, self.request)
        return [Invitation(contractor=contractor, task=task, request=self.request)]


class _Functions(Plan):
    def __init__(self, functions: tuple[str, ...]) -> None:
        self.functions = functions

    def invitations(self, contractor: Contractor, *, chosen: bool = False) -> list[Invitation]:
        return [
            Invitation(
                contractor=contractor,
                task=ServeFunction(contractor.apis, function),
                function=function,
            )
            for function in self.functions
        ]


class _MappedFunctions(Plan):
    """Functions with categories. A contractor is called for those in one of its categories.

    A chosen one that is in none of them was chosen on other evidence: it is called for the
    function that its own category fits best.
    """

    def __init__(
        self,
        functions: tuple[str, ...],
        categories: Sequence[Sequence[str]],
        fit: _CategoryFit,
    ) -> None:
        self.functions = functions
        self.categories = tuple(map(tuple, categories))
        self.fit = fit

    def invitations(self, contractor: Contractor, *, chosen: bool = False) -> list[Invitation]:
        own = contractor.categories
        called: list[tuple[str, str | None]] = []
        for function, categories in zip(self.functions, self.categories, strict=True):
            shared = [name for name in categories if name in own]
            if shared:
                called.append((function, shared[0]))
        if not called and chosen:
            called = [self.fit.best(own)]
        return [
            Invitation(
                contractor=contractor,
                task=MatchFunction(contractor.apis, function, category),
                function=function,
                category=category,
            )
            for function, category in called
        ]


class _CategoryFit:
    """How well each function fits each category, as the router's classifier sees it."""

    def __init__(self, functions: tuple[str, ...], classifier: CategoryClassifier | None) -> None:
        self.functions = functions
        self.classifier = classifier
        names: tuple[str, ...] = classifier.classes_ if classifier else ()
        self.column = {name: i for i, name in enumerate(names)}

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """Of each function and category: ndarray of shape (n_functions, n_categories)."""
        if self.classifier is None:
            return np.zeros((len(self.functions), 0))
        return self.classifier.predict_proba(self.functions)

    def best(self, categories: Sequence[str]) -> tuple[str, str | None]:
        """Return the function and category that fit best, out of some categories."""
        known = [name for name in categories if name in self.column]
        if not known:
            return self.functions[0], categories[0] if categories else None
        table = self.probabilities[:, [self.column[name] for name in known]]
        function, category = np.unravel_index(int(table.argmax()), table.shape)
        return self.functions[function], known[category]

    def mapped(self, categories: Sequence[str]) -> list[list[str]]:
        """Return each category with the function it fits best, by function."""
        by_function: dict[str, list[str]] = defaultdict(list)
        for name in categories:
            by_function[self.best([name])[0]].append(name)
        return [by_function[function] for function in self.functions]


async def contractor_led(round_: Round, audience: Audience) -> Plan:
    """Announcement the request itself; contractors take steps 1, 2 and 3."""
    return _WholeRequest(round_.request)


async def collaborative(round_: Round, audience: Audience) -> Plan:
    """Take step 1, then announce the functions; contractors take steps 2, 3 and 4."""
    everyone = audience.contractors if audience.recipients is None else audience.recipients
    one_function = _Functions((round_.request,))
    round_.check_announcement(
        "a collaborative round, if there is a single function,",
        [
            invitation
            for contractor in everyone
            for invitation in one_function.invitations(contractor)
        ],
        Decompose(round_.request),
    )
    decomposition = await round_.ask(Decompose(round_.request), "decomposition")
    return _Functions(decomposition.functions)


async def manager_led(round_: Round, audience: Audience) -> Plan:
    """Take steps 1 and 2, then announce each function with its category; contractors take step 3.

    Step 2 is taken by the router's classifier where the router is confident, and by the model
    otherwise. What it maps to then also widens the announcement, if that is the fallback.
    """
    routing, classifier = audience.routing, audience.classifier
    if routing is None and not round_.catalog.categories:
        raise InputError(
            "manager-led rounds need a catalog with categories (give the APIs categories, or use "
            "another protocol)"
        )
    step_1 = Decompose(round_.request)
    if audience.recipients is not None:  # in a broadcast, nobody knows yet whom it will reach
        round_.check_announcement(
            "a manager-led round, with one call to each recipient,",
            [
                Invitation(contractor=c, task=MatchFunction(c.apis, round_.request, None))
                for c in audience.recipients
            ],
            step_1,
        )
    functions = (await round_.ask(step_1, "decomposition")).functions
    fit = _CategoryFit(functions, classifier)
    if routing is None or classifier is None or not routing.is_confident:
        plan = await _mapped_by_model(round_, functions, fit)
        sure = routing is None or routing.is_confident
        mapped = bool(round_.categories)
        plan.widens = not sure and mapped and round_.settings.fallback == "llm"
        return plan
    round_.categories = classifier.predict([round_.request])[0]
    return _MappedFunctions(functions, fit.mapped(round_.categories), fit)


async def _mapped_by_model(round_: Round, functions: tuple[str, ...], fit: _CategoryFit) -> Plan:
    known = round_.catalog.categories
    if not known:
        return _MappedFunctions(functions, [()] * len(functions), fit)
    mapping = await round_.ask(MapCategories(round_.request, functions, known), "category")
    round_.categories = mapping.all_categories
    return _MappedFunctions(functions, mapping.categories, fit)


PLANS = {
    "manager-led": manager_led,
    "contractor-led": contractor_led,
    "collaborative": collaborative,
}
"""The protocols that announce, by name."""
