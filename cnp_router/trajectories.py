"""`Step` and `Trajectory`: what an agent did for a goal, tool by tool, and their files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import read_json, read_jsonl, write_jsonl
from cnp_router.records import Record, check_id

__all__ = [
    "Step",
    "Trajectory",
    "parse_trajectory",
    "read_trajectories",
    "read_trajectory",
    "write_trajectories",
]

# Of tokens and of seconds in one step, so that the sums of any log stay finite.
_MOST = 10**12


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call of an agent.

    Parameters
    ----------
    tool : str
        Id of the tool.
    inputs : dict of str to JSON value, default={}
        What the tool was called with.
    observation : str, default=""
        What came back, as the agent saw it.
    input_tokens, output_tokens : int in [0, 10**12], default=0
        Of the model call that chose this step.
    seconds : float in [0, 10**12], default=0.0
        Duration of that model call.
    success : bool or None, default=None
        Whether the step succeeded; None if nobody said.

    Raises
    ------
    InputError
        If the tool is blank, the observation or the inputs are of another type, or an amount is
        out of range.

    Examples
    --------
    >>> Step("weather", {"city": "Kyoto"}, "rain", input_tokens=120, output_tokens=9).tokens
    129
    """

    tool: str
    inputs: dict[str, Any] = field(default_factory=dict)
    observation: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    success: bool | None = None

    def __post_init__(self) -> None:
        check_id("tool", self.tool)
        if not isinstance(self.observation, str):
            raise InputError(f"observation must be a string, got {_shown(self.observation)}")
        if not isinstance(self.inputs, dict) or not all(isinstance(k, str) for k in self.inputs):
            raise InputError(f"inputs must be a dict with string keys, got {_shown(self.inputs)}")
        for name in ("input_tokens", "output_tokens", "seconds"):
            value = getattr(self, name)
            if not 0 <= value <= _MOST:
                raise InputError(f"{name} must be a number from 0 to 10^12, got {_shown(value)}")

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this step, as in ``trajectories.jsonl``."""
        record: dict[str, Any] = {
            "tool": self.tool,
            "inputs": dict(self.inputs),
            "observation": self.observation,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "seconds": self.seconds,
        }
        if self.success is not None:
            record["success"] = self.success
        return record


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One run of an agent: its goal and its steps, in order.

    Parameters
    ----------
    id : str
    goal : str
        In plain language, as the agent was given it.
    steps : tuple of Step
        Possibly empty.
    success : bool or None, default=None
        Whether the goal was reached; None if nobody said.

    Raises
    ------
    InputError
        If the id is blank.

    Examples
    --------
    >>> Trajectory("t1", "Warn me of rain.", (Step("weather"), Step("sms"))).tools
    ('weather', 'sms')
    """

    id: str
    goal: str
    steps: tuple[Step, ...]
    success: bool | None = None

    def __post_init__(self) -> None:
        check_id("trajectory", self.id)
        object.__setattr__(self, "steps", tuple(self.steps))

    @property
    def tools(self) -> tuple[str, ...]:
        """The tool of each step."""
        return tuple(step.tool for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this trajectory, as in ``trajectories.jsonl``."""
        record: dict[str, Any] = {
            "id": self.id,
            "goal": self.goal,
            "steps": [step.to_dict() for step in self.steps],
        }
        if self.success is not None:
            record["success"] = self.success
        return record


def read_trajectories(path: str | Path | Iterable[str | Path]) -> tuple[Trajectory, ...]:
    """Read trajectories from one or more JSON Lines files.

    Parameters
    ----------
    path : str, Path or iterable of them
        Each line ``{"id", "goal", "steps": [{"tool", "inputs"?, "observation"?,
        "input_tokens"?, "output_tokens"?, "seconds"?, "success"?}], "success"?}``. Other keys
        are ignored.

    Returns
    -------
    tuple of Trajectory
        In the order of the files and lines.

    Raises
    ------
    DataFileError
        With the line number and the cure; also if two trajectories have the same id.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "trajectories.jsonl")
    >>> _ = file.write_text('{"id": "t1", "goal": "Rain?", "steps": [{"tool": "weather"}]}')
    >>> read_trajectories(file)[0].steps[0].tool
    'weather'
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    trajectories: list[Trajectory] = []
    first_seen: dict[str, str] = {}
    for file in paths:
        for line, fields in read_jsonl(file):
            trajectory = parse_trajectory(fields, file, line)
            if trajectory.id in first_seen:
                raise DataFileError(
                    file,
                    f"duplicate trajectory id {trajectory.id!r}, "
                    f"first in {first_seen[trajectory.id]}",
                    line=line,
                    cure="ids must be unique",
                )
            first_seen[trajectory.id] = f"{file}, line {line}"
            trajectories.append(trajectory)
    return tuple(trajectories)


