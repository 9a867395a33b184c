"""Models by role and prices, on the command line, with servers on this machine."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from chat_server import KEY, completion, in_a_thread, stay_on_this_machine

from cnp_router.cli.app import COMMANDS, app

REQUEST = "Send me a text message when it rains."
REFUSAL = {"functions": [], "categories": [], "apis": [], "grounds": []}
HAS = {
    "negotiate": {"manager", "contractor"},
    "compare": {"manager", "contractor"},
    "execute": {"manager", "contractor", "planner", "executor"},
    "timetable": {"planner", "executor"},
    "replay": set(),
}


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    stay_on_this_machine(monkeypatch)


def answer(body):
    """Propose all, and select all: it fits every task of a round."""
    schema = body["response_format"]["json_schema"]["schema"]["properties"]
    told = {key: value for key, value in REFUSAL.items() if key in schema}
    return completion(told, usage=(1_000, 100))


@contextmanager
def two_servers():
    with in_a_thread(answer) as one, in_a_thread(answer) as other:
        yield one, other


def prices(**models):
    listed = {name: {"in": each, "out": 10 * each} for name, each in models.items()}
    Path("prices.json").write_text(json.dumps({"currency": "USD", "per": 1000, "models": listed}))
    return "--prices", "prices.json"


@pytest.fixture
def negotiate(run, sample_model):
    def negotiate(*arguments):
        return run("negotiate", "--model", sample_model, *arguments, REQUEST)

    return negotiate


@pytest.mark.parametrize("command", COMMANDS)
def test_which_command_has_which_roles(command):
    names = {option for p in app.get_command(None, command).params for option in p.opts}
    roles = {role for role in ("manager", "contractor", "planner", "executor")
             if f"--{role}-model" in names}  # fmt: skip
    assert roles == HAS.get(command, set())
    assert ("--prices" in names) == (command in HAS)


def test_what_was_paid_is_counted_by_model(negotiate, watched):
    with two_servers() as (one, other):
        result = negotiate(
            *("--llm", "openai", "--base-url", one.url, "--llm-model", "large"),
            *("--contractor-model", f"small@{other.url}", "--protocol", "manager-led", "--json"),
            *prices(large=1, small=0.01),
        )
    bill = json.loads(result.stdout)["price"]["by_model"]
    paid = watched.values("cnp_router.cost")
    assert paid == {
        f"currency=USD, gen_ai.request.model={name}": pytest.approx(cost)
        for name, cost in bill.items()
    }


def test_each_role_asks_its_own_server_and_has_its_price(negotiate):
    with two_servers() as (one, other):
        result = negotiate(
            *("--llm", "openai", "--base-url", one.url, "--llm-model", "large"),
            *("--contractor-model", f"small@{other.url}", "--protocol", "manager-led", "--json"),
            *prices(large=1, small=0.01),
        )
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["model"] == "large (contractor: small)"
    calls = {role: cost["model_calls"] for role, cost in document["ledger"]["by_role"].items()}
    assert {body["model"] for body in one.requests} == {"large"}
    assert len(one.requests) == calls["manager"]
    assert {body["model"] for body in other.requests} <= {"small"}
    assert len(other.requests) == calls.get("contractor", 0)
    price = document["price"]
    assert price["by_role"]["manager"] == pytest.approx(2.0 * calls["manager"])
    assert price["total"] == pytest.approx(sum(price["by_role"].values()))
    assert (price["currency"], price["tokens_are"], price["no_price"]) == ("USD", "server", [])


def test_contractors_by_another_model_of_the_same_server(negotiate):
    with in_a_thread(answer) as server:
        result = negotiate(
            *("--llm", "openai", "--base-url", server.url, "--llm-model", "large"),
            *("--contractor-model", "small", *prices(large=1, small=0.01)),
        )
    assert result.exit_code == 0
    asked = [body["model"] for body in server.requests]
    assert "small" in asked
    text = " ".join(result.stdout.split())
    assert "Model large (contractor: small)" in text
    assert "Price " in text and "contractor" in text and "estimated" not in text


def test_a_server_for_one_role_and_the_offline_model_for_the_other(negotiate):
    with in_a_thread(answer) as server:
        result = negotiate("--contractor-model", f"small@{server.url}", *prices(small=1))
    assert result.exit_code == 0
    assert {body["model"] for body in server.requests} == {"small"}
    text = " ".join(result.stdout.split())
    # What was asked has a price where it is listed; nobody bid, so the manager was not asked.
    assert "Price 0" not in text and "contractor" in text


def test_a_model_without_a_price_is_said_and_not_0(negotiate):
    result = negotiate(*prices(other=1))
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "Price unknown (contractor unknown, manager unknown), of estimated tokens" in text
    assert "No price prices.json does not list 'offline'" in text
    document = json.loads(negotiate("--json", *prices(other=1)).stdout)
    assert document["price"]["total"] is None
    assert document["price"]["no_price"] == ["offline"]


def test_the_key_of_one_server_is_not_sent_to_another(negotiate, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def keys():
        with two_servers() as (one, other):
            negotiate(
                *("--llm", "openai", "--base-url", one.url),
                *("--protocol", "contractor-led", "--manager-model", "same"),
                *("--contractor-model", f"small@{other.url}"),
            )
        assert one.headers == [] or {h["authorization"] for h in one.headers} == {f"Bearer {KEY}"}
        return {headers["authorization"] for headers in other.headers}

    assert KEY not in str(keys())
    monkeypatch.setenv("OPENAI_API_KEY_127_0_0_1", "sk-of-the-other-one-123")
    assert keys() == {"Bearer sk-of-the-other-one-123"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--manager-model", "big"), "--manager-model big needs --llm openai, or its server: big@"),
        (("--manager-model", "@http://127.0.0.1:9/v1"), "--manager-model needs a name: NAME, or"),
        (("--executor-model", "big@http://127.0.0.1:9/v1"), "No such option"),
    ],
)
def test_wrong_use(negotiate, arguments, message):
    result = negotiate(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("big@http://", "base_url must be a URL"),
        ("big@http://user:secret@127.0.0.1/v1", "base_url must have no user"),
    ],
)
def test_a_wrong_server(negotiate, named, message):
    result = negotiate("--manager-model", named)
    assert result.exit_code == 1 and message in " ".join(result.stderr.split())
    assert "secret" not in result.stderr


def test_wrong_prices_are_found_before_anything_is_asked(negotiate):
    Path("prices.json").write_text("[]")
    with in_a_thread([]) as server:
        result = negotiate("--llm", "openai", "--base-url", server.url, "--prices", "prices.json")
    assert (result.exit_code, server.requests) == (1, [])
    assert "prices.json: expected a JSON object, got list" in result.stderr


def test_compare_says_the_price_of_a_request(run, files, sample_model):
    how = ("compare", "--model", sample_model, "--history", "held-out.jsonl", "--limit", 1)
    how += ("--protocol", "contractor-led", "--protocol", "learned", "--announce", "routed")
    text = " ".join(run(*how, *prices(offline=1)).stdout.split())
    assert "Price of a request, USD" in text
    assert "Prices are those of estimated tokens." in text
    document = json.loads(run(*how, "--json", *prices(offline=1)).stdout)
    rows = {row["protocol"]: row for row in document["rows"]}
    assert rows["learned"]["price"]["total"] == 0
    row = rows["contractor-led"]
    negotiated = row["price"]
    assert negotiated["total"] == pytest.approx(
        (row["tokens_in"] + 10 * row["tokens_out"]) / 1000, abs=1e-6
    )
    assert set(negotiated["by_role"]) == {"manager", "contractor"}
    text = " ".join(run(*how, *prices(other=1)).stdout.split())
    assert "unknown" in text and "prices.json has no price of the model 'offline'." in text
    assert "price" not in json.loads(run(*how, "--json").stdout)["rows"][0]


def test_compare_keeps_what_prices_need(run, files, sample_model):
    how = ("compare", "--model", sample_model, "--history", "held-out.jsonl", "--limit", 1)
    how += ("--protocol", "contractor-led", "--announce", "routed", "--resume", "kept.jsonl")
    first = json.loads(run(*how, "--json").stdout)
    again = json.loads(run(*how, "--json", *prices(offline=1)).stdout)
    assert again["rows"][0].pop("price")["total"] > 0
    assert again == first


def test_replay_prices_the_log(run, files):
    how = ("replay", "--trajectories", "trajectories.jsonl", "--threshold", 0.5)
    document = json.loads(run(*how, "--json", *prices(small=1)).stdout)
    assert (document["tokens_in"], document["tokens"]) == (800, 872)
    price = document["price"]
    assert (price["model"], price["currency"]) == ("small", "USD")
    assert price["total"] == pytest.approx((800 + 10 * 72) / 1000)
    [saved] = price["saved"]["context"]
    at = document["methods"]["context"][0]
    assert saved["price"] == pytest.approx(
        (at["tokens_in_saved"] + 10 * at["tokens_out_saved"]) / 1000
    )
    assert saved["price"] / price["total"] == pytest.approx(at["tokens_saved"])
    text = " ".join(run(*how, *prices(small=1)).stdout.split())
    assert f" {saved['price']:.2f} backoff" in text
    assert "1.52 USD, if small took the tokens" in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--log-model", "a"), 2, "--log-model needs --prices."),
        (("--prices", "prices.json"), 2, "prices.json has several models: name one with"),
        (
            ("--prices", "prices.json", "--log-model", "c"),
            1,
            "prices.json has no price of the model 'c' (it has: a, b)",
        ),
    ],
)
def test_replay_needs_to_know_the_model(run, files, arguments, code, message):
    prices(a=1, b=2)
    result = run("replay", "--trajectories", "trajectories.jsonl", *arguments)
    assert result.exit_code == code and message in " ".join(result.stderr.split())


def test_execute_prices_what_fills_inputs(run, files, fits):
    def reply(body):
        return completion({"inputs": {"timezone": "Asia/Tokyo"}, "missing": []}, usage=(1_000, 100))

    plan = {"request": "The time in Tokyo.", "jobs": [{"id": "now", "task": "the time in Tokyo",
            "api": "time__get_current_time"}]}  # fmt: skip
    Path("plan.json").write_text(json.dumps(plan))
    with in_a_thread(reply) as server:
        how = ("execute", "--plan", "plan.json", "--sources", "mcp.json")
        how += ("--executor-model", f"small@{server.url}", *prices(small=1))
        document = json.loads(run(*how, "--json").stdout)
        text = " ".join(run(*how).stdout.split())
    assert document["done"] is True
    assert [body["model"] for body in server.requests] == ["small", "small"]
    assert document["tokens_by_role"] == {"executor": {"tokens_in": 1000, "tokens_out": 100}}
    assert list(document["tokens_by_model"]) == ["small"]
    assert document["tokens_are"] == "server"
    assert document["price"]["by_role"] == {"executor": 2.0}
    assert "Price 2.00 USD (executor 2.00)" in text
