"""``sync``: a model follows the APIs that there are now."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.trajectories import Step, Trajectory, write_trajectories

CATALOG = Catalog(
    [
        Api("git__log", "log", "Lists the commits of a branch."),
        Api("git__diff", "diff", "Shows what changed in a file."),
        Api("time__now", "now", "Says what time it is in a town."),
    ]
)
NOW = Catalog(
    [
        CATALOG[0],
        replace(CATALOG[2], description="Converts between zones.", effects="reads"),
        Api("fetch__get", "get", "Reads a web page."),
    ]
)


@pytest.fixture
def model(run):
    """A model of three tools, and `now.jsonl`."""
    CATALOG.write("apis.jsonl")
    NOW.write("now.jsonl")
    assert run("fit", "--catalog", "apis.jsonl", "--output", "m").exit_code == 0
    return "m"


def document(result):
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def recommended(run, text):
    told = document(run("recommend", "--model", "m", "--json", text))
    return [recipient["contractor"] for recipient in told["recipients"]]


def test_a_catalog(run, model):
    assert "git__diff" in recommended(run, "show me the diff")
    result = run("sync", "--model", model, "--catalog", "now.jsonl")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "added fetch__get get" in lines
    assert "changed time__now description, effects" in lines
    assert "removed git__diff diff" in lines
    assert "3 APIs: 1 added, 1 changed, 1 removed" in result.stdout
    assert "m, saved in" in result.stdout
    assert "git__diff" not in recommended(run, "show me the diff")
    assert recommended(run, "get this web page")[0] == "fetch__get"
    again = run("sync", "--model", model, "--catalog", "now.jsonl")
    assert again.stdout == "Nothing has changed.\n"


def test_as_json_and_dry(run, model):
    told = document(run("sync", "--model", model, "--catalog", "now.jsonl", "--dry-run", "--json"))
    assert told["added"] == ["fetch__get"] and told["changed"] == ["time__now"]
    assert told["removed"] == ["git__diff"] and told["apis"] == 3 and told["saved"] is False
    assert (
        "not saved (--dry-run)"
        in run("sync", "--model", model, "--catalog", "now.jsonl", "--dry-run").stdout
    )
    assert "git__diff" in recommended(run, "show me the diff")
    told = document(run("sync", "--model", model, "--catalog", "now.jsonl", "--json"))
    assert told["saved"] is True
    assert document(run("verify", "--model", model, "--json"))["apis"] == 3


def test_a_removed_tool_is_never_the_next(run, model):
    log = [Trajectory(f"t{n}", "What?", (Step("git__log"), Step("git__diff"))) for n in range(9)]
    write_trajectories("log.jsonl", [*log, Trajectory("o", "", (Step("git__log"), Step("other")))])
    run("observe", "--model", model, "--trajectories", "log.jsonl")
    asked = ("next", "--model", model, "--goal", "What?", "--prefix", "git__log", "--json")
    assert document(run(*asked))["tool"] == "git__diff"
    run("sync", "--model", model, "--catalog", "now.jsonl")
    told = document(run(*asked))
    # One that the catalog never had is no removed one.
    assert told["tool"] == "other"
    assert "git__diff" not in [each["tool"] for each in told["candidates"]]
    run("sync", "--model", model, "--catalog", "apis.jsonl")
    assert document(run(*asked))["tool"] == "git__diff"


def test_what_was_observed_stays(run, model):
    History([Mashup("m1", "Mushrooms by mail", ("git__diff", "git__log"))]).write("more.jsonl")
    run("observe", "--model", model, "--history", "more.jsonl")
    before = run("recommend", "--model", model, "--json", "Mushrooms by mail").stdout
    run("sync", "--model", model, "--catalog", "now.jsonl")
    assert recommended(run, "Mushrooms by mail") == ["git__log"]
    assert document(run("verify", "--model", model, "--json"))["observed"] == 1
    run("sync", "--model", model, "--catalog", "apis.jsonl")
    assert run("recommend", "--model", model, "--json", "Mushrooms by mail").stdout == before


def test_a_mashup_that_names_a_removed_one_is_observed(run, model):
    run("sync", "--model", model, "--catalog", "now.jsonl")
    History([Mashup("m1", "Mushrooms by mail", ("git__diff", "git__log"))]).write("more.jsonl")
    result = run("observe", "--model", model, "--history", "more.jsonl")
    assert result.exit_code == 0
    assert "1 mashup with APIs that were removed from the catalog" in result.stderr
    assert recommended(run, "Mushrooms by mail")[0] == "git__log"


def test_no_model_there(run, model):
    result = run("sync", "--model", "nowhere", "--catalog", "now.jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: nowhere: no model there (fit one first)\n"


def test_nothing_to_sync_with(run, model):
    assert run("sync", "--model", model).exit_code == 2


def test_an_unreadable_catalog_changes_nothing(run, model, tmp_path):
    (tmp_path / "now.jsonl").write_text('{"id": "x"}\n')
    result = run("sync", "--model", model, "--catalog", "now.jsonl")
    assert result.exit_code == 1 and "missing field 'name'" in result.stderr
    assert "git__diff" in recommended(run, "show me the diff")
