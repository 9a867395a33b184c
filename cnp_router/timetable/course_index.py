"""What courses have to do with a text, by the words of both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.text import BM25, TfidfEncoder, content_words
from cnp_router.timetable.course import Course

__all__ = ["scores"]

_ALIKE = 10.0  # how much the runs of characters count beside the words
_FEWEST = 4  # letters at the beginning that two words share if they may be forms of one
_LEAST = 2.0  # a lower best score is chance
# What is said of any course, in a request for one.
_SAYS_LITTLE = {"anything", "class", "course", "credit", "easy", "good", "interesting", "learn"}
_SAYS_LITTLE |= {"lesson", "scratch", "something", "study", "subject", "topic"}
_WORD = re.compile(r"[\w-]+")


def scores(text: str, courses: Sequence[Course]) -> NDArray[Any]:
    """Return how much courses have to do with a text.

    The BM25 score of what they say of themselves, plus 10 times the TF-IDF cosine of the runs of
    characters of name, field, form, keywords and topic, by which "immigration" finds "migration".
    Words that begin as no word of the courses are left out, so that nonsense finds nothing.

    Returns
    -------
    ndarray of shape (n_courses,), at least 0

    Examples
    --------
    >>> from cnp_router.timetable import load_courses
    >>> courses = load_courses()
    >>> courses[int(scores("immigration", courses).argmax())].name
    'Politics of Migration'
    >>> scores("qwertz", courses).any()
    np.False_
    """
    # The same courses in another order need no other index.
    order = sorted(range(len(courses)), key=lambda place: courses[place].id)
    found = np.zeros(len(courses))
    found[order] = _index(tuple(courses[place] for place in order)).scores(text)
    return found


class _Index:
    """Words and runs of characters of courses."""

    def __init__(self, courses: tuple[Course, ...]) -> None:
        said = [_document(course) for course in courses]
        self._words = BM25(said)
        self._runs = TfidfEncoder("character", min_df=1)
        self._courses = self._runs.fit_transform([_telling(course) for course in courses])
        self._known = {word for text in said for word in content_words(text)}
        self._begin = {word[:_FEWEST] for word in self._known}

    def scores(self, text: str) -> NDArray[Any]:
        kept = " ".join(word for word in _WORD.findall(text) if self._is_known(word))
        runs = np.asarray((self._courses @ self._runs.transform([kept]).T).toarray()).ravel()
        found = self._words.scores(kept) + _ALIKE * runs
        return found if found.max(initial=0.0) >= _LEAST else np.zeros(len(found))

    def _is_known(self, said: str) -> bool:
        words = [word for word in content_words(said) if word not in _SAYS_LITTLE]
        return any(word[:_FEWEST] in self._begin or self._within(word) for word in words)

    def _within(self, word: str) -> bool:
        """Return whether a word ends as one that the courses have, as "immigration"."""
        return any(word[i:] in self._known for i in range(1, len(word) // 3))


@lru_cache(maxsize=4)
def _index(courses: tuple[Course, ...]) -> _Index:
    return _Index(courses)


def _telling(course: Course) -> str:
    keywords = ", ".join(course.keywords)
    return f"{course.name}. {course.field}. {course.form}. {keywords}. {course.summary['topic']}. "


def _document(course: Course) -> str:
    """Return the words of a course; the more telling ones come several times."""
    return f"{_telling(course) * 2}{course.summary['topics']}. {course.text}"
