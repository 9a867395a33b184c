"""Where the inputs of a call usually came from, told of the results at hand."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from cnp_router.agents import InputHint
from cnp_router.execution.outlines import path_of
from cnp_router.execution.plain_keys import is_plain
from cnp_router.prediction import ParameterHints

__all__ = ["input_hints"]

_KEY = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


def input_hints(
    learned: ParameterHints,
    api: str,
    names: Collection[str],
    data: Mapping[str, Any],
    apis: Mapping[str, str],
) -> tuple[InputHint, ...]:
    """Return where some inputs of an API came from before, most frequent first.

    Only what is among the results is told, by its path there; no value is.

    Parameters
    ----------
    learned : ParameterHints
    api : str
    names : collection of str
        Of the inputs.
    data : mapping of str to JSON value
        The result of each job.
    apis : mapping of str to str
        The id of the API that did each job.

    Examples
    --------
    >>> from cnp_router import Step
    >>> learned = ParameterHints()
    >>> learned.observe_step([Step("find", {"name": "Nara"}, '{"id": "Nara-1"}')],
    ...                      Step("weather", {"place": "Nara-1"}))
    >>> input_hints(learned, "weather", ["place"], {"job 1": {"id": "Oslo-9"}}, {"job 1": "find"})
    (InputHint(input='place', job='job 1', source='result', path='/id', count=1, of=1),)
    """
    jobs = {apis[name]: name for name in data if name in apis}
    found = []
    for hint in learned.hints(api, list(jobs), inputs=sorted(names)) if jobs else ():
        job, path = jobs[hint.tool], hint.key
        if hint.source == "inputs":
            path = path if is_plain(path) else None
            found.append(InputHint(hint.input, job, "inputs", path, hint.count, hint.of))
        elif path is None:
            found.append(InputHint(hint.input, job, "result", None, hint.count, hint.of))
        else:
            keys = [key or int(index) for key, index in _KEY.findall(path)]
            path = path_of(data[job], keys, names)
            if path is not None:
                found.append(InputHint(hint.input, job, "result", path, hint.count, hint.of))
    return tuple(found)
