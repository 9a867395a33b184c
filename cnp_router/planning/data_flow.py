"""Which job needs what another one gives: by names, schemas, past calls and descriptions."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from cnp_router.agents import FillInputs
from cnp_router.agents.meaning import meant_by, types_of
from cnp_router.agents.offline_inputs import certain_inputs
from cnp_router.agents.parameters import Parameter, followed, parameters_of
from cnp_router.catalog import Api
from cnp_router.execution import Job, Plan
from cnp_router.execution.outlines import outline
from cnp_router.planning.likely_api import LikelyApi
from cnp_router.prediction import ParameterHints
from cnp_router.records import check_instance
from cnp_router.text import content_words, split_identifier, words

__all__ = ["DataFlow", "Need", "data_flow", "fields_given", "with_dependencies"]

_LOGGER = logging.getLogger(__name__)

Why = Literal["past calls", "field", "description", "unknown", "order"]

# How strong a need is, by how sure it is that a parameter means a field.
_SAID: Final = "description"
_UNKNOWN: Final = "unknown"
_OF_FIELD = {3: 0.9, 2: 0.7, 1: 0.5}
_OF_ECHO = 0.6  # at most, of a field that only says again what that job was asked for
_OF_DESCRIPTION = 0.4
_OF_UNKNOWN = 0.2
_OF_ORDER = 0.1
_LEAST_SHARE = 0.5  # of its calls, in which an input came from one place, for that to be believed
_STATED = 0.9  # what the request states elsewhere gives way only to what is at least as strong
_GIVES = re.compile(r"\b(?:returns?|gives?|with|finds?|shows?|lists?|looks? up)\b(.*)", re.I | re.S)
_DEEPEST = 4
_MOST_FIELDS = 200


@dataclass(frozen=True, slots=True)
class Need:
    """A job needs what another one gives.

    Parameters
    ----------
    job, of : str
        Who needs, and of whom.
    parameter : str or None
        What it needs it for; None where only the order counts: what may change something comes
        after what reads.
    path : str or None
        Where it is in the other one's result, as a JSON Pointer, if that is known.
    strength : float in (0, 1]
    why : {"past calls", "field", "description", "unknown", "order"}
        By what it was found; "unknown": nobody is known to give it, and the other one may.
    """

    job: str
    of: str
    parameter: str | None
    path: str | None
    strength: float
    why: Why


@dataclass(frozen=True, slots=True)
class DataFlow:
    """What the jobs of a plan need of each other.

    Parameters
    ----------
    plan : Plan
        With the dependencies in it.
    needs : tuple of Need
        What was added, the strongest first.
    dropped : tuple of Need
        What would have made jobs wait for each other in a circle: the weakest of it.
    """

    plan: Plan
    needs: tuple[Need, ...]
    dropped: tuple[Need, ...]


def with_dependencies(plan: Plan, apis: Iterable[Api], **evidence: Any) -> Plan:
    """Return a plan whose jobs wait for those whose results they need.

    What is dropped to keep the plan free of circles is logged as a warning. Parameters, errors and
    what counts as a need are those of `data_flow`.

    Examples
    --------
    >>> find = Api("staff__find", "find", "Finds a person.", effects="reads",
    ...            parameters={"properties": {"name": {"type": "string"}}, "required": ["name"]},
    ...            returns={"properties": {"email": {"type": "string"}}})
    >>> send = Api("mail__send", "send", "Sends a letter.", effects="writes", parameters={
    ...     "properties": {"email": {"type": "string"}}, "required": ["email"]})
    >>> plan = Plan("Greet Aiko.", (Job("letter", "Send a letter.", "mail__send", {}),
    ...                             Job("person", 'Find "Aiko".', "staff__find")))
    >>> with_dependencies(plan, [find, send]).jobs[0].to_dict()["inputs"]
    {'email': {'$from': 'person', 'path': '/email'}}
    """
    found = data_flow(plan, apis, **evidence)
    for need in found.dropped:
        _LOGGER.warning(
            "job %r does not wait for %r, whose result it may need: they would wait for each other "
            "in a circle (name in the plan what waits for what)",
            need.job,
            need.of,
        )
    return found.plan


def data_flow(
    plan: Plan,
    apis: Iterable[Api],
    *,
    likely: Callable[[str], str | None] | None = None,
    hints: ParameterHints | None = None,
    results: Mapping[str, Any] | None = None,
) -> DataFlow:
    """Find what the jobs of a plan need of each other.

    A job needs another one for each required parameter that neither its inputs give nor its task
    states, and that the other one's result has: most of all where the parameter came from there in
    past calls; then where a field of the result (in the schema of the results, or in past ones) has
    the same name, another name for the same, or is of the same kind; then where the description
    says so; at last, where nobody is known to give it, of those that read and do not say what they
    give, or whose task names the same things. A field that only repeats what a job was asked for
    counts less. Of several jobs that could give it, it is the one whose task names the same things;
    if that does not tell either, the job waits for all of them.

    What may change something waits for what reads, unless that needs it, or could give the same as
    the job that was chosen. What the plan says stays.

    A reference is added where one field of one job is meant, the job names its API, and its inputs
    are given or the API takes nothing optional (else they are filled when it is called).

    Parameters
    ----------
    plan : Plan
    apis : iterable of Api
        Of the plan, at least; others are passed over.
    likely : callable, optional
        The id of the API that a task without one would go to, or None; by default the one whose
        specification is most alike.
    hints : ParameterHints, optional
        Where inputs came from in past calls.
    results : mapping of str to JSON value, optional
        Data that APIs gave before, by their ids. Only names and types of fields count.

    Returns
    -------
    DataFlow

    Examples
    --------
    >>> find = Api("find", "find", "Finds a place.", effects="reads",
    ...            parameters={"properties": {"name": {"type": "string"}}, "required": ["name"]})
    >>> rain = Api("rain", "rain", "Forecasts rain.", effects="reads", parameters={
    ...     "properties": {"latitude": {"type": "number"}}, "required": ["latitude"]})
    >>> plan = Plan("Rain?", (Job("rain", "Will it rain?", "rain"), Job("at", 'Find "Nara".')))
    >>> flow = data_flow(plan, [find, rain], results={"find": {"lat": 34.7, "lng": 135.8}})
    >>> [(need.job, need.of, need.parameter, need.path) for need in flow.needs]
    [('rain', 'at', 'latitude', '/lat')]
    """
    check_instance("plan", plan, Plan)
    flow = _Flow(plan, list(apis), likely, hints, results or {})
    return flow.ordered(sorted(flow.needs(), key=lambda need: -need.strength))


def fields_given(api: Api, result: Any = None, names: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the fields that a result of an API has: by its schema, or else by a past result.

    Parameters
    ----------
    api : Api
    result : JSON value, optional
        What it gave before.
    names : collection of str, default=()
        Keys of it that count whatever they say; see `cnp_router.execution.outlines`.

    Returns
    -------
    list of dict
        ``path`` and ``type``; ``is_listed`` where it is in each item of a list. Empty where nothing
        is known.

    Examples
    --------
    >>> find = Api("find", "find", returns={"properties": {"email": {"type": "string"}}})
    >>> fields_given(find)
    [{'path': '/email', 'type': 'string', 'is_listed': False}]
    """
    promised = [] if api.returns is None else _of_schema(api.returns)
    if any(entry["path"] for entry in promised):
        return promised
    return [] if result is None else outline(result, names, most=_MOST_FIELDS)


