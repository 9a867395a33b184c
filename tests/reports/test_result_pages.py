"""Pages of executions, runs, plans, rounds and replayed logs."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from hostile_results import SECRET, execution_of, round_of

from cnp_router import Catalog, ContractNet, fit_router, load_sample, offline_model, prequential
from cnp_router.catalog import Api
from cnp_router.evaluation import Comparison, Evaluation, PrequentialEvaluation
from cnp_router.evaluation.prequential import THRESHOLDS
from cnp_router.execution import Act, Execution, JobReport, Plan
from cnp_router.planning import AgentTurn, Run
from cnp_router.protocols import Outcome, Transcript
from cnp_router.protocols.messages import Request
from cnp_router.reports import rendered, write_html
from cnp_router.reports.writing import PAGES
from cnp_router.sources import CallResult
from cnp_router.trajectories import Step, Trajectory
from tests.reports.report_pages import HOSTILE, comparison

KEY = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz-0123456789"  # of nobody
EMPTY = Execution("e1", "Rain?", None, (), (), 0.1, "nothing was awarded")


def page_of(result, **context):
    return PAGES[type(result)](result, **context)


def section(page, title):
    return next(each for each in page.sections if each.title == title)


@pytest.fixture(scope="module")
def outcome():
    sample = load_sample()
    router = fit_router(sample.catalog, sample.history[:100])
    net = ContractNet(sample.catalog, offline_model(sample.catalog), router=router)
    return net.run_sync("Text me when it rains.", protocol="contractor-led")


@pytest.fixture(scope="module")
def replayed():
    steps = tuple(Step(tool, input_tokens=10) for tool in ("weather", "sms", "weather", "sms"))
    return prequential(None, [Trajectory(f"t{n}", "Rain?", steps) for n in range(12)])


@pytest.fixture(params=["execution", "empty", "run", "plan", "outcome", "failed", "log"])
def result(request, outcome, replayed):
    told = execution_of(HOSTILE)
    turn = AgentTurn("a", 1, "failed", HOSTILE, {"q": HOSTILE, "token": SECRET}, {"said": HOSTILE})
    began = Transcript(HOSTILE, "learned", "routed", "tiny", (
        Request(id=1, sender="user", receiver="manager", text=HOSTILE),))  # fmt: skip
    return {
        "execution": told,
        "empty": EMPTY,
        "run": Run("react", told, (turn,), (), {}, (told.plan, told.plan)),
        "plan": told.plan,
        "outcome": outcome,
        "failed": began,
        "log": replayed,
    }[request.param]


def test_every_kind_of_result_has_a_page_of_bounded_size(result, tmp_path):
    write_html(result, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert len(text) < 1_000_000
    for never in ("<script", "<img", "<iframe", "\x1b", "\u202e", SECRET, 'href="http'):
        assert never not in text, never
    write_html(result, tmp_path / "b.html")
    assert (tmp_path / "b.html").read_text() == text


@pytest.mark.parametrize("before", [0, 24, 82, 230])
@pytest.mark.parametrize(
    "kind", [kind for kind in PAGES if kind is not Evaluation], ids=lambda kind: kind.__name__
)
def test_no_key_is_on_any_page_also_where_texts_are_cut(kind, before, outcome, replayed):
    text = f"{'a ' * (before // 2)}{KEY} b"
    told = execution_of(text)
    turn = AgentTurn("a", 1, text, text, {"q": text}, {"said": text})
    transcript = round_of(4, n_propose=2, n_fail=1, text=text)
    methods = {f"{name} {text}": each for name, each in replayed.methods.items()}
    shown = {
        Comparison: lambda: replace(comparison((text, "single-agent"), error=text), model=text),
        PrequentialEvaluation: lambda: replace(replayed, methods=methods, exclude=(text,)),
        Execution: lambda: told,
        Run: lambda: Run("react", told, (turn,), (), {}, (told.plan, told.plan)),
        Plan: lambda: told.plan,
        Outcome: lambda: replace(outcome, request=text, transcript=transcript),
        Transcript: lambda: transcript,
    }[kind]()
    more = {} if kind is Comparison else {"facts": (("Why", text),)}
    html = rendered(page_of(shown, **more))
    assert KEY[:12] not in html
    assert "***" in html


def test_each_figure_is_said_and_has_a_table(result):
    for part in page_of(result).sections:
        for figure in part.figures:
            assert len(figure.says) > 10
            assert figure.table is not None
            assert figure.table.rows or "nothing" in figure.says or "0 messages" in figure.says


def test_what_is_looked_at_first():
    told = execution_of("Rain?")
    facts = dict(page_of(told).facts)
    assert facts["jobs done"] == "1 of 5"
    assert facts["calls of tools"] == str(told.n_calls)
    assert facts["awarded again"] == "1"
    assert facts["tokens, estimated"] == "594"
    assert facts["parallelism"] == "1"
    assert facts["took"] == "9.00 s"


def test_what_was_called_and_what_changed():
    apis = Catalog((Api("x__y", "y", effects="writes"),))
    table = section(page_of(execution_of("Rain?"), catalog=apis), "What was called").tables[0]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["how"] for row in rows[:2]] == ["awarded", "awarded again"]
    assert rows[1]["changes"] == "changed"
    assert '"password": "***"' in rows[0]["inputs"]


def test_what_is_confidential_is_not_on_the_page():
    kept = Act("hr__salary", "award", {"who": "Canary-1"}, CallResult("Canary-2"), 1, 0.1,
               is_confidential=True, began=0.0, ended=0.1)  # fmt: skip
    broken = replace(kept, result=CallResult.failed("tool", "Canary-3"))
    report = JobReport("pay", "", state="done", acts=[broken, kept], began=0.0, ended=0.2)
    told = Execution("e1", "x", None, (report,), (), 0.2)
    text = rendered(page_of(told))
    assert "Canary" not in text
    assert "confidential: it is kept, and not shown here" in text
    turn = AgentTurn("pay", 1, "called", "hr__salary", {"who": "Canary-1"}, {"result": "hidden"})
    assert "Canary" not in rendered(page_of(Run("react", told, (turn,), ())))


def test_an_execution_without_jobs_says_why():
    text = rendered(page_of(EMPTY))
    assert "nothing was awarded" in text
    assert "0 of 0" in text


def test_only_rounds_in_which_somebody_was_asked_are_drawn():
    asked, named = round_of(5, n_propose=2), Transcript("x", "directed", "routed", "tiny")
    told = replace(EMPTY, transcripts=(named, asked, named))
    part = next(each for each in page_of(told).sections if each.title.startswith("The rounds"))
    assert len(part.figures) == 1
    assert part.text == ("Drawn are the longest rounds; 2 more are not.",)
    told = replace(EMPTY, transcripts=(asked,) * 9)
    part = next(each for each in page_of(told).sections if each.title.startswith("The rounds"))
    assert len(part.figures) == 5
    assert len(rendered(page_of(replace(EMPTY, transcripts=(round_of(1_345),) * 9)))) < 1_000_000


def test_a_round_says_who_proposed_and_how_sure_the_router_was(outcome):
    page = page_of(outcome, facts=(("Price", "0.12 EUR"),))
    assert "Price: 0.12 EUR" in page.lead
    recipients = section(page, "Recipients").tables[0]
    assert len(recipients.rows) == min(len(outcome.recipients), 100)
    first = recipients.rows[0]
    assert float(first[2]) == pytest.approx(max(outcome.probabilities.values()), abs=0.01)
    proposed = section(page, "Who proposed what").tables[0]
    taken = {row[1] for row in proposed.rows if row[2] == "yes"}
    assert taken == set(outcome.recommendation)
    by_stage = section(page, "Tokens").figures[0].table
    total = sum(int(cell.replace(",", "")) for row in by_stage.rows for cell in row[3:])
    assert total == outcome.ledger.tokens
    assert {row[:2] for row in by_stage.rows} >= {("bidding", "contractor")}


def test_a_broadcast_to_1345_is_still_a_small_page():
    transcript = round_of(1_345)
    text = rendered(page_of(transcript))
    assert len(text) < 300_000
    assert "1,305 others refuse or fail" in text


def test_a_round_that_failed(outcome):
    page = page_of(Transcript("x", "learned", "routed", "tiny"), facts=(("Why", "no budget"),))
    assert page.title == "A round that failed"
    assert "Why: no budget" in page.lead


def test_a_log_shows_coverage_and_accuracy_over_time(replayed):
    page = page_of(replayed)
    over = {figure.title: figure for figure in section(page, "Over the log").figures}
    coverage = over["Coverage over the log"].table.rows
    windows = replayed.methods["context"].over_time
    own = [row for row in coverage if row[0] == "context"]
    assert len(own) == len(windows)
    assert own[-1][2] == f"{windows[-1].coverage:.3f}".removeprefix("0")
    assert "Not drawn, since it predicts nothing: always-ask" in page.lead
    assert not any(row[0] == "always-ask" for row in coverage)
    thresholds = section(page, "All thresholds").tables[0]
    acted = len(replayed.methods) - 1  # always-ask has one row
    assert len(thresholds.rows) == len(THRESHOLDS) * acted + 1
    assert [row[:2] for row in thresholds.rows if row[0] == "always-ask"] == [("always-ask", "any")]
    assert any(label.startswith("tokens saved less errors: ") for label, _ in page.facts)


def test_a_log_says_what_to_do_and_what_the_methods_are(replayed):
    page = page_of(replayed)
    assert page.lead[0] == replayed.advice
    told = section(page, "The methods").text
    assert [line.partition(": ")[0] for line in told] == list(replayed.methods)
    assert all(line.partition(": ")[2].endswith(".") for line in told)
    honest = section(page, "How sure it is").figures[1].says
    assert "context ." in honest and "always-ask" not in honest.partition("ECE")[2]


def test_both_plots_of_thresholds_have_one_scale(replayed):
    plots = [f.svg for f in section(page_of(replayed), "Which threshold").figures]
    scales = [re.findall(r">([\u2212\d.]+)</text>", svg) for svg in plots]
    assert scales[0] == scales[1] and "1.0" in scales[0]


def test_bins_of_few_predictions_are_not_joined():
    steps = (Step("weather", input_tokens=10), Step("sms", input_tokens=10))
    log = [Trajectory(f"t{n}", "Rain?", steps) for n in range(12)]
    method = prequential(None, log).methods["first-order"]
    bins = tuple(replace(each, n=19) for each in method.reliability)
    for few, hollow in (
        (method, any(b.n < 20 for b in method.reliability)),
        (replace(method, reliability=bins), True),
    ):
        found = replace(prequential(None, log), methods={"first-order": few})
        svg = section(page_of(found), "How sure it is").figures[1].svg
        assert ("fill-opacity: 0" in svg) is hollow


def test_lines_are_told_apart_without_colour(replayed):
    svg = section(page_of(replayed), "Over the log").figures[0].svg
    dashes = set(re.findall(r"stroke-dasharray: ([\d. ,]+)", svg))
    assert len(dashes) >= 2


def test_a_log_of_which_nothing_is_predicted():
    from cnp_router.prediction import AlwaysAsk

    log = [Trajectory("t", "Rain?", (Step("weather"),))]
    text = rendered(page_of(prequential([AlwaysAsk()], log)))
    assert "nothing was predicted" in text


def test_a_real_execution(tmp_path):
    from cnp_router.execution import Executor, Job
    from cnp_router.sources import FunctionSource, Sources

    def now(zone: str) -> str:
        """Tell the time in a zone."""
        return "12:00"

    async def main():
        source = FunctionSource("clock", [now], effects={"now": "reads"})
        async with Sources([source]) as tools:
            net = ContractNet(await tools.catalog(), offline_model(await tools.catalog()))
            job = Job("time", api="clock__now", inputs={"zone": "UTC"})
            return await Executor(net, tools).execute(Plan("What time is it?", (job,)))

    told = asyncio.run(main())
    text = rendered(page_of(told))
    assert "12:00" in text
    assert "1 of 1" in text
