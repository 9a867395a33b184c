"""Python functions as tools."""

from __future__ import annotations

import asyncio
import datetime
import enum
import functools
import itertools
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Annotated, Any

import jsonschema
import pytest
from pydantic import BaseModel, Field

from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.sources import Attachment, Call, CallResult
from cnp_router.sources.functions import FunctionSource


class Place(BaseModel):
    name: str
    near: list[Place] = []


@dataclass
class Point:
    x: float
    y: float = 0.0


class Unit(enum.Enum):
    C = "c"
    F = "f"


class Odd:
    pass


def forecast(
    place: Place,
    days: Annotated[int, Field(ge=1, description="How many days ahead.")] = 3,
    unit: Unit = Unit.C,
    on: datetime.date | None = None,
) -> dict[str, Any]:
    """Tells the weather
    of a place.

    Parameters
    ----------
    place : Place
        Where, as a person
        would say it.
    days : int
        Not taken: the annotation says it.
    on
        The first day.

    Returns
    -------
    dict
        The forecast.
    """
    return {"name": place.name, "days": days, "unit": unit, "on": on}


async def ask(text: str) -> str:
    return f"asked: {text}"


def source(*functions, **named):
    return FunctionSource("f", named or functions)


def call(function, inputs=None, **fields):
    """Call one function as a tool."""
    return asyncio.run(
        source(tool=function).call(Call(api="f__tool", inputs=inputs or {}, **fields))
    )


def api(function):
    return asyncio.run(source(tool=function).apis())[0]


def test_schema_and_descriptions():
    tool = asyncio.run(source(forecast).apis())[0]
    assert (tool.id, tool.name, tool.effects) == ("f__forecast", "forecast", "unknown")
    assert tool.description == "Tells the weather of a place."
    schema = tool.parameters
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["required"] == ["place"]
    assert schema["additionalProperties"] is False
    given = schema["properties"]
    assert given["days"] == {
        "default": 3,
        "description": "How many days ahead.",
        "minimum": 1,
        "type": "integer",
    }
    assert given["place"]["description"] == "Where, as a person would say it."
    assert given["on"]["description"] == "The first day."


def test_arguments_are_converted_and_results_written():
    inputs = {"place": {"name": "Oslo", "near": [{"name": "Moss"}]}, "on": "2026-01-02"}
    assert call(forecast, inputs).data == {
        "name": "Oslo",
        "days": 3,
        "unit": "c",
        "on": "2026-01-02",
    }


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "place: Missing required argument"),
        ({"place": {"name": "Oslo"}, "day": 1}, "day: Unexpected keyword argument"),
        ({"place": {"name": 3}}, "place.name: Input should be a valid string"),
        ({"place": {"name": "Oslo"}, "days": 0}, "days: Input should be greater than or equal"),
        (dict.fromkeys("abcdefgh"), "and 4 more"),
    ],
)
def test_inputs_that_do_not_fit_are_a_failure_and_nothing_is_called(inputs, said):
    result = call(forecast, inputs)
    assert result.failure.kind == "inputs"
    assert said in result.failure.message
    assert result.failure.was_done == "no"


def test_a_validation_error_inside_the_function_is_the_functions():
    result = call(lambda: Place(name=3))
    assert result.failure.kind == "tool"
    assert result.failure.message.startswith("ValidationError: ")


def test_the_inputs_of_a_call_are_not_changed():
    def spoil(items: Any):
        items.append("!")

    given = {"items": ["a"]}
    assert call(spoil, given).is_done
    assert given == {"items": ["a"]}


def test_parameters_without_annotation_and_named_rest():
    def any_(x, y=3, **rest: int):
        return [x, y, rest]

    assert call(any_, {"x": [1], "z": 4}).data == [[1], 3, {"z": 4}]
    assert call(any_, {"x": 1, "z": "four"}).failure.kind == "inputs"


class Bot:
    """Answers."""

    def __init__(self):
        self.asked = []

    async def __call__(self, text: str):
        self.asked.append(text)
        return len(self.asked)

    def greet(self, name: str = "you"):
        """Greets."""
        return f"hello {name}"


def test_methods_objects_and_partials():
    bot = Bot()
    assert call(bot, {"text": "a"}).data == 1
    assert api(bot).description == "Answers."
    assert call(bot.greet).text == "hello you"
    with_default = functools.partial(bot.greet, name="Ann")
    assert call(with_default).text == "hello Ann"
    assert api(with_default).description == "Greets."
    assert call(functools.partial(ask, text="b")).text == "asked: b"
    assert call(functools.partial(bot, text="b")).data == 2
    first = functools.partial(lambda a, b: [a, b], 1)
    assert call(first, {"b": 2}).data == [1, 2]
    assert call(lambda: ask("c")).text == "asked: c"


