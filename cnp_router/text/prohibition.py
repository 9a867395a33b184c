"""Whether a text is no plain order: comparing words does not tell what is wanted then."""

from __future__ import annotations

import re

__all__ = ["forbids", "only_asks"]

_MOST_READ = 10_000  # characters
_FORBIDS = re.compile(
    r"(?:^|[.,;:!?()]|\b(?:and|but|or|please|so|then|you|we|just))\s*"
    r"(?:do not|don[\u2019']?t|never)\b"
    r"|\b(?:must|shall|should|may|need)(?: not|n[\u2019']t)\b"
    r"|\b(?:by no means|under no circumstances|no need|not to|unless|whether)\b"
    r"|\bif\b(?! (?:possible|necessary|so|you (?:can|could|please))\b)"
    r"|\b(?:except|without|other than|apart from|instead of|rather than)\b"
    r"|\b(?:all|every\w*|any\w*|no ?(?:one|body))\b[^.,;!?]{0,200}?\bbut\b"
    # What no English text says; French has it behind the verb.
    r"|\b(?:nicht|kein(?:e[mnrs]?)?|niemals|jamais|nunca|niet|geen|nooit|não|ikke|inte)\b"
    r"|\b(?:ne |n[\u2019'])[^\W\d]+ (?:pas|rien|plus)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?;\n]+(?=\s|$)")
_QUESTION = re.compile(
    r"\W*(?:(?:and|or|but|so)\s+)?(?:who|whom|whose|what|which|when|where|why|how|did|does|is|are|was|were|has"
    r"|(?:do|have|had|should|shall) (?:i|we|you|they)"
    r"|wer|wann|warum|wie|welche[mnrs]?|qui|quand|comment|pourquoi|quel(?:le)?s?)\b",
    re.IGNORECASE,
)


def forbids(text: str) -> bool:
    """Return whether a text says what is not to be done, with what exception or on what condition.

    In English, and in a few plain words of other languages.

    Examples
    --------
    >>> forbids("Do not delete entry 5."), forbids("Delete all entries but number 5.")
    (True, True)
    >>> forbids("Refund it unless it was sent."), forbids("Eintrag 5 nicht löschen")
    (True, True)
    >>> forbids("The printer does not work: open a ticket.")
    False
    """
    return _FORBIDS.search(text[:_MOST_READ]) is not None


def only_asks(text: str) -> bool:
    """Return whether all sentences of a text are questions, and no polite orders.

    Examples
    --------
    >>> only_asks("Who deleted entry 5?"), only_asks("Could you delete entry 5?")
    (True, False)
    >>> only_asks("What is the time in Rome? Write it to Ann.")
    False
    """
    sentences = [each for each in _SENTENCE.split(text[:_MOST_READ]) if each.strip()]
    return bool(sentences) and all(map(_QUESTION.match, sentences))
