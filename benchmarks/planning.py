"""Timetables by ReAct, Plan-and-Execute and a solver: rules broken, calls repeated, tokens, price.

The models are scripted and make mistakes by a seed; no language model is asked. The tool books
whatever it is told: only the engine keeps the rules. What was broken is counted from the calls
that the tool saw and from the timetable at the end, by a check that knows nothing of the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.planning_students import MISTAKES, PlanningStudent, SearchingStudent
from benchmarks.report import environment, heading, table
from cnp_router.catalog import Catalog
from cnp_router.constraints import solve
from cnp_router.exceptions import InfeasibleError
from cnp_router.execution import ExecutionSettings, Executor, Job, Plan, allow_writes
from cnp_router.files import read_jsonl
from cnp_router.llm import Prices
from cnp_router.planning import PlanAndExecute, Planner, ReAct, Run, Workspace
from cnp_router.planning.proven import ProvenPlans, named_values
from cnp_router.protocols import ContractNet, Ledger, ModelCall
from cnp_router.sources import Call, CallResult, Sources
from cnp_router.timetable import DAYS, Course, Form, Liking, load_courses
from cnp_router.timetable.board import Board
from cnp_router.timetable.timetable_tools import TimetableTools

__all__ = ["audit", "forms", "run"]

FORMS = 12
EACH = 2  # requests of each form: one whose model finishes, one whose model never does
TURNS = 40  # of an executor for a job; twice that of an agent for all
PRICES = Path(__file__).with_name("assumed_prices.json")
PAIRS = Path(__file__).with_name("proven_requests.jsonl")

_TOPICS = (
    "statistics", "programming", "film", "law", "history", "ecology", "music", "finance",
    "languages", "psychology", "philosophy", "health",
)  # fmt: skip
_FIELDS = ("method", "requests", "rules_broken", "repeated_calls", "double_bookings", "tokens")


class Register(TimetableTools):
    """The tools of a timetable, which book whatever they are told and write down each call.

    Attributes
    ----------
    seen : list of (str, dict, bool)
        API, inputs, and whether it succeeded.
    booked : list of str
        Ids of courses.
    """

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self.seen: list[tuple[str, dict[str, Any], bool]] = []
        self.booked = [course.id for course in board.chosen]

    async def call(self, call: Call) -> CallResult:
        """Do what is asked, and write it down."""
        inputs = dict(call.inputs)
        if call.api == "timetable__add":
            course_id = str(inputs.get("course_id"))
            self.booked.append(course_id)
            if self.board.reason_against(course_id) is None:
                self.board.add(course_id)
            result = CallResult(json.dumps({"added": course_id}))
        elif call.api == "timetable__finish":
            result = CallResult(json.dumps({"finished": True}))
        else:
            result = await super().call(call)
        self.seen.append((call.api, inputs, result.failure is None))
        return result


class Blind(Workspace):
    """A board whose rules forbid nothing, and that is done when the tool was told to finish.

    For the comparison: what the same models do where the engine keeps no rules.
    """

    def __init__(self, register: Register) -> None:
        self.register = register

    def state(self) -> dict[str, Any]:
        """Return the state of the board."""
        return self.register.board.state()

    def refusal(self, api: str, inputs: Mapping[str, Any]) -> str | None:
        """Return that nothing is forbidden."""
        return None

    def unmet(self) -> tuple[str, ...]:
        """Return what the board misses, until somebody finishes."""
        is_finished = any(api == "timetable__finish" for api, *_ in self.register.seen)
        return () if is_finished else self.register.board.unmet()


def forms(courses: Sequence[Course], seed: int, n: int = FORMS) -> Iterator[Form]:
    """Yield forms that a timetable exists for, different for each seed."""
    rng = random.Random(seed)
    departments = sorted({course.department for course in courses})
    while n:
        low = rng.choice((8.0, 10.0, 12.0))
        free_days: tuple[bool | str, ...] = (True, False, *DAYS)
        form = Form(
            department=rng.choice(departments),
            year=rng.randrange(1, 4),
            min_credits=low,
            max_credits=low + rng.choice((2.0, 4.0)),
            first_period=rng.random() < 0.5,
            gaps=rng.random() < 0.7,
            free_day=rng.choice(free_days),
            interests=", ".join(rng.sample(_TOPICS, 2)),
            avoid=tuple(rng.sample(("Mon 2", "period 5", "Thu 3", "Wed 4"), rng.randrange(3))),
            max_per_day=rng.choice((None, 3, 4)),
            forms=Liking(excluded=rng.choice(((), ("laboratory",), ("online",)))),
        )
        try:
            Board(courses, form=form)
        except InfeasibleError:
            continue
        n -= 1
        yield form


def audit(
    seen: Iterable[tuple[str, dict[str, Any], bool]],
    booked: Sequence[str],
    form: Form,
    courses: Sequence[Course],
    *,
    is_done: bool,
) -> dict[str, list[str]]:
    """Return what was broken, repeated and booked twice, from the calls and the timetable alone.

    What only a whole timetable can break (credits that are missing, gaps) counts where the method
    says that it is done.
    """
    by_id = {course.id: course for course in courses}
    found: dict[str, list[str]] = {"rules_broken": [], "repeated_calls": [], "double_bookings": []}
    before = set()
    for api, inputs, succeeded in seen:
        key = _same(api, inputs)
        if key in before:
            found["repeated_calls"].append(key)
        if succeeded:
            before.add(key)
    mine = [by_id[each] for each in booked if each in by_id]
    found["rules_broken"] += [f"no course {each}" for each in booked if each not in by_id]
    places = Counter(course.slot for course in mine if course.slot)
    names = Counter(course.name for course in mine)
    twice = [f"{slot}: {count} courses" for slot, count in places.items() if count > 1]
    found["double_bookings"] += twice
    found["rules_broken"] += twice
    found["rules_broken"] += [f"{name} twice" for name, count in names.items() if count > 1]
    total = sum(course.credits for course in mine)
    finished = any(api == "timetable__finish" for api, *_ in seen)
    if total > (form.max_credits or 0):
        found["rules_broken"].append(f"{total} credits")
    if (is_done or finished) and total < (form.min_credits or 0):
        found["rules_broken"].append(f"finished with {total} credits")
    for course in mine:
        found["rules_broken"] += _wrong_with(course, form)
    by_day = {day: sorted(int(s[4:]) for s in places if s[:3] == day) for day in DAYS}
    if form.free_day is True and all(by_day.values()):
        found["rules_broken"].append("no free day")
    for day, periods in by_day.items():
        if day == form.free_day and periods:
            found["rules_broken"].append(f"{day} is not free")
        if form.max_per_day is not None and len(periods) > form.max_per_day:
            found["rules_broken"].append(f"{len(periods)} courses on {day}")
        gap = periods and periods[-1] - periods[0] + 1 > len(periods)
        if is_done and not form.gaps and gap:
            found["rules_broken"].append(f"a gap on {day}")
    return found


def _same(api: str, inputs: Mapping[str, Any]) -> str:
    """Return one text for all spellings of a call, found in another way than the engine does.

    What stands for nothing said is left out: the defaults of all these tools are such values.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(each) for each in value]
        if isinstance(value, str):
            return unicodedata.normalize("NFD", value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return repr(float(value)) if is_number else value

    said = [(name, plain(value)) for name, value in inputs.items() if value or value == []]
    return json.dumps([api, sorted(said)])


def _wrong_with(course: Course, form: Form) -> Iterator[str]:
    """Yield the rules that a course breaks by itself."""
    if form.year not in course.years:
        yield f"{course.id} is not for year {form.year}"
    if course.slot and course.slot.endswith(" 1") and not form.first_period:
        yield f"{course.id} is in the first period"
    for avoided in form.avoid:
        number = avoided.removeprefix("period ")
        if course.slot and (course.slot == avoided or course.slot[4:] == number):
            yield f"{course.id} is at {avoided}"
    if course.form in form.forms.excluded:
        yield f"{course.id} is a {course.form}"


def request_of(form: Form) -> str:
    """Return the request that a form goes with; the topics in quotes are the interests."""
    topics = " and ".join(f'"{topic}"' for topic in (form.interests or "").split(", "))
    return f"Make my timetable of {form.min_credits:g} credits or a little more, with {topics}."


def profile_of(form: Form) -> str:
    """Return what is known of the student."""
    return f"Year {form.year}, {form.department}. Interested in {form.interests}."


async def one(
    method: str,
    form: Form,
    courses: tuple[Course, ...],
    number: int,
    *,
    seed: int,
    keeps_rules: bool = True,
) -> tuple[Run, Register, SearchingStudent]:
    """Serve one request; return the run, the register and the scripted model."""
    board = Board(courses, form=form)
    register = Register(board)
    is_planned = method == "plan-and-execute"
    student = SearchingStudent(
        courses,
        seed * 1_000 + number,
        finishes=number % EACH == 0,
        name="scripted-small" if is_planned else "scripted-large",
    )
    settings = ExecutionSettings(wait=(0, 0), repeat_calls=not keeps_rules)
    async with Sources([register]) as sources:
        net = ContractNet(Catalog(await register.apis()), student)
        executor = Executor(net, sources, approve=allow_writes, settings=settings)
        request, profile = request_of(form), profile_of(form)
        workspace = board if keeps_rules else Blind(register)
        if is_planned:
            planner = Planner(PlanningStudent(form, number))
            planned = PlanAndExecute(planner, executor, max_turns=TURNS)
            run = await planned.run(request, workspace=workspace, profile=profile)
        else:
            react = ReAct(executor, max_turns=2 * TURNS)
            run = await react.run(request, workspace=workspace, profile=profile)
    student.end()
    return run, register, student


def measure(
    method: str,
    all_forms: Sequence[Form],
    courses: tuple[Course, ...],
    seed: int,
    *,
    keeps_rules: bool = True,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row of a method, and what else is known of it."""
    wrong, mistakes, kinds, tokens = (Counter[str]() for _ in range(4))
    calls: list[ModelCall] = []
    gains, seconds, n_done = [], [], 0
    numbered = list(enumerate(form for form in all_forms for _ in range(EACH)))
    for number, form in numbered:
        began = time.perf_counter()
        if method == "solver":
            seen, booked, is_done = [], list(solve(form.rules(courses)).items), True
        else:
            one_run = one(method, form, courses, number, seed=seed, keeps_rules=keeps_rules)
            run, register, student = asyncio.run(one_run)
            seen, booked, is_done = register.seen, register.booked, run.is_done
            mistakes.update(student.mistakes)
            kinds.update(run.counts)
            tokens.update(run.tokens_by_role)
            calls += run.model_calls
        seconds.append(time.perf_counter() - began)
        found = audit(seen, booked, form, courses, is_done=is_done)
        wrong.update({name: len(each) for name, each in found.items()})
        n_done += is_done
        problem = form.rules(courses)
        gains.append(sum(p.gain(set(booked)) for p in problem.preferences) / solve(problem).value)
    n = len(numbered)
    counts = [wrong[name] for name in _FIELDS[2:5]]
    row = dict(zip(_FIELDS, [method, n, *counts, sum(tokens.values())], strict=True))
    prices, total = Prices.read(PRICES), Ledger.of((), calls).usage
    return row, {
        "completion": n_done / n,
        "gain_of_best": statistics.mean(gains),
        "mistakes": {kind: mistakes[kind] for kind in MISTAKES},
        "turns": dict(kinds),
        "tokens_by_role": dict(tokens),
        "assumed_price": prices.bill(calls).to_dict(),
        "assumed_price_all_small": prices.price("scripted-small", total),
        "median_seconds": statistics.median(seconds),
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print all methods, and the threshold of proven plans."""
    courses = load_courses()
    all_forms = list(forms(courses, options.seed, options.forms))
    facts = environment(options.seed)
    heading(f"{len(all_forms) * EACH} requests for a timetable of {len(courses)} courses", facts)
    print(
        "Scripted models with seeded mistakes stand in for language models. Prices are assumed: "
        f"{PRICES.name}. Tokens are estimated.\n"
    )
    rows, more = [], {}
    for method in ("react", "plan-and-execute", "solver"):
        row, more[method] = measure(method, all_forms, courses, options.seed)
        rows.append(row)
    table([list(_FIELDS), *([str(value) for value in row.values()] for row in rows)])
    _print_more(more)
    print("The same models and tools where the engine keeps no rules:\n")
    without = [
        measure(method, all_forms, courses, options.seed, keeps_rules=False)[0]
        for method in ("react", "plan-and-execute")
    ]
    table([list(_FIELDS), *([str(value) for value in row.values()] for row in without)])
    proven = thresholds()
    print("Plans that have worked, offered for requests that are nearly the same or are not:\n")
    head = ["likeness", "same: offered", "of", "other: offered", "of"]
    table([head, *([str(value) for value in each.values()] for each in proven)])
    return {"facts": facts, "rows": rows, "more": more, "without_rules": without, "proven": proven}


def _print_more(more: dict[str, Any]) -> None:
    head = [
        "method",
        "done, %",
        "gain, % of best",
        *MISTAKES,
        "USD, assumed",
        "by role",
        "all by the small model",
        "s",
    ]
    lines = [head]
    for method, each in more.items():
        bill = each["assumed_price"]
        by_role = ", ".join(f"{role} {price:.4f}" for role, price in bill["by_role"].items())
        lines.append(
            [
                method,
                f"{100 * each['completion']:.0f}",
                f"{100 * each['gain_of_best']:.0f}",
                *(str(each["mistakes"][kind]) for kind in MISTAKES),
                f"{bill['total']:.4f}",
                by_role,
                f"{each['assumed_price_all_small']:.4f}",
                f"{each['median_seconds']:.2f}",
            ]
        )
    print("Mistakes that the scripted models made, and what that came to (median seconds a run):\n")
    table(lines)


def thresholds() -> list[dict[str, Any]]:
    """Return, by least likeness, how many near-repeats and how many others are offered a plan."""
    pairs = [fields for _, fields in read_jsonl(PAIRS)]
    rows = []
    for least in (0.5, 0.6, 0.7, 0.75, 0.8, 0.9):
        offered: Counter[bool] = Counter()
        for pair in pairs:
            # Inputs that have all the values, and no other word: the hardest plan to tell apart.
            values = [str(v) for each in named_values(pair["before"]).values() for v in each]
            job = Job("all", api="any__tool", inputs={"values": values})
            with tempfile.TemporaryDirectory() as folder:
                proven = ProvenPlans(Path(folder, "plans.jsonl"), least=least)
                proven.keep(Plan(pair["before"], (job,)))
                offered[pair["same"]] += proven.near(pair["now"]) is not None
        of = Counter(pair["same"] for pair in pairs)
        rows.append(
            {
                "likeness": least,
                "same_offered": offered[True],
                "same": of[True],
                "other_offered": offered[False],
                "other": of[False],
            }
        )
    return rows
