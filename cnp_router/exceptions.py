"""Every error this library raises on purpose, as one tree split by whose fault it is.

::

    CnpRouterError
    ├── InputError                 the caller's argument or data (also a ValueError)
    │   ├── DataFileError          a catalog, history or output file: says path and line
    │   │   └── EmptyFileError           it holds no record
    │   ├── UnknownApiError        an API id that the catalog does not have (also a KeyError)
    │   ├── UnknownSearchError     an id of a search that nobody can use, or not this client
    │   └── InfeasibleError        rules that cannot hold together: names those in conflict
    ├── NotFittedError             used before ``fit`` (also a ValueError and AttributeError,
    │                              as in scikit-learn)
    ├── ModelStoreError            a saved model that cannot be used
    │   ├── ModelNotFoundError     no model at that place
    │   ├── ModelCorruptError      truncated, altered or incomplete
    │   └── ModelVersionError      written by another version of the format
    ├── LanguageModelError         no usable answer from a language model
    │   ├── ChatRequestError       the request or the set-up: asking again changes nothing
    │   │   ├── ChatDisallowedError      the switch for model requests is off
    │   │   ├── ChatAccessError          key missing or refused, account without rights or credit
    │   │   ├── ChatModelUnknownError    the server does not have that model
    │   │   └── ContextTooLongError      more tokens than the model can take
    │   ├── ChatUnavailableError   the server or the way to it: asking later may help
    │   │   ├── ChatRateLimitError       too many requests
    │   │   ├── ChatTimeoutError         no answer in time
    │   │   └── ChatConnectionError      no connection, or it broke
    │   └── ChatAnswerError        the model: an answer came, and cannot be used
    ├── SourceError                a source of tools
    │   ├── SourceUnavailableError   it cannot be started or reached: asking later may help
    │   ├── SourceAnswerError        it answers, and the answer cannot be used
    │   └── DefinitionChangedError   a tool is not the one that was accepted
    ├── ContextStoreError          a store of shared context that cannot be used
    ├── ExecutionError             awarded jobs that could not be done
    ├── CoordinationError          negotiation or shared context cannot be had
    ├── ClusterError               a cluster of workers that cannot be used
    ├── ProtocolError              a round of the Contract Net
    │   ├── BudgetExceededError    it would cost more than allowed: it was not started
    │   ├── RoundFailedError       the manager could not go on, or no contractor could answer
    │   │   └── ManagerLostError         their model does not answer, or nothing that can be used
    │   └── TranscriptError        messages that are not a round
    └── MissingExtraError          an optional dependency is not installed (also an ImportError)

Each message says what came, where it came from, and what cures it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class CnpRouterError(Exception):
    """Base of every error raised on purpose by this library."""

    # An exception is pickled by its message alone, which cannot rebuild those of more arguments
    # in the parent of a worker process. So no constructor is called, and the attributes travel too.
    def __reduce__(self) -> tuple[Any, ...]:
        return _new, (type(self), *self.args), vars(self)


def _new(kind: type[CnpRouterError], *args: Any) -> CnpRouterError:
    return kind.__new__(kind, *args)


def shown(value: object, most: int = 60) -> str:
    """Return the repr of a value in at most `most` characters, whatever its repr does."""
    try:
        text = repr(value)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"
    except Exception:  # the repr of somebody else's object may do anything
        return f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _message(where: str, problem: str, cure: str | None) -> str:
    return (f"{where}: " if where else "") + problem + (f" ({cure})" if cure else "")


class InputError(CnpRouterError, ValueError):
    """An argument or a piece of data from the caller is not usable."""


class DataFileError(InputError):
    """A file cannot be read or written as asked.

    Parameters
    ----------
    path : str or Path
        The file, as the caller named it.
    problem : str
        What is wrong.
    line : int, optional
        1-based line number where it is wrong.
    cure : str, optional
        What the caller can do about it.

    Examples
    --------
    >>> print(DataFileError("a.jsonl", "not JSON", line=3, cure="write one object a line"))
    a.jsonl, line 3: not JSON (write one object a line)
    """

    def __init__(
        self, path: str | Path, problem: str, *, line: int | None = None, cure: str | None = None
    ) -> None:
        self.path: Path = Path(path)
        self.problem = problem
        self.line = line
        self.cure = cure
        name = str(path) or "''"
        where = name if line is None else f"{name}, line {line}"
        super().__init__(_message(where, problem, cure))


class EmptyFileError(DataFileError):
    """A data file holds no record."""

    def __init__(self, path: str | Path, what: str = "file") -> None:
        cure = "give at least one record, or leave it out"
        super().__init__(path, f"the {what} is empty", cure=cure)


class UnknownApiError(InputError, KeyError):
    """An API id that the catalog does not contain.

    Examples
    --------
    >>> print(UnknownApiError("gogle-maps", close=["google-maps"]))
    unknown API 'gogle-maps' (did you mean 'google-maps'?)
    """

    def __init__(self, api_id: str, *, close: list[str] | None = None) -> None:
        self.api_id = api_id
        self.close = close
        hint = f"did you mean {close[0]!r}?" if close else "use an id of the catalog"
        super().__init__(f"unknown API {shown(api_id)} ({hint})")

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownSearchError(InputError):
    """A search that was never made, is too old, or is another client's: which one is not said.

    Examples
    --------
    >>> print(UnknownSearchError("a1"))
    unknown search 'a1': it was never made, is too old, or is another's (search again)
    """

    def __init__(self, search_id: str) -> None:
        self.search_id = search_id
        problem = "it was never made, is too old, or is another's"
        super().__init__(f"unknown search {shown(search_id)}: {problem} (search again)")


class InfeasibleError(InputError):
    """No choice keeps every rule.

    Parameters
    ----------
    reasons : mapping of str to sequence of str
        Names of the rules in conflict, with their reasons.
    is_minimal : bool, default=True
        Whether without any one of them the others can hold.
    conflict : Conflict, optional
        The rules themselves.

    Examples
    --------
    >>> print(InfeasibleError({"thirsty": ["tea at five"], "budget": ["the budget is 3"]}))
    nothing fits these rules together: tea at five; the budget is 3 (take back one of them)
    """

    def __init__(
        self,
        reasons: Mapping[str, Sequence[str]],
        *,
        is_minimal: bool = True,
        conflict: Any = None,
    ) -> None:
        self.reasons: dict[str, tuple[str, ...]] = {
            name: tuple(each) for name, each in reasons.items()
        }
        self.is_minimal = is_minimal
        self.conflict = conflict
        said = "; ".join(", ".join(each) for each in self.reasons.values())
        cure = "take back one of them" if is_minimal else "some of them may have no part in it"
        super().__init__(f"nothing fits these rules together: {said} ({cure})")


class NotFittedError(CnpRouterError, ValueError, AttributeError):
    """A method that needs learned state was called before ``fit``."""


class ModelStoreError(CnpRouterError):
    """A saved model cannot be used."""


class ModelNotFoundError(ModelStoreError):
    """There is no model at the given place."""


class ModelCorruptError(ModelStoreError):
    """The model is truncated, altered or incomplete."""

    @classmethod
    def of(cls, folder: str | Path, problem: object) -> ModelCorruptError:
        """Return the error of a model's folder, with the cure."""
        cure = "fit it again, or copy it again if it is a copy"
        return cls(f"{folder}: the model is damaged: {problem} ({cure})")


