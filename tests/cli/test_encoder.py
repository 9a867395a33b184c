"""`--encoder`: a model fitted with vectors of a server, and every command that reads requests."""

from __future__ import annotations

import pytest
from chat_server import KEY, embeddings, in_a_thread, stay_on_this_machine
from planted import planted
from word_vectors import WordVectors

from cnp_router.history import History, Mashup

WORLD = planted(n_cliques=2, size=3, rounds=2)
REQUEST = WORLD.cases[0].request
FILES = ("--catalog", "apis.jsonl", "--history", "mashups.jsonl")


@pytest.fixture(autouse=True)
def files(run, monkeypatch):
    stay_on_this_machine(monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    WORLD.catalog.write("apis.jsonl")
    WORLD.history.write("mashups.jsonl")


@pytest.fixture
def server():
    words = WordVectors()
    with in_a_thread(lambda body: embeddings(words(body["input"]).tolist())) as server:
        yield server


@pytest.fixture
def fitted(run, server):
    """A model, fitted with the server's vectors."""
    encoder = ("--encoder", server.url, "--encoder-model", "words", "--encoder-cache", "cache")
    result = run("fit", *FILES, *encoder, "--output", "model")
    assert result.exit_code == 0, result.output
    assert "Encoder       words\n" in result.stdout
    return "model"


def test_a_model_knows_what_its_encoder_is_called(run, server, fitted):
    result = run("recommend", "--model", fitted, "--encoder", server.url, "--json", REQUEST)
    assert result.exit_code == 0, result.output
    assert {body["model"] for body in server.requests} == {"words"}
    assert server.requests[-1]["input"] == [REQUEST]


def test_fitting_again_takes_the_vectors_that_are_kept(run, server, fitted, tmp_path):
    before = len(server.requests)
    encoder = ("--encoder", server.url, "--encoder-model", "words", "--encoder-cache", "cache")
    assert run("fit", *FILES, *encoder, "--output", "again").exit_code == 0
    assert len(server.requests) == before
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


COMMANDS = [
    ("recommend", REQUEST),
    ("recommend", "--why-not", WORLD.catalog[0].id, REQUEST),
    ("negotiate", REQUEST),
    ("evaluate", "--history", "mashups.jsonl"),
    ("evaluate", "--history", "mashups.jsonl", "--complete"),
    ("compare", "--history", "mashups.jsonl", "--limit", "1", "--protocol", "contractor-led"),
    ("observe", "--history", "late.jsonl"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_that_read_requests_need_it(run, server, fitted, command):
    name, *rest = command
    History([Mashup("late", "Something new.", (WORLD.catalog[0].id,))]).write("late.jsonl")
    without = run(name, "--model", fitted, *rest)
    assert without.exit_code == 1
    assert "fitted with the encoder 'words'" in without.stderr.replace("\n", " ")
    assert "--encoder URL" in without.stderr.replace("\n", " ")
    result = run(name, "--model", fitted, "--encoder", server.url, *rest)
    assert result.exit_code == 0, result.output


def test_what_was_observed_is_read_again(run, server, fitted):
    History([Mashup("late", "Something new.", (WORLD.catalog[0].id,))]).write("late.jsonl")
    encoder = ("--model", fitted, "--encoder", server.url)
    assert run("observe", *encoder, "--history", "late.jsonl").exit_code == 0
    assert "1 mashup" in run("verify", *encoder).stdout
    assert run("graph", "stats", *encoder).exit_code == 0
    assert run("verify", "--model", fitted).exit_code == 1


def test_a_catalog_alone_may_have_one(run, server):
    encoder = ("--encoder", server.url, "--encoder-model", "words")
    result = run("recommend", "--catalog", "apis.jsonl", *encoder, "--all", REQUEST)
    assert result.exit_code == 0, result.output


def test_another_server_is_refused(run, fitted):
    other = WordVectors(seed=1)
    with in_a_thread(lambda body: embeddings(other(body["input"]).tolist())) as stranger:
        result = run("recommend", "--model", fitted, "--encoder", stranger.url, REQUEST)
    assert result.exit_code == 1
    assert "is not the encoder of the model" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("fit", *FILES, "--output", "m", "--encoder", "http://x/v1"), 2, "--encoder-model"),
        (("fit", *FILES, "--output", "m", "--encoder-model", "x"), 2, "need --encoder"),
        (("recommend", "--encoder", "http://x/v1", "rain"), 2, "--encoder needs --model"),
        (("recommend", "--model", "plain", "--encoder", "http://x/v1", "rain"), 1, "without"),
        (("recommend", "--model", "none", "--encoder", "http://x/v1", "rain"), 1, "no model there"),
    ],
)
def test_what_does_not_go_together(run, options, code, words):
    assert run("fit", *FILES, "--output", "plain").exit_code == 0
    result = run(*options)
    assert result.exit_code == code
    assert words in result.stderr


def test_a_key_that_is_refused_is_not_shown(run, server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    encoder = ("--encoder", "http://127.0.0.1:9/v1", "--encoder-model", "words")
    result = run("fit", *FILES, *encoder, "--output", "model")
    assert result.exit_code == 1
    assert "whether the server runs" in result.stderr.replace("\n", " ")