def positional(a, /):
    pass


def rest(*numbers: int):
    pass


def odd(thing: Odd):
    pass


def unresolved(thing: Nothing):  # noqa: F821
    pass


def yields():
    yield 1


async def yields_later():
    yield 1


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (positional, "takes a by position only"),
        (rest, r"takes \*numbers by position only"),
        (odd, "has parameters without a JSON Schema: Unable to generate pydantic-core schema"),
        (unresolved, "JSON Schema: name 'Nothing' is not defined"),
        (yields, "yields its results"),
        (yields_later, "yields its results"),
        (len, "takes obj by position only|has no signature"),
        (Place, "callables and no classes"),
        ("ask", "must be callables"),
    ],
)
def test_what_cannot_be_called_by_names_is_refused(function, said):
    with pytest.raises(InputError, match=said):
        FunctionSource("f", {"tool": function})


def test_a_default_that_json_cannot_hold_is_left_out():
    def find(what: str = "a", where: Any = Odd()):  # noqa: B008
        return what

    assert "default" not in api(find).parameters["properties"]["where"]
    assert call(find).text == "a"


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ([lambda: 1], "no name to be called by"),
        ([ask, ask], "duplicate function id 'ask'"),
        (ask, "must be several callables"),
        ({" ": ask}, "non-blank"),
    ],
)
def test_functions_without_a_name_of_their_own(functions, said):
    with pytest.raises(InputError, match=said):
        FunctionSource("f", functions)


def test_effects_are_given_by_tool():
    tools = FunctionSource("f", [ask, forecast], effects={"ask": "reads"})
    assert [each.effects for each in asyncio.run(tools.apis())] == ["reads", "unknown"]
    with pytest.raises(InputError, match="effects of 'ak', which is no function here"):
        FunctionSource("f", [ask], effects={"ak": "reads"})
    with pytest.raises(InputError, match="effects must be"):
        FunctionSource("f", [ask], effects={"ask": "read"})


def test_a_tool_that_is_not_there():
    with pytest.raises(UnknownApiError, match="did you mean 'f__ask'"):
        asyncio.run(source(ask).call(Call(api="f__aks")))


def pay(amount: int, idempotency_key: str):
    return [amount, idempotency_key]


def test_the_key_of_the_act_is_filled_in_and_not_shown():
    assert list(api(pay).parameters["properties"]) == ["amount"]
    assert api(pay).parameters["required"] == ["amount"]
    assert call(pay, {"amount": 3}, key="k1").data == [3, "k1"]
    result = call(pay, {"amount": 3, "idempotency_key": "other"}, key="k1")
    assert result.failure.kind == "inputs"


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        (None, "", None),
        ("sunny", "sunny", None),
        (21, "21", 21),
        ([Point(1.0)], '[{"x": 1.0, "y": 0.0}]', [{"x": 1.0, "y": 0.0}]),
        (Place(name="Å"), '{"name": "Å", "near": []}', {"name": "Å", "near": []}),
        ({"on": datetime.date(2026, 1, 2)}, '{"on": "2026-01-02"}', {"on": "2026-01-02"}),
    ],
)
def test_results(value, text, structured):
    result = call(lambda: value)
    assert result.is_done
    assert (result.text, result.structured) == (text, structured)
    assert result.n_bytes == len(text.encode())
    assert result.seconds > 0


def test_bytes_and_attachments_and_results_of_ones_own():
    assert call(lambda: b"\x00\x01").attachments == (
        Attachment("application/octet-stream", b"\x00\x01"),
    )
    image = Attachment("image/png", b"png")
    assert call(lambda: image).attachments == (image,)
    assert call(lambda: CallResult("one", structured=Point(1.0))).structured == {"x": 1.0, "y": 0.0}
    own = call(lambda: CallResult.failed("busy", "come again", text="!"))
    assert (own.failure.kind, own.text) == ("busy", "!")


@pytest.mark.parametrize(
    "value",
    [
        Odd(),
        float("nan"),
        itertools.count(),
        {1: object()},
        CallResult(structured=Odd()),
        (i for i in "ab"),
    ],
)
def test_a_result_that_json_cannot_hold_is_unusable(value):
    result = call(lambda: value)
    assert result.failure.kind == "unusable"
    assert f"returned a {type(value).__name__}, which" in result.failure.message


