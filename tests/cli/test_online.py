"""``observe``, ``next`` and ``replay``."""

from __future__ import annotations

import json
import shutil
import signal
import sys

import pytest

from cnp_router.history import History, Mashup
from cnp_router.online import OnlineStore, RouterObserver
from cnp_router.prediction import PREDICTORS
from cnp_router.training import load_router
from cnp_router.trajectories import Step, Trajectory, write_trajectories

KEYS = {"threshold", "coverage", "accuracy", "tokens_saved", "tokens_saved_net", "seconds_saved"}
KEYS |= {"tokens_in_saved", "tokens_out_saved"}


@pytest.fixture
def logs(run):
    """Logs in the working folder: `good.jsonl`, `failed.jsonl` and ordered `mashups.jsonl`."""

    def trajectory(name, *tools, success=None):
        steps = [Step(tool, {"city": "Oslo"}, f"{tool} done", 90, 10, 1.0) for tool in tools]
        return Trajectory(name, "Rain?", tuple(steps), success)

    good = [trajectory(f"g{n}", "weather", "maps", "sms") for n in range(20)]
    write_trajectories("good.jsonl", good)
    failed = [trajectory(f"f{n}", "weather", "telex", success=False) for n in range(40)]
    write_trajectories("failed.jsonl", failed)
    mashups = [Mashup(f"m{n}", "Pay", ("shop", "pay"), ordered=True) for n in range(20)]
    History([*mashups, Mashup("u", "Pay", ("x", "y"))]).write("mashups.jsonl")