class ModelVersionError(ModelStoreError):
    """The model was written in a format this version does not read."""


class LanguageModelError(CnpRouterError):
    """There is no usable answer from a language model.

    Parameters
    ----------
    problem : str
        What is wrong.
    model : str, optional
        Name of the model that was asked.
    server : str, optional
        Base URL of the server that was asked.
    cure : str, optional
        What the caller can do about it.
    usage : Usage, optional
        What was paid all the same: the tokens of the answers that could not be used.
    calls : int, default=0
        How many such answers came.

    Examples
    --------
    >>> print(LanguageModelError("no answer", model="tiny", server="http://localhost/v1",
    ...                          cure="ask again"))
    model 'tiny' at http://localhost/v1: no answer (ask again)
    """

    def __init__(
        self,
        problem: str,
        *,
        model: str | None = None,
        server: str | None = None,
        cure: str | None = None,
        usage: Any = None,
        calls: int = 0,
    ) -> None:
        self.problem = problem
        self.model = model
        self.server = server
        self.cure = cure
        self.usage = usage
        self.calls = calls
        where = f"model {model!r}" if model else ""
        where += f"{' at ' if where else ''}{server}" if server else ""
        super().__init__(_message(where, problem, cure))


class ChatRequestError(LanguageModelError):
    """The request or the set-up is at fault: asking again changes nothing."""


