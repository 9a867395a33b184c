"""Results to be shown, with hostile text wherever text can come from others."""

from __future__ import annotations

from typing import Any

from cnp_router.evaluation import Comparison, Table
from cnp_router.evaluation.comparison import (
    ComparisonRow,
    Method,
    RoundFigures,
    RoundResult,
    StageCost,
    TokensOf,
)
from cnp_router.evaluation.metrics import SetScores
from cnp_router.reports import Figure, Page, Section

HOSTILE = (
    "</title></style></text></svg><script>window.hit=1</script><img src=x onerror=window.hit=1>"
    "'\"&amp;]]> $x^2$ {{7*7}} #ff0000 #000001 \x00\x1b[31m\u202ehidden https://evil.example/x"
)
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 40">'
    '<defs><marker id="end"/></defs>'
    '<path d="M0 0 L9 9" style="stroke: var(--s1); fill: none" marker-end="url(#end)"/>'
    "</svg>"
)


def svg(width: float = 100) -> str:
    return SVG.format(width=width)


def hostile_page() -> Page:
    """A page that says the hostile text in every place."""
    table = Table(HOSTILE, (HOSTILE, "n"), ((HOSTILE, HOSTILE),), notes=(HOSTILE,))
    figures = (Figure(HOSTILE, svg(), HOSTILE, table), Figure("Wide", svg(2000), "A wide one."))
    section = Section(HOSTILE, (HOSTILE,), figures, (table,))
    return Page(HOSTILE, (HOSTILE,), ((HOSTILE, HOSTILE),), (section, Section("Other")))


def comparison(
    protocols: tuple[str, ...] = ("manager-led", "single-agent"),
    organisations: tuple[str, ...] = ("api",),
    error: str = "",
) -> Comparison:
    """A comparison in which a broadcast costs ten times as much."""
    rows = []
    for organisation in organisations:
        for protocol in protocols:
            for announcement in ("broadcast", "routed"):
                method = Method(protocol, announcement, organisation)
                results = [RoundResult(method, "m1", figures(announcement))]
                if error:
                    results.append(RoundResult(method, "m2", None, error))
                rows.append(ComparisonRow.of(method, results))
    return Comparison(
        requests=2 if error else 1,
        skipped=0,
        contractors=dict.fromkeys(organisations, 149),
        model="offline",
        is_offline=True,
        tokens_are="estimated",
        rows=tuple(rows),
    )


def figures(announcement: str = "routed") -> RoundFigures:
    """The figures of a round: 1,000 tokens, ten times as many in a broadcast."""
    times = 10 if announcement == "broadcast" else 1
    scores = SetScores(0.5, 0.8, 0.6)
    return RoundFigures(
        tokens_in=900 * times,
        tokens_out=100 * times,
        messages=20 * times,
        model_calls=4,
        recipients=10 * times,
        waves=1,
        mean_apis=2,
        seconds=1.0,
        tokens_are="estimated",
        stages={"category": None, "bid": scores, "final": scores},
        cfps=10,
        late=0,
        failed=0,
        hallucinated=0,
        paid=(
            TokensOf("manager", "offline", 100 * times, 0, "estimated", 0),
            TokensOf("contractor", "offline", 800 * times, 100 * times, "estimated", 0),
        ),
        by_stage={
            "category mapping": StageCost(0, 1, 100 * times, 0),
            "bidding": StageCost(20 * times, 3, 800 * times, 100 * times),
        },
    )


def is_scrolled(element: Any) -> bool:
    """Whether a locator's element is scrolled to the right, within ten seconds.

    Not by `wait_for_function`, which evaluates text in the page: its policy forbids that.
    """
    for _ in range(200):
        if element.evaluate("(e) => e.scrollLeft") > 0:
            return True
        element.page.wait_for_timeout(50)
    return False