def document(result):
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.mark.usefixtures("logs")
class TestObserve:
    def test_a_new_folder(self, run):
        told = document(run("observe", "--model", "m", "--trajectories", "good.jsonl", "--json"))
        assert (told["observed"], told["repeated"], told["records"]) == (20, 0, 20)
        assert (told["trajectories"], told["steps"]) == (20, 60)
        text = run("observe", "--model", "m", "--trajectories", "good.jsonl").stdout
        assert "0 records (20 had been observed before)" in text
        assert "learned from 20 runs, 60 steps" in text
        assert "Fitted model" not in text and told["new_to_model"] is None
        assert "of the steps, 20 of the 100 runs needed before it acts\n" in text
        assert "acted upon from" not in text and told["trajectories_needed"] == 100

    def test_enough_runs_act_from_a_confidence_on(self, run):
        runs = [Trajectory(f"t{n}", "Rain?", (Step("weather"), Step("sms"))) for n in range(100)]
        write_trajectories("many.jsonl", runs)
        text = run("observe", "--model", "m", "--trajectories", "many.jsonl").stdout
        assert "so predictions are acted upon from a confidence of 0." in " ".join(text.split())
        assert "needed before" not in text

    def test_one_of_each(self, run):
        write_trajectories("one.jsonl", [Trajectory("t", "Rain?", (Step("weather"),))])
        text = run("observe", "--model", "m", "--trajectories", "one.jsonl").stdout
        assert "Observed    1 record\n" in text and "from 1 run, 1 step\n" in text

    def test_other_content_under_the_same_id_is_told(self, run):
        run("observe", "--model", "m", "--trajectories", "good.jsonl")
        changed = Trajectory("g0", "Snow?", (Step("weather"),))
        write_trajectories("next.jsonl", [changed, Trajectory("new", "Rain?", ())])
        result = run("observe", "--model", "m", "--trajectories", "next.jsonl", "--json")
        told = json.loads(result.stdout)
        assert (told["observed"], told["repeated"], told["changed"]) == (1, 0, 1)
        assert result.stderr == (
            "Warning: 1 record not learned: other content than what was observed before under the "
            "same id (give a new id)\n"
        )

    def test_ordered_mashups_and_trajectories_together(self, run):
        arguments = ("--trajectories", "good.jsonl", "--history", "mashups.jsonl", "--json")
        told = document(run("observe", "--model", "m", *arguments))
        assert (told["records"], told["trajectories"]) == (41, 40)
        said = document(run("next", "--model", "m", "--prefix", "shop", "--json"))
        assert said["tool"] == "pay"

    def test_a_model_can_be_fitted_where_something_was_observed(self, run, sample):
        sample.catalog.write("apis.jsonl")
        History(sample.history[:40]).write("old.jsonl")
        History(sample.history[40:60]).write("new.jsonl")
        said = run("observe", "--model", "m", "--history", "new.jsonl")
        assert said.exit_code == 0
        assert "Warning: no fitted model in m, and no mashup is in order" in said.stderr
        fitted = run("fit", "--catalog", "apis.jsonl", "--history", "old.jsonl", "--output", "m")
        assert (fitted.exit_code, fitted.stderr) == (0, "")
        again = run("observe", "--model", "m", "--history", "new.jsonl", "--json")
        told = json.loads(again.stdout)
        assert (told["observed"], told["repeated"], told["records"]) == (0, 20, 20)
        assert again.stderr == ""
        knows = RouterObserver(load_router("m"))
        with OnlineStore("m/online.sqlite", [knows]):
            assert knows.n_learned == 20

    def test_a_failed_path_is_not_reinforced(self, run):
        for name in ("good", "failed"):
            run("observe", "--model", "m", "--trajectories", f"{name}.jsonl")
        said = document(run("next", "--model", "m", "--prefix", "weather", "--json"))
        assert said["tool"] == "maps"
        assert "telex" not in {candidate["tool"] for candidate in said["candidates"]}

    def test_nothing_to_observe_is_wrong_usage(self, run):
        result = run("observe", "--model", "m")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Give --trajectories or --history." in result.stderr

    def test_a_bad_file_observes_nothing(self, run, tmp_path):
        (tmp_path / "bad.jsonl").write_text('{"id": "a", "goal": "g", "steps": [{"tool": 7}]}\n')
        result = run("observe", "--model", "m", "--trajectories", "bad.jsonl")
        assert result.exit_code == 1
        assert "bad.jsonl, line 1" in result.stderr
        assert not (tmp_path / "m").exists()

    def test_what_a_killed_command_left_is_not_something_else(self, run, tmp_path):
        (tmp_path / "m").mkdir()
        for name in ("online.sqlite-lock", ".online.sqlite.new"):
            (tmp_path / "m" / name).write_bytes(b"half")
        told = document(run("observe", "--model", "m", "--trajectories", "good.jsonl", "--json"))
        assert told["observed"] == 20
        left = {path.name for path in (tmp_path / "m").iterdir()}
        assert left == {"online.sqlite", "online.sqlite-lock"}

    def test_something_else_is_never_written_into(self, run, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "letter.txt").write_text("x")
        (tmp_path / "mine" / "manifest.json").write_text("{}")
        for place in ("mine", "good.jsonl"):
            result = run("observe", "--model", place, "--trajectories", "good.jsonl")
            assert result.exit_code == 1
            assert "something that is not a model is there" in result.stderr

    def test_somebody_else_is_writing(self, run, tmp_path):
        from cnp_router.prediction import NextToolRouter

        with OnlineStore(tmp_path / "m" / "online.sqlite", [NextToolRouter()]):
            result = run("observe", "--model", "m", "--trajectories", "good.jsonl")
        assert result.exit_code == 1
        assert "another process or object is writing there" in result.stderr

    def test_beside_a_model_and_after_it_is_fitted_again(self, run, sample_model, fits):
        shutil.copytree(sample_model, "model")
        run("observe", "--model", "model", "--trajectories", "good.jsonl")
        assert run("recommend", "--model", "model", "rain").exit_code == 0
        said = document(run("next", "--model", "model", "--prefix", "weather", "--json"))
        again = run("fit", "--sample", "--output", "model", "--overwrite")
        assert again.exit_code == 0 and len(fits) == 1
        assert document(run("next", "--model", "model", "--prefix", "weather", "--json")) == said

    @pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
    def test_a_fitted_model_learns_from_mashups(self, run, sample_model, tmp_path):
        shutil.copytree(sample_model, "model")
        request = "Guess the tree in a quiz."
        ask = ("recommend", "--model", "model", "--json", request)
        before = document(run(*ask))
        assert "flickr" not in before["recommendation"]
        new = Mashup("trees", "Children guess trees in a quiz.", ("flickr",))
        History([new]).write("new.jsonl")
        told = document(run("observe", "--model", "model", "--history", "new.jsonl", "--json"))
        assert (told["observed"], told["new_to_model"]) == (1, 1)
        assert document(run(*ask))["recommendation"].count("flickr") == 1
        evaluated = run("evaluate", "--model", "model", "--history", "new.jsonl", "--json")
        assert "1 of 1 requests are among those the model learned from" in evaluated.stderr
        assert json.loads(evaluated.stdout)["ranking"]["recall@5"] == 1

    def test_what_the_fitted_model_knows_already_is_told(self, run, sample, sample_model):
        shutil.copytree(sample_model, "model")
        sample.history[:3].write("old.jsonl")
        text = run("observe", "--model", "model", "--history", "old.jsonl").stdout
        assert "Observed      3 records\n" in text
        assert "Fitted model  0 mashups new to it\n" in text

    def test_it_says_when_a_model_is_best_fitted_again(self, run, sample):
        sample.catalog.write("apis.jsonl")
        sample.history[:2].write("two.jsonl")
        fit = ("fit", "--catalog", "apis.jsonl", "--history", "two.jsonl", "--output", "model")
        assert run(*fit).exit_code == 0
        said = []
        for first, last in ((0, 2), (2, 4), (4, 5)):
            sample.history[first:last].write("new.jsonl")
            said.append(run("observe", "--model", "model", "--history", "new.jsonl").stderr)
        assert said[:2] == ["", ""]
        note = "Note: the model was fitted on 2 mashups and has observed 3: it ranks better once"
        assert said[2].startswith(note)

    def test_one_bad_mashup_and_nothing_is_learned(self, run, sample_model, tmp_path):
        shutil.copytree(sample_model, "model")
        bad = Mashup("m", "text", ("no-such-api",))
        History([Mashup("n", "text", ("twilio",)), bad]).write("new.jsonl")
        result = run(
            *("observe", "--model", "model", "--trajectories", "good.jsonl"),
            *("--history", "new.jsonl"),
        )
        assert (result.exit_code, result.stdout) == (1, "")
        assert "new.jsonl, line 2: unknown API 'no-such-api'" in result.stderr
        assert not (tmp_path / "model" / "online.sqlite").exists()

    def test_killed_in_the_middle_and_given_again(self, run, process):
        killing = (
            "import os, signal\n"
            "import cnp_router.cli.observe as command\n"
            "from cnp_router.online import OnlineStore\n"
            "from cnp_router.cli import main\n"
            "observe, left = OnlineStore.observe_many, [3]\n"
            "def deadly(store, records):\n"
            "    left[0] -= 1\n"
            "    left[0] or os.kill(os.getpid(), signal.SIGKILL)\n"
            "    return observe(store, records)\n"
            "OnlineStore.observe_many, command.AT_ONCE = deadly, 3\n"
            "main()\n"
        )
        done = process("observe", "--model", "m", "--trajectories", "good.jsonl", code=killing)
        done.communicate()
        assert done.returncode == -signal.SIGKILL
        told = document(run("observe", "--model", "m", "--trajectories", "good.jsonl", "--json"))
        assert (told["observed"], told["repeated"], told["records"]) == (14, 6, 20)
        assert (told["trajectories"], told["steps"]) == (20, 60)