class _Flow:
    """The jobs of a plan, with who does each."""

    def __init__(
        self,
        plan: Plan,
        apis: list[Api],
        likely: Callable[[str], str | None] | None,
        hints: ParameterHints | None,
        results: Mapping[str, Any],
    ) -> None:
        self.plan, self.hints, self.results = plan, hints, results
        known = {api.id: api for api in apis}
        guess = likely or LikelyApi(apis)
        named = {job.id: job.api or guess(job.task) for job in plan.jobs}
        self.api = {job: known[name] for job, name in named.items() if name in known}
        self.words = {job.id: _named_things(job) for job in plan.jobs}
        self.rivals: set[tuple[str, str]] = set()  # who needs, and who gives the same as another

    def needs(self) -> Iterator[Need]:
        """Yield what each job needs of others."""
        for job in self.plan.jobs:
            if job.id in self.api:
                api = self.api[job.id]
                stated = _stated(self.plan.request, api)
                for parameter in _open(job, api):
                    found = list(self.of_parameter(job, parameter))
                    if found and (parameter.name not in stated or found[0].strength >= _STATED):
                        yield from found
        writing = [name for name, api in self.api.items() if api.effects != "reads"]
        reading = [name for name, api in self.api.items() if api.effects == "reads"]
        for job_id in writing:
            for of in reading:
                if (job_id, of) not in self.rivals:
                    yield Need(job_id, of, None, None, _OF_ORDER, "order")

    def of_parameter(self, job: Job, parameter: Parameter) -> Iterator[Need]:
        """Yield who gives a parameter: one, or all of those between whom nothing decides."""
        found: dict[str, list[Need]] = {}
        for other, api in self.api.items():
            if other != job.id:
                needs = list(self.between(job, parameter, other, api))
                most = max((need.strength for need in needs), default=0.0)
                if needs:
                    found[other] = [need for need in needs if need.strength == most]
        if not found:
            found = {other: [need] for other, need in self.about_the_same(job, parameter)}
        most = max((needs[0].strength for needs in found.values()), default=0.0)
        best = {other: needs for other, needs in found.items() if needs[0].strength == most}
        if len(best) > 1:
            own = self.words[job.id]
            shared = {other: len(own & self.words[other]) for other in best}
            best = {o: n for o, n in best.items() if shared[o] == max(shared.values())}
        self.rivals |= {(job.id, other) for other in found if other not in best}
        for needs in best.values():
            is_one = len(best) == 1 and len(needs) == 1
            yield needs[0] if is_one else replace(needs[0], path=None)

    def about_the_same(self, job: Job, parameter: Parameter) -> Iterator[tuple[str, Need]]:
        """Yield the jobs that read and name what a job names too."""
        for other, api in self.api.items():
            if (
                other != job.id
                and api.effects == "reads"
                and self.words[job.id] & self.words[other]
            ):
                yield other, Need(job.id, other, parameter.name, None, _OF_UNKNOWN, _UNKNOWN)

    def between(self, job: Job, parameter: Parameter, other: str, api: Api) -> Iterator[Need]:
        """Yield the places in another job's result that a parameter may mean."""
        name = parameter.name
        if self.hints is not None:
            for hint in self.hints.hints(self.api[job.id].id, [api.id], inputs=[name]):
                share = hint.count / hint.of
                if hint.source == "observation" and share >= _LEAST_SHARE:
                    path = None if hint.key is None else _pointer(hint.key)
                    yield Need(job.id, other, name, path, 0.9 + 0.1 * share, "past calls")
                    return  # the most frequent one comes first
        fields = fields_given(api, self.results.get(api.id), {name})
        if not fields and api.effects == "reads":
            is_said = _is_described(api, parameter)
            strength = _OF_DESCRIPTION if is_said else _OF_UNKNOWN
            yield Need(job.id, other, name, None, strength, _SAID if is_said else _UNKNOWN)
        asked = [each for each in parameters_of(api) if each.name == name]
        for entry in fields:
            alike = meant_by(parameter, entry)
            if alike:
                path = None if entry.get("is_listed") else entry["path"]
                strength = min(_OF_FIELD[alike], _OF_ECHO) if asked else _OF_FIELD[alike]
                yield Need(job.id, other, name, path, strength, "field")

    def ordered(self, needs: list[Need]) -> DataFlow:
        """Add needs to the plan, the strongest first; what would close a circle is dropped."""
        after = {job.id: dict.fromkeys(job.after) for job in self.plan.jobs}
        before = {name: _all_before(name, after) for name in after}
        added, dropped = [], []
        for need in needs:
            if need.job in before[need.of]:
                dropped += [need] if need.parameter is not None else []
                continue
            added.append(need)
            after[need.job][need.of] = None
            if need.of not in before[need.job]:
                for known in before.values():
                    if need.job in known:
                        known.update(before[need.of])
        jobs = [self.job(job, tuple(after[job.id]), added) for job in self.plan.jobs]
        return DataFlow(replace(self.plan, jobs=tuple(jobs)), tuple(added), tuple(dropped))

    def job(self, job: Job, after: tuple[str, ...], added: list[Need]) -> Job:
        """Return a job that waits for some others, with references to what they give."""
        own = [need for need in added if need.job == job.id and need.parameter is not None]
        inputs = None if job.inputs is None else dict(job.inputs)
        if job.api is not None and (inputs is not None or _has_no_optional(self.api[job.id])):
            given = {
                str(need.parameter): {"$from": need.of, "path": need.path}
                for need in own
                if need.path is not None and sum(n.parameter == need.parameter for n in own) == 1
            }
            inputs = {**(inputs or {}), **given} if given else inputs
        return replace(job, after=after, inputs=inputs)


