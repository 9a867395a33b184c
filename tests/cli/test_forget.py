"""``forget``: a mashup, a user or an API, for good."""

from __future__ import annotations

import json

import pytest

from cnp_router import training
from cnp_router.context import Memory
from cnp_router.history import History, Mashup
from cnp_router.serving import LoggedSearch, SearchLog
from cnp_router.trajectories import Step, Trajectory, write_trajectories

SECRET = "zanzibar"


@pytest.fixture
def model(run, sample):
    """A model of a few mashups, one of them Ann's, and what was observed of Ann and others."""
    sample.catalog.write("apis.jsonl")
    past = [*sample.history[:20], Mashup("a1", f"Bars of {SECRET}.", ("flickr",), user="ann")]
    History(past).write("mashups.jsonl")
    arguments = ("--catalog", "apis.jsonl", "--history", "mashups.jsonl", "--jobs", "1")
    assert run("fit", *arguments, "--output", "m").exit_code == 0
    late = [
        Mashup("a2", f"Parks of {SECRET}.", ("flickr", "twilio"), user="ann"),
        Mashup("b2", "Text me a photo.", ("flickr", "twilio"), user="bob"),
    ]
    History(late).write("more.jsonl")
    log = [
        Trajectory("a3", f"Where is {SECRET}?", (Step("flickr"),), user="ann"),
        Trajectory("b3", "A photo by text.", (Step("flickr"), Step("twilio"))),
    ]
    write_trajectories("log.jsonl", log)
    told = run("observe", "--model", "m", "--history", "more.jsonl", "--trajectories", "log.jsonl")
    assert told.exit_code == 0
    for name in ("mashups", "more", "log"):
        (run.folder / f"{name}.jsonl").unlink()
    return "m"


@pytest.fixture
def run(run, tmp_path):
    run.folder = tmp_path
    return run


