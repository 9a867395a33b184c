from __future__ import annotations

import json
import pickle

import pytest

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.serving import Client, Clients

TOKEN = "s3cret-token-of-alice"


def written(tmp_path, clients):
    file = tmp_path / "clients.json"
    file.write_text(json.dumps({"clients": clients}))
    return file


@pytest.mark.parametrize(
    ("among", "exclude", "seen"),
    [
        (None, (), ["time__now", "time__set", "mail__send"]),
        (("time__*",), (), ["time__now", "time__set"]),
        (("*",), ("*__set",), ["time__now", "mail__send"]),
        (("time__no?", "mail__[a-s]*"), (), ["time__now", "mail__send"]),
        (("TIME__*",), (), []),
        ((), (), []),
        (("time__*",), ("*",), []),
    ],
)
def test_what_a_client_may_see(among, exclude, seen):
    client = Client("a", among, exclude)
    assert [api for api in ("time__now", "time__set", "mail__send") if client.may_see(api)] == seen


def test_a_file_of_clients(tmp_path):
    file = written(
        tmp_path,
        {
            "alice": {
                "token": "${ALICE}",
                "among": ["time__*"],
                "exclude": ["time__set"],
                "allow_write": True,
            },
            "bob": {"token": "${env:BOB}"},
        },
    )
    clients = Clients.read(file, environ={"ALICE": TOKEN, "BOB": "token-of-bob"})
    assert clients.names == ("alice", "bob")
    assert clients.of(TOKEN) == Client("alice", ("time__*",), ("time__set",), True)
    assert clients.of("token-of-bob") == Client("bob")
    for wrong in (None, "", TOKEN[:-1], TOKEN + "x", "\ud800", "x" * 10**6):
        assert clients.of(wrong) is None


@pytest.mark.parametrize(
    ("clients", "environ", "says"),
    [
        ({}, {}, "it names no clients"),
        ([], {}, "it names no clients"),
        ({"a": TOKEN}, {}, "client 'a': an entry must be an object"),
        ({"a": {}}, {}, "client 'a': its token must be a variable of the environment"),
        ({"a": {"token": TOKEN}}, {}, "must be a variable of the environment"),
        ({"a": {"token": f"${{A}}{TOKEN}"}}, {"A": "x"}, "must be a variable of the environment"),
        ({"a": {"token": "${A:-" + TOKEN + "}"}}, {}, "must be a variable of the environment"),
        ({"a": {"token": "${A}"}}, {}, "the environment has no variable 'A'"),
        ({"a": {"token": "${A}"}}, {"A": ""}, "the environment has no variable 'A'"),
        ({"a": {"token": "${A}"}}, {"A": "short"}, "give it 8 characters or more"),
        ({"a": {"token": "${A}"}}, {"A": f"{TOKEN} x"}, "without spaces"),
        ({"a": {"token": "${A}"}}, {"A": f"{TOKEN}\n"}, "without spaces"),
        ({"a": {"token": "${A}"}, "b": {"token": "${A}"}}, {"A": TOKEN}, "the same token"),
        ({"a": {"token": "${A}", "amogn": []}}, {"A": TOKEN}, "unknown key 'amogn'"),
        ({"a": {"token": "${A}", "among": "x"}}, {"A": TOKEN}, "among must be a list of strings"),
        ({"a": {"token": "${A}", "allow_write": 1}}, {"A": TOKEN}, "allow_write must be true or"),
        ({" ": {"token": "${A}"}}, {"A": TOKEN}, "user must be a name"),
    ],
)
def test_files_that_cannot_be_used_show_no_token(tmp_path, clients, environ, says):
    with pytest.raises(DataFileError, match=says.replace("[", r"\[")) as error:
        Clients.read(written(tmp_path, clients), environ=environ)
    assert TOKEN not in str(error.value)
    assert TOKEN not in repr(error.value.__dict__)


def test_one_client():
    clients = Clients.one(TOKEN, allow_write=True)
    assert clients.of(TOKEN) == Client("anyone", allow_write=True)
    with pytest.raises(InputError, match="8 characters or more") as error:
        Clients.one("")
    assert "is missing" in str(error.value)


def test_no_token_is_kept():
    clients = Clients.one(TOKEN)
    assert TOKEN not in repr(clients)
    assert TOKEN.encode() not in pickle.dumps(vars(clients))
    assert repr(Clients.one(TOKEN)._hashed[0][0]) != repr(clients._hashed[0][0])  # a key each