def test_a_result_that_is_too_large_is_cut():
    tools = FunctionSource(
        "f", {"text": lambda: "é" * 100, "list": lambda: ["a"] * 100}, max_bytes=99
    )
    text, listed = (asyncio.run(tools.call(Call(api=f"f__{n}"))) for n in ("text", "list"))
    assert (text.text, text.n_bytes, text.is_cut) == ("é" * 49, 200, True)
    assert (listed.structured, listed.n_bytes, listed.is_cut) == (None, 500, True)
    both = FunctionSource(
        "f",
        {
            "a": lambda: CallResult(
                "a", attachments=(Attachment("b", b"1"), Attachment("c", b"234"))
            )
        },
        max_bytes=2,
    )
    result = asyncio.run(both.call(Call(api="f__a")))
    assert [len(each.data) for each in result.attachments] == [1, 0]
    assert (result.text, result.n_bytes, result.is_cut) == ("a", 5, True)


def test_half_of_a_surrogate_pair_does_not_come_through():
    assert call(lambda: "a\ud800").text == "a?"


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError


def raising(error):
    def fail():
        raise error

    async def fail_later():
        raise error

    return fail, fail_later


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (ValueError("no such place"), "tool", "ValueError: no such place"),
        (KeyError(), "tool", "KeyError"),
        (PermissionError("not yours"), "permission", "PermissionError: not yours"),
        (TimeoutError("the server slept"), "tool", "TimeoutError: the server slept"),
        (ConnectionResetError("gone"), "tool", "ConnectionResetError: gone"),
        (UnprintableError(), "tool", "UnprintableError"),
        (SystemExit(3), "tool", "SystemExit: 3"),
        (asyncio.CancelledError(), "tool", "CancelledError"),
        (ValueError("x" * 10_000), "tool", f"ValueError: {'x' * 1988}"),
    ],
)
def test_what_a_function_raises_is_a_failure(which, error, kind, said):
    result = call(raising(error)[which])
    assert (result.failure.kind, result.failure.message) == (kind, said)
    unsure = isinstance(error, TimeoutError | ConnectionError | PermissionError)
    assert result.failure.was_done == ("unknown" if unsure else "no")


def test_a_plain_function_does_not_hold_up_the_others():
    gate = threading.Event()

    async def both():
        tools = source(wait=lambda: gate.wait(10), open=gate.set)
        async with asyncio.timeout(5):
            return await asyncio.gather(
                tools.call(Call(api="f__wait")), tools.call(Call(api="f__open"))
            )

    assert [result.is_done for result in asyncio.run(both())] == [True, True]


def test_a_plain_function_that_hangs_is_left_behind_and_still_counts():
    gate = threading.Event()
    tools = FunctionSource("f", {"hang": lambda: gate.wait(10)})
    tools.max_concurrency = 1  # as a file of sources does

    async def calls():
        first = await tools.call(Call(api="f__hang", timeout=0.05))
        second = await tools.call(Call(api="f__hang", timeout=0.05))
        gate.set()
        third = await tools.call(Call(api="f__hang", timeout=5))
        return first, second, third

    first, second, third = asyncio.run(calls())
    assert (first.failure.kind, first.failure.was_done) == ("timeout", "unknown")
    assert (second.failure.kind, second.failure.was_done) == ("busy", "no")
    assert "1 earlier calls still run" in second.failure.message
    assert third.data is True


def test_an_asynchronous_function_that_hangs_is_cancelled():
    ended = []

    async def hang():
        try:
            await asyncio.sleep(10)
        finally:
            ended.append(True)

    result = call(hang, timeout=0.05)
    assert (result.failure.kind, ended) == ("timeout", [True])


@pytest.mark.parametrize("plain", [True, False])
def test_the_caller_can_give_up_and_call_again(plain):
    gate = threading.Event()
    begun = threading.Event()

    def wait(once: bool = True):
        begun.set()
        return gate.wait(10 if once else 0)

    async def wait_later(once: bool = True):
        begun.set()
        await asyncio.sleep(10 if once else 0)

    async def give_up():
        tools = source(tool=wait if plain else wait_later)
        task = asyncio.create_task(tools.call(Call(api="f__tool")))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await tools.call(Call(api="f__tool", inputs={"once": False}))

    assert asyncio.run(give_up()).is_done
    gate.set()


def test_a_thread_that_ends_after_its_loop_does_no_harm():
    gate, done = threading.Event(), threading.Event()

    def late():
        gate.wait(10)
        done.set()

    assert call(late, timeout=0.01).failure.kind == "timeout"
    before = threading.active_count()
    gate.set()
    assert done.wait(5)
    while threading.active_count() >= before:  # an exception in it would fail the test
        pass


