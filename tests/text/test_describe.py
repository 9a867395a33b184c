"""The text that stands for an API."""

from __future__ import annotations

import pytest

from cnp_router.catalog import Api
from cnp_router.text import specification_text, words


def said(**given):
    return words(specification_text(Api(**({"id": "a", "name": "A"} | given))))


class TestWhatIsSaid:
    def test_name_description_and_categories(self):
        api = Api("w", "Weather", "Forecasts rain.", ("Science", "Outdoors"))
        assert specification_text(api) == "Weather . Forecasts rain. . Science , Outdoors"

    def test_a_name_alone(self):
        assert specification_text(Api("w", "Weather")) == "Weather"

    @pytest.mark.parametrize(
        ("name", "parts"),
        [
            ("getWeatherAlerts", {"getweatheralerts", "get", "weather", "alerts"}),
            ("get_weather_alerts", {"get_weather_alerts", "get", "weather", "alerts"}),
        ],
    )
    def test_identifiers_whole_and_split(self, name, parts):
        assert parts <= set(said(name=name))

    def test_the_id_says_nothing(self):
        assert "secret" not in said(id="secret", name="Weather")


class TestServers:
    def test_the_server_counts(self):
        assert {"git", "hub"} <= set(said(id="gitHub__log", name="log"))

    def test_the_first_of_several(self):
        assert "files" not in said(id="git__files__log", name="log")
        assert "git" in said(id="git__files__log", name="log")

    @pytest.mark.parametrize("name", ["git_log", "__log", "log__", "__", "git"])
    def test_no_server(self, name):
        assert specification_text(Api(name, "Log", "Lists.")) == "Log . Lists."


class TestParameters:
    def test_a_plain_mapping_of_name_to_type(self):
        text = specification_text(Api("a", "A", parameters={"maxCount": "int", "city": "str"}))
        assert text == "A . max Count city"

    def test_a_schema(self):
        schema = {
            "type": "object",
            "title": "Untold",
            "required": ["city"],
            "properties": {
                "city": {"type": "string", "description": "Where it rains."},
                "maxCount": {"type": "integer"},
            },
        }
        assert specification_text(Api("a", "A", parameters=schema)) == (
            "A . city Where it rains. max Count"
        )

    def test_of_objects_and_arrays_inside(self):
        schema = {
            "properties": {
                "trip": {
                    "type": "object",
                    "properties": {"harbour": {"type": "string", "description": "Of departure."}},
                },
                "stops": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"pier": {"type": "string"}}},
                },
            }
        }
        found = set(said(parameters=schema))
        assert {"trip", "harbour", "departure", "stops", "pier"} <= found
        assert not {"properties", "items", "object", "string"} & found

    def test_what_is_said_twice_counts_once(self):
        schema = {"properties": {name: {"description": "A day."} for name in ("from", "to")}}
        assert said(parameters=schema).count("day") == 1

    def test_a_parameter_that_is_called_type(self):
        assert "colour" in said(parameters={"properties": {"type": {}, "colour": {}}})
        assert "type" in said(parameters={"properties": {"type": {}}})

    @pytest.mark.parametrize(
        "schema",
        [
            {},
            {"type": "object"},
            {"type": "object", "properties": None},
            {"type": ["object", "null"], "properties": {}},
        ],
    )
    def test_none(self, schema):
        assert specification_text(Api("a", "A", parameters=schema)) == "A"

    @pytest.mark.parametrize("description", [None, 5, ["x"], {"en": "x"}])
    def test_a_description_that_is_no_text(self, description):
        schema = {"properties": {"city": {"type": "string", "description": description}}}
        assert "city" in said(parameters=schema)

    def test_a_schema_nested_without_end_ends(self):
        schema = {"properties": {"leaf": {"description": "Deep down."}}}
        for _ in range(200):
            schema = {"properties": {"node": {"type": "object", **schema}}}
        assert set(said(parameters=schema)) == {"a", "node"}


def test_references_and_alternatives_are_followed_and_are_no_names():
    schema = {
        "type": "object",
        "properties": {
            "pet": {"$ref": "#/$defs/Pet"},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "$defs": {
            "Pet": {
                "type": "object",
                "properties": {
                    "furColour": {"description": "As the owner sees it."},
                    "parents": {"type": "array", "items": {"$ref": "#/$defs/Pet"}},
                },
            }
        },
    }
    text = specification_text(Api("pets__add", "add", "Adds.", parameters=schema))
    assert "fur Colour As the owner sees it. parents" in text
    assert not {"anyOf", "any Of", "$ref", "default", "ref"} & set(text.split())


def test_a_schema_that_holds_itself_many_times_is_read_once():
    itself = {"anyOf": [{"$ref": "#/$defs/x"}] * 5_000, "properties": {"leaf": {"type": "string"}}}
    schema = {"$defs": {"x": itself}, "properties": {"root": {"$ref": "#/$defs/x"}}}
    text = specification_text(Api("a__b", "b", parameters=schema))
    assert set(text.split()) == {"b", "a", "root", "leaf", "."}
