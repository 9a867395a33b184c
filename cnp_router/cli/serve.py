"""``cnp-router serve``: the tools of all sources behind one door, for any agent."""

from __future__ import annotations

from pathlib import Path

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.serving_run import Decisions, Door, Serving
from cnp_router.cli.source_options import Origins, source_options


@options.command(
    "cnp-router serve --sources mcp.json",
    "cnp-router serve --sources mcp.json --model model --http --workers 2",
    "cnp-router serve --http",
    "cnp-router serve --sources mcp.json --http --host 0.0.0.0 --token-env TOKEN",
    "cnp-router serve --sources mcp.json --share 5",
    sections={
        "files": "Tools",
        "model": "Who decides",
        "k": "Searches and calls",
        "http": "HTTP",
    },
)
@source_options
@options.folder(
    "--model",
    help="Folder of a model, which learns from what happens.  [default: the specifications of "
    "the tools; without tools, the bundled sample]",
)
@options.file("--catalog", help="Route to the APIs of a catalog, with neither model nor tools.")
@llm_options.encoder_options
@options.gathered(
    "decisions",
    Decisions,
    options.count("--k", default=5, show_default=True, help="The most tools that a search finds."),
    options.several("--always", metavar="API", help="List this tool itself, beside the search."),
    click.option(
        "--allow-write",
        is_flag=True,
        help="Call what writes or may write; with --clients, for those who may. Without it, such "
        "a call is declined.",
    ),
    click.option(
        "--shadow",
        is_flag=True,
        help="Decide and log, without acting on it: each search shows every tool.",
    ),
    click.option(
        "--share",
        type=options.Finite(0, 100),
        metavar="PERCENT",
        help="Act on this share of the searches, drawn at random, and only log the others: 5, 25, "
        "100.  [default: all]",
    ),
    options.seconds(
        "--call-timeout",
        default=30.0,
        show_default=True,
        help="How long one call may take, with all its attempts.",
    ),
    click.option(
        "--context",
        metavar="FILE|URL",
        help="Use what a call gave again, and share it with others: in that file, or on a server, "
        "redis://host:port/0.  [default: each call is made]",
    ),
    options.seconds(
        "--context-ttl",
        type=options.Finite(60, 600),
        help="How long what a call gave is used again, by all workers.  [default: 300.0 with "
        "--context]",
    ),
    click.option("--no-learn", is_flag=True, help="Do not let the model learn from what happens."),
    click.option(
        "--model-check",
        type=options.Finite(min=0),
        metavar="SECONDS",
        default=5.0,
        show_default=True,
        help="How often to look whether the model was replaced, and then to answer by the new one; "
        "0: never.",
    ),
)
@options.gathered(
    "door",
    Door,
    click.option("--http", is_flag=True, help="Serve HTTP: an API, MCP at /mcp, a page at /."),
    click.option(
        "--host",
        metavar="NAME",
        default="127.0.0.1",
        show_default=True,
        help="The address to listen at; 0.0.0.0 for others, too.",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        metavar="N",
        default=8000,
        show_default=True,
        help="The port to listen at; 0 for any that is free.",
    ),
    options.count(
        "--workers",
        default=1,
        show_default=True,
        help="How many processes serve; more answer more at once.",
    ),
    click.option(
        "--token-env",
        metavar="NAME",
        help="Ask for the bearer token that this variable of the environment holds.",
    ),
    options.file("--clients", help="Who may ask, what they may see and do, and their tokens."),
    options.seconds(
        "--timeout", default=60.0, show_default=True, help="How long a request may take."
    ),
    options.count(
        "--max-body",
        metavar="BYTES",
        default=1_000_000,
        show_default=True,
        help="The most that a request may send.",
    ),
    options.count(
        "--max-concurrent",
        default=256,
        show_default=True,
        help="Answer so many requests at once in each worker; others are asked to come again.",
    ),
    options.seconds(
        "--grace",
        default=10.0,
        show_default=True,
        help="How long requests may go on when the server is told to end.",
    ),
    click.option("--log", is_flag=True, help="Say each request on standard error."),
)
def serve(
    *,
    origins: Origins,
    model: Path | None,
    catalog: Path | None,
    vectors: llm_options.Vectors,
    decisions: Decisions,
    door: Door,
) -> None:
    """Serve the tools of all sources to agents: search, call, learn.

    It is an MCP server on standard input and output, or with --http an API, MCP at /mcp, a page
    to try requests at / and metrics for Prometheus at /metrics. Without sources it routes, and
    calls nothing. HTTP is for this machine alone, unless a token is asked for. It ends with
    SIGTERM or Ctrl-C, exit code 0, once what is being answered is answered.
    """
    serving = Serving(origins, model, catalog, vectors, decisions, door)
    serving.check()
    serving.run()
