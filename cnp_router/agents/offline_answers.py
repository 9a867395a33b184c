"""The offline model's answers: each reasoning step by text similarity, the same each time.

A stand-in for traffic and plumbing. It reads what the prompt shows and nothing else; what it knows
beforehand, as a language model does, is which words are common.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cnp_router.agents.delegate import ComposeAnswer, Delegate
from cnp_router.agents.evidence import ApiEvidence
from cnp_router.agents.fill_inputs import FillInputs
from cnp_router.agents.next_act import NextAct, NextStep
from cnp_router.agents.offline_delegation import OfflineDelegation
from cnp_router.agents.offline_inputs import certain_inputs
from cnp_router.agents.offline_plans import OfflinePlans
from cnp_router.agents.plan_jobs import PlanJobs
from cnp_router.agents.tasks import (
    ComposeAlone,
    Decompose,
    InterpretRequest,
    MapCategories,
    MatchFunction,
    SelectApis,
    ServeFunction,
)
from cnp_router.catalog import Api, Catalog
from cnp_router.llm import OfflineChatModel
from cnp_router.routing.selection import expected_f1_size
from cnp_router.text import TfidfEncoder, content_words, evenly, split_identifier

__all__ = ["TextSimilarity", "offline_model"]

LEAST_MATCH = 0.05  # cosine from which an API is proposed: many bids, as the thesis saw them
LEAST_EVIDENCE = 0.02  # probability from which an API is proposed all the same
LEAST_CATEGORY = 0.4  # likeness of words, from which a category is named
MOST_FUNCTIONS = 4
MOST_CATEGORIES = 2  # of a function
MOST_SELECTED = 5
SHARE_OF_BEST = 0.7  # what the selected have at least of the best one's similarity

_MOST_READ = 20_000  # specifications that tell how common words are
_REFUSED = "None of my APIs does that."
_CLAUSE = re.compile(r"[.;:!?,()\n]+|\s(?:and|then|while|or)\s", re.IGNORECASE)


class TextSimilarity:
    """Cosine of TF-IDF vectors over single words, one pair of texts at a time.

    The frequencies of words come from `texts`; a word that is in none of them counts as rare.

    Examples
    --------
    >>> similarity = TextSimilarity(["a map of places", "a list of songs", "a text message"])
    >>> similarity("songs on a map", "list songs") > similarity("songs on a map", "a message")
    True
    """

    def __init__(self, texts: Iterable[str]) -> None:
        encoder = TfidfEncoder("content", min_df=1, max_terms=sys.maxsize).fit(list(texts))
        self._remember(encoder)

    def _remember(self, encoder: TfidfEncoder) -> None:
        self._encoder = encoder
        self.vector = lru_cache(maxsize=65_536)(encoder.weights)

    def __getstate__(self) -> dict[str, TfidfEncoder]:  # what is remembered cannot be pickled
        return {"encoder": self._encoder}

    def __setstate__(self, state: dict[str, TfidfEncoder]) -> None:
        self._remember(state["encoder"])

    def __call__(self, left: str, right: str) -> float:
        """Return the similarity of two texts, in [0, 1]."""
        a, b = self.vector(left), self.vector(right)
        if len(a) > len(b):
            a, b = b, a
        return sum(weight * b[term] for term, weight in a.items() if term in b)

    def shared(self, left: str, right: str, k: int) -> list[str]:
        """Return the `k` words that two texts share and that tell most."""
        a, b = self.vector(left), self.vector(right)
        common = [(weight * b[term], term) for term, weight in a.items() if term in b]
        return [term for _, term in sorted(common, key=lambda pair: (-pair[0], pair[1]))[:k]]


def offline_model(catalog: Catalog, *, name: str = "offline") -> OfflineChatModel:
    """Return a model that takes every task of every role, with no network.

    It is deterministic and free. The prompts are those a real model would get, so its traffic can
    be counted; its choices say nothing about the quality of a language model.

    Parameters
    ----------
    catalog : Catalog
        Where it knows from which words are common: of more than 20,000 APIs, from every so many.
    name : str, default="offline"

    Returns
    -------
    OfflineChatModel

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.agents import ask
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    >>> task = InterpretRequest((catalog["maps"],), "places to eat")
    >>> [p.api for p in asyncio.run(ask(offline_model(catalog), task)).answer.apis]
    ['maps']
    """
    some = evenly(len(catalog), _MOST_READ)
    answers = _Answers(TextSimilarity(_text(catalog[place]) for place in some))
    plans = OfflinePlans(answers.similarity)
    delegation = OfflineDelegation(answers.similarity)
    return OfflineChatModel(
        {
            Decompose: answers.decompose,
            MapCategories: answers.map_categories,
            MatchFunction: answers.match,
            InterpretRequest: answers.interpret,
            ServeFunction: answers.serve,
            SelectApis: answers.select,
            ComposeAlone: answers.compose,
            FillInputs: certain_inputs,
            PlanJobs: plans.plan,
            Delegate: delegation.delegate,
            ComposeAnswer: delegation.compose,
            NextAct: plans.act,
            NextStep: plans.act,
        },
        name=name,
    )


class _Answers:
    def __init__(self, similarity: TextSimilarity) -> None:
        self.similarity = similarity

    def decompose(self, task: Decompose) -> dict[str, Any]:
        return {"functions": list(_clauses(task.request))}

    def map_categories(self, task: MapCategories) -> dict[str, Any]:
        return {
            "mappings": [
                {"function": i, "categories": self._categories(function, task.categories)}
                for i, function in enumerate(task.functions)
            ]
        }

    def match(self, task: MatchFunction) -> dict[str, Any]:
        return self._bid(task.function, self._fitting(task.function, task.apis, task.evidence))

    def interpret(self, task: InterpretRequest) -> dict[str, Any]:
        fitting = self._fitting(task.request, task.apis, task.evidence)
        functions = [
            clause
            for clause in (_clauses(task.request) if fitting else ())
            if any(self.similarity(clause, _text(api)) >= LEAST_MATCH for api in fitting)
        ]
        bid = self._bid(task.request, fitting)
        return {"functions": functions, "categories": _categories_of(fitting), **bid}

    def serve(self, task: ServeFunction) -> dict[str, Any]:
        fitting = self._fitting(task.function, task.apis, task.evidence)
        return {"categories": _categories_of(fitting), **self._bid(task.function, fitting)}

    def select(self, task: SelectApis) -> dict[str, Any]:
        if task.evidence:
            return {"apis": _best_by_evidence(task)}
        # Where the grounds are hidden, an id is all there is.
        texts = {
            p.api: p.grounds or split_identifier(p.api) for p in (*task.proposals, *task.awarded)
        }
        awarded = {p.api for p in task.awarded}
        return {"apis": [n for n in self._best(task.request, texts) if n not in awarded]}

    def compose(self, task: ComposeAlone) -> dict[str, Any]:
        fitting = self._fitting(task.request, task.apis)
        return {
            "functions": list(_clauses(task.request)),
            "categories": _categories_of(fitting)[:MOST_CATEGORIES],
            "candidates": [api.id for api in fitting],
            "apis": self._best(task.request, {api.id: _text(api) for api in fitting}),
        }

    def _fitting(
        self, wanted: str, apis: Iterable[Api], evidence: Iterable[ApiEvidence] = ()
    ) -> list[Api]:
        likely = {each.api for each in evidence if each.probability >= LEAST_EVIDENCE}
        scored = [(self.similarity(wanted, _text(api)), api) for api in apis]
        scored.sort(key=lambda pair: -pair[0])
        return [api for score, api in scored if score >= LEAST_MATCH or api.id in likely]

    def _bid(self, wanted: str, fitting: list[Api]) -> dict[str, Any]:
        return {
            "apis": [api.id for api in fitting],
            "grounds": [self._grounds(wanted, api) for api in fitting] or [_REFUSED],
        }

    def _grounds(self, wanted: str, api: Api) -> str:
        shared = ", ".join(self.similarity.shared(wanted, _text(api), 6))
        # Evidence is not repeated: what a contractor says of it would be its own word.
        return f"{api.name} has to do with {shared}." if shared else f"{api.name} may serve that."

    @staticmethod
    def _categories(function: str, categories: Iterable[str]) -> list[str]:
        said = frozenset(content_words(function))
        scored = [(_likeness(said, name), name) for name in categories]
        fitting = sorted((-score, name) for score, name in scored if score >= LEAST_CATEGORY)
        return [name for _, name in fitting[:MOST_CATEGORIES]]

    def _best(self, request: str, texts: Mapping[str, str]) -> list[str]:
        scored = {name: self.similarity(request, text) for name, text in texts.items()}
        ranked = sorted(scored, key=lambda name: -scored[name])[:MOST_SELECTED]
        return [name for name in ranked if scored[name] >= SHARE_OF_BEST * scored[ranked[0]]]


def _best_by_evidence(task: SelectApis) -> list[str]:
    """Return the set of the highest expected F1 among what was proposed, by its evidence alone.

    Grounds have no say, so that no figure in them has; nor has a proposal without evidence.
    """
    proposed = {each.api for each in task.proposals}
    known = [each for each in task.evidence if each.api in proposed]
    ranked = sorted(known, key=lambda each: -each.probability)
    size = expected_f1_size(np.array([each.probability for each in ranked]))
    return [each.api for each in ranked[:size]]


@lru_cache(maxsize=65_536)
def _text(api: Api) -> str:
    return f"{api.name} {' '.join(api.categories)} {api.description}"


@lru_cache(maxsize=256)
def _clauses(text: str) -> tuple[str, ...]:
    clauses = [clause.strip() for clause in _CLAUSE.split(text)]
    long_enough = [clause for clause in clauses if len(clause.split()) > 2]
    return tuple(dict.fromkeys(long_enough or [text.strip() or text]))[:MOST_FUNCTIONS]


def _likeness(said: frozenset[str], name: str) -> float:
    """Return how like the words of a name are to words that were said, in [0, 1].

    A name is too short for its words to come back as they are: "Mapping" is said as "map".
    """
    own = list(content_words(name))
    if not own or not said:
        return 0.0
    return sum(max(_dice(word, other) for other in said) for word in own) / len(own)


@lru_cache(maxsize=1_000_000)
def _dice(left: str, right: str) -> float:
    """Return the Dice coefficient of the words' trigrams."""
    a, b = _trigrams(left), _trigrams(right)
    return 2 * len(a & b) / (len(a) + len(b))


@lru_cache(maxsize=65_536)
def _trigrams(word: str) -> frozenset[str]:
    padded = f" {word} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


def _categories_of(apis: Iterable[Api]) -> list[str]:
    return list(dict.fromkeys(name for api in apis for name in api.categories))