def _all_before(name: str, after: Mapping[str, Iterable[str]]) -> set[str]:
    """Return all that a job waits for, itself included."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += after[one]
    return found


def _open(job: Job, api: Api) -> list[Parameter]:
    """Return the required parameters that neither the inputs of a job give nor its task states."""
    stated = _stated(job.task, api) if job.task else {}
    given = {*(job.inputs or {}), *stated}
    return [each for each in parameters_of(api) if each.is_required and each.name not in given]


def _stated(text: str, api: Api) -> dict[str, Any]:
    """Return the inputs that a text states."""
    found: dict[str, Any] = certain_inputs(FillInputs(text, text, api))["inputs"]
    return found


def _has_no_optional(api: Api) -> bool:
    return all(parameter.is_required for parameter in parameters_of(api))


def _named_things(job: Job) -> set[str]:
    """Return what a job names: words that begin with a capital letter or are in quotes, numbers."""
    text = job.task
    named = re.findall(r"(?<=[a-z,;:] )[A-Z]\w+|\w*[0-9]\w*", text)
    quoted = re.findall(r"[\"“「`]([^\"”」`]+)[\"”」`]", text)
    given = [value for value in (job.inputs or {}).values() if isinstance(value, str)]
    return {word for part in (*named, *quoted, *given) for word in words(part)}


def _is_described(api: Api, parameter: Parameter) -> bool:
    """Return whether the description says that it gives what a parameter is called."""
    said = _GIVES.search(api.description[:2_000])
    wanted = set(content_words(split_identifier(parameter.name)))
    return said is not None and bool(wanted) and wanted <= set(content_words(said[1]))


def _pointer(key: str) -> str:
    """Return the JSON Pointer of a place that is spelled ``a.b[0]``."""
    keys = re.findall(r"[^.\[\]]+", key)
    return "".join(f"/{_token(each)}" for each in keys)


def _of_schema(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return path and type of each value that a JSON Schema of results promises."""
    found: list[dict[str, Any]] = []
    waiting: deque[tuple[Any, str, int, bool]] = deque([(schema, "", 0, False)])
    while waiting and len(found) < _MOST_FIELDS:
        inner, path, depth, is_listed = waiting.popleft()
        part = followed(inner, schema)
        types = types_of(part) - {"object", "array"}
        found += [{"path": path, "type": kind, "is_listed": is_listed} for kind in sorted(types)]
        properties, items = part.get("properties"), part.get("items")
        if depth < _DEEPEST and isinstance(properties, Mapping):
            for key, each in properties.items():
                waiting.append((each, f"{path}/{_token(key)}", depth + 1, is_listed))
        if depth < _DEEPEST and isinstance(items, Mapping):
            waiting.append((items, f"{path}/0", depth + 1, True))
    return found


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
