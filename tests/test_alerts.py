"""The alerts of rules/alerts.yml: each fires when it should, and is silent when it should be.

`promtool` evaluates the rules over series that are made here. A rule without its cases fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnp_router import telemetry

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "rules" / "alerts.yml"

# What each alert is tested for, and which answers there must be: True is firing.
KINDS = {
    "beyond the threshold": {True},
    "within the threshold": {False},
    "too short": {False},
    "no data": {False},
    "little traffic": {False},
    "restart": {True, False},
    "workers": {True, False},
}
GAUGES = frozenset({"CnpRouterContextStoreFull", "CnpRouterWorkerDown"})  # no traffic is counted


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in _rules() if "alert" in rule}


def _promtool() -> str:
    unpacked = Path(sys.prefix) / "prometheus" / "usr" / "bin" / "promtool"
    found = shutil.which("promtool") or (str(unpacked) if unpacked.exists() else None)
    if found is None:
        pytest.skip("there is no promtool (make unpacks it from Debian's packages)")
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


RESTART = None
Piece = tuple[float, float] | None


def counter(*pieces: Piece) -> str:
    """Return the values of a counter: of pieces of so many minutes, so many events in each."""
    value, texts = 0.0, ["0"]
    for piece in pieces:
        if piece is RESTART:
            value = 0.0
            texts.append("0")
            continue
        minutes, per_minute = piece
        n, rise = round(minutes * 4), per_minute / 4
        texts.append(f"{value + rise:g}+{rise:g}x{n - 1}")
        value += n * rise
    return " ".join(texts)


def gauge(*pieces: tuple[float, float]) -> str:
    """Return the values of a gauge: for so many minutes that value."""
    return " ".join(f"{value:g}+0x{round(m * 4) - 1}" for m, value in pieces)


@dataclass(frozen=True)
class Case:
    """Series, and whether the alert fires when it is looked at; `says` is the value it shows."""

    kind: str
    series: dict[str, str]
    minutes: float
    says: str | None = None
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def fires(self) -> bool:
        return self.says is not None


def _labels(worker: int, **labels: str) -> str:
    more = "".join(f', {name}="{value}"' for name, value in labels.items())
    return f'{{job="tools", worker="{worker}"{more}}}'


def _shares(metric: str, label: str, good: str, bad: str) -> Any:
    """Return how the two series of a share are made: of what counts as good, and of the others."""

    def of(right: tuple[Piece, ...], wrong: tuple[Piece, ...], worker: int = 1) -> dict[str, str]:
        series = {}
        for value, pieces in ((good, right), (bad, wrong)):
            if pieces:
                series[metric + _labels(worker, **{label: value})] = counter(*pieces)
        return series

    return of


def _durations(metric: str, below: str, above: str, **labels: str) -> Any:
    """Return how the series of a histogram are made: of those up to a bound, and longer ones."""

    def of(fast: tuple[Piece, ...], slow: tuple[Piece, ...], worker: int = 1) -> dict[str, str]:
        every: list[Piece] = []
        for short, long in zip(fast, slow, strict=True):
            both = RESTART if short is None or long is None else (short[0], short[1] + long[1])
            every.append(both)
        return {
            f"{metric}_bucket{_labels(worker, le=below, **labels)}": counter(*fast),
            f"{metric}_bucket{_labels(worker, le=above, **labels)}": counter(*every),
            f"{metric}_bucket{_labels(worker, le='+Inf', **labels)}": counter(*every),
            f"{metric}_count{_labels(worker, **labels)}": counter(*every),
        }

    return of


def _coverage() -> Iterator[Case]:
    late = 6 * 60 + 30

    def of(*pieces: tuple[float, float], worker: int = 1, per_minute: float = 1) -> dict[str, str]:
        said = "cnp_router_next_tool_decisions_total" + _labels(worker, source="graph", unsure="no")
        traffic = counter((sum(minutes for minutes, _ in pieces), per_minute))
        return {
            f"cnp_router_routing_coverage{_labels(worker)}": gauge(*pieces),
            said: traffic,
        }

    yield Case("beyond the threshold", of((420, 0.69)), late, "69%")
    yield Case("beyond the threshold", of((420, 0)), late, "0%")
    # Bad hours, one of which is better, but not good enough.
    yield Case("beyond the threshold", of((120, 0.5), (61, 0.68), (239, 0.5)), late, "68%")
    # A moment of good values does not make a good hour.
    yield Case("beyond the threshold", of((150, 0.5), (6, 0.9), (264, 0.5)), late, "53.98%")
    yield Case("within the threshold", of((420, 0.7)), late)
    yield Case("within the threshold", of((420, 0.99)), late)
    # One good hour among bad ones.
    yield Case("within the threshold", of((120, 0.5), (61, 0.8), (239, 0.5)), late)
    yield Case("too short", of((420, 0.5)), 5 * 60 + 59)
    yield Case("too short", of((120, 0.9), (300, 0.5)), 6 * 60 + 59)
    yield Case("no data", {}, late)
    yield Case("little traffic", of((420, 0.5), per_minute=0.3), late)
    # The value stays where it was: an hour without traffic is not a bad one.
    pause = of((420, 0.5))
    pause["cnp_router_next_tool_decisions_total" + _labels(1, source="graph", unsure="no")] = (
        counter((180, 1), (60, 0), (180, 1))
    )
    yield Case("little traffic", pause, late)
    # The worker begins anew in the third hour: its value is not there for some minutes.
    for value, says in ((0.5, "50%"), (0.8, None)):
        again = {
            name: gauge((150, value)) + " _x20 " + gauge((260, value))
            if "coverage" in name
            else counter((150, 1), RESTART, (270, 1))
            for name in of((1, 0))
        }
        yield Case("restart", again, late, says)
    # The mean of the workers counts.
    bad = of((420, 0.5), worker=2)
    yield Case("workers", of((420, 0.8)) | bad, late, "65%")
    yield Case("workers", of((420, 0.95)) | bad, late)


def _fallback() -> Iterator[Case]:
    metrics = (
        ("next tool", "cnp_router_next_tool_decisions_total", "unsure", "no", "threshold"),
        ("routing", "cnp_router_routings_total", "confident", "true", "false"),
    )
    for decision, *how in metrics:
        of, labels = _shares(*how), {"decision": decision}
        yield Case("beyond the threshold", of(((240, 4.9),), ((240, 5.1),)), 200, "51%", labels)
        yield Case("beyond the threshold", of((), ((240, 1),)), 200, "100%", labels)
        yield Case("within the threshold", of(((240, 5),), ((240, 5),)), 200)
        yield Case("within the threshold", of(((240, 9),), ((240, 1),)), 200)
        yield Case("within the threshold", of(((240, 9),), ()), 200)
        one_good = of(((60, 3), (60, 6), (120, 3)), ((60, 7), (60, 4), (120, 7)))
        yield Case("within the threshold", one_good, 200)
        yield Case("too short", of(((240, 2),), ((240, 8),)), 179)
        yield Case("too short", of(((60, 8), (180, 2)), ((60, 2), (180, 8))), 239)
        yield Case("no data", {}, 200)
        yield Case("little traffic", of(((240, 0.1),), ((240, 0.2),)), 200)
        # An hour without traffic is not a bad one.
        pause = of(((60, 4), (60, 0), (120, 4)), ((60, 6), (60, 0), (120, 6)))
        yield Case("little traffic", pause, 200)
        again = ((90, 4), RESTART, (150, 4)), ((90, 6), RESTART, (150, 6))
        yield Case("restart", of(*again), 200, "60%", labels)
        again = ((90, 6), RESTART, (150, 6)), ((90, 4), RESTART, (150, 4))
        yield Case("restart", of(*again), 200)
        bad = of(((240, 1),), ((240, 3),), worker=2)
        yield Case("workers", of(((240, 4),), ((240, 4),)) | bad, 200, "58.33%", labels)
        yield Case("workers", of(((240, 8),), ((240, 4),)) | bad, 200)


def _propagation() -> Iterator[Case]:
    metric, labels = "cnp_router_context_propagation_duration_seconds", {"step": "offer"}
    of = _durations(metric, "0.05", "0.1", **labels)
    yield Case("beyond the threshold", of(((20, 40),), ((20, 60),)), 15, "99.17ms", labels)
    # One in a hundred is slower: the p99 is the bound itself.
    yield Case("beyond the threshold", of(((20, 396),), ((20, 4),)), 15, "50ms", labels)
    # However many are fast in another step.
    other = _durations(metric, "0.05", "0.1", step="recall")(((20, 4000),), ((20, 0),))
    yield Case("beyond the threshold", of(((20, 40),), ((20, 60),)) | other, 15, "99.17ms", labels)
    yield Case("within the threshold", of(((20, 400),), ((20, 0),)), 15)
    yield Case("within the threshold", of(((20, 398),), ((20, 2),)), 15)
    yield Case("too short", of(((10, 400), (10, 0)), ((10, 0), (10, 400))), 12.5)
    burst = of(((10, 400), (1, 0), (9, 400)), ((10, 0), (1, 400), (9, 0)))
    yield Case("too short", burst, 13.5)
    yield Case("no data", {}, 15)
    yield Case("little traffic", of(((20, 4),), ((20, 4),)), 15)
    again = ((10, 40), RESTART, (10, 40)), ((10, 60), RESTART, (10, 60))
    yield Case("restart", of(*again), 15, "99.17ms", labels)
    again = ((10, 400), RESTART, (10, 400)), ((10, 0), RESTART, (10, 0))
    yield Case("restart", of(*again), 10.5)
    slow = of(((20, 0),), ((20, 4),), worker=2)
    yield Case("workers", of(((20, 196),), ((20, 0),)) | slow, 15, "75ms", labels)
    yield Case("workers", of(((20, 796),), ((20, 0),)) | slow, 15)


def _share_of_minutes(metric: str, label: str, limit: int, window: int) -> Iterator[Case]:
    """Yield the cases of a share that must be above a limit, over so many minutes."""
    of = _shares(metric, label, "true", "false")
    late = 2 * window
    yield Case("beyond the threshold", of(((60, limit - 5),), ((60, 105 - limit),)), late, "80%")
    yield Case("beyond the threshold", of((), ((60, 100),)), late, "0%")
    yield Case("within the threshold", of(((60, limit + 1),), ((60, 99 - limit),)), late)
    yield Case("within the threshold", of(((60, 100),), ()), late)
    # A minute in which nothing is right does not pull the whole window down.
    blip = of(((late, 100), (0.25, 0), (60, 100)), ((late, 0), (0.25, 100), (60, 0)))
    yield Case("too short", blip, late + 2)
    yield Case("no data", {}, late)
    yield Case("little traffic", of(((60, 0),), ((60, 5 / window),)), late)
    again = ((late, 20), RESTART, (60, 20)), ((late, 30), RESTART, (60, 30))
    yield Case("restart", of(*again), late + 2, "40%")
    again = ((late, 98), RESTART, (60, 98)), ((late, 2), RESTART, (60, 2))
    yield Case("restart", of(*again), late + 2)
    bad = of(((60, 0),), ((60, 20),), worker=2)
    yield Case("workers", of(((60, 80),), ((60, 0),)) | bad, late, "80%")
    yield Case("workers", of(((60, 480),), ((60, 0),)) | bad, late)


def _matches() -> Iterator[Case]:
    metric = "cnp_router_capability_matches_total"
    yield from _share_of_minutes(metric, "hit", 85, 5)
    of = _shares(metric, "hit", "true", "false")
    yield Case("beyond the threshold", of(((60, 340),), ((60, 60),)), 10, "85%")


def _dependencies() -> Iterator[Case]:
    metric = "cnp_router_dependencies_total"
    for case in _share_of_minutes(metric, "resolved", 90, 15):
        says = "85%" if case.kind == "beyond the threshold" and case.says == "80%" else case.says
        yield Case(case.kind, case.series, case.minutes, says)
    of = _shares(metric, "resolved", "true", "false")
    yield Case("beyond the threshold", of(((60, 36),), ((60, 4),)), 30, "90%")


def _task_graph() -> Iterator[Case]:
    of = _durations("cnp_router_task_graph_duration_seconds", "60", "120")
    yield Case("beyond the threshold", of(((60, 4.3),), ((60, 3.7),)), 45, "1m 53s")
    yield Case("beyond the threshold", of(((60, 7.6),), ((60, 0.4),)), 45, "1m 0s")
    yield Case("within the threshold", of(((60, 8),), ((60, 0),)), 45)
    yield Case("within the threshold", of(((60, 7.8),), ((60, 0.2),)), 45)
    yield Case("too short", of(((30, 8), (30, 4)), ((30, 0), (30, 4))), 34)
    yield Case("no data", {}, 45)
    yield Case("little traffic", of(((60, 0),), ((60, 0.5),)), 45)
    again = ((30, 4.3), RESTART, (30, 4.3)), ((30, 3.7), RESTART, (30, 3.7))
    yield Case("restart", of(*again), 37, "1m 53s")
    again = ((30, 8), RESTART, (30, 8)), ((30, 0), RESTART, (30, 0))
    yield Case("restart", of(*again), 37)
    slow = of(((60, 0),), ((60, 1),), worker=2)
    yield Case("workers", of(((60, 9),), ((60, 0),)) | slow, 45, "1m 30s")
    yield Case("workers", of(((60, 39),), ((60, 0),)) | slow, 45)


def _store() -> Iterator[Case]:
    labels = {"store": "memory"}

    def of(*pieces: tuple[float, float], worker: int = 1) -> dict[str, str]:
        return {f"cnp_router_context_store_usage{_labels(worker, **labels)}": gauge(*pieces)}

    yield Case("beyond the threshold", of((60, 0.95)), 20, "95%", labels)
    yield Case("beyond the threshold", of((60, 0.8)), 20, "80%", labels)
    yield Case("within the threshold", of((60, 0.7999)), 20)
    yield Case("too short", of((10, 0.5), (50, 0.9)), 14.5)
    yield Case("too short", of((10, 0.5), (4, 0.9), (46, 0.5)), 16)
    yield Case("no data", {}, 20)
    yield Case("no data", of((10, 0.95)), 20)  # one that is used no more
    # A worker that begins anew has an empty store.
    yield Case("restart", of((10, 0.9), (50, 0.01)), 20)
    yield Case("restart", of((10, 0.01), (50, 0.9)), 20, "90%", labels)
    yield Case("workers", of((60, 0.1)) | of((60, 0.9), worker=2), 20, "90%", labels)
    yield Case("workers", of((60, 0.4)) | of((60, 0.4), worker=2), 20)


def _embedding() -> Iterator[Case]:
    metric = "cnp_router_embedding_duration_seconds"

    def of(
        *pieces: tuple[float, float, float] | None, worker: int = 1, purpose: str = "request"
    ) -> dict[str, str]:
        counts = [None if p is None else (p[0], p[1]) for p in pieces]
        sums = [None if p is None else (p[0], p[1] * p[2]) for p in pieces]
        return {
            f"{metric}_count{_labels(worker, purpose=purpose)}": counter(*counts),
            f"{metric}_sum{_labels(worker, purpose=purpose)}": counter(*sums),
        }

    yield Case("beyond the threshold", of((60, 40, 0.25)), 30, "250ms")
    yield Case("beyond the threshold", of((60, 40, 0.1)), 30, "100ms")
    yield Case("within the threshold", of((60, 40, 0.0999)), 30)
    # Fitting turns thousands of texts into vectors at once.
    fit = of((60, 4, 60), purpose="fit")
    yield Case("within the threshold", of((60, 40, 0.05)) | fit, 30)
    yield Case("too short", of((30, 40, 0.01), (30, 40, 0.5)), 34)
    yield Case("no data", {}, 30)
    yield Case("little traffic", of((60, 1, 0.5)), 30)
    yield Case("restart", of((30, 40, 0.25), RESTART, (30, 40, 0.25)), 32, "250ms")
    yield Case("restart", of((30, 40, 0.05), RESTART, (30, 40, 0.05)), 32)
    slow = of((60, 40, 0.25), worker=2)
    yield Case("workers", of((60, 40, 0.05)) | slow, 30, "150ms")
    yield Case("workers", of((60, 360, 0.05)) | slow, 30)


def _worker_down() -> Iterator[Case]:
    def of(*pieces: tuple[float, float], worker: int = 1) -> dict[str, str]:
        return {f"cnp_router_worker_up{_labels(worker)}": gauge(*pieces)}

    first, second = {"worker": "1"}, {"worker": "2"}
    yield Case("beyond the threshold", of((60, 0)), 20, "0", first)
    yield Case("within the threshold", of((60, 1)), 20)
    yield Case("too short", of((19, 1), (41, 0)), 20)
    yield Case("no data", {}, 20)
    yield Case("restart", of((10, 1), (1, 0), (49, 1)), 20)
    yield Case("restart", of((10, 1), (1, 0), (9, 1), (40, 0)), 25, "0", first)
    yield Case("workers", of((60, 1)) | of((60, 0), worker=2), 20, "0", second)
    yield Case("workers", of((60, 1)) | of((60, 1), worker=2), 20)


def _failures(metric: str, label: str, bad: str, good: str, **labels: str) -> Iterator[Case]:
    def of(wrong: tuple[Piece, ...], right: tuple[Piece, ...], worker: int = 1) -> dict[str, str]:
        return {
            metric + _labels(worker, **labels, **{label: value}): counter(*pieces)
            for value, pieces in ((bad, wrong), (good, right))
        }

    yield Case("beyond the threshold", of(((60, 40),), ((60, 40),)), 20, "50%", labels)
    yield Case("within the threshold", of(((60, 1),), ((60, 79),)), 20)
    yield Case("too short", of(((30, 0), (30, 40)), ((60, 40),)), 33)
    yield Case("no data", {}, 20)
    yield Case("little traffic", of(((60, 1),), ((60, 0),)), 20)
    again = (30, 40), RESTART, (30, 40)
    yield Case("restart", of(again, again), 40, "50%", labels)
    yield Case("restart", of(((30, 1), RESTART, (30, 1)), ((30, 79), RESTART, (30, 79))), 40)
    fine = of(((60, 0),), ((60, 40),))
    yield Case("workers", fine | of(((60, 40),), ((60, 0),), worker=2), 20, "50%", labels)
    yield Case("workers", fine | of(((60, 1),), ((60, 0),), worker=2), 20)


CASES = {
    "CnpRouterCoverageLow": tuple(_coverage()),
    "CnpRouterFallbackHigh": tuple(_fallback()),
    "CnpRouterContextPropagationSlow": tuple(_propagation()),
    "CnpRouterCapabilityMatchesLow": tuple(_matches()),
    "CnpRouterTaskGraphSlow": tuple(_task_graph()),
    "CnpRouterContextStoreFull": tuple(_store()),
    "CnpRouterDependenciesUnresolved": tuple(_dependencies()),
    "CnpRouterEmbeddingSlow": tuple(_embedding()),
    "CnpRouterWorkerDown": tuple(_worker_down()),
    "CnpRouterToolCallsFail": tuple(
        _failures("cnp_router_tool_calls_total", "outcome", "failed", "done", source="mail")
    ),
    "CnpRouterHttpErrors": tuple(
        _failures(
            "http_server_request_duration_seconds_count", "http_response_status_code", "503", "200"
        )
    ),
}


def _expected(alert: str, case: Case) -> list[dict[str, Any]]:
    if case.says is None:
        return []
    rule = ALERTS[alert]
    labels = {"job": "tools", **case.labels}
    texts = {}
    for name, text in rule["annotations"].items():
        shown = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
        texts[name] = re.sub(r"\{\{ \$value [^}]*\}\}", case.says, shown)
    return [{"exp_labels": labels | rule["labels"], "exp_annotations": texts}]


@pytest.mark.parametrize(
    ("alert", "case"),
    [
        pytest.param(alert, case, id=f"{alert}-{case.kind}-{'fires' if case.fires else 'silent'}")
        for alert, cases in CASES.items()
        for case in cases
    ],
)
def test_an_alert_fires_when_it_should(alert, case, tmp_path):
    promtool = _promtool()
    test = {
        "interval": "15s",
        "input_series": [{"series": n, "values": values} for n, values in case.series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{round(case.minutes * 60)}s",
                "alertname": alert,
                "exp_alerts": _expected(alert, case),
            }
        ],
    }
    file = tmp_path / "test.yml"
    every = "30s" if case.minutes < 60 else "2m"
    content = {"rule_files": [str(RULES)], "evaluation_interval": every, "tests": [test]}
    file.write_text(yaml.safe_dump(content))
    _run(promtool, "test", "rules", str(file))


def test_the_rules_are_what_prometheus_reads():
    _run(_promtool(), "check", "rules", "--lint=all", "--lint-fatal", str(RULES))


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_cases_of_every_kind(alert):
    answers: dict[str, set[bool]] = {}
    for case in CASES.get(alert, ()):
        answers.setdefault(case.kind, set()).add(case.fires)
    needed = {k: v for k, v in KINDS.items() if alert not in GAUGES or k != "little traffic"}
    assert answers == needed, f"{alert} is not tested for what KINDS asks"


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_what_to_do(alert):
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in {"warning", "critical"}
    texts = rule["annotations"]
    assert set(texts) == {"summary", "description", "runbook"}
    file, _, anchor = texts["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / file).read_text(), re.MULTILINE)
    assert anchor == alert.lower()
    assert alert in headings


def test_no_case_is_of_an_alert_that_is_not_there():
    assert set(CASES) == set(ALERTS)


@pytest.fixture
def exported(monkeypatch):
    """Return what the exporter makes of every metric: the labels of each name, and its buckets."""
    metrics = pytest.importorskip("opentelemetry.metrics")
    exporter = pytest.importorskip("opentelemetry.exporter.prometheus")
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    reader = exporter.PrometheusMetricReader(disable_target_info=True, registry=registry)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    take = {"counter": telemetry.add, "histogram": telemetry.record, "gauge": telemetry.gauge}
    for metric in telemetry.METRICS.values():
        take[metric.kind](metric.name, 1, dict.fromkeys(metric.attributes, "some"))
    labels: dict[str, set[str]] = {}
    buckets: dict[str, set[float]] = {}
    for family in registry.collect():
        for sample in family.samples:
            labels.setdefault(sample.name, {"job", "worker"}).update(sample.labels)
            if "le" in sample.labels:
                buckets.setdefault(sample.name, set()).add(float(sample.labels["le"]))
    provider.shutdown()
    return labels, buckets


def test_the_metrics_of_the_rules_are_those_of_the_library(exported):
    labels, _ = exported
    labels["cnp_router_worker_up"] = {"job", "worker"}  # of the gateway's own page of metrics
    used = set()
    for rule in _rules():
        for name, matchers in re.findall(r"\b(cnp_router_\w+)(?:\{([^}]*)\})?", rule["expr"]):
            used.add(name)
            asked = set(re.findall(r"(\w+)(?:=|!)", matchers))
            grouped = re.findall(r"by \(([\w, ]+)\)", rule["expr"])
            asked |= {label for group in grouped for label in group.split(", ")} - {"le"}
            assert name in labels, f"the library has no metric {name}"
            assert asked <= labels[name], f"{name} has no label {asked - labels[name]}"
    assert len(used) > len(ALERTS)


def test_a_threshold_of_a_quantile_is_the_bound_of_a_bucket(exported):
    _, buckets = exported
    quantiles = [r["expr"] for r in ALERTS.values() if "histogram_quantile" in r["expr"]]
    assert quantiles
    for expression in quantiles:
        (name,) = re.findall(r"\b(cnp_router_\w+_bucket)", expression)
        threshold = float(re.findall(r"\) >= ([\d.]+)\nand", expression)[0])
        assert threshold in buckets[name]
