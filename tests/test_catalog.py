from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.catalog import Api, Catalog, Contractor, LookAlikeWarning
from cnp_router.exceptions import DataFileError, InputError, UnknownApiError
from cnp_router.history import Mashup
from cnp_router.records import check_id
from cnp_router.text import specification_text
from cnp_router.trajectories import Step, Trajectory


@pytest.fixture
def file(tmp_path):
    return tmp_path / "apis.jsonl"


def usable_id(text):
    with suppress(InputError):
        return check_id("API", text) == text
    return False


def read_error(file, content):
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataFileError) as caught:
        Catalog.read(file)
    assert caught.value.path == file
    return str(caught.value).removeprefix(str(file))


class TestRead:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"name": "Maps"}', "missing field 'id' (it has 'name')"),
            ("{}", "missing field 'id' (it has no fields)"),
            ('{"id": null, "name": "Maps"}', "field 'id' is null (give it a value)"),
            (
                '{"id": 7, "name": "Maps"}',
                "an id must be a non-blank string, got 7 (API, write it as text)",
            ),
            ('{"id": " ", "name": "Maps"}', "an id must be a non-blank string, got ' ' (API)"),
            ('{"id": "maps"}', "missing field 'name' (it has 'id')"),
            (
                '{"id": "maps", "name": "Maps", "description": ["Shows"]}',
                "field 'description' must be a string, got ['Shows']",
            ),
            (
                '{"id": "maps", "name": "Maps", "categories": "Mapping"}',
                "field 'categories' must be a list of strings, got 'Mapping' (give ['Mapping'])",
            ),
            (
                '{"id": "maps", "name": "Maps", "categories": ["Mapping", 1]}',
                "field 'categories' must be a list of strings, got ['Mapping', 1]",
            ),
            (
                '{"id": "maps", "name": "Maps", "parameters": ["q"]}',
                "field 'parameters' must be an object with string keys, got ['q']",
            ),
            (
                '{"id": "sms", "name": "SMS again"}',
                "duplicate API id 'sms', first on line 1 (ids must be unique)",
            ),
        ],
    )
    def test_a_bad_line(self, file, line, message):
        content = f'{{"id": "sms", "name": "SMS"}}\n\n{line}\n'
        assert read_error(file, content) == f", line 3: {message}"

    def test_a_long_value_is_cut(self, file):
        message = read_error(file, '{"id": "a", "name": ["' + "x" * 1_000_000 + '"]}')
        assert len(message) < 120

    def test_an_empty_file(self, file):
        assert (
            read_error(file, "\n")
            == ": the file is empty (give at least one record, or leave it out)"
        )

    def test_optional_fields_may_be_missing_or_null_and_others_are_ignored(self, file):
        file.write_text(
            '{"id": "a", "name": "A"}\n'
            '{"id": "b", "name": "", "description": null, "categories": null, "parameters": null}\n'
            '{"id": "c", "name": "C", "url": "x", "parameters": {"q": {"type": "string"}}}\n'
        )
        assert list(Catalog.read(file)) == [
            Api("a", "A"),
            Api("b", ""),
            Api("c", "C", parameters={"q": {"type": "string"}}),
        ]

    def test_a_written_catalog_is_read_back(self, catalog, file):
        catalog.write(file)
        assert Catalog.read(file) == catalog

    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    apis = st.lists(
        st.builds(
            Api,
            id=st.text(max_size=20).filter(usable_id),
            name=text,
            description=text,
            categories=st.lists(text, max_size=3).map(tuple),
            parameters=st.none() | st.dictionaries(text, text, max_size=2),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda api: api.id,
    )

    @given(apis)
    @pytest.mark.filterwarnings("ignore::cnp_router.catalog.LookAlikeWarning")
    def test_any_catalog_is_read_back(self, tmp_path_factory, apis):
        file = tmp_path_factory.mktemp("catalog") / "apis.jsonl"
        Catalog(apis).write(file)
        assert Catalog.read(file) == Catalog(apis)


class TestCatalog:
    @pytest.mark.parametrize(
        ("apis", "message"),
        [
            ([], r"^a catalog needs at least one API \(got none\)$"),
            (
                [Api("a", "A"), Api("b", "B"), Api("a", "C")],
                r"^duplicate API id 'a' \(ids must be unique\)$",
            ),
            ([Api("a", "A"), "b"], r"^apis must be several Api objects, got 'b'$"),
            (None, r"^apis must be several Api objects, got None$"),
            (Api("a", "A"), r"^apis must be several Api objects, got Api\('a', 'A', ''\)$"),
        ],
    )
    def test_bad_apis(self, apis, message):
        with pytest.raises(InputError, match=message):
            Catalog(apis)

    def test_categories_as_one_string(self):
        with pytest.raises(InputError, match="categories must be a list of strings, got 'Mapping'"):
            Api("a", "A", categories="Mapping")

    def test_a_list_of_categories_is_kept_as_a_tuple(self):
        assert hash(Api("a", "A", categories=["Mapping"])) == hash(Api("a", "A", "", ("Mapping",)))

    def test_order_is_kept(self, catalog):
        assert catalog.ids == ("weather", "maps", "sms", "mail", "tides")
        assert [catalog.position(api.id) for api in catalog] == [0, 1, 2, 3, 4]
        assert catalog[1] == catalog["maps"] == catalog[:2][1]
        assert catalog.categories == ("Mapping", "Messaging", "Science")

    def test_membership_by_id_or_api(self, catalog):
        assert "maps" in catalog
        assert catalog["maps"] in catalog
        assert "Maps" not in catalog
        assert None not in catalog

    @pytest.mark.parametrize(
        ("api_id", "message"),
        [
            ("map", "unknown API 'map' (did you mean 'maps'?)"),
            ("zzz", "unknown API 'zzz' (use an id of the catalog)"),
            ("", "unknown API '' (use an id of the catalog)"),
        ],
    )
    def test_an_unknown_api(self, catalog, api_id, message):
        for look_up in (catalog.position, catalog.__getitem__):
            with pytest.raises(UnknownApiError) as caught:
                look_up(api_id)
            assert str(caught.value) == message

    def test_extending_makes_a_new_catalog(self, catalog):
        larger = catalog.extended([Api("news", "News")])
        assert (len(catalog), len(larger), larger.position("news")) == (5, 6, 5)
        with pytest.raises(InputError, match="duplicate API id 'maps'"):
            catalog.extended([Api("maps", "Maps")])

    def test_catalogs_are_equal_by_content(self, catalog):
        assert catalog == Catalog(list(catalog))
        assert hash(catalog) == hash(Catalog(list(catalog)))
        assert catalog != Catalog(reversed(list(catalog)))
        assert repr(catalog) == "Catalog(5 APIs, 3 categories)"


class TestIds:
    """Of APIs and contractors; those of mashups, steps and trajectories go the same way."""

    MAKERS = (
        lambda id_: Api(id_, "A").id,
        lambda id_: Contractor(id_, [Api("a", "A")]).id,
        lambda id_: Mashup(id_, "x", ("a",)).id,
        lambda id_: Mashup("m", "x", (id_,)).apis[0],
        lambda id_: Step(id_).tool,
        lambda id_: Trajectory(id_, "x", ()).id,
    )

    @pytest.mark.parametrize("make", MAKERS)
    @pytest.mark.parametrize(
        "id_",
        [
            *("", " ", "\t", None, 3, b"maps", ["maps"]),
            *(" maps", "maps ", "maps\n", "a\nb", "a\x00b", "a\x1b[31mb", "a\x7fb", "a\x9bb"),
            *("half \ud800", "zero\u200bwidth", "a\u202eb", "\ufeffa", "a\u2028b", "a\u00a0b"),
            *("a\u00adb", "\u3164", "a\ufe0f", "a\U000e0100", "a\u2060"),
        ],
    )
    def test_what_is_no_id(self, make, id_):
        with pytest.raises(InputError, match=r"an id must|apis (must|holds)") as caught:
            make(id_)
        assert str(caught.value).isprintable()

    @pytest.mark.parametrize("make", MAKERS)
    def test_ids_are_kept_in_normal_form_c(self, make):
        assert make("cafe\u0301") == make("caf\u00e9") == "caf\u00e9"

    @pytest.mark.parametrize("make", MAKERS)
    @pytest.mark.parametrize("id_", ["maps", "Google Maps", "a/b:c#d", "地図", "\N{WORLD MAP}"])
    def test_ids_of_any_language_are_fine(self, make, id_):
        assert make(id_) == id_

    @pytest.mark.parametrize("make", MAKERS[:2])
    @pytest.mark.parametrize("id_", ["manager", "user"])
    def test_those_of_the_roles_are_reserved(self, make, id_):
        with pytest.raises(InputError, match=f"the id '{id_}' is reserved for a role in rounds"):
            make(id_)

    def test_one_that_was_read_and_one_that_was_typed_match(self, file):
        file.write_text('{"id": "cafe\u0301", "name": "Coffee"}\n', encoding="utf-8")
        catalog = Catalog.read(file)
        for typed in ("cafe\u0301", "caf\u00e9"):
            assert typed in catalog
            assert catalog[typed].name == "Coffee"

    def test_two_spellings_of_one_id_are_duplicates(self, file):
        with pytest.raises(InputError, match="duplicate API id"):
            Catalog([Api("cafe\u0301", "A"), Api("caf\u00e9", "B")])
        file.write_text(
            '{"id": "cafe\u0301", "name": "A"}\n{"id": "caf\u00e9", "name": "B"}\n',
            encoding="utf-8",
        )
        with pytest.raises(DataFileError, match=r"line 2: duplicate API id .*, first on line 1"):
            Catalog.read(file)

    def test_a_file_with_a_reserved_id(self, file):
        message = read_error(file, '{"id": "user", "name": "Users"}\n')
        assert message == ", line 1: the id 'user' is reserved for a role in rounds (API)"


class TestLookAlikes:
    @pytest.mark.parametrize(
        ("first", "second", "message"),
        [
            (Api("maps", "A"), Api("Maps", "B"), "ids 'maps' and 'Maps'"),
            (Api("maps", "A"), Api("m\u0430ps", "B"), r"ids 'maps' and 'm\u0430ps'"),
            (Api("maps", "A"), Api("\uff4daps", "B"), r"ids 'maps' and '\uff4daps'"),
            (Api("a", "Maps"), Api("b", "Ma\u200bps"), r"names 'Maps' and 'Ma\u200bps'"),
            (Api("a", "KOPT"), Api("b", "\u039a\u039f\u03a1\u03a4"), "names 'KOPT' and "),
            (Api("a", "A"), Api("User", "B"), "ids 'user' and 'User'"),
        ],
    )
    def test_they_give_one_warning(self, first, second, message):
        with pytest.warns(LookAlikeWarning) as caught:
            Catalog([first, second])
        assert len(caught) == 1
        text = str(caught[0].message)
        assert message in text
        assert text.isascii()
        assert text.endswith("(rename one of each pair)")
        assert caught[0].filename == __file__

    def test_many_are_counted(self):
        apis = [Api(id_, id_) for k in range(5) for id_ in (f"map{k}", f"Map{k}")]
        with pytest.warns(LookAlikeWarning, match="and 7 more pairs") as caught:
            Catalog(apis)
        assert len(caught) == 1

    def test_others_give_none(self, catalog):
        Catalog([*catalog, Api("map", "Map"), Api("sms-2", "SMS"), Api("地図", "地図")])


class TestNotebooks:
    def test_the_table_is_escaped_cut_and_says_what_is_left_out(self):
        apis = [Api(f"a{k}", "<script>&", "x" * 500, ("<b>",)) for k in range(12)]
        html = Catalog(apis)._repr_html_()
        assert "<script>" not in html
        assert "<td>&lt;script&gt;&amp;</td><td>&lt;b&gt;</td>" in html
        assert "x" * 201 not in html
        assert html.count("<tr>") == 11
        assert html.endswith("<p>and 2 more</p>")

    def test_reprs_are_one_readable_line(self):
        api = Api("a", "A\n" * 500, "x" * 5000, ("C",) * 50, {"q": "x" * 500})
        for thing in (api, Contractor("c", (api,) * 3), Catalog([api])):
            assert "\n" not in repr(thing)
            assert len(repr(thing)) < 150
        assert repr(Contractor("c", (api,) * 3)) == "Contractor('c', 3 APIs)"


class TestContractor:
    def test_it_keeps_its_apis_in_order(self, catalog):
        contractor = Contractor("some", [catalog["sms"], catalog["tides"], catalog["maps"]])
        assert contractor.apis == (catalog["sms"], catalog["tides"], catalog["maps"])
        assert contractor.categories == ("Messaging", "Science", "Mapping")
        assert contractor == Contractor("some", contractor.apis)
        assert len({contractor, Contractor("some", contractor.apis)}) == 1

    @pytest.mark.parametrize(
        ("contractor_id", "message"),
        [
            (" ", r"^an id must be a non-blank string, got ' ' \(contractor\)$"),
            (
                7,
                r"^an id must be a non-blank string, got 7 \(contractor, write it as text\)$",
            ),
        ],
    )
    def test_a_bad_id(self, catalog, contractor_id, message):
        with pytest.raises(InputError, match=message):
            Contractor(contractor_id, catalog[:1])

    def test_no_api(self):
        with pytest.raises(InputError, match=r"^contractor 'idle' holds no API \(give it at l"):
            Contractor("idle", ())


def test_the_apis_in_some_categories():
    catalog = Catalog(
        [
            Api("maps", "Maps", categories=("Mapping", "Travel")),
            Api("sms", "SMS", categories=("Messaging",)),
            Api("trips", "Trips", categories=("Travel",)),
            Api("bare", "Bare"),
        ]
    )
    found = catalog.in_categories(["Travel", "Mapping", "Nowhere"])
    assert [api.id for api in found] == ["maps", "trips"]
    assert catalog.in_categories([]) == catalog.ids_in([]) == ()
    assert catalog.ids_in(["Travel", "Mapping", "Nowhere"]) == ("maps", "trips")
    assert [api.id for api in catalog.extended([Api("x", "X", categories=("Messaging",))])
            .in_categories(["Messaging"])] == ["sms", "x"]  # fmt: skip


class TestTwoLengths:
    """A summary for comparing, keywords for what is chosen; routing looks at neither."""

    API = Api("maps", "Maps", "Shows places.", summary="Places.", keywords=["map", "bars"])

    def test_they_are_written_and_read(self, file):
        Catalog([self.API, Api("sms", "SMS")]).write(file)
        first, second = file.read_text().splitlines()
        assert '"summary": "Places.", "keywords": ["map", "bars"]' in first
        assert "summary" not in second
        assert "keywords" not in second
        again = Catalog.read(file)["maps"]
        assert again == self.API
        assert again.keywords == ("map", "bars")

    @pytest.mark.parametrize(("name", "value"), [("summary", 3), ("keywords", "map")])
    def test_other_values_are_refused(self, file, name, value):
        with pytest.raises(InputError, match=name):
            Api("maps", "Maps", **{name: value})
        line = json.dumps({"id": "maps", "name": "Maps", name: value})
        assert name in read_error(file, line)

    def test_routing_does_not_see_them(self):
        bare = Api("maps", "Maps", "Shows places.")
        assert specification_text(self.API) == specification_text(bare)