def read_trajectory(path: str | Path) -> Trajectory:
    """Read the one trajectory of a file, such as the steps of a run so far.

    Parameters
    ----------
    path : str or Path
        JSON Lines with one line, or one JSON document of any layout; keys as for
        `read_trajectories`.

    Raises
    ------
    DataFileError
        If there is not exactly one, or it is not as it should be.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "run.json")
    >>> _ = file.write_text('{"id": "t1", "goal": "Rain?", "steps": [{"tool": "weather"}]}')
    >>> read_trajectory(file).tools
    ('weather',)
    """
    try:
        fields = read_json(path)
    except DataFileError as exc:
        raise _not_one(path, exc) from None
    if not isinstance(fields, dict):
        problem = f"expected the JSON object of a trajectory, got {_shown(fields)}"
        raise DataFileError(path, problem, cure='write {"id": ..., "goal": ..., "steps": [...]}')
    return parse_trajectory(fields, path, None)


def _not_one(path: str | Path, trouble: DataFileError) -> DataFileError:
    """Return the error of a file that is no JSON document: perhaps it holds several."""
    try:
        n = len(read_trajectories(path))
    except DataFileError:
        return trouble
    return DataFileError(path, f"holds {n} trajectories", cure="give a file with one")


def write_trajectories(path: str | Path, trajectories: Iterable[Trajectory]) -> None:
    """Write trajectories as JSON Lines, atomically.

    Raises
    ------
    DataFileError
        If the place cannot be written, or a trajectory not be written as JSON.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "trajectories.jsonl")
    >>> trajectories = (Trajectory("t1", "Rain?", (Step("weather", {"city": "Kyoto"}, "no"),)),)
    >>> write_trajectories(file, trajectories)
    >>> read_trajectories(file) == trajectories
    True
    """
    write_jsonl(path, (trajectory.to_dict() for trajectory in trajectories))


def parse_trajectory(fields: dict[str, Any], path: str | Path, line: int | None) -> Trajectory:
    """Return the trajectory in a JSON object of a file, or raise DataFileError."""
    record = Record(fields, path, line)
    goal, steps = record.text("goal"), fields.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise record.error(
            f"field 'steps' must be a list of objects, got {_shown(steps)}",
            cure='write {"tool": ...} for each step',
        )
    return Trajectory(
        id=record.identifier("id"),
        goal=goal,
        steps=tuple(_parse_step(s, Record(s, path, line, entry=n)) for n, s in enumerate(steps, 1)),
        success=_outcome(fields, record),
    )


def _parse_step(fields: dict[str, Any], record: Record) -> Step:
    return Step(
        tool=record.identifier("tool"),
        inputs=record.mapping("inputs") or {},
        observation=record.text("observation", default=""),
        input_tokens=_tokens("input_tokens", fields, record),
        output_tokens=_tokens("output_tokens", fields, record),
        seconds=_seconds("seconds", fields, record),
        success=_outcome(fields, record),
    )


def _tokens(key: str, fields: dict[str, Any], record: Record) -> int:
    value = fields.get(key)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise record.error(
            f"field {key!r} must be a whole number from 0 to 10^12, got {_shown(value)}"
        )
    return value


def _seconds(key: str, fields: dict[str, Any], record: Record) -> float:
    value = fields.get(key)
    if value is None:
        return 0.0
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= _MOST:
        raise record.error(f"field {key!r} must be a number from 0 to 10^12, got {_shown(value)}")
    return float(value)


def _outcome(fields: dict[str, Any], record: Record) -> bool | None:
    return None if fields.get("success") is None else record.flag("success")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
