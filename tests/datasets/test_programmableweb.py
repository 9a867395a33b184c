from __future__ import annotations

import json

import pytest

from cnp_router.catalog import Api
from cnp_router.datasets import read_programmableweb
from cnp_router.exceptions import DataFileError
from cnp_router.history import Mashup

CURE = "(use the file as it is in the GitHub repository zhenqincn/ProgrammableWebDataSet)"


def api(name, category=0, description="Does things."):
    return {"api_id": "1", "api_name": name, "api_prim_cate": category, "api_desc": description}


def mashup(number, apis, description=None, **more):
    return {
        "mashup_id": str(number),
        "mashup_name": f"Mashup {number}",
        "mashup_desc": f"Text {number}" if description is None else description,
        "mashup_related_apis": apis,
        **more,
    }


@pytest.fixture
def clone(tmp_path):
    def write(apis=None, mashups=None, categories=None):
        contents = {
            "apis/api_8459.json": [api("Weather"), api("SMS", 1)] if apis is None else apis,
            "apis/categories_20.json": (
                {"Science": 0, "Messaging": 1} if categories is None else categories
            ),
            "mashups/mashups.json": [mashup(1, ["Weather"])] if mashups is None else mashups,
        }
        for file, content in contents.items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(json.dumps(content), encoding="utf-8")
        return tmp_path

    return write


def error_of(folder):
    with pytest.raises(DataFileError) as caught:
        read_programmableweb(folder)
    return str(caught.value).removeprefix(str(folder)).lstrip("/\\")


def test_apis_and_mashups_are_read(clone):
    folder = clone(
        apis=[api("Weather &amp; Sun", 0, " Says  if it\r\nrains. "), api("SMS", 1)],
        mashups=[
            mashup(
                7,
                ["SMS", "Weather &amp; Sun "],
                "Rain &gt; text\r\n",
                mashup_category=["Weather", "Alerts", "Weather"],
            )
        ],
    )
    data = read_programmableweb(folder)
    assert list(data.catalog) == [
        Api("weather-sun", "Weather & Sun", "Says if it rains.", ("Science",)),
        Api("sms", "SMS", "Does things.", ("Messaging",)),
    ]
    assert list(data.history) == [
        Mashup("7", "Rain > text", ("sms", "weather-sun"), ("Weather", "Alerts"), name="Mashup 7")
    ]
    assert data.name == "programmableweb"
    assert "zhenqincn/ProgrammableWebDataSet" in data.source


@pytest.mark.parametrize("name", ["weather", " WEATHER ", "Weather API", "weather\u00a0api"])
def test_names_are_matched_whatever_their_case_and_space(clone, name):
    data = read_programmableweb(clone(mashups=[mashup(1, [name, "Weather"])]))
    assert data.history[0].apis == ("weather",)


def test_names_that_come_out_the_same_keep_different_ids(clone):
    names = ["C", "C++", "C#", "++", "天気"]
    data = read_programmableweb(
        clone(apis=[api(name) for name in names], mashups=[mashup(1, ["C#", "C", "天気"])])
    )
    assert [(a.name, a.id) for a in data.catalog] == [
        ("C", "c"),
        ("C++", "c-2"),
        ("C#", "c-3"),
        ("++", "api"),
        ("天気", "天気"),
    ]
    assert data.history[0].apis == ("c-3", "c", "天気")


def test_names_that_cannot_be_ids(clone):
    data = read_programmableweb(
        clone(
            apis=[api("User"), api("Manager API"), api("Manager")],
            mashups=[mashup(1, ["user", "Manager"]), mashup(2, ["a\u200bb"])],
        )
    )
    assert data.catalog.ids == ("user-2", "manager-api")
    assert data.history[0].apis == ("user-2", "manager-api")
    assert data.history.skipped == 1


