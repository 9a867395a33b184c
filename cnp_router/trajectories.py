"""`Step` and `Trajectory`: what an agent did for a goal, tool by tool, and their files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import read_json, write_jsonl
from cnp_router.records import (
    Record,
    check_flag,
    check_id,
    check_number,
    check_text,
    check_user,
    instances,
    json_object,
    read_records,
    shown,
)

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


@dataclass(frozen=True, slots=True, repr=False)
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
    category : str or None, default=None
        Of what the tool was asked for, as it was judged then; None if nobody did. The step holds
        it so that what is learned from it does not depend on a catalog of today.

    Raises
    ------
    InputError
        If the tool's id cannot be used, a value is of another type, or an amount is out of range.
        What a tool was given or returned may be anything, so that a run can go on; what JSON or
        UTF-8 cannot hold is refused where it is written or observed.

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
    category: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool", check_id("tool", self.tool))
        if not isinstance(self.inputs, dict) or not all(isinstance(k, str) for k in self.inputs):
            raise InputError(f"inputs must be an object with string keys, got {shown(self.inputs)}")
        check_text("observation", self.observation, any_=True)
        for name, whole in (("input_tokens", True), ("output_tokens", True), ("seconds", False)):
            amount = check_number(name, getattr(self, name), 0, _MOST, whole=whole)
            object.__setattr__(self, name, amount)
        if self.success is not None:
            check_flag("success", self.success)
        if self.category is not None:
            object.__setattr__(self, "category", check_id("category", self.category))

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this step, as in ``trajectories.jsonl``."""
        return json_object(self, inputs=dict(self.inputs))

    def __repr__(self) -> str:
        return f"Step({self.tool!r}, {shown(self.inputs)}, {shown(self.observation)})"


@dataclass(frozen=True, slots=True, repr=False)
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
    user : str or None, default=None
        Whose it is, so that a user's records can be forgotten. Nothing is learned from it.

    Raises
    ------
    InputError
        If the id cannot be used, or a value is of another type.

    Examples
    --------
    >>> Trajectory("t1", "Warn me of rain.", (Step("weather"), Step("sms"))).tools
    ('weather', 'sms')
    """

    id: str
    goal: str
    steps: tuple[Step, ...]
    success: bool | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", check_id("trajectory", self.id))
        check_text("goal", self.goal, any_=True)
        object.__setattr__(self, "steps", instances("steps", self.steps, Step))
        if self.success is not None:
            check_flag("success", self.success)
        if self.user is not None:
            check_user(self.user)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tool of each step."""
        return tuple(step.tool for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this trajectory, as in ``trajectories.jsonl``."""
        return json_object(self, steps=[step.to_dict() for step in self.steps])

    def __repr__(self) -> str:
        return f"Trajectory({self.id!r}, {shown(self.goal)}, {len(self.steps)} steps)"


def read_trajectories(path: str | Path | Iterable[str | Path]) -> tuple[Trajectory, ...]:
    """Read trajectories from one or more JSON Lines files.

    Parameters
    ----------
    path : str, Path or iterable of them
        Each line ``{"id", "goal", "steps": [{"tool", "inputs"?, "observation"?,
        "input_tokens"?, "output_tokens"?, "seconds"?, "success"?, "category"?}], "success"?,
        "user"?}``.
        Other keys are ignored.

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
    return tuple(trajectory for _, trajectory in read_records(path, "trajectory", parse_trajectory))


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
        problem = f"expected the JSON object of a trajectory, got {shown(fields)}"
        raise DataFileError(path, problem, cure='write {"id": ..., "goal": ..., "steps": [...]}')
    return parse_trajectory(Record(fields, path, None))


def _not_one(path: str | Path, trouble: DataFileError) -> DataFileError:
    """Return the error of a file that is not one JSON document: perhaps it holds several."""
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
        If the place cannot be written.

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


def parse_trajectory(record: Record) -> Trajectory:
    """Return the trajectory in a record of a file, or raise DataFileError."""

    def steps(value: Any) -> tuple[Step, ...]:
        if not isinstance(value, list) or not all(isinstance(step, dict) for step in value):
            raise record.error(
                f"field 'steps' must be a list of objects, got {shown(value)}",
                cure='write {"tool": ...} for each step',
            )
        return tuple(
            Record(step, record.path, record.line, entry=n).make(Step)
            for n, step in enumerate(value, 1)
        )

    return record.make(Trajectory, steps=steps)