def test_many_at_once():
    async def gathered():
        tools = FunctionSource("f", {"add": lambda a, b: a + b}, max_concurrency=4)
        calls = (tools.call(Call(api="f__add", inputs={"a": n, "b": 1})) for n in range(50))
        return await asyncio.gather(*calls)

    assert [result.data for result in asyncio.run(gathered())] == list(range(1, 51))


def test_a_function_that_hangs_does_not_keep_the_process_from_ending():
    code = (
        "import asyncio, time\n"
        "from cnp_router.sources import Call, FunctionSource\n"
        "source = FunctionSource('f', {'hang': lambda: time.sleep(60)})\n"
        "print(asyncio.run(source.call(Call(api='f__hang', timeout=0.05))).failure.kind)\n"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert (done.stdout, done.stderr) == ("timeout\n", "")


MODULE = '''
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Box:
    size: int

def volume(box: Box) -> int:
    """Measures."""
    return box.size ** 3

hidden = 3
'''


@pytest.fixture
def module(tmp_path):
    (tmp_path / "tools.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("cnp_router_functions_boxes", None)


def test_an_entry_of_a_file_of_sources(module):
    fields = {"module": "tools.py", "functions": ["volume"]}
    boxes = FunctionSource.from_entry("boxes", fields, folder=module, trusted=False)
    assert asyncio.run(boxes.call(Call(api="boxes__volume", inputs={"box": {"size": 2}}))).data == 8


def test_an_entry_that_names_an_installed_module(tmp_path):
    fields = {"module": "statistics", "functions": ["fmean"]}
    numbers = FunctionSource.from_entry("numbers", fields, folder=tmp_path)
    mean = Call(api="numbers__fmean", inputs={"data": [1, 2]})
    assert asyncio.run(numbers.call(mean)).data == 1.5


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"module": "tools.py"}, "'functions' of source 'boxes' must be a list"),
        ({"module": "tools.py", "functions": []}, "'functions' of source 'boxes' must be a list"),
        ({"module": "tools.py", "functions": [3]}, "'functions' of source 'boxes' must be a list"),
        ({"functions": ["a"]}, "'module' of source 'boxes' must be a string, got None"),
        ({"module": "tools.py", "functions": ["a"]}, "has no function 'a'"),
        ({"module": "tools.py", "functions": ["hidden"]}, "has no function 'hidden'"),
        ({"module": "none.py", "functions": ["a"]}, "there is no file '.*none.py'"),
        ({"module": "no_such_module_x", "functions": ["a"]}, "cannot be imported: ModuleNotFound"),
        ({"module": "a", "functions": ["a"], "functons": []}, "unknown field 'functons'"),
    ],
)
def test_an_entry_that_is_wrong(module, fields, said):
    with pytest.raises(InputError, match=said):
        FunctionSource.from_entry("boxes", fields, folder=module)


@pytest.mark.parametrize("code", ["1/0", "raise SystemExit(1)", "def f(:"])
def test_a_module_that_fails_while_it_is_imported(module, code):
    (module / "tools.py").write_text(code)
    fields = {"module": "tools.py", "functions": ["a"]}
    with pytest.raises(InputError, match="cannot be imported: "):
        FunctionSource.from_entry("boxes", fields, folder=module)
    assert "cnp_router_functions_boxes" not in sys.modules


def test_a_module_beside_it_is_found_where_python_looks(module, monkeypatch):
    (module / "beside_the_tools.py").write_text("NAME = 'x'\n")
    (module / "tools.py").write_text("from beside_the_tools import NAME\ndef a(): return NAME\n")
    fields = {"module": "tools.py", "functions": ["a"]}
    said = r"No module named.*\(beside_the_tools.py is beside it: add its folder to PYTHONPATH"
    with pytest.raises(InputError, match=said):
        FunctionSource.from_entry("boxes", fields, folder=module)
    monkeypatch.syspath_prepend(module)
    FunctionSource.from_entry("boxes", fields, folder=module)
    del sys.modules["beside_the_tools"]


def test_what_a_function_says_it_returns_is_a_schema_of_results():
    @dataclass
    class Person:
        email: str

    def find(name: str) -> Person:
        return Person(name)

    def text(name: str) -> str:
        return name

    def result(name: str) -> CallResult:
        return CallResult(name)

    def open_(name: str):
        return name

    def strange(name: str) -> threading.Lock:
        raise NotImplementedError

    find.__annotations__["return"] = Person
    tools = FunctionSource("t", [find, text, result, open_, strange])
    known = {api.name: api.returns for api in asyncio.run(tools.apis())}
    assert known.pop("find")["properties"] == {"email": {"title": "Email", "type": "string"}}
    assert set(known.values()) == {None}
