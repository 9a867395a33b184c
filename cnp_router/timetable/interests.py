"""What courses have to do with what somebody is interested in, by the words of both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.text import BM25, content_words
from cnp_router.timetable.course import Course

__all__ = ["about", "closeness", "topic_words", "topics_of", "unknown_interests"]

_BETWEEN = re.compile(r"[,;.\n/&]|\band\b|\bor\b", re.IGNORECASE)
_ABOUT = 0.75  # of the closeness; the rest is the text
_FAINT = 0.4  # less than this share of the best is a word in passing


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

    Three quarters are the BM25 score of what a course is about (its name, field, keywords and
    topics), one quarter that of its text, each as a share of the best score. It is multiplied by
    the share of the topic's words that the course has, and is itself a share of the best. What
    has less than .4 is left out: it says a word in passing.

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
    return dict(_closeness(topic, tuple(courses)))


@lru_cache(maxsize=256)
def _closeness(topic: str, courses: tuple[Course, ...]) -> dict[str, float]:
    about, texts = _indexes(courses)
    scores = _ABOUT * _shares(about.scores(topic)) + (1 - _ABOUT) * _shares(texts.scores(topic))
    words = [about.scores(word) + texts.scores(word) > 0 for word in set(content_words(topic))]
    known = [there for there in words if there.any()]
    shares = _shares(scores * np.mean(known, axis=0)) if known else scores
    return {
        course.id: round(float(share), 4)
        for course, share in zip(courses, shares, strict=True)
        if share >= _FAINT
    }


def about(words: str, courses: Sequence[Course]) -> tuple[str, ...]:
    """Return the ids of the courses that are about all of some words.

    A single word has to be a keyword: others are said in passing.

    Examples
    --------
    >>> from cnp_router.timetable import load_courses
    >>> about("film history", load_courses())
    ('FM-205',)
    """
    wanted = set(content_words(words))
    if not wanted:
        return ()
    if len(wanted) > 1:
        return tuple(c.id for c in courses if wanted <= {*content_words(_topic(c))})
    return tuple(
        course.id
        for course in courses
        if any(wanted == set(content_words(keyword)) for keyword in course.keywords)
    )


def unknown_interests(interests: str, courses: Sequence[Course]) -> tuple[str, ...]:
    """Return the interests, or words of them, that no course has to do with.

    Examples
    --------
    >>> from cnp_router.timetable import load_courses
    >>> unknown_interests("film, dinosaurs, quantum knitting", load_courses())
    ('dinosaurs', 'knitting')
    """
    unknown: dict[str, None] = {}
    for topic in topics_of(interests):
        words = [topic] if not closeness(topic, courses) else content_words(topic)
        unknown |= dict.fromkeys(word for word in words if not closeness(word, courses))
    return tuple(unknown)


def topic_words(courses: Sequence[Course]) -> frozenset[str]:
    """Return the words of what courses are about: names, fields, keywords and topics."""
    return _topic_words(tuple(courses))


@lru_cache(maxsize=4)
def _topic_words(courses: tuple[Course, ...]) -> frozenset[str]:
    return frozenset(word for course in courses for word in content_words(_topic(course)))


@lru_cache(maxsize=4)
def _indexes(courses: tuple[Course, ...]) -> tuple[BM25, BM25]:
    return BM25([_topic(course) for course in courses]), BM25([course.text for course in courses])


def _shares(scores: NDArray[Any]) -> NDArray[Any]:
    """Return scores as shares of the best one."""
    best = scores.max(initial=0.0)
    return scores / best if best > 0 else scores


def _topic(course: Course) -> str:
    topics = f"{course.summary['topic']}. {course.summary['topics']}."
    return f"{course.name}. {course.field}. {', '.join(course.keywords)}. {topics}"