def test_an_unknown_name_is_unknown_though_its_id_would_be_taken(clone):
    data = read_programmableweb(clone(apis=[api("C")], mashups=[mashup(1, ["C++"])]))
    assert (len(data.history), data.history.skipped) == (0, 1)


def test_everything_that_is_dropped_is_counted(clone):
    folder = clone(
        apis=[api("Weather"), api("weather API"), api("  "), api(None), api("SMS", None)],
        mashups=[
            mashup(1, ["Weather"]),
            mashup(1, ["SMS"], "Another one with the id"),
            mashup(2, ["Weather", "Fax"], "Twice"),
            mashup(3, ["SMS"], "Twice"),
            mashup(4, ["Weather"], "Twice"),
            mashup(5, ["SMS"], "  "),
            mashup(6, []),
            {"mashup_id": "7", "mashup_desc": "No key for the APIs"},
            mashup(8, ["Telex"]),
        ],
    )
    data = read_programmableweb(folder)
    assert str(data.report) == (
        "APIs: 2 of 5 (dropped: 1 repeated name, 2 no name)\n"
        "mashups: 2 of 9 (dropped: 1 repeated id, 1 no description, 2 no API, 2 unknown API,"
        " 1 repeated text)"
    )
    assert data.history.skipped == 2
    # Of a repeated text the first mashup stays that passed the filter.
    assert [m.id for m in data.history] == ["1", "3"]


def test_reading_twice_gives_the_same(clone):
    folder = clone()
    assert read_programmableweb(folder) == read_programmableweb(str(folder))


@pytest.mark.parametrize(
    "file", ["apis/api_8459.json", "apis/categories_20.json", "mashups/mashups.json"]
)
def test_a_missing_file(clone, file):
    folder = clone()
    (folder / file).unlink()
    assert error_of(folder) == (
        f"{file}: no such file (give the folder of a clone of the GitHub repository "
        f"zhenqincn/ProgrammableWebDataSet, with {file})"
    )


def test_a_folder_that_is_not_there_or_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    for place in ("nowhere", "file"):
        assert "no such file (give the folder of a clone" in error_of(tmp_path / place)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"apis": {"Weather": {}}},
            f"apis/api_8459.json: expected a JSON list, got dict {CURE}",
        ),
        ({"apis": ["Weather"]}, "apis/api_8459.json: entry 1: expected a JSON object, got str"),
        ({"apis": []}, ": no usable API"),
        ({"apis": [api("A"), api(5)]}, "apis/api_8459.json: entry 2: field 'api_name' must be"),
        (
            {"apis": [api("A", 9)]},
            "apis/api_8459.json: entry 1: field 'api_prim_cate' must be the number of a category,"
            " got 9 (use the numbers in apis/categories_20.json)",
        ),
        ({"apis": [api("A", True)]}, "apis/api_8459.json: entry 1: field 'api_prim_cate' must be"),
        ({"categories": ["Science"]}, "apis/categories_20.json: expected a JSON object, got list"),
        (
            {"categories": {"Science": "0"}},
            f"apis/categories_20.json: category 'Science' must have a whole number, got '0' {CURE}",
        ),
        (
            {"mashups": [mashup(1, "Weather")]},
            "mashups/mashups.json: entry 1: field 'mashup_related_apis' must be a list of strings,"
            " got 'Weather'",
        ),
        (
            {"mashups": [mashup(1, ["Weather"]), {"mashup_name": "x"}]},
            "mashups/mashups.json: entry 2: missing field 'mashup_id' (it has 'mashup_name')",
        ),
    ],
)
def test_another_layout(clone, options, message):
    assert error_of(clone(**options)).startswith(message)


def test_broken_json_says_where(clone):
    folder = clone()
    (folder / "mashups/mashups.json").write_text('[\n  {"mashup_id" "1"}\n]')
    assert error_of(folder) == (
        "mashups/mashups.json, line 2: not JSON at column 16: Expecting ':' delimiter "
        "(give one valid JSON document)"
    )
