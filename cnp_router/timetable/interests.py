"""What courses have to do with what somebody is interested in, by the words of both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cnp_router.text import BM25, content_words
from cnp_router.timetable.course import Course

__all__ = ["closeness", "topics_of"]

_BETWEEN = re.compile(r"\s*(?:[,;.\n/]|\band\b|\bor\b|&)+\s*", re.IGNORECASE)
_FAINT = 0.3  # less than this share of the best match is a word in passing


def topics_of(interests: str) -> tuple[str, ...]:
    """Return the single interests of a text, none twice.

    Examples
    --------
    >>> topics_of("statistics, film history and the economics of games; statistics")
    ('statistics', 'film history', 'the economics of games')
    """
    parts = (part.strip() for part in _BETWEEN.split(interests))
    return tuple(dict.fromkeys(part for part in parts if any(content_words(part))))


def closeness(topic: str, courses: Sequence[Course]) -> dict[str, float]:
    """Return how close courses are to a topic, by their words.

    The BM25 scores as shares of the best one; what has less than .3 is left out.

    Returns
    -------
    dict of str to float in (0, 1]
        By course id; empty where no course has a word of the topic.

    Examples
    --------
    >>> from cnp_router.timetable import load_courses
    >>> max(closeness("linear algebra", load_courses()).values())
    1.0
    """
    scores = _index(tuple(courses)).scores(topic)
    best = float(scores.max(initial=0.0))
    if best <= 0:
        return {}
    shares = np.asarray(scores) / best
    return {
        course.id: round(float(share), 4)
        for course, share in zip(courses, shares, strict=True)
        if share >= _FAINT
    }


@lru_cache(maxsize=4)
def _index(courses: tuple[Course, ...]) -> BM25:
    return BM25([_document(course) for course in courses])


def _document(course: Course) -> str:
    """Return the words of a course; the more telling ones come several times."""
    telling = f"{course.name}. {course.field}. {', '.join(course.keywords)}. "
    topic = f"{course.summary['topic']}. {course.summary['topics']}. "
    return telling * 2 + topic + course.text