class ChatDisallowedError(ChatRequestError):
    """Model requests are switched off (`cnp_router.llm.model_requests_allowed`)."""


class ChatAccessError(ChatRequestError):
    """The key is missing or refused, or the account lacks the right or the credit."""


class ChatModelUnknownError(ChatRequestError):
    """The server does not have the model that was asked for."""


class ContextTooLongError(ChatRequestError):
    """Prompt and answer need more tokens than the model can take."""


class ChatUnavailableError(LanguageModelError):
    """The server or the way to it is at fault: asking later may help."""


class ChatRateLimitError(ChatUnavailableError):
    """The server takes no more requests for now, also after the retries."""


class ChatTimeoutError(ChatUnavailableError):
    """The answer did not come in time, also after the retries."""


class ChatConnectionError(ChatUnavailableError):
    """There is no connection to the server, or it broke."""


class ChatAnswerError(LanguageModelError):
    """The model answered, and the answer is empty, cut off, not JSON, or off the schema."""


class ProtocolError(CnpRouterError):
    """A round of the Contract Net that cannot be run or read."""


class BudgetExceededError(ProtocolError):
    """The round was not started, or not continued: it would cost more than allowed.

    Parameters
    ----------
    what : str
        The step that was refused.
    costs : mapping of str to int
        ``"tokens"`` and ``"messages"`` of the round, with what is spent already.
    allowed : mapping of str to int
        The budget, with the same keys.

    Attributes
    ----------
    transcript : Transcript or None
        Of the round until then, with what it has cost.

    Examples
    --------
    >>> print(BudgetExceededError("an announcement to 1345 contractors",
    ...                           {"tokens": 400_000, "messages": 2_692}, {"tokens": 50_000}))
    an announcement to 1345 contractors would cost about 400,000 tokens, and the budget is 50,000 \
(raise the budget, or announce to fewer)
    """

    def __init__(self, what: str, costs: Mapping[str, int], allowed: Mapping[str, int]) -> None:
        self.what = what
        self.costs: dict[str, int] = dict(costs)
        self.allowed: dict[str, int] = dict(allowed)
        self.transcript: Any = None
        over = " and ".join(
            f"about {self.costs[unit]:,} {unit}, and the budget is {limit:,}"
            for unit, limit in self.allowed.items()
            if self.costs[unit] > limit
        )
        super().__init__(f"{what} would cost {over} (raise the budget, or announce to fewer)")


class RoundFailedError(ProtocolError):
    """The manager could not go on, or not one contractor could answer.

    Parameters
    ----------
    problem : str
    transcript : Transcript, optional
        Of the round until then, with what it has cost.
    comparison : Comparison, optional
        What there is of a comparison.
    """

    def __init__(self, problem: str, transcript: Any = None, *, comparison: Any = None) -> None:
        self.problem = problem
        self.transcript = transcript
        self.comparison = comparison
        super().__init__(problem)


