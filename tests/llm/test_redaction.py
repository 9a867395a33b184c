"""Keys, tokens and passwords are taken out, by names of fields and by shapes."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.llm.redaction import MASK, names_secret, without_secrets

SECRET = "hunter2-x9"


@pytest.mark.parametrize(
    "name",
    [
        *("password", "db_password", "DB_PASSWORD", "dbPassword", "passwd", "pwd", "passphrase"),
        *("api_key", "apikey", "API-KEY", "X-Api-Key", "openaiApiKey", "accessKey", "private_key"),
        *("token", "access_token", "accessToken", "id_tokens", "refreshtoken", "csrf_token"),
        *("Authorization", "proxy-authorization", "Cookie", "Set-Cookie", "client_secret"),
        *("credentials", "auth", "pass", "jwt", "secret", "パスワード", "contraseña"),
    ],
)
def test_names_of_secrets(name):
    assert names_secret(name)
    assert without_secrets({name: SECRET}) == {name: MASK}
    assert without_secrets({name: {"x": SECRET}}) == {name: MASK}
    assert without_secrets({name: [SECRET, SECRET]}) == {name: MASK}
    assert SECRET not in without_secrets(f"{name}: {SECRET}")
    assert SECRET not in without_secrets(f"{name}={SECRET}")
    assert SECRET not in without_secrets(f'{{"{name}": "{SECRET}"}}')
    assert SECRET not in without_secrets(f"say {{'{name}': '{SECRET}'}} now")
    assert SECRET not in without_secrets(json.dumps(json.dumps({name: SECRET})))


@pytest.mark.parametrize(
    "name",
    [
        *("key", "keys", "keyword", "monkey", "tokens", "tokens_in", "max_tokens", "tokenizer"),
        *("next_page_token", "page_token", "author", "authors", "secretary", "passage", "passed"),
        *("primary_key", "slot", "credits", "passes", "compass", ""),
    ],
)
def test_other_names(name):
    assert not names_secret(name)
    assert without_secrets({name: "Mon 2"}) == {name: "Mon 2"}


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcDEF1234567890abcd",
        "sk_live_abcdefghij1234567890",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_abcdefghijklmnop1234567890",
        "github_pat_11ABCDEFG0abcdefghijkl",
        "glpat-abcdefghij1234567890",
        "xoxb-1234567890-abcdefghij",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "hf_abcdefghij1234567890klmn",
        "npm_abcdefghij1234567890klmn",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEow that was cut off",
        "123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-bc",
    ],
)
def test_shapes(secret):
    for text in (secret, f"use {secret}", f"({secret})", f'{{"said": "{secret[:20]}"}}', secret):
        found = without_secrets(text)
        assert secret not in found
        assert MASK in found or "said" in text
    assert secret not in str(without_secrets({"deep": [{"note": f"it is {secret}"}]}))
    assert secret not in str(without_secrets({secret: 1}))  # as a key


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abc123def", "Authorization: ***"),
        ("Authorization: Basic dXNlcjpwYXNz\nAccept: x", "Authorization: ***\nAccept: x"),
        ("Cookie: a=b; sid=c", "Cookie: ***"),
        ("send Bearer abc123def456 there", "send Bearer *** there"),
        ("postgres://ann:pw@db/x", "postgres://***@db/x"),
        ("https://x.org/?access_token=abc&page=2", "https://x.org/?access_token=***&page=2"),
        ("login --password pw --page 2", "login --password *** --page 2"),
        ("the password is hunter2, I think", "the password is ***, I think"),
        ("my api key is abc123", "my api key is ***"),
        ('DB_PASSWORD="two words" X=1', 'DB_PASSWORD="***" X=1'),
        ("私のパスワードは hunter2 です", "私のパスワードは *** です"),
        (
            "https://hooks.slack.com/services/T0/B0/abcdefgh123",
            "https://hooks.slack.com/services/***",
        ),
    ],
)
def test_texts(text, left):
    assert without_secrets(text) == left
    assert without_secrets(left) == left


@pytest.mark.parametrize(
    "text",
    [
        "Monday 2 is taken",
        "The token is expired",
        "Basic mathematics is fun",
        "the key is under the mat",
        "npm-check-updates-tool",
        "credits: 12.5, slot: Mon 2",
        "https://example.com:8080/a@b",
        '{"slot": "Mon 2",   "tokens": 5}',
    ],
)
def test_what_is_no_secret_stays_as_it_is(text):
    assert without_secrets(text) == text


def test_headers_in_all_forms():
    assert without_secrets([["Authorization", SECRET], ("Cookie", SECRET)]) == [
        ["Authorization", MASK], ("Cookie", MASK),
    ]  # fmt: skip
    entry = {"name": "X-Api-Key", "value": SECRET, "in": "header"}
    assert without_secrets(entry) == {**entry, "value": MASK}


def test_what_says_nothing_stays():
    value = {"password": None, "token": "", "auth": False, "secrets": []}
    assert without_secrets(value) == value
    assert without_secrets({"otp": 123456}) == {"otp": MASK}


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner,
                                                                max_size=3),
    max_leaves=8,
))  # fmt: skip
def test_any_value_is_taken_and_not_changed(value):
    before = json.dumps(value)
    found = without_secrets(value)
    assert json.dumps(value) == before
    assert type(found) is type(value)


def test_a_token_behind_another_word_is_found():
    said = "session-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgN, eyJ-eyJ"
    assert without_secrets(said) == f"{MASK}, eyJ-eyJ"


@pytest.mark.parametrize(
    "piece",
    ["a: ", "a", "://", "eyJ", "eyJ-", "-----BEGIN ", "bearer ", '"a": "', "key ", "[", '"a@:'],
)
def test_long_texts_take_no_time(piece):
    before = time.thread_time()
    without_secrets(piece * (200_000 // len(piece)))
    assert time.thread_time() - before < 5  # of a second or less: quadratic ones take minutes