def bytes_of(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def document(result):
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_what_another_forgets_meanwhile_stays_forgotten(run, model, sample):
    fit_without = training.fit_without

    def meanwhile(router, what, **given):
        patch.undo()
        assert run("forget", "--model", model, "--mashup", "a1", "--jobs", "1").exit_code == 0
        return fit_without(router, what, **given)

    (run.folder / "m/online.sqlite").unlink()  # who has it waits for no other
    forget = ("forget", "--model", model, "--mashup", sample.history[0].id, "--jobs", "1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "fit_without", meanwhile)
        result = run(*forget)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "another process has replaced the model meanwhile: nothing was saved" in result.stderr
    assert SECRET.encode() not in bytes_of(run.folder / "m")
    assert run(*forget).exit_code == 0
    assert SECRET.encode() not in bytes_of(run.folder / "m")


def test_a_user(run, model):
    folder = run.folder / "m"
    assert SECRET.encode() in bytes_of(folder)
    told = document(run("forget", "--model", model, "--user", "ann", "--jobs", "1", "--json"))
    assert told["observed"] == {"mashups": ["a2"], "trajectories": ["a3"], "changed": 0, "steps": 0}
    assert told["model"] == {
        "mashups": ["a1"], "changed": 0, "apis": [], "fitted": True,
    }  # fmt: skip
    assert told["removed"] is True and any("caches" in each for each in told["not_reached"])
    assert SECRET.encode() not in bytes_of(folder)
    assert b"ann" not in (folder / "online.sqlite").read_bytes()
    assert document(run("verify", "--model", model, "--json"))["mashups"] == 20
    again = run("forget", "--model", model, "--user", "ann")
    assert again.exit_code == 0
    assert again.stdout == "No record of user 'ann'; nothing was removed.\n"


def test_an_api(run, model):
    result = run("forget", "--model", model, "--api", "flickr", "--jobs", "1")
    assert result.exit_code == 0
    assert "an API of 3 records, 1 step of runs removed" in " ".join(result.stdout.split())
    assert "Model         1 API, " in result.stdout and "Not reached:" in result.stdout
    assert b"flickr" not in (run.folder / "m" / "online.sqlite").read_bytes()
    catalog = next((run.folder / "m").glob("generation-*/catalog.jsonl")).read_text()
    assert '"flickr"' not in catalog
    told = document(run("recommend", "--model", model, "--json", "photos of flickr"))
    assert "flickr" not in json.dumps(told["recipients"])


def test_a_mashup_that_the_model_does_not_know(run, model):
    before = next((run.folder / "m").glob("generation-*"))
    told = document(run("forget", "--model", model, "--mashup", "b2", "--json"))
    assert told["observed"]["mashups"] == ["b2"] and told["model"]["fitted"] is False
    assert before.exists()


def test_dry(run, model):
    before = bytes_of(run.folder / "m")
    told = document(run("forget", "--model", model, "--user", "ann", "--dry-run", "--json"))
    assert told["observed"]["mashups"] == ["a2"] and told["model"]["mashups"] == ["a1"]
    assert told["model"]["fitted"] is told["removed"] is False
    text = run("forget", "--model", model, "--user", "ann", "--dry-run").stdout
    assert "1 mashup, 1 run would be removed" in text
    assert bytes_of(run.folder / "m") == before


def test_where_only_was_observed(run):
    write_trajectories("log.jsonl", [Trajectory("t1", SECRET, (Step("x"),), user="ann")])
    run("observe", "--model", "o", "--trajectories", "log.jsonl")
    told = document(run("forget", "--model", "o", "--user", "ann", "--json"))
    assert told["observed"]["trajectories"] == ["t1"] and told["model"] is None
    assert SECRET.encode() not in bytes_of(run.folder / "o")


def test_wrong_usage(run, model):
    assert run("forget", "--model", model).exit_code == 2
    result = run("forget", "--model", "nowhere", "--user", "ann")
    assert result.exit_code == 1 and "no model there, and nothing observed" in result.stderr
    assert not (run.folder / "nowhere").exists()


def test_what_cannot_be_is_said_before_anything_is_removed(run, model):
    lines = (run.folder / "apis.jsonl").read_text().splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    named = [part for name in ids for part in ("--api", name)]
    result = run("forget", "--model", model, *named)
    assert result.exit_code == 1 and "no API would be left" in result.stderr
    assert SECRET.encode() in (run.folder / "m" / "online.sqlite").read_bytes()


def test_a_refit_that_is_interrupted_leaves_all_and_again_finishes(run, model, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("cnp_router.training.LearnedRouter.save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run("forget", "--model", model, "--user", "ann", "--jobs", "1")
    # What was observed is forgotten first, then the model.
    assert SECRET.encode() not in (run.folder / "m" / "online.sqlite").read_bytes()
    assert SECRET.encode() in bytes_of(run.folder / "m")
    assert document(run("verify", "--model", model, "--json"))["mashups"] == 21
    told = document(run("forget", "--model", model, "--user", "ann", "--jobs", "1", "--json"))
    assert told["observed"]["mashups"] == [] and told["model"]["fitted"] is True
    assert SECRET.encode() not in bytes_of(run.folder / "m")


def test_plans_that_have_worked(run, model):
    from cnp_router.execution import Job, Plan
    from cnp_router.planning import ProvenPlans

    proven = ProvenPlans(run.folder / "m" / "plans.jsonl")
    proven.keep(Plan(f"Bars of {SECRET}.", (Job("a", api="flickr"),)), user="ann")
    proven.keep(Plan("Text me.", (Job("a", api="twilio"),)), user="bob")
    arguments = ("forget", "--model", model, "--user", "ann", "--jobs", "1")
    assert document(run(*arguments, "--dry-run", "--json"))["plans"] == 1
    assert len(proven) == 2
    assert "1 plan removed" in run(*arguments).stdout
    assert SECRET.encode() not in bytes_of(run.folder / "m")
    assert proven.near("Text me.", user="bob")
    told = document(run("forget", "--model", model, "--api", "twilio", "--jobs", "1", "--json"))
    assert told["plans"] == 1
    assert not proven.path.exists()


def test_where_there_are_only_plans(run):
    from cnp_router.execution import Job, Plan
    from cnp_router.planning import ProvenPlans

    (run.folder / "only").mkdir()
    proven = ProvenPlans(run.folder / "only" / "plans.jsonl")
    proven.keep(Plan("Text me.", (Job("a", api="twilio"),)), user="ann")
    told = document(run("forget", "--model", "only", "--user", "ann", "--json"))
    assert (told["observed"], told["model"], told["plans"]) == (None, None, 1)


def test_damaged_plans_are_said_before_anything_is_removed(run, model):
    (run.folder / "m" / "plans.jsonl").write_text("{}\n")
    before = bytes_of(run.folder / "m")
    told = run("forget", "--model", model, "--user", "ann", "--jobs", "1")
    assert told.exit_code == 1
    assert "plans.jsonl, line 1: missing field 'plan'" in told.stderr
    assert bytes_of(run.folder / "m") == before


def test_what_is_remembered_of_a_user(run, model):
    file = run.folder / "m" / "memory.sqlite"
    with Memory(file) as memory:
        memory.remember("user", f"likes {SECRET}", user="ann")
        memory.remember("session", f"saw {SECRET}", user="ann", session="s1")
        memory.remember("user", "likes Kyoto", user="bob")
    dry = document(run("forget", "--model", model, "--user", "ann", "--dry-run", "--json"))
    assert (dry["remembered"], dry["removed"]) == (2, False)
    told = run("forget", "--model", model, "--user", "ann", "--jobs", "1")
    assert "Remembered    2 items removed" in told.stdout and "Not reached:" in told.stdout
    assert SECRET.encode() not in bytes_of(run.folder / "m")
    with Memory(file) as memory:
        assert [item.data for item in memory.recall(user="bob")] == ["likes Kyoto"]
    again = document(run("forget", "--model", model, "--user", "ann", "--json"))
    assert again["remembered"] == 0
    assert document(run("verify", "--model", model, "--json"))["mashups"] == 20


def test_where_only_something_is_remembered(run):
    (run.folder / "m").mkdir()
    with Memory(run.folder / "m" / "memory.sqlite") as memory:
        memory.remember("user", "likes Kyoto", user="ann")
    told = document(run("forget", "--model", "m", "--user", "ann", "--json"))
    assert (told["remembered"], told["observed"], told["model"]) == (1, None, None)


def test_what_somebody_searched_for(run):
    (run.folder / "m").mkdir()
    file = run.folder / "m" / "searches.sqlite"
    with SearchLog(file) as log:
        for user in ("ann", "bob"):
            about = (f"{SECRET} of {user}", ("a",), ("a",), 0.9, True, True)
            log.add(LoggedSearch(f"search of {user}", user, 1e9, *about))
            log.begin(f"search of {user}", user, "a", {"secret": SECRET}, since=0.0, within=0.0)
    dry = document(run("forget", "--model", "m", "--user", "ann", "--dry-run", "--json"))
    assert (dry["searches"], dry["observed"], dry["removed"]) == (1, None, False)
    told = run("forget", "--model", "m", "--user", "ann", "--api", "a")
    assert "Searches  2 records removed" in told.stdout and "Not reached:" in told.stdout
    assert f"{SECRET} of ann".encode() not in bytes_of(run.folder / "m")
    with SearchLog(file) as log:
        assert [each.client for each in log.searches()] == ["bob"]
        log.finish_own()
        assert log.finished(idle=0.0) == ()


def test_a_memory_that_is_none_is_found_before_anything_is_forgotten(run, model):
    (run.folder / "m" / "memory.sqlite").write_text("no memory " * 100)
    result = run("forget", "--model", model, "--user", "ann")
    assert result.exit_code == 1 and "file is not a database" in result.stderr
    assert SECRET.encode() in bytes_of(run.folder / "m")