@pytest.mark.usefixtures("logs")
class TestNext:
    @pytest.fixture
    def next_(self, run):
        run("observe", "--model", "m", "--trajectories", "good.jsonl")
        return lambda *arguments: run("next", "--model", "m", "--goal", "Rain?", *arguments)

    def test_the_document(self, next_):
        said = document(next_("--prefix", "weather,maps", "--threshold", "0.6", "--json"))
        assert (said["tool"], said["source"], said["unsure"]) == ("sms", "context", None)
        assert said["candidates"][0] == {"tool": "sms", "probability": said["confidence"]}
        assert said["threshold"] == 0.6
        hint = said["hints"][0]
        assert (hint["input"], hint["tool"], hint["count"], hint["of"]) == ("city", "maps", 20, 20)

    def test_the_start_of_a_run(self, next_):
        for prefix in ((), ("--prefix", ""), ("--prefix", " ")):
            assert document(next_(*prefix, "--json"))["tool"] == "weather"

    def test_prefixes_add_up(self, next_):
        joined = document(next_("--prefix", "weather,maps", "--json"))
        assert document(next_("--prefix", "weather", "--prefix", " maps", "--json")) == joined

    @pytest.fixture
    def skies(self, run):
        """A model of runs in which only the observation tells what comes next."""
        log = [
            Trajectory(f"s{n}", "Warn me.", (Step("weather", {}, sky), Step(tool)))
            for n, (sky, tool) in enumerate([("rain", "sms"), ("sun", "unknown")] * 20)
        ]
        write_trajectories("skies.jsonl", log)
        run("observe", "--model", "skies", "--trajectories", "skies.jsonl")

    @pytest.mark.usefixtures("skies")
    @pytest.mark.parametrize(("sky", "tool"), [("rain", "sms"), ("sun", "unknown")])
    def test_steps_tell_more_than_tools(self, run, tmp_path, sky, tool):
        so_far = Trajectory("now", "Warn me.", (Step("weather", {}, sky),)).to_dict()
        for indent in (None, 2):
            (tmp_path / "run.json").write_text(json.dumps(so_far, indent=indent))
            said = document(run("next", "--model", "skies", "--steps", "run.json", "--json"))
            assert said["tool"] == tool and said["confidence"] > 0.6

    def test_the_goal_of_the_steps_is_the_default(self, run):
        goals = [("Text me.", "sms"), ("Write me.", "mail")] * 20
        log = [
            Trajectory(f"t{n}", goal, (Step("weather"), Step(tool)))
            for n, (goal, tool) in enumerate(goals)
        ]
        write_trajectories("goals.jsonl", log)
        run("observe", "--model", "goals", "--trajectories", "goals.jsonl")
        write_trajectories("run.jsonl", [Trajectory("now", "Text me.", (Step("weather"),))])
        ask = ("next", "--model", "goals", "--steps", "run.jsonl", "--json")
        assert document(run(*ask))["tool"] == "sms"
        assert document(run(*ask, "--goal", "Write me."))["tool"] == "mail"

    def test_a_bad_file_of_steps(self, run, next_):
        result = next_("--steps", "good.jsonl")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "good.jsonl: holds 20 trajectories (give a file with one)" in result.stderr

    @pytest.mark.usefixtures("skies")
    def test_excluding(self, run):
        ask = ("next", "--model", "skies", "--goal", "Warn me.", "--prefix", "weather", "--json")
        plain = document(run(*ask, "--exclude", "nobody"))
        assert {c["tool"] for c in plain["candidates"]} >= {"sms", "unknown"}
        said = document(run(*ask, "--exclude", "unknown", "--exclude", "nobody"))
        kept = [c for c in plain["candidates"] if c["tool"] != "unknown"]
        assert said["candidates"] == kept
        assert (said["tool"], said["confidence"]) == ("sms", kept[0]["probability"])
        everything = ("--exclude", "sms", "--exclude", "unknown", "--exclude", "weather")
        text = run(*ask[:-1], *everything).stdout
        assert text == "Nothing is known of what comes next, besides what is excluded.\n"

    def test_the_text(self, next_):
        text = next_("--prefix", "weather").stdout
        assert text.startswith("tool ")
        assert "Next            maps (undecided: the caller has to decide)" in text
        assert "Not acted upon  20 of the 100 runs needed before it acts (--threshold to" in text
        assert "from weather's inputs, city (20 of 20 times)" in text
        sure = next_("--prefix", "weather", "--threshold", "0.6").stdout
        assert "maps (predicted by context)" in sure and "Not acted upon" not in sure

    def test_a_tool_that_was_never_observed(self, next_):
        text = next_("--prefix", "wether,maps,zzz,zzz").stdout
        assert "Never observed  wether: did you mean weather?\nNever observed  zzz\n" in text
        said = document(next_("--prefix", "wether,maps,zzz", "--json"))
        assert said["never_observed"] == ["wether", "zzz"]
        assert "Never observed" not in next_("--prefix", "weather,maps").stdout

    def test_the_offline_model_decides(self, next_):
        said = document(next_("--prefix", "weather", "--llm", "offline", "--json"))
        assert (said["tool"], said["source"], said["unsure"]) == ("maps", "llm", "cold-start")
        text = next_("--prefix", "weather", "--llm", "offline").stdout
        assert "maps (chosen by the language model)" in text

    def test_a_server_is_asked(self, next_, monkeypatch):
        monkeypatch.setenv("CNP_ROUTER_MODEL_REQUESTS", "loopback")
        result = next_("--llm", "openai", "--base-url", "http://127.0.0.1:9/v1")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "gpt-oss:20b" in result.stderr

    def test_the_model_is_shown_what_was_fitted(self, run, sample_model):
        shutil.copytree(sample_model, "model")
        said = document(run("next", "--model", "model", "--llm", "offline", "--json"))
        assert (said["source"], said["unsure"]) == ("llm", "unknown")
        assert said["tool"] is not None

    def test_a_model_that_nothing_was_observed_for(self, run, sample_model):
        shutil.copytree(sample_model, "model")
        assert run("next", "--model", "model").stdout == "Nothing is known of what comes next.\n"
        said = document(run("next", "--model", "model", "--json"))
        assert (said["tool"], said["source"], said["candidates"]) == (None, "none", [])

    @pytest.mark.parametrize("place", ["nowhere", "good.jsonl", "."])
    def test_no_model(self, run, place):
        result = run("next", "--model", place)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "nothing observed (observe first)" in result.stderr

    @pytest.mark.parametrize(
        "wrong",
        [
            ("--prefix", "a,,b"),
            ("--prefix", ","),
            ("--threshold", "1.1"),
            ("--prefix", "weather", "--steps", "good.jsonl"),
            ("--llm-model", "x"),
            ("--llm", "offline", "--base-url", "http://localhost"),
        ],
    )
    def test_wrong_usage(self, next_, wrong):
        result = next_(*wrong)
        assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.usefixtures("logs")
