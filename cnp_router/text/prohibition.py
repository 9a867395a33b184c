"""Whether a text is no plain order: comparing words does not tell what is wanted then."""

from __future__ import annotations

import re
from unicodedata import normalize

from cnp_router.text.quotations import without_quotations

__all__ = ["forbids", "objection", "only_asks", "only_tells"]

_FORBIDDEN = (
    "the request says what is not to be done, or on what condition, which only a language model "
    "understands"
)
_ASKED = "the request only asks, and this changes something"
_TOLD = "the request only tells what happened, and this changes something"
_APOSTROPHE = "['\u2019\u2018\u00b4`\u02bc]?"
_NOT = rf"(?:do\s+not|don{_APOSTROPHE}t|never)\b(?!\s+(?:forget|hesitate|worry|mind))"
_ADDRESSED = (
    "also and better but can just kindly may must ok okay or please pls said say says shall should "
    "so then we you"
)
_FORBIDS = re.compile(
    rf"(?:^|[.,;:!?()*-]|\b(?:{'|'.join(_ADDRESSED.split())}))\s*{_NOT}"
    rf"|\b(?:I|we|they)\s+(?:do\s+not|don{_APOSTROPHE}t)\s+want\b"
    rf"|\b(?:let{_APOSTROPHE}s|rather|better)\s+not\b|\bcan(?:not|\s+not|{_APOSTROPHE}t)\b"
    rf"|\b(?:must|shall|should|may|need)(?:\s+not|n{_APOSTROPHE}t)\b"
    r"|\b(?:no\s+one|nobody)\s+(?:may|must|shall|should)\b"
    r"|\b(?:to\s+never|never\s+to|refrain\s+from|should\s+(?:it|that|this))\b"
    r"|(?:^|[.;:!?]|\bplease)\s*avoid\s+\w+ing\b"
    r"|(?:^|[.,;:!?]|\b(?:and|must|please|should|then|to|you))\s*(?:block|hinder|keep|prevent|stop)\b"
    r"[^.;:!?\n]*\bfrom\s+(?:being\b|\w+ing\b)"
    r"|\b(?:bad\s+idea|mistake|wrong)\s+to\b|\bwait\s+(?:for|till|until)\b[^.;:!?\n]*\b(?:and|then)\b"
    r"|\b(?:whenever|as\s+soon\s+as|when\s+(?:it|he|she|they|the))\b[^.;:!?]*,"
    r"|\b(?:by\s+no\s+means|under\s+no\s+circumstances|no\s+need\s+(?:to|for)(?!\s+(?:ask|call))"
    r"|not\s+to(?!\s+worry)|unless|provided|in\s+case|as\s+long\s+as|only\s+(?:after|if|on|when)"
    r"|once\s+(?:the|it|he|she|they|we|you))\b"
    r"|(?<!\beven )\bif\b(?!\s+(?:possible|necessary|needed|so|at\s+all"
    r"|you\s+(?:can|could|please|would|don.?t\s+mind))\b)"
    r"|\b(?:except|excluding|nor|other\s+than|apart\s+from|instead\s+of|rather\s+than)\b"
    r"|(?:,|\bbut)\s+not\b(?!\s+only)"
    r"|\bwithout\b(?!\s+(?:delay|exception|fail|further\s+ado))"
    r"|\b(?:all|every\w*|any\w*|no ?(?:one|body))\b(?:\s+\w+){0,3}\s+but\b(?!\s+please\b)"
    # What no English text says; French has it behind the verb.
    r"|\b(?:nicht(?!\s+vergessen)|kein(?:e[mnrs]?)?(?!\s+problem)|nie|niemals|falls|wenn|ohne|au\u00dfer|sauf"
    r"|jamais|nunca|niet|geen|nooit|n\u00e3o|ikke|inte)\b"
    r"|\b(?:ne |n[\u2019'](?!oubli))[^\W\d]+ (?:pas|rien|plus)\b|\bne pas\b",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE = re.compile(r"[^.!?;\n]+[.!?;\n]*")
_QUESTION = re.compile(
    r"\W*(?:(?:and|or|but|so)\s+)?(?:who|whom|whose|what|which|when|where|why|how|did|does|is|are"
    r"|was|were|has|(?:do|have|had|should|shall) (?:i|we|you|they)"
    r"|wer|wann|warum|wieso|welche[mnrs]?|qui|quand|pourquoi|quel(?:le)?s?)\b",
    re.IGNORECASE,
)
# Orders in the form of questions.
_POLITE = re.compile(
    r"^\W*I(?:\s+(?:want|need|wish|would\s+like)|.?d\s+like)\b"
    r"|\b(?:please|pls|you(?!\s+(?:already|ever|still))|why\s+(?:not|don.?t)|how\s+about"
    r"|is\s+(?:it\s+possible|there\s+any\s+chance)|bitte|kannst|k\u00f6nn\w*|w\u00fcrde\w*|wie\s+w\u00e4re"
    r"|peux|pouvez|pourr\w*|puede\w*|podr\w*)\b",
    re.IGNORECASE,
)
_PAST = (
    r"(?:(?:already|just|[a-z]+ly)\s+)*(?!(?:ask|hop|lik|request|want|wish)ed\b)[a-z]+(?<!e)ed\b"
)
_TELLS = re.compile(
    r"\W*(?:(?:and|also|today|yesterday)\s+)?(?:"
    rf"(?:I|you|he|she|it|we|they|someone|somebody)(?:{_APOSTROPHE}(?:ve|s|d))?"
    rf"\s+(?:(?:have|has|had)\s+)?{_PAST}"
    rf"|(?:her|his|its|my|our|their|your)\s+[a-z]+\s+{_PAST}"
    r"|(?:(?:a|all|an|her|his|its|my|our|that|the|their|these|this|those|your)\b|[a-z]+\s+#?\d)"
    rf"(?:(?!\s(?:that|which|who)\b)[^,:;])*?\s(?:was|were|(?:have|has|had)\s+been)\s+{_PAST}"
    r"|.*\b(?:wurden?|(?:a|ont)\s+\u00e9t\u00e9)\b)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"[,:]|\s[-\u2013\u2014]|\b(?:and|but|now|so|then|und|et)\b", re.IGNORECASE)
_OF_YOU = re.compile(r"\W*(?:did|have|do(?! you (?:mind|think)))\s+you\b", re.IGNORECASE)
_INDIRECTLY = re.compile(
    r"\W*(?:please\s+)?(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?)?"
    r"(?:(?:(?:show|tell)\s+(?:me|us)|let\s+(?:me|us)\s+know|check|find\s+out|I\s+want\s+to\s+know|test|verify)"
    r"\s+(?:who|whom|whose|what|which|when|where|why|how|whether|if)|(?:check|verify)\s+that)\b",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|dear|thanks|thank\s+you|best|regards|cheers|hallo|danke|merci|gracias)\b"
    r"[^.!?;\n]{0,25}\W*",
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
    return _FORBIDS.search(_said(text)) is not None


def only_asks(text: str) -> bool:
    """Return whether a text holds questions only, and no orders in their form.

    Examples
    --------
    >>> only_asks("Who deleted entry 5?"), only_asks("Could you delete entry 5?")
    (True, False)
    >>> only_asks("What is the time in Rome? Write it to Ann.")
    False
    """
    sentences = _sentences(text)
    return bool(sentences) and all(map(_is_question, sentences))


def only_tells(text: str) -> bool:
    """Return whether a text holds nothing but what happened, and questions.

    In English, and in a few plain words of other languages.

    Examples
    --------
    >>> only_tells("We deleted entry 5 yesterday."), only_tells("Entry 5 was deleted. By whom?")
    (True, True)
    >>> only_tells("Delete the entry that was added."), only_tells("I finished it: delete entry 5")
    (False, False)
    """
    left = [each for each in _sentences(text) if not _is_question(each)]
    return bool(left) and all(map(_is_told, left))


def objection(text: str, effects: str) -> str:
    """Return why words alone do not order a tool with some effects; empty if they may.

    Examples
    --------
    >>> objection("Did we delete entry 5?", "writes")
    'the request only asks, and this changes something'
    >>> objection("Did we delete entry 5?", "unknown")
    ''
    """
    if effects != "reads" and forbids(text):
        return _FORBIDDEN
    if effects != "writes":
        return ""
    return _ASKED if only_asks(text) else _TOLD if only_tells(text) else ""


def _sentences(text: str) -> list[str]:
    return [
        each
        for each in _SENTENCE.findall(_said(text))
        if re.search(r"\w", each) and not _GREETING.fullmatch(each)
    ]


def _is_told(sentence: str) -> bool:
    """Return whether a sentence says what happened, and no more."""
    if not _TELLS.match(sentence) or _POLITE.search(sentence):
        return False
    return not _GOES_ON.search(sentence, 1)  # an "And" that begins it goes on from what was before


def _is_question(sentence: str) -> bool:
    if _INDIRECTLY.match(sentence) and not _GOES_ON.search(sentence):
        return True
    if _POLITE.search(sentence) and not _OF_YOU.match(sentence):
        return False
    if sentence.rstrip().endswith("?"):
        return True
    return _QUESTION.match(sentence) is not None and not re.search("[,:]", sentence)


def _said(text: str) -> str:
    """Return what a text says itself, composed."""
    return normalize("NFC", without_quotations(text, least_words=1))
