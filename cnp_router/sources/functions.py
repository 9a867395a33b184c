"""Python functions as tools; an agent of one's own is a function too."""

from __future__ import annotations

import asyncio
import contextvars
import difflib
import importlib
import importlib.util
import inspect
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.printing import printable
from cnp_router.records import check_id, check_number, positions, shown, string_tuple
from cnp_router.sources.function_tool import FunctionTool
from cnp_router.sources.result_size import MAX_BYTES, MOST_SAID, bounded
from cnp_router.sources.source import (
    Attachment,
    Call,
    CallFailure,
    CallResult,
    Source,
    check_source_name,
)

__all__ = ["FunctionSource"]


class FunctionSource(Source):
    """Functions of this process, plain and asynchronous.

    Parameters and their schema come from the annotations (whatever pydantic takes, ``Annotated``
    with ``Field`` too), descriptions from the docstring. Arguments are validated and converted. A
    parameter ``idempotency_key`` is filled with `Call.key`, and is not shown to who calls.

    A plain function runs in a thread of its own, so that others go on. **A thread cannot be
    stopped**: after a timeout, or when the caller gives up, the function runs on, and nobody knows
    whether it was done. It still counts among the `max_concurrency` ones, and does not keep the
    process from ending. An asynchronous function is cancelled.

    An exception is a failure of kind ``"tool"`` with its type and message, a `TimeoutError` of the
    function's own too; a `PermissionError` is one of kind ``"permission"``. Either way nobody knows
    what the function did before.

    A returned text is the text; bytes and `Attachment` are an attachment; a `CallResult` is taken
    as it is; all else (numbers, lists, dataclasses, pydantic models) is the structured result, and
    its JSON the text.

    Parameters
    ----------
    name : str
        As that of a `Source`.
    functions : iterable of callable, or mapping of str to callable
        Without a mapping, tools are called as the functions are.
    effects : mapping of str to {"reads", "writes", "unknown"}, default={}
        By tool; unknown where nothing is said.
    max_concurrency : int >= 1, default=8
    max_bytes : int >= 1, default=1,000,000
        Of a result; what is larger is cut.

    Raises
    ------
    InputError
        If a function cannot be called with named inputs, or has no JSON Schema.

    Examples
    --------
    A sub-agent is a function:

    >>> import asyncio
    >>> async def ask(text: str) -> str:
    ...     '''Answers questions about the weather.'''
    ...     return f"You asked: {text}"  # here an agent of any library does its work
    >>> agent = FunctionSource("weather", [ask])
    >>> (api,) = asyncio.run(agent.apis())
    >>> api.id, api.description, api.parameters["required"]
    ('weather__ask', 'Answers questions about the weather.', ['text'])
    >>> asyncio.run(agent.call(Call(api="weather__ask", inputs={"text": "Rain?"}))).text
    'You asked: Rain?'

    What fails is in the result:

    >>> def divide(a: float, b: float) -> float:
    ...     return a / b
    >>> numbers = FunctionSource("numbers", [divide], effects={"divide": "reads"})
    >>> asyncio.run(numbers.call(Call(api="numbers__divide", inputs={"a": 1, "b": 4}))).data
    0.25
    >>> asyncio.run(numbers.call(Call(api="numbers__divide", inputs={"a": 1, "b": 0})))
    CallResult(tool: 'ZeroDivisionError: float division by zero')
    """

    tool_type = "function"

    def __init__(
        self,
        name: str,
        functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
        *,
        effects: Mapping[str, Effects] | None = None,
        max_concurrency: int = 8,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.name = check_source_name(name)
        self.max_concurrency = check_number("max_concurrency", max_concurrency, 1, whole=True)
        self.max_bytes = check_number("max_bytes", max_bytes, 1, whole=True)
        named = list(functions.items() if isinstance(functions, Mapping) else _named(functions))
        positions("function", (tool for tool, _ in named))
        known = dict(effects or {})
        tools = [
            FunctionTool.of(self.name, check_id("function", tool), each, known.pop(tool, "unknown"))
            for tool, each in named
        ]
        if known:
            raise InputError(f"effects of {shown(next(iter(known)))}, which is no function here")
        self._tools = {tool.api.id: tool for tool in tools}

    @cached_property
    def _free(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self.max_concurrency)  # which a file of sources may have set

    @classmethod
    def from_entry(
        cls, name: str, fields: Mapping[str, Any], *, folder: Path, trusted: bool = False
    ) -> Self:
        """Return the source of an entry of a file of sources; its module is imported.

        Parameters
        ----------
        name : str
        fields : mapping
            ``module``: the name of an installed module, or the path of a file that ends in
            ``.py``; ``functions``: the names of functions in it.
        folder : Path
            What a relative path is relative to.
        trusted : bool, default=False
            Makes no difference here: functions are the user's own.

        Raises
        ------
        InputError
            If a field is wrong or unknown, or the module cannot be imported.
        """
        wrong = next((key for key in fields if key not in ("module", "functions")), None)
        if wrong is not None:
            known = "it has 'module' and 'functions'"
            raise InputError(f"source {name!r} has an unknown field {shown(wrong)} ({known})")
        module, wanted = fields.get("module"), fields.get("functions")
        if not isinstance(module, str) or not module:
            raise InputError(f"'module' of source {name!r} must be a string, got {shown(module)}")
        if not isinstance(wanted, list) or not wanted:
            said = "must be a list of names with at least one"
            raise InputError(f"'functions' of source {name!r} {said}, got {shown(wanted)}")
        names = string_tuple(f"'functions' of source {name!r}", wanted)
        loaded = _imported(name, module, folder)
        for each in names:
            if not callable(getattr(loaded, each, None)):
                raise InputError(f"module {module!r} of source {name!r} has no function {each!r}")
        return cls(name, {each: getattr(loaded, each) for each in names})

    async def apis(self) -> tuple[Api, ...]:
        """Return the functions."""
        return tuple(tool.api for tool in self._tools.values())

    async def call(self, call: Call) -> CallResult:
        """Call a function. What it raises is a `CallResult.failure`."""
        tool = self._tools.get(call.api)
        if tool is None:
            raise UnknownApiError(call.api, close=difflib.get_close_matches(call.api, self._tools))
        try:
            args, named = tool.arguments(call.inputs, call.key)
        except InputError as exc:
            return CallResult.failed("inputs", str(exc))
        start = time.perf_counter()
        result = await self._perform(tool, args, named, call.timeout)
        return bounded(replace(result, seconds=time.perf_counter() - start), self.max_bytes)

    async def _perform(
        self, tool: FunctionTool, args: Any, named: Any, timeout: float
    ) -> CallResult:
        task: Any = asyncio.current_task()
        wishes = task.cancelling()
        called = False
        try:
            async with asyncio.timeout(timeout) as limit:
                if tool.is_async:
                    called = True
                    value = await tool.function(*args, **named)
                else:
                    await self._free.acquire()
                    called = True
                    value = await self._in_thread(lambda: tool.function(*args, **named))
                    if inspect.isawaitable(value):
                        value = await value
        except asyncio.CancelledError:
            if task.cancelling() > wishes:  # otherwise the function cancelled itself
                raise
            return CallResult.failed("tool", "CancelledError")
        except PermissionError as exc:
            return CallResult(failure=CallFailure("permission", _said(exc), "unknown"))
        except (Exception, SystemExit) as exc:
            if not limit.expired() or not isinstance(exc, TimeoutError):
                return CallResult.failed("tool", _said(exc))
            if not called:
                busy = f"{self.max_concurrency} earlier calls still run (max_concurrency)"
                return CallResult.failed("busy", f"no thread became free in {timeout:g} s: {busy}")
            return CallResult.failed("timeout", f"no answer in {timeout:g} s")
        return _result(value)

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        """Return what a function returns in a thread, which is freed when it ends."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def end(value: Any, error: BaseException | None) -> None:
            self._free.release()
            if not answer.done():  # the caller may have given up
                answer.set_result((value, error))

        def run() -> None:
            value, error = None, None
            try:
                value = context.run(function)
            except BaseException as exc:  # whatever it is, it is the answer
                error = exc
            try:
                loop.call_soon_threadsafe(end, value, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        # Threads of a pool would keep the process from ending while one of them hangs.
        thread = threading.Thread(target=run, name=f"{self.name} call", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads
            self._free.release()
            raise
        value, error = await answer
        if error is not None:
            raise error
        return value


def _named(functions: Iterable[Callable[..., Any]]) -> Iterator[tuple[str, Callable[..., Any]]]:
    try:
        each = list(functions)
    except TypeError:
        raise InputError(f"functions must be several callables, got {shown(functions)}") from None
    for function in each:
        name = getattr(function, "__name__", None)
        if not isinstance(name, str) or not name.isidentifier():
            problem = f"{shown(function)} has no name to be called by"
            raise InputError(f"{problem} (give a mapping of name to function)")
        yield name, function


def _said(exc: BaseException) -> str:
    """Return type and message of an exception, whatever its own `__str__` does."""
    try:
        text = str(exc)
    except Exception:
        text = ""
    name = type(exc).__name__
    return f"{name}: {text}"[:MOST_SAID] if text else name


def _result(value: Any) -> CallResult:
    """Return the result that a value is."""
    from pydantic_core import to_jsonable_python

    if isinstance(value, bytes | bytearray | memoryview):
        value = Attachment("application/octet-stream", bytes(value))
    if isinstance(value, Attachment):
        value = CallResult(attachments=(value,))
    if isinstance(value, CallResult) and value.structured is None:
        return value
    if value is None or isinstance(value, str):
        return CallResult(value or "")
    if isinstance(value, Iterator):  # it may have no end
        said = f"it returned a {type(value).__name__}, which is no JSON value (return a list)"
        return CallResult.failed("unusable", said)
    try:
        given = value.structured if isinstance(value, CallResult) else value
        structured = to_jsonable_python(given)
        text = json.dumps(structured, ensure_ascii=False, allow_nan=False)
    except Exception as exc:  # a model of the user's own may raise anything when it is written
        said = f"it returned a {type(value).__name__}, which cannot be written as JSON"
        return CallResult.failed("unusable", f"{said}: {printable(_said(exc), 300)}")
    if isinstance(value, CallResult):
        return replace(value, structured=structured)
    return CallResult(text, structured)


def _imported(source: str, module: str, folder: Path) -> ModuleType:
    """Return the user's module, by its name or of a file."""
    try:
        if not module.endswith(".py"):
            return importlib.import_module(module)
        path = folder / module
        if not path.is_file():
            raise InputError(f"'module' of source {source!r}: there is no file {str(path)!r}")
        name = f"cnp_router_functions_{source}"
        spec = importlib.util.spec_from_file_location(name, path)
        loaded = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        sys.modules[name] = loaded  # where annotations that are texts are looked up
        try:
            spec.loader.exec_module(loaded)  # type: ignore[union-attr]
        except BaseException:
            del sys.modules[name]
            raise
    except InputError:
        raise
    except (Exception, SystemExit) as exc:
        said, cure = printable(_said(exc), 300), ""
        beside = f"{exc.name}.py" if isinstance(exc, ModuleNotFoundError) and exc.name else ""
        if beside and (folder / module).with_name(beside).is_file():
            cure = f" ({beside} is beside it: add its folder to PYTHONPATH)"
        raise InputError(
            f"'module' of source {source!r}: {module!r} cannot be imported: {said}{cure}"
        ) from exc
    else:
        return loaded