class TestReplay:
    def test_the_document(self, run):
        thresholds = ("--threshold", "0.6", "--threshold", "0.9")
        told = document(run("replay", "--trajectories", "good.jsonl", *thresholds, "--json"))
        assert (told["trajectories"], told["steps"], told["warm"]) == (20, 60, 0)
        assert list(told["methods"]) == list(PREDICTORS)
        for rows in told["methods"].values():
            assert [row["threshold"] for row in rows] == [0.6, 0.9]
            assert all(set(row) == KEYS for row in rows)
        nothing = told["methods"]["always-ask"][0]
        assert (nothing["coverage"], nothing["accuracy"], nothing["tokens_saved"]) == (0, None, 0)
        assert told["methods"]["context"][0]["tokens_saved"] > 0.8

    def test_warm(self, run):
        arguments = ("--trajectories", "good.jsonl", "--threshold", "0.6", "--json")
        cold = document(run("replay", *arguments))
        warm = document(run("replay", *arguments, "--warm", "failed.jsonl", "--warm", "good.jsonl"))
        assert warm["warm"] == 60
        for name in ("context", "backoff"):
            first, second = (told["methods"][name][0]["coverage"] for told in (cold, warm))
            assert second >= first

    def test_the_text(self, run):
        text = run("replay", "--trajectories", "good.jsonl", "--threshold", "0.6").stdout
        lines = text.splitlines()
        assert lines[3].split()[:4] == ["method", "threshold", "coverage", "accuracy"]
        head = " ".join(" ".join(lines[:4]).split())
        assert head.count("tokens") == head.count("saved") - 1 == 2
        rows = [line.split()[:2] for line in lines[4:] if line]
        assert rows[:3] == [["context", "0.60"], ["backoff", "0.60"], ["first-order", "0.60"]]
        assert ["always-ask", "any"] in rows
        assert "60 steps in 20 runs\n" in text
        assert "Confidence of context " in text
        assert " off on average (ECE; 0 is best)\n" in text
        assert "Confidence of always-ask" not in text
        assert "Advice                     Act on " in text
        assert "Coverage: of the steps, those that are predicted" in " ".join(text.split())

    def test_excluding(self, run):
        ask = ("replay", "--trajectories", "good.jsonl", "--threshold", "0.6")
        plain = document(run(*ask, "--json"))["methods"]["context"][0]
        told = document(run(*ask, "--exclude", "sms", "--exclude", "maps", "--json"))
        assert (told["steps"], told["exclude"]) == (60, ["sms", "maps"])
        assert 0 < told["methods"]["context"][0]["coverage"] < plain["coverage"] / 2
        assert "Not acted upon" in run(*ask, "--exclude", "sms").stdout

    def test_one_of_each(self, run):
        write_trajectories("one.jsonl", [Trajectory("t", "g", (Step("w", output_tokens=1),))])
        text = run("replay", "--trajectories", "one.jsonl", "--warm", "one.jsonl").stdout
        assert "1 step in 1 run, having learned from 1 other\n" in text
        assert "1 token and 0.0 seconds" in text

    def test_amounts_whose_sums_would_overflow(self, run, tmp_path):
        steps = ", ".join(['{"tool": "w", "seconds": 1e308}'] * 2)
        (tmp_path / "big.jsonl").write_text(f'{{"id": "t", "goal": "g", "steps": [{steps}]}}')
        result = run("replay", "--trajectories", "big.jsonl", "--json")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "entry 1: field 'seconds' must be a number from 0 to 10^12" in result.stderr

    def test_a_log_without_steps(self, run):
        write_trajectories("empty.jsonl", [Trajectory("t", "g", ())])
        result = run("replay", "--trajectories", "empty.jsonl")
        assert result.exit_code == 1
        assert "no step to replay" in result.stderr

    def test_wrong_usage(self, run):
        assert run("replay").exit_code == 2
        assert run("replay", "--trajectories", "good.jsonl", "--threshold", "2").exit_code == 2
