"""The adapter of embeddings against a real server: batches, the cache, errors, threads."""

from __future__ import annotations

import asyncio
import json
import logging
import threading

import numpy as np
import pytest
from chat_server import KEY, RESET, Reply, embeddings, in_a_thread, refusal

from cnp_router.exceptions import (
    ChatAccessError,
    ChatAnswerError,
    ChatConnectionError,
    ChatDisallowedError,
    ChatModelUnknownError,
    ChatRequestError,
    ContextTooLongError,
    DataFileError,
    InputError,
)
from cnp_router.llm import OpenAIEncoder, model_requests_allowed
from cnp_router.llm.cache import CacheStats


def vector(text):
    """What the servers here say of a text."""
    return [float(len(text)), 1.0, -0.5]


def said(body):
    return embeddings(vector(text) for text in body["input"])


def encoder(server, model="small", **options):
    options = {"api_key": KEY, "timeout": 5.0, "max_retries": 0, **options}
    return OpenAIEncoder(model, base_url=server.url, **options)


def ask(replies, texts=("rain",), **options):
    """Encode some texts; return the vectors and the server."""
    with in_a_thread(replies) as server, encoder(server, **options) as encode:
        return encode(list(texts)), server


def failing(replies, kind, **options):
    with pytest.raises(kind) as caught:
        ask(replies, **options)
    assert type(caught.value) is kind
    return str(caught.value)


