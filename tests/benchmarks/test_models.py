"""Models side by side by base URLs alone: servers on this machine."""

from __future__ import annotations

import argparse
import json

import pytest
from chat_server import Reply, completion, in_a_thread, stay_on_this_machine

from benchmarks import models
from benchmarks.run import main
from cnp_router.exceptions import ChatAnswerError, InputError
from cnp_router.llm import run_sync
from cnp_router.llm.openai_model_list import model_names

LISTED = Reply({"object": "list", "data": [{"id": "large"}, {"id": "small"}, {"id": "large"}]})


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    stay_on_this_machine(monkeypatch)


def reply(body):
    """Propose and select nothing, but name what fits; the small one answers no JSON."""
    if body is None:
        return LISTED
    if body["model"] == "small":
        return completion("no JSON")
    schema = body["response_format"]["json_schema"]["schema"]["properties"]
    return completion({key: [] for key in schema}, usage=(1_000, 10))


def options(**given):
    usual = {"data": None, "seed": 0, "limit": 1, "split": None, "prices": None, "base_url": None}
    return argparse.Namespace(**{**usual, **given})


def test_what_a_server_lists_is_compared_with_the_stand_in(sample_model, tmp_path, capsys):
    prices = tmp_path / "prices.json"
    prices.write_text('{"currency": "USD", "per": 1000, "models": {"large": {"in": 1, "out": 1}}}')
    with in_a_thread(reply) as server:
        found = models.run(options(model=sample_model, base_url=[server.url], prices=prices))
    stand_in, large, small = found["rows"]
    assert (stand_in["model"], stand_in["is_stand_in"]) == ("offline", True)
    assert (stand_in["tokens_are"], stand_in["price"]) == ("estimated", None)
    assert (large["model"], large["server"], large["is_stand_in"]) == ("large", server.url, False)
    assert (large["tokens_are"], large["failed_rounds"]) == ("server", 0)
    assert large["tokens"] == 1_010 * large["model_calls"]
    assert large["price"] == pytest.approx(1.01 * large["model_calls"])
    assert (small["f1"], small["failed_rounds"]) == (None, 1)
    assert "does not" in small["reason"] or "JSON" in small["reason"]
    assert {body["model"] for body in server.requests if body} == {"large", "small"}
    text = capsys.readouterr().out
    assert "text similarity, a stand-in" in text and "small at " in text and "unknown" in text


def test_a_named_model_and_the_entry_point(sample_model, tmp_path):
    with in_a_thread(reply) as server:
        url, file = f"{server.url}=large", tmp_path / "models.json"
        how = ["models", "--model", str(sample_model), "--limit", "1", "--base-url", url]
        assert main([*how, "--json", str(file), "--seed", "0"]) == 0
    assert [row["model"] for row in json.loads(file.read_text())["rows"]] == ["offline", "large"]
    assert None not in server.requests  # nothing was listed


def test_a_model_without_a_name(sample_model):
    with pytest.raises(InputError, match="names no model"):
        models.run(options(model=sample_model, base_url=["http://127.0.0.1:9/v1="]))


@pytest.mark.parametrize("body", [{"data": []}, {"data": [{}]}, {}, [], b"no JSON"])
def test_a_server_that_lists_nothing(body):
    with (
        in_a_thread(lambda _: Reply(body)) as server,
        pytest.raises(ChatAnswerError, match="it lists no models"),
    ):
        run_sync(lambda: model_names(server.url), instead="")
