from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.exceptions import DataFileError, InputError, UnknownApiError


@pytest.fixture
def file(tmp_path):
    return tmp_path / "apis.jsonl"


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
            ('{"id": 7, "name": "Maps"}', "field 'id' must be a string, got 7"),
            ('{"id": " ", "name": "Maps"}', "field 'id' must not be blank, got ' '"),
            ('{"id": "maps"}', "missing field 'name' (it has 'id')"),
            (
                '{"id": "maps", "name": "Maps", "description": ["Shows"]}',
                "field 'description' must be a string, got ['Shows']",
            ),
            (
                '{"id": "maps", "name": "Maps", "categories": "Mapping"}',
                "field 'categories' must be a list of strings, got 'Mapping'",
            ),
            (
                '{"id": "maps", "name": "Maps", "categories": ["Mapping", 1]}',
                "field 'categories' must be a list of strings, got ['Mapping', 1]",
            ),
            (
                '{"id": "maps", "name": "Maps", "parameters": ["q"]}',
                "field 'parameters' must be an object, got ['q']",
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
        assert read_error(file, "\n") == ": the file is empty (give at least one record)"

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
            id=text.filter(str.strip),
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
    def test_any_catalog_is_read_back(self, tmp_path_factory, apis):
        file = tmp_path_factory.mktemp("catalog") / "apis.jsonl"
        Catalog(apis).write(file)
        assert Catalog.read(file) == Catalog(apis)

    def test_what_cannot_be_written_leaves_the_old_file(self, catalog, file):
        catalog.write(file)
        with pytest.raises(DataFileError, match=r"line 6: half of a surrogate pair"):
            catalog.extended([Api("x", "\ud800")]).write(file)
        assert Catalog.read(file) == catalog


class TestCatalog:
    @pytest.mark.parametrize(
        ("apis", "message"),
        [
            ([], r"^a catalog needs at least one API \(got none\)$"),
            (
                [Api("a", "A"), Api("b", "B"), Api("a", "C")],
                r"^duplicate API id 'a' \(ids must be unique\)$",
            ),
            ([Api("\t", "A")], r"^an id must be a non-blank string, got '\\t' \(API\)$"),
            ([Api(3, "A")], r"^an id must be a non-blank string, got 3 \(API\)$"),
        ],
    )
    def test_bad_apis(self, apis, message):
        with pytest.raises(InputError, match=message):
            Catalog(apis)

    def test_categories_as_one_string(self):
        with pytest.raises(InputError, match="categories must be several strings, got 'Mapping'"):
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
            (7, r"^an id must be a non-blank string, got 7 \(contractor\)$"),
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
    assert catalog.in_categories([]) == ()
    assert [api.id for api in catalog.extended([Api("x", "X", categories=("Messaging",))])
            .in_categories(["Messaging"])] == ["sms", "x"]  # fmt: skip
