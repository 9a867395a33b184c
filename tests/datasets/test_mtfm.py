from __future__ import annotations

import json

import pytest

from cnp_router.catalog import Api
from cnp_router.datasets import read_mtfm
from cnp_router.exceptions import DataFileError
from cnp_router.history import Mashup

CONTENTS = {
    "api_name": ["google-maps", "sms", "last.fm"],
    "api_description": [["show", "map"], ["send", "text"], []],
    "api_category": [["mapping", "viewer"], ["messaging"], []],
    "mashup_name": ["pin-board", "rain-alert"],
    "mashup_description": [["pin", "map"], ["text", "rain"]],
    "mashup_category": [["mapping"], []],
    "mashup_used_api": [["google-maps", "google-maps"], ["sms", "last.fm"]],
}


@pytest.fixture
def clone(tmp_path):
    def write(**changes):
        (tmp_path / "data").mkdir(exist_ok=True)
        for name, content in (CONTENTS | changes).items():
            (tmp_path / "data" / f"{name}.json").write_text(json.dumps(content))
        return tmp_path

    return write


def error_of(folder):
    with pytest.raises(DataFileError) as caught:
        read_mtfm(folder)
    return str(caught.value).removeprefix(str(folder)).lstrip("/\\")


def test_apis_and_mashups_are_read(clone):
    data = read_mtfm(clone())
    assert list(data.catalog) == [
        Api("google-maps", "google maps", "show map", ("mapping", "viewer")),
        Api("sms", "sms", "send text", ("messaging",)),
        Api("last.fm", "last.fm"),
    ]
    assert list(data.history) == [
        Mashup("pin-board", "pin map", ("google-maps",), ("mapping",), name="pin board"),
        Mashup("rain-alert", "text rain", ("sms", "last.fm"), name="rain alert"),
    ]
    assert str(data.report) == "APIs: 3 of 3\nmashups: 2 of 2"
    assert data.name == "mtfm"


def test_everything_that_is_dropped_is_counted(clone):
    data = read_mtfm(
        clone(
            api_name=["sms", "sms", " "],
            mashup_name=["a", "a", "", "b", "c", "d", "e"],
            mashup_description=[["x"], ["y"], ["z"], [], ["x"], ["v"], ["w"]],
            mashup_category=[[]] * 7,
            mashup_used_api=[["sms"]] * 5 + [["sms", "fax"], []],
        )
    )
    assert str(data.report) == (
        "APIs: 1 of 3 (dropped: 1 repeated name, 1 no name)\n"
        "mashups: 1 of 7 (dropped: 1 no name, 1 repeated id, 1 no description, 1 no API,"
        " 1 unknown API, 1 repeated text)"
    )
    assert data.history.skipped == 1


def test_names_that_cannot_be_ids(clone):
    names = ["user", "sms", "last.fm"]
    data = read_mtfm(clone(api_name=names, mashup_used_api=[["user"], ["a\u200bb"]]))
    assert data.catalog.ids == ("user-2", "sms", "last.fm")
    assert data.history[0].apis == ("user-2",)
    assert data.history.skipped == 1


@pytest.mark.parametrize("name", CONTENTS)
def test_a_missing_file(clone, name):
    folder = clone()
    (folder / "data" / f"{name}.json").unlink()
    assert error_of(folder) == (
        f"data/{name}.json: no such file (give the folder of a clone of the GitHub repository "
        f"whale-ynu/MTFM, with data/{name}.json)"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"mashup_category": [[]]},
            "data/mashup_category.json: has 1 entries where data/mashup_name.json has 2 "
            "(take both from the same commit)",
        ),
        (
            {"api_description": [["a"], "send text", []]},
            "data/api_description.json: entry 2 must be a list of strings, got str "
            "(use the file as it is in the GitHub repository whale-ynu/MTFM)",
        ),
        (
            {"api_category": [["a"], [1], []]},
            "data/api_category.json: entry 2 must be a list of strings, got list",
        ),
        ({"mashup_name": ["a", None]}, "data/mashup_name.json: entry 2 must be a string, got None"),
        ({"api_name": {}}, "data/api_name.json: expected a JSON list, got dict"),
        (
            {"api_name": [], "api_description": [], "api_category": []},
            ": no usable API",
        ),
    ],
)
def test_another_layout(clone, changes, message):
    assert error_of(clone(**changes)).startswith(message)
