"""How a round is run: whom it may reach, how long it waits, what it may cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from cnp_router.agents import AnswerLimits
from cnp_router.exceptions import BudgetExceededError, InputError
from cnp_router.protocols.waves import Waves
from cnp_router.records import check_instance, check_number, shown
from cnp_router.routing import SelectionRule, TargetRecall

__all__ = ["RoundSettings", "TrafficBudget"]

Fallback = Literal["llm", "broadcast", "none"]
EvidenceFor = Literal["none", "manager", "everyone"]
Grounds = Literal["shown", "hidden"]
LONGEST = 10**9  # seconds: beyond what the event loop's clock takes


@dataclass(frozen=True, slots=True)
class TrafficBudget:
    """The most a round may cost. What would go beyond it is not begun.

    Before each announcement and each question to the manager's model, its prompts are rendered and
    counted, and an answer of usual length is added; both are estimates. An announcement needs room
    for what follows it too: a reply and a decision for each call, and the manager's selection among
    all that could be proposed. What the manager's first steps lead to (how many functions, which
    categories) is not known before they are paid: an announcement can still be refused then. An
    iterated announcement that does not fit in is left out. What comes of the awards is not counted.

    Parameters
    ----------
    tokens : int or None, default=None
        In and out.
    messages : int or None, default=None

    Raises
    ------
    InputError
        If one is below 1.

    Examples
    --------
    >>> TrafficBudget(tokens=1_000).check("a question", tokens=900, messages=2)
    >>> TrafficBudget(messages=100).check("an announcement", tokens=0, messages=2_691)
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.BudgetExceededError: an announcement would cost about 2,691 messages, \
and the budget is 100 (raise the budget, or announce to fewer)
    """

    tokens: int | None = None
    messages: int | None = None

    def __post_init__(self) -> None:
        for name, value in self.limits().items():
            check_number(f"a budget of {name}", value, 1, whole=True)

    def limits(self) -> dict[str, int]:
        """Return what is limited."""
        limits = {"tokens": self.tokens, "messages": self.messages}
        return {name: value for name, value in limits.items() if value is not None}

    def check(self, what: str, *, tokens: int, messages: int) -> None:
        """Raise BudgetExceededError where a whole round would have cost more than allowed."""
        costs = {"tokens": tokens, "messages": messages}
        limits = self.limits()
        if any(costs[unit] > limit for unit, limit in limits.items()):
            raise BudgetExceededError(what, costs, limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSettings:
    """How rounds are run.

    Parameters
    ----------
    select : SelectionRule, default=TargetRecall(0.9)
        How the learned router chooses the recipients.
    threshold : float in [0, 1], default=0.6
        Below this confidence of the router the fallback decides.
    fallback : {"llm", "broadcast", "none"}, default="llm"
        ``"llm"``: the manager's model maps the request to categories, and the announcement
        widens to them. ``"broadcast"``: to everyone. ``"none"``: it stays as it is.
    deadline : float or None, seconds, default=None
        How long after an announcement, or a wave of it, proposals are taken. Later ones are
        recorded and ignored.
    bid_timeout : float or None, seconds, default=None
        How long one contractor may take.
    timeout : float or None, seconds, default=1800
        How long the whole round may take, the manager included. Then it fails, with its
        transcript. None: no limit, so that a server which answers a byte a second can keep it.
    max_concurrency : int, default=64
        How many contractors may work at a time. What a model server takes at a time is limited
        by the `ChatModel`.
    budget : TrafficBudget or None, default=None
    iterate : int, default=0
        After the awards, announce once more to at most so many contractors that the transition
        graph ties to what was awarded. Needs a learned router.
    waves : Waves or None, default=None
        Call the recipients of a routed announcement in waves, and no more than are wanted. Where
        the fallback has chosen recipients, in a broadcast and in a hierarchical round, all are
        called at once.
    limits : AnswerLimits, optional
        How much an agent may say.
    evidence : {"none", "manager", "everyone"}, default="none"
        Who sees what the router knows of an API, its probability and the most telling reason, which
        then travels on the call for proposals: nobody; the manager, who selects by it among what
        was proposed; or the contractor that is called, too. A reason may quote a past request. For
        routed announcements only: a broadcast asks no router.
    grounds : {"shown", "hidden"}, default="shown"
        Whether the manager reads what contractors say for their proposals when it selects. Hidden,
        it sees the request, its own functions, the ids of the proposed APIs and, with `evidence`,
        their probabilities without reasons: no text of a contractor or of a specification can move
        it. For rounds whose awards are acted on.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> RoundSettings(deadline=30.0, iterate=5).threshold
    0.6
    """

    select: SelectionRule = field(default_factory=TargetRecall)
    threshold: float = 0.6
    fallback: Fallback = "llm"
    deadline: float | None = None
    bid_timeout: float | None = None
    timeout: float | None = 1800.0
    max_concurrency: int = 64
    budget: TrafficBudget | None = None
    iterate: int = 0
    waves: Waves | None = None
    limits: AnswerLimits = field(default_factory=AnswerLimits)
    evidence: EvidenceFor = "none"
    grounds: Grounds = "shown"

    def __post_init__(self) -> None:
        literals = {"fallback": Fallback, "evidence": EvidenceFor, "grounds": Grounds}
        for name, choices in literals.items():
            value, known = getattr(self, name), get_args(choices)
            if not isinstance(value, str) or value not in known:
                *some, last = map(repr, known)
                raise InputError(f"unknown {name} {shown(value)} (use {', '.join(some)} or {last})")
        if not isinstance(self.select, SelectionRule):
            raise InputError(
                f"unknown selection {shown(self.select)} (use a TargetRecall, a TopK, a MaxCost or "
                "a SelectionRule of your own)"
            )
        check_number("threshold", self.threshold, 0, 1)
        for name in ("deadline", "bid_timeout", "timeout"):
            value = getattr(self, name)
            if value is not None:
                check_number(f"{name} in seconds", value, 0, LONGEST, ends=False)
        check_number("max_concurrency", self.max_concurrency, 1, whole=True)
        check_number("iterate", self.iterate, 0, whole=True)
        if self.budget is not None:
            check_instance("budget", self.budget, TrafficBudget)
        if self.waves is not None:
            check_instance("waves", self.waves, Waves)
        check_instance("limits", self.limits, AnswerLimits)
