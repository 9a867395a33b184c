"""What a router answers: `Scores`, and the decision made from them, a `Routing`.

What is ranked are APIs. A contractor is who holds them: by default each API has one of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from cnp_router.catalog import ROWS_SHOWN, html_table
from cnp_router.printing import printable
from cnp_router.records import shown
from cnp_router.routing.recipient import Reason, Recipient, used_by
from cnp_router.routing.scores import HeadScores, Scores

__all__ = ["HeadScores", "Reason", "Recipient", "Routing", "Scores", "Source", "used_by"]

Source = Literal["learned", "llm", "broadcast", "direct"]

NOTHING_FITS_BELOW = 0.5
"""Below this probability that anything fits, a routing says that nothing does."""

FEW_MASHUPS = 30
"""Below so many past requests, a routing says that its probabilities are rough."""

# The same of a router that was fitted without past requests, and with the first.
_WITHOUT_HISTORY, _WITH_LITTLE = 0.1, 0.3


@dataclass(frozen=True, repr=False)
class Routing:
    """The decision: who receives the announcement of a request.

    Parameters
    ----------
    request : str
    recipients : tuple of Recipient
        Most probable first; never empty. Those of a router are made when they are first read, and
        so are their reasons: a routing whose reasons nobody has read keeps what the router knew.
    recommendation : tuple of str
        The APIs that the router itself would use: the recipients of the highest expected F1. Never
        empty: where nothing fits (`fits`), those that come nearest.
    confidence : float in [0, 1]
        Probability that the recipients the router chose cover all that the request needs.
    source : {"learned", "llm", "broadcast", "direct"}
        Who chose the recipients: the router itself, or a fallback; ``"direct"`` where the manager
        was lost, and the router's recommendation was called without it.
    n_apis : int
        How many APIs there are: what a broadcast would reach.
    threshold : float in [0, 1]
        Below this confidence the fallback decides.
    fallback : str
        Name of the fallback that was allowed.
    known : tuple of str, default=()
        APIs already in use; never among the recipients.
    ignored : tuple of str, default=()
        Ids given as known, in ``among`` or in ``exclude`` that the router has never heard of.
    n_allowed : int or None, default=None
        How many APIs could be asked, where ``among`` and ``exclude`` said which: those that are
        known are not counted. None: all of them.
    answerable : float in [0, 1], default=1.0
        Probability that anything that could be asked fits the request.
    n_mashups : int or None, default=None
        How many past requests the probabilities were learned from; None where that says nothing.
    n_fitted : int or None, default=None
        How many of them the router was fitted on: the others it has observed since. None: all.
    has_known_words : bool, default=True
        Whether the router knows any word of the request: not of one in another language.

    Examples
    --------
    >>> routing = Routing("a map", (Recipient("maps", 0.9),), ("maps",), 0.8, "learned", 40, 0.6,
    ...                   "none")
    >>> routing
    Routing('a map', 1 of 40 APIs: 'maps' 0.90, confidence 0.80, learned)
    >>> routing.contractors, routing.is_confident
    (('maps',), True)
    >>> routing.verdict
    'Sure: the confidence of 0.80 reaches the threshold of 0.60.'
    """

    request: str
    recipients: tuple[Recipient, ...]
    recommendation: tuple[str, ...]
    confidence: float
    source: Source
    n_apis: int
    threshold: float
    fallback: str
    known: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    n_allowed: int | None = None
    answerable: float = 1.0
    n_mashups: int | None = None
    n_fitted: int | None = None
    has_known_words: bool = True

    @classmethod
    def of(cls, n_recipients: int, make: Callable[[], tuple[Recipient, ...]], **said: Any) -> Self:
        """Return a routing whose recipients, so many, are made when they are first read.

        `said` are the other fields.
        """
        made = object.__new__(cls)
        made.__dict__.update(said, _later=(n_recipients, make))
        return made

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Return the recipients, where they have not been read yet."""
            later = self.__dict__.get("_later")
            if name != "recipients" or later is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            n_recipients, make = later
            if make is not None:
                self.__dict__["recipients"] = make()
                self.__dict__["_later"] = n_recipients, None  # what it was made of may go
            return self.__dict__["recipients"]

    def __getstate__(self) -> dict[str, Any]:
        recipients = self.recipients
        kept = {name: value for name, value in self.__dict__.items() if name != "_later"}
        return {**kept, "recipients": recipients}

    @property
    def n_recipients(self) -> int:
        """How many recipients there are."""
        later = self.__dict__.get("_later")
        return len(self.recipients) if later is None else later[0]

    @property
    def contractors(self) -> tuple[str, ...]:
        """Ids of the recipients, which are those of their APIs, most probable first."""
        return tuple(recipient.contractor for recipient in self.recipients)

    @property
    def is_confident(self) -> bool:
        """Whether the confidence reaches the threshold."""
        return self.confidence >= self.threshold

    @property
    def fits(self) -> bool:
        """Whether anything seems to fit the request.

        If that is more probable than not. It has to be less where the router was fitted on few past
        requests: .1 on none, and from .3 on one to .5 on `FEW_MASHUPS`.
        """
        return self.answerable >= self._least

    @property
    def _least(self) -> float:
        n = self.n_mashups if self.n_fitted is None else self.n_fitted
        if n is None or n >= FEW_MASHUPS:
            return NOTHING_FITS_BELOW
        if not n:
            return _WITHOUT_HISTORY
        return _WITH_LITTLE + (NOTHING_FITS_BELOW - _WITH_LITTLE) * n / FEW_MASHUPS

    @property
    def n_reachable(self) -> int:
        """How many APIs a broadcast would have reached: all, or within a restriction those left."""
        if self.n_allowed is None or not self.is_restricted:
            return self.n_apis
        return self.n_allowed

    @property
    def is_restricted(self) -> bool:
        """Whether ``among`` or ``exclude`` kept APIs out."""
        return self.n_allowed is not None and self.n_allowed < self.n_apis - len(self.known)

    @property
    def is_rough(self) -> bool:
        """Whether so few past requests stand behind the probabilities that they promise little."""
        return self.n_mashups is not None and self.n_mashups < FEW_MASHUPS

    @property
    def verdict(self) -> str:
        """How sure the router is, what followed from that, and what it rests on: for a person."""
        if not self.fits:
            what = "Nothing else" if self.known else "Nothing"
            where = "that is allowed" if self.is_restricted else "in the catalog"
            said = f"{what} {where} fits: the probability that anything does is "
            said += _told_apart(self.answerable, self._least)[0]
        else:
            sure, is_ = ("Sure", "reaches") if self.is_confident else ("Not sure", "is below")
            confidence, threshold = _told_apart(self.confidence, self.threshold)
            said = f"{sure}: the confidence of {confidence} {is_} the threshold of {threshold}"
        return f"{said}{self._consequence()}.{self._strange()}{self._basis()}"

    def _strange(self) -> str:
        if self.fits or self.has_known_words:
            return ""
        return (
            " The router knows no word of the request: ask in the words and the language of the "
            "catalog, or give an encoder."
        )

    def _consequence(self) -> str:
        if self.is_confident:
            return ""
        if self.source == "llm":
            return ", so a language model was asked who else may fit"
        if self.source == "broadcast":
            return f", so everyone{' allowed' if self.is_restricted else ''} is asked"
        return ", so an API that is needed may be missing" if self.fits else ""

    def _basis(self) -> str:
        if not self.is_rough:
            return ""
        n = self.n_mashups
        past = f"only {n} past request{'' if n == 1 else 's'}" if n else "no past requests"
        return f" Its probabilities are rough: they were learned from {past} of yours."

    def to_dict(self) -> dict[str, Any]:
        """Return the routing as a JSON object.

        Its numbers of contractors and messages are those of one contractor for each API.
        """
        return {
            "request": self.request,
            "known": list(self.known),
            "ignored": list(self.ignored),
            "recommendation": list(self.recommendation),
            "recipients": [
                {
                    "contractor": r.contractor,
                    "probability": round(r.probability, 6),
                    "reasons": [
                        {"kind": x.kind, "text": x.text, "references": list(x.references)}
                        for x in r.reasons
                    ],
                }
                for r in self.recipients
            ],
            "n_recipients": self.n_recipients,
            "n_contractors": self.n_apis,
            "n_allowed": self.n_apis - len(self.known)
            if self.n_allowed is None
            else self.n_allowed,
            "messages_saved": self.n_reachable - len(self.recipients),
            "answerable": round(self.answerable, 6),
            "fits": self.fits,
            "confidence": round(self.confidence, 6),
            "threshold": self.threshold,
            "is_confident": self.is_confident,
            "fallback": self.fallback,
            "source": self.source,
            "n_mashups": self.n_mashups,
            "verdict": self.verdict,
        }

    def __repr__(self) -> str:
        best = ", ".join(f"{shown(r.contractor)} {r.probability:.2f}" for r in self.recipients[:3])
        more = ", ..." if len(self.recipients) > 3 else ""
        return (
            f"Routing({shown(self.request)}, {len(self.recipients)} of {self.n_apis} APIs: "
            f"{best}{more}, confidence {self.confidence:.2f}, {self.source}"
            f"{'' if self.fits else ', nothing fits'})"
        )

    def _repr_html_(self) -> str:
        recommended = set(self.recommendation) if self.fits else set()
        rows = [
            (
                "*" if r.contractor in recommended else "",
                r.contractor,
                f"{r.probability:.2f}",
                "; ".join(reason.text for reason in r.reasons),
            )
            for r in self.recipients[:ROWS_SHOWN]
        ]
        asked = f"{len(self.recipients)} of {self.n_apis} APIs are asked; * is recommended"
        title = f"{printable(self.request, 100)} - {self.verdict} {asked}."
        head = ("recommended", "API", "probability", "why")
        return html_table(title, head, rows, len(self.recipients))


def _told_apart(value: float, bound: float) -> tuple[str, str]:
    """Return both with two digits, or with as many as it takes to see that they differ."""
    digits = 2
    while value != bound and f"{value:.{digits}f}" == f"{bound:.{digits}f}" and digits < 6:
        digits += 1
    return f"{value:.{digits}f}", f"{bound:.{digits}f}"