class ManagerLostError(RoundFailedError):
    """The model of the manager, or of all contractors, cannot be reached or used for this round."""


class TranscriptError(ProtocolError):
    """The messages of a transcript are not those of a round of the Contract Net."""


class SourceError(CnpRouterError):
    """A source of tools: an MCP server, an OpenAPI document, an agent, functions.

    Examples
    --------
    >>> print(SourceError("files", "the process ended with code 1", cure="run its command by hand"))
    source 'files': the process ended with code 1 (run its command by hand)
    """

    def __init__(self, source: str, problem: str, *, cure: str | None = None) -> None:
        self.source = source
        self.problem = problem
        self.cure = cure
        super().__init__(_message(f"source {source!r}", problem, cure))


class SourceUnavailableError(SourceError):
    """It cannot be started or reached."""


class SourceAnswerError(SourceError):
    """It answers, and the answer cannot be used."""


class DefinitionChangedError(SourceError):
    """The definition of a tool is not the one that was accepted; `diff` shows both."""

    def __init__(
        self, source: str, problem: str, *, cure: str | None = None, diff: str = ""
    ) -> None:
        self.diff = diff
        super().__init__(source, problem, cure=cure)


class ContextStoreError(CnpRouterError):
    """A store of shared context is gone, is not one, or holds what nobody can read.

    Parameters
    ----------
    store : str
        Which one: a path, or a server without its password.
    problem : str
        What is wrong.
    cure : str, optional

    Examples
    --------
    >>> print(ContextStoreError("redis://localhost:6379/0", "no connection", cure="start it"))
    context store redis://localhost:6379/0: no connection (start it)
    """

    def __init__(self, store: str, problem: str, *, cure: str | None = None) -> None:
        self.store = store
        self.problem = problem
        self.cure = cure
        super().__init__(_message(f"context store {store}", problem, cure))


class ExecutionError(CnpRouterError):
    """Awarded jobs could not be done.

    Parameters
    ----------
    problem : str
    transcript : Transcript, optional
        Of the round, in which what was still open is cancelled.
    call : ModelCall, optional
        What was paid all the same: the answers of a model.
    """

    def __init__(self, problem: str, transcript: Any = None, *, call: Any = None) -> None:
        self.problem = problem
        self.transcript = transcript
        self.call = call
        super().__init__(problem)


class CoordinationError(CnpRouterError):
    """What coordination rests on cannot be had: negotiation, shared context, or their store.

    The work itself can be done without it.
    """


class ClusterError(CnpRouterError):
    """A cluster of workers is not there, is gone, or cannot do the work.

    Parameters
    ----------
    scheduler : str
        The address of its scheduler; empty for processes of this machine, and where a worker says
        it.
    problem : str
        What is wrong.
    cure : str, optional

    Examples
    --------
    >>> print(ClusterError("tcp://10.0.0.5:8786", "it has no workers", cure="start some"))
    cluster tcp://10.0.0.5:8786: it has no workers (start some)
    """

    def __init__(self, scheduler: str, problem: str, *, cure: str | None = None) -> None:
        self.scheduler = scheduler
        self.problem = problem
        self.cure = cure
        super().__init__(
            _message(f"cluster {scheduler}" if scheduler else "workers", problem, cure)
        )


class MissingExtraError(CnpRouterError, ImportError):
    """An optional dependency is needed and not installed.

    Examples
    --------
    >>> print(MissingExtraError("drawing", package="matplotlib", extra="plot"))
    drawing needs matplotlib (pip install 'cnp-router[plot]')
    """

    def __init__(self, purpose: str, *, package: str, extra: str) -> None:
        self.purpose = purpose
        self.package = package
        self.extra = extra
        super().__init__(f"{purpose} needs {package} (pip install 'cnp-router[{extra}]')")
