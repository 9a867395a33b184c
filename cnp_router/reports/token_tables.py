"""What a round or an execution has cost: a table and a picture of tokens, by stage and role."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cnp_router.evaluation.table import Table, count
from cnp_router.protocols import Ledger, ModelCall
from cnp_router.reports.drawing import COLOURS, drawn
from cnp_router.reports.page import Figure

__all__ = ["role_table", "tokens_figure"]


def role_table(ledger: Ledger) -> Table:
    """Return messages, model calls and tokens by role."""
    columns = {
        "role": lambda item: item[0],
        **({"messages sent": lambda item: count(item[1].messages)} if ledger.messages else {}),
        "model calls": lambda item: count(item[1].model_calls),
        "tokens in": lambda item: count(item[1].tokens_in),
        "tokens out": lambda item: count(item[1].tokens_out),
        "model seconds": lambda item: count(item[1].seconds, 2),
    }
    return Table.of("", columns, ledger.by_role.items(), notes=(_are(ledger),))


def tokens_figure(ledger: Ledger, calls: Iterable[ModelCall]) -> Figure:
    """Return the tokens of a round by stage and role, in and out."""
    spent: dict[tuple[str, str], list[int]] = {}
    for call in calls:
        own = spent.setdefault((call.stage, call.role), [0, 0, 0])
        own[0] += call.calls
        own[1] += call.tokens_in
        own[2] += call.tokens_out
    parts = list(spent.items())

    def draw(axes: Any) -> None:
        names = [f"{stage}\n{role}" for (stage, role), _ in parts]
        places = list(range(len(parts)))
        tokens_in = [own[1] for _, own in parts]
        tokens_out = [own[2] for _, own in parts]
        axes.barh(places, tokens_in, color=COLOURS["s1"], label="in", height=0.62)
        axes.barh(
            places, tokens_out, left=tokens_in, color=COLOURS["s2"], label="out", height=0.62,
            hatch="///",
        )  # fmt: skip
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("tokens")
        axes.margins(x=0.16)
        for place, (_, own) in enumerate(parts):
            axes.annotate(
                f"{own[1] + own[2]:,}", (own[1] + own[2], place), xytext=(5, 0),
                textcoords="offset points", va="center", fontsize=10,
            )  # fmt: skip
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.locator_params(axis="x", nbins=4)
        figure: Any = axes.get_figure()
        figure.legend(loc="outside lower center", ncols=2)

    by_stage = {name: cost.tokens_in + cost.tokens_out for name, cost in ledger.by_stage.items()}
    said = ", ".join(f"{name} {tokens:,}" for name, tokens in by_stage.items() if tokens)
    rows = tuple(
        (stage, role, count(own[0]), count(own[1]), count(own[2])) for (stage, role), own in parts
    )
    columns = ("stage", "role", "model calls", "tokens in", "tokens out")
    return Figure(
        "Tokens by stage and role",
        drawn(draw, height=150 + 46 * len(parts)),
        f"{ledger.tokens:,} tokens in and out. By stage: {said}. {_are(ledger)}",
        Table("", columns, rows, labels=2),
    )


def _are(ledger: Ledger) -> str:
    how = "are as the server counts" if ledger.usage.source == "server" else "are estimated"
    return f"Tokens {how}."
