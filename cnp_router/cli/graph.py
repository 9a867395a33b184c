"""``cnp-router graph``: which APIs are used together, and in what order."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.completing import api_ids
from cnp_router.cli.help_pages import Group
from cnp_router.cli.models import fitted_router, read_past
from cnp_router.cli.output import echo, echo_json, echo_pairs, echo_table, number

if TYPE_CHECKING:
    from cnp_router.graph import TransitionGraph


def transition_graph(
    model: Path | None,
    histories: tuple[Path, ...],
    catalog: Path | None,
    directed: bool,
    **encoder: Any,
) -> TransitionGraph:
    """Return the graph that the options ask for."""
    vectors = llm_options.Vectors(**encoder)
    if model and (histories or catalog):
        raise click.UsageError("--model takes no --history and no --catalog.")
    if catalog and not histories:
        raise click.UsageError("--catalog needs --history.")
    from cnp_router.graph import TransitionGraph

    if model:
        router = fitted_router(model, vectors)
        apis, history = router.catalog, router.history.without(router.removed)
    else:
        apis, history = read_past(catalog, histories)
    return TransitionGraph(directed=directed).fit(history, apis)


_STATISTICS = {
    "n_apis": "APIs",
    "n_used": "APIs that some mashup uses",
    "n_edges": "Pairs used together (edges)",
    "n_loops": "APIs that follow themselves (loops)",
    "density": "Share of the possible pairs (density)",
    "isolated": "Used APIs without a pair (isolated)",
    "mean_degree": "Pairs of a used API, on average",
    "components": "Parts that no pair connects",
    "largest_component": "APIs in the largest part",
}

graph_options = options.gathered(
    "graph",
    transition_graph,
    options.folder("--model", help="Take the graph of a model."),
    options.files("--history", "histories", help="Past mashups, instead of the bundled sample."),
    options.file("--catalog", help="The APIs, with --history."),
    click.option("--directed", is_flag=True, help="Learn from the order of ordered mashups."),
    *llm_options.ENCODER,
)


@click.group(cls=Group, examples=["cnp-router graph next google-maps"])
def graph() -> None:
    """Look at which APIs are used together, and in what order."""


@graph.command(
    examples=[
        "cnp-router graph next google-maps twilio",
        "cnp-router graph next --directed --k 3 google-vision",
    ]
)
@click.argument("known", nargs=-1, required=True, metavar="ID...", shell_complete=api_ids)
@options.count("--k", default=10, show_default=True, help="How many to show.")
@graph_options
@options.as_json
def next(known: tuple[str, ...], k: int, json_: bool, graph: TransitionGraph) -> None:
    """Predict the API that comes next, given those in use."""
    predicted = graph.predict_next(known, k=k)
    if json_:
        echo_json({"known": list(known), "next": [asdict(candidate) for candidate in predicted]})
        return
    if not predicted:
        echo("Nothing has been used together with these yet.")
        return
    rows = ([n.api, f"{n.probability:.2f}", str(n.count)] for n in predicted)
    echo_table(["API", "probability", "times seen"], rows, numbers=["probability", "times seen"])
    echo(
        "",
        "Probability: from 0 to 1, that it comes next. Times seen: past mashups that used it with "
        "these.",
    )


@graph.command(examples=["cnp-router graph stats --history mashups.jsonl"])
@graph_options
@options.as_json
def stats(json_: bool, graph: TransitionGraph) -> None:
    """Show how large and how dense the graph is."""
    found = asdict(graph.statistics())
    if json_:
        echo_json(found)
        return
    echo_pairs((_STATISTICS[name], number(value)) for name, value in found.items())


@graph.command(examples=["cnp-router graph export graph.gexf"])
@click.argument("file", type=options.PLACE)
@options.count(
    "--min-count", default=1, show_default=True, help="Leave out edges that were seen fewer times."
)
@graph_options
def export(file: Path, min_count: int, graph: TransitionGraph) -> None:
    """Write the graph to FILE: .graphml, .gexf or .json (node-link)."""
    from cnp_router.graph import export_graph

    export_graph(graph, file, min_count=min_count)
    echo(f"Wrote {file}")


@graph.command(examples=["cnp-router graph draw maps.png --around google-maps"])
@click.argument("file", type=options.PLACE)
@options.several(
    "--around",
    required=True,
    metavar="ID",
    shell_complete=api_ids,
    help="API to draw in the middle.",
)
@graph_options
def draw(file: Path, around: tuple[str, ...], graph: TransitionGraph) -> None:
    """Draw the neighbours of some APIs to FILE: .png or .svg. Needs matplotlib."""
    from cnp_router.graph import draw_graph

    draw_graph(graph, file, around=around)
    echo(f"Wrote {file}")