def test_each_text_gets_its_vector():
    found, server = ask(said, ["rain", "maps and bars", "rain"])
    assert found.tolist() == [vector("rain"), vector("maps and bars"), vector("rain")]
    assert found.dtype == np.float32
    wanted = {"model": "small", "input": ["rain", "maps and bars"], "encoding_format": "float"}
    assert server.requests == [wanted]
    assert server.paths == ["/v1/embeddings"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_no_texts_ask_nobody():
    found, server = ask([], [])
    assert found.shape[0] == 0
    assert server.requests == []


def test_texts_go_out_in_batches_several_at_once():
    def late(body):
        return Reply(said(body).body, seconds=0.05)

    texts = [f"{'x' * i}" for i in range(1, 12)]
    found, server = ask(late, texts, batch_size=3, max_concurrency=2)
    assert found.tolist() == [vector(text) for text in texts]
    assert sorted(len(body["input"]) for body in server.requests) == [2, 3, 3, 3]
    assert server.most_under_way == 2


def test_a_long_text_is_cut_and_dimensions_are_asked_for():
    _, server = ask(said, ["x" * 50], max_characters=10, dimensions=3)
    assert server.requests[0]["input"] == ["x" * 10]
    assert server.requests[0]["dimensions"] == 3


def test_what_was_encoded_once_is_not_asked_again(tmp_path):
    folder = tmp_path / "cache"
    first, _ = ask(said, ["rain", "maps"], cache=folder)
    with in_a_thread(said) as server, encoder(server, cache=folder) as encode:
        assert encode(["maps", "rain", "bars"]).tolist() == [*first[::-1].tolist(), vector("bars")]
        assert [body["input"] for body in server.requests] == [["bars"]]
        assert encode.stats == CacheStats(hits=2, misses=1)
        for other in ({"model": "large"}, {"dimensions": 3}):
            with encoder(server, **{"cache": folder, **other}) as stranger:
                stranger(["rain"])
        assert len(server.requests) == 3
    for path in folder.rglob("*.json"):
        assert KEY not in path.read_text()


@pytest.mark.parametrize("said_of_it", ["AAAA", "", "AADAfw==", 7, None])
def test_a_damaged_vector_is_asked_anew(tmp_path, said_of_it):
    ask(said, ["rain"], cache=tmp_path)
    [path] = tmp_path.rglob("*.json")
    with in_a_thread(said) as server, encoder(server, cache=tmp_path) as encode:
        encode._kept.write(path.stem, {"vector": said_of_it})
        assert encode(["rain"]).tolist() == [vector("rain")]
        assert encode.stats == CacheStats(misses=1, damaged=1)


def test_batches_that_came_are_kept_when_a_later_one_fails(tmp_path):
    def one_fails(body):
        return refusal(400, "no") if body["input"] == ["bad"] else said(body)

    options = {"cache": tmp_path, "batch_size": 1, "max_concurrency": 1}
    failing(one_fails, ChatRequestError, texts=["good", "bad"], **options)
    found, _ = ask([], ["good"], cache=tmp_path)
    assert found.tolist() == [vector("good")]


def test_it_is_asked_again_after_a_fault_that_may_pass():
    replies = [refusal(503, "busy", retry_after="0.01"), embeddings([vector("rain")])]
    found, server = ask(replies, max_retries=1)
    assert found.tolist() == [vector("rain")]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": []},
        {"data": [{"index": 1, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": [[1.0]]}]},
        {"data": [{"index": 0, "embedding": "AAAA"}]},
        {"data": [{"index": 0, "embedding": [1.0, None]}]},
        {"data": [{"index": 0, "embedding": [1e39]}]},
        {"data": [{"index": 0, "embedding": [1.0]}] * 2},
        b"<p>hello</p>",
        b'{"data": [{"index": 0, "embedding": [NaN]}]}',
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_what_is_not_a_vector_is_an_error(body):
    message = failing([Reply(body)], ChatAnswerError)
    assert "the response has no 1 vectors in it" in message
    assert "check that the base URL is that of OpenAI embeddings" in message


def test_vectors_of_different_lengths_are_an_error():
    assert "[1, 2]" in failing([embeddings([[1.0], [1.0, 2.0]])], ChatAnswerError, texts=["a", "b"])


@pytest.mark.parametrize(
    ("reply", "kind", "cure"),
    [
        (refusal(401, f"Incorrect API key: {KEY}"), ChatAccessError, "OPENAI_API_KEY"),
        (refusal(404, "no such model"), ChatModelUnknownError, "check the model name"),
        (
            refusal(400, "maximum context length is 8192", code="context_length_exceeded"),
            ContextTooLongError,
            "lower max_characters",
        ),
        (RESET, ChatConnectionError, "whether the server runs"),
    ],
)
def test_errors_are_those_of_the_chat_model(reply, kind, cure, caplog):
    caplog.set_level(logging.DEBUG, "cnp_router")
    caplog.set_level(logging.DEBUG, "openai")
    message = failing([reply], kind)
    assert cure in message
    assert "model 'small' at http://127.0.0.1" in message
    assert KEY not in message + caplog.text


def test_the_switch_holds():
    with in_a_thread([]) as server, encoder(server) as encode:
        with model_requests_allowed("none"), pytest.raises(ChatDisallowedError):
            encode(["rain"])
        assert server.requests == []


def test_an_answer_is_bounded():
    message = failing([embeddings([[0.5] * 1_000])], ChatAnswerError, max_bytes=1_000)
    assert "larger than 1,000 bytes" in message


def test_many_threads_may_ask():
    with in_a_thread(said) as server, encoder(server) as encode:
        found = {}

        def work(i):
            found[i] = encode(["x" * i]).tolist()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {i: [vector("x" * i)] for i in range(1, 9)}


def test_it_may_be_called_where_an_event_loop_is_running():
    async def main(encode):
        return encode(["rain"]).tolist()

    with in_a_thread(said) as server, encoder(server) as encode:
        assert asyncio.run(main(encode)) == [vector("rain")]
        assert asyncio.run(main(encode)) == [vector("rain")]


def test_connections_are_closed_with_it():
    """The end of the server says whether one was left open."""
    with in_a_thread(said) as server:
        encode = encoder(server)
        encode(["rain"])
        del encode


@pytest.mark.parametrize(
    "options",
    [
        {"model": 3},
        {"base_url": "nowhere"},
        {"base_url": "http://127.0.0.1/v1", "model": None},
        {"batch_size": 0},
        {"max_characters": 0},
        {"dimensions": 0},
        {"timeout": 0},
        {"max_bytes": 0},
    ],
)
def test_arguments_are_checked(options):
    with pytest.raises(InputError):
        OpenAIEncoder(**{"model": "small", "base_url": "http://127.0.0.1/v1", **options})


def test_openai_itself_has_a_default_and_wants_a_key():
    assert OpenAIEncoder(api_key=KEY).name == "text-embedding-3-small"
    assert KEY not in repr(OpenAIEncoder(api_key=KEY))
    with pytest.raises(ChatAccessError, match="no API key"):
        OpenAIEncoder()


def test_a_place_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text(json.dumps("x"))
    with pytest.raises(DataFileError, match="no cache can be there"):
        OpenAIEncoder("small", base_url="http://127.0.0.1/v1", cache=tmp_path / "file")
