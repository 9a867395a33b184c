"""A catalog and a history in files answer as those in memory do, and read what is asked for."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
import shutil

import numpy as np
import pytest

from cnp_router import kept_files, stored_items
from cnp_router.catalog import Api, Catalog, LookAlikeWarning
from cnp_router.exceptions import DataFileError, InputError, ModelCorruptError, UnknownApiError
from cnp_router.history import History, Mashup
from cnp_router.items import n_shared

APIS = (
    Api("maps", "Maps", "Shows places.", ("Mapping", "Travel")),
    Api("sms", "SMS", categories=("Messaging",), parameters={"to": "string"}),
    Api("caf\u00e9", "Coffee \u2028", "Finds caf\u00e9s.", ("Travel",)),
    Api("bare", "Bare"),
)
MASHUPS = (
    Mashup("m1", "Rain by text", ("weather", "sms")),
    Mashup("m2", "rain  by TEXT", ("sms",), user="ann"),
    Mashup("m3", "Bars on a map\n", ("maps", "maps"), ordered=True),
    Mashup("m4", "", ("maps",)),
)
NEW = Mashup("m5", "Rain by text", ("sms",))
NEWS = Api("news", "News", categories=("Travel", "Media"))


@pytest.fixture
def catalog(tmp_path):
    Catalog(APIS).write_indexed(tmp_path / "catalog.jsonl")
    return Catalog.open_indexed(tmp_path / "catalog.jsonl")


@pytest.fixture
def history(tmp_path):
    History(MASHUPS).write_indexed(tmp_path / "history.jsonl")
    return History.open_indexed(tmp_path / "history.jsonl")


@pytest.fixture
def decoded(monkeypatch):
    """The numbers of the lines that were read, in this order."""
    numbers = []
    original = stored_items.object_of

    def noted(line, path, number):
        numbers.append(number)
        return original(line, path, number)

    monkeypatch.setattr(stored_items, "object_of", noted)
    return numbers


def files_of(folder, stem):
    return {path.name: path.read_bytes() for path in sorted(folder.glob(f"{stem}.*"))}


class TestTheSameAsInMemory:
    def test_a_catalog(self, catalog):
        assert catalog.ids is catalog.ids  # read once
        other = Catalog(APIS)
        assert catalog == other
        assert other == catalog
        assert hash(catalog) == hash(other)
        assert repr(catalog) == repr(other)
        assert catalog._repr_html_() == other._repr_html_()
        assert list(catalog) == list(APIS)
        assert (catalog.ids, catalog.categories) == (other.ids, other.categories)
        assert catalog[1:] == APIS[1:]
        assert catalog[-1] == catalog["bare"] == APIS[-1]
        assert catalog["cafe\u0301"].id == "caf\u00e9"
        assert "maps" in catalog
        assert "Maps" not in catalog
        assert catalog.in_categories(["Travel", "Nowhere"]) == (APIS[0], APIS[2])
        assert catalog.ids_in(["Travel", "Nowhere"]) == (APIS[0].id, APIS[2].id)

    def test_an_unknown_api(self, catalog):
        with pytest.raises(UnknownApiError, match="did you mean 'maps'"):
            catalog.position("map")
        with pytest.raises(IndexError):
            catalog[4]

    def test_a_history(self, history):
        other = History(MASHUPS)
        assert history == other
        assert hash(history) == hash(other)
        assert (len(history), history.texts) == (4, other.texts)
        assert history[1:3] == other[1:3]
        assert history[-1] == MASHUPS[-1]
        assert MASHUPS[2] in history
        assert Mashup("m3", "Something else", ("maps",)) not in history
        assert NEW not in history
        for text in ("RAIN by  text", "", "bars on a map", "\ud800", "no such"):
            assert history.asked(text) == other.asked(text)
        assert (history.find("m4"), history.find("m5")) == (3, None)
        assert list(history.without(["sms"])) == list(other.without(["sms"]))
        assert history.without(()) is history

    def test_no_mashup_at_all(self, tmp_path):
        History([]).write_indexed(tmp_path / "none.jsonl")
        nothing = History.open_indexed(tmp_path / "none.jsonl")
        assert nothing == History([])
        assert (len(nothing), list(nothing), nothing.asked("x"), nothing.find("x")) == (
            *(0, [], ()),
            None,
        )

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
    def test_copies(self, history, copied):
        assert copied(history) == history

    def test_what_travels_needs_the_files_no_more(self, catalog, history, tmp_path):
        grown = pickle.dumps((catalog, history.extended([NEW])))
        shutil.rmtree(tmp_path)
        apis, mashups = pickle.loads(grown)
        assert apis == Catalog(APIS)
        assert mashups == History((*MASHUPS, NEW))
        assert mashups.asked("rain by text") == (0, 1, 4)

    @pytest.mark.parametrize("mapped", [0, 1 << 20])
    def test_it_may_be_mapped_or_not(self, catalog, tmp_path, monkeypatch, mapped):
        monkeypatch.setattr(kept_files, "MAPPED", mapped)
        again = Catalog.open_indexed(tmp_path / "catalog.jsonl")
        assert again == catalog == pickle.loads(pickle.dumps(again))
        assert again.position("sms") == 1


class TestGrowing:
    def test_a_catalog(self, catalog):
        grown = catalog.extended([NEWS])
        assert grown == Catalog((*APIS, NEWS))
        assert grown.ids == (*catalog.ids, "news")
        assert grown.categories == ("Mapping", "Media", "Messaging", "Travel")
        assert [api.id for api in grown.in_categories(["Travel"])] == ["maps", "caf\u00e9", "news"]
        assert (grown.position("news"), grown[4], grown[-2].id) == (4, NEWS, "bare")
        assert len(catalog) == 4
        assert catalog.extended([]) == catalog
        with pytest.raises(InputError, match="duplicate API id 'sms'"):
            grown.extended([Api("sms", "Text")])

    def test_what_is_shared(self, catalog, history, tmp_path):
        grown = catalog.extended([NEWS])
        again, whole = Catalog.open_indexed(tmp_path / "catalog.jsonl"), Catalog(APIS)
        for one, other, n in (
            (grown, catalog, 4),
            (catalog, grown, 4),
            (grown, grown, 5),
            (again, grown, 4),
            (whole, catalog, 0),
            (whole.extended([NEWS]), whole, 4),
        ):
            assert n_shared(one._items, other._items) == n

    def test_whether_an_item_is_held(self, catalog, decoded):
        assert all(catalog.holds(place, api) for place, api in enumerate(APIS))
        assert decoded == []  # their bytes say so
        assert not catalog.holds(0, APIS[1])
        assert not catalog.holds(0, dataclasses.replace(APIS[0], name="Other"))
        grown = catalog.extended([NEWS])
        assert grown.holds(4, NEWS) and not grown.holds(4, APIS[0]) and grown.holds(1, APIS[1])

    def test_an_item_that_was_written_otherwise_is_held_too(self, tmp_path):
        path = tmp_path / "catalog.jsonl"
        Catalog(APIS[:1]).write_indexed(path)
        content = path.read_bytes()
        path.write_bytes(content.replace(b": ", b":  ", 1))
        (offsets,) = tmp_path.glob("*offsets.npy")
        np.save(offsets, np.array([0, len(content) + 1]))
        opened = Catalog.open_indexed(path)
        assert opened.holds(0, APIS[0]) and not opened.holds(0, APIS[1])

    @pytest.mark.parametrize("n", [1, 3, 40])
    def test_one_after_the_other(self, history, n):
        new = [Mashup(f"new{i}", f"news {i}", ("news", "sms")) for i in range(n)]
        grown = history
        for mashup in new:
            grown = grown.extended([mashup])
            sizes = [len(part) for part in grown._items.parts[1:]]
            assert sizes == sorted(set(sizes), reverse=True)
        assert list(grown) == [*MASHUPS, *new] == [grown[i] for i in range(len(grown))]
        assert grown == History([*MASHUPS, *new])
        assert [grown.find(m.id) for m in grown] == list(range(len(grown)))
        assert grown.asked(f"news {n - 1}") == (len(grown) - 1,)
        for twin in (MASHUPS[0], new[0], new[-1]):
            with pytest.raises(InputError, match=f"duplicate mashup id '{twin.id}'"):
                grown.extended([twin])

    def test_a_history(self, history):
        grown = history.extended([NEW])
        assert grown == History((*MASHUPS, NEW))
        assert grown.asked("rain by text") == (0, 1, 4)
        assert (grown.find("m5"), grown.find("m1")) == (4, 0)
        with pytest.raises(InputError, match="duplicate mashup id 'm1'"):
            history.extended([MASHUPS[0]])
        with pytest.raises(InputError, match="mashup 'm9' has no API"):
            history.extended([Mashup("m9", "x", ())])

    def test_one_by_one_in_memory_and_in_files(self, history):
        in_files, in_memory = history, History([])
        for mashup in MASHUPS:
            in_memory = in_memory.extended([mashup])
        for number in range(20):
            mashup = Mashup(f"n{number}", f"text {number % 3}", ("sms",))
            in_files, in_memory = in_files.extended([mashup]), in_memory.extended([mashup])
        assert in_files == in_memory
        assert in_files.asked("text 1") == in_memory.asked("text 1")
        assert len(in_files.asked("text 1")) == 7

    def test_those_skipped_are_still_counted(self):
        assert History(MASHUPS, skipped=3).extended([NEW]).skipped == 3

    @pytest.mark.parametrize(
        ("new", "message"),
        [
            ([Api("Maps", "A")], "ids 'maps' and 'Maps'"),
            ([Api("a", "BARE")], "names 'Bare' and 'BARE'"),
            ([Api("User", "A")], "ids 'user' and 'User'"),
            ([Api("x", "A"), Api("X", "B")], "ids 'x' and 'X'"),
        ],
    )
    def test_look_alikes_of_what_is_new(self, catalog, new, message):
        for apis in (catalog, Catalog(APIS)):
            with pytest.warns(LookAlikeWarning, match=re.escape(message)) as caught:
                apis.extended(new)
            assert (len(caught), caught[0].filename) == (1, __file__)

    def test_what_looked_alike_before_is_not_said_again(self, tmp_path):
        with pytest.warns(LookAlikeWarning):
            Catalog([*APIS, Api("Maps", "Atlas")]).write_indexed(tmp_path / "twins.jsonl")
        twins = Catalog.open_indexed(tmp_path / "twins.jsonl")
        assert len(twins.extended([NEWS])) == 6


class TestNothingIsReadThatIsNotAsked:
    def test_opening_reads_the_ends(self, catalog, tmp_path, decoded):
        again = Catalog.open_indexed(tmp_path / "catalog.jsonl")
        assert sorted(decoded) == [1, 4]
        decoded.clear()
        assert again == catalog
        assert len(again) == 4
        assert "sms" in again
        assert again.ids == catalog.ids
        assert again.categories == catalog.categories
        assert again.extended([NEWS]) == catalog.extended([NEWS])
        assert again.extended([NEWS]) != again
        assert decoded == []
        assert again["sms"] == again[1]
        assert decoded == [2]

    def test_who_is_in_a_category(self, catalog, tmp_path, decoded, monkeypatch):
        again = Catalog.open_indexed(tmp_path / "catalog.jsonl")
        decoded.clear()
        assert again.ids_in(catalog.categories) == ("maps", "sms", "caf\u00e9")
        assert again.extended([NEWS]).ids_in(["Media"]) == ("news",)
        assert decoded == []
        # Of two categories with the same hash, each API is looked at.
        monkeypatch.setattr(stored_items, "_hash", lambda text: 1)
        Catalog(APIS).write_indexed(tmp_path / "same.jsonl")
        same = Catalog.open_indexed(tmp_path / "same.jsonl")
        decoded.clear()
        assert same.ids_in(["Travel"]) == ("maps", "caf\u00e9")
        assert sorted(decoded) == [1, 2, 3]
        assert same.ids_in(["Nowhere"]) == ()

    def test_a_request(self, history, decoded):
        decoded.clear()
        assert history.asked("no such") == ()
        assert next(history.each_asked("rain by text")) == 0
        assert history.find("m9") is None
        assert decoded == [1]

    def test_saving_copies(self, history, tmp_path, decoded):
        decoded.clear()
        history.extended([NEW]).write_indexed(tmp_path / "grown.jsonl")
        assert decoded == []
        History((*MASHUPS, NEW)).write_indexed(tmp_path / "whole.jsonl")
        grown = [data for _, data in files_of(tmp_path, "grown").items()]
        assert grown == [data for _, data in files_of(tmp_path, "whole").items()]
        history.write(tmp_path / "plain.jsonl")
        assert History.read(tmp_path / "plain.jsonl") == history

    def test_a_catalog_that_grew_is_written_as_one_that_was_made_so(self, catalog, tmp_path):
        catalog.extended([NEWS]).write_indexed(tmp_path / "grown.jsonl")
        Catalog((*APIS, NEWS)).write_indexed(tmp_path / "whole.jsonl")
        grown, whole = files_of(tmp_path, "grown"), files_of(tmp_path, "whole")
        assert list(grown.values()) == list(whole.values())
        assert len(grown) == 10


class TestDamage:
    def put(self, tmp_path, name, array):
        np.save(tmp_path / name, array)

    def refused(self, tmp_path):
        with pytest.raises(ModelCorruptError) as caught:
            History.open_indexed(tmp_path / "history.jsonl")
        return str(caught.value)

    def test_the_text_of_another(self, history, tmp_path):
        History(MASHUPS[1:]).write(tmp_path / "history.jsonl")
        assert self.refused(tmp_path) == (
            f"{tmp_path}: the model is damaged: history.jsonl: its index is of another file "
            "(fit it again, or copy it again if it is a copy)"
        )

    @pytest.mark.parametrize("name", ["offsets", "id.hashes", "id.places", "asked.places"])
    @pytest.mark.parametrize(
        "damage",
        [
            lambda array: array[:-1],
            lambda array: array.astype(float),
            lambda array: array.reshape(-1, 1),
            lambda array: np.full_like(array, -3),
            lambda array: np.full_like(array, np.iinfo(np.int64).max),
        ],
    )
    def test_an_index_that_is_none(self, history, tmp_path, name, damage):
        file = f"history.{name}.npy"
        self.put(tmp_path, file, damage(np.load(tmp_path / file)))
        assert "its index" in self.refused(tmp_path)

    def test_the_index_of_another(self, history, tmp_path):
        History([*MASHUPS[:3], NEW]).write_indexed(tmp_path / "other.jsonl")
        for file in ("history.id.hashes.npy", "history.id.places.npy"):
            shutil.copy(tmp_path / file.replace("history", "other"), tmp_path / file)
        assert "its index by id is of other items" in self.refused(tmp_path)

    def test_places_that_lead_nowhere(self, history, tmp_path):
        places = np.load(tmp_path / "history.asked.places.npy")
        places[places == 1] = 99
        self.put(tmp_path, "history.asked.places.npy", places)
        again = History.open_indexed(tmp_path / "history.jsonl")
        with pytest.raises(ModelCorruptError, match="its index by asked leads nowhere"):
            again.asked("rain by text")

    def test_a_hit_is_looked_at(self, history, tmp_path):
        places = np.load(tmp_path / "history.asked.places.npy")
        places[places == 1] = 2
        self.put(tmp_path, "history.asked.places.npy", places)
        assert History.open_indexed(tmp_path / "history.jsonl").asked("rain by text") == (0,)

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            (b'{"id": "m2"}', "missing field 'description'"),
            (b"[]", "expected a JSON object, got list"),
            (b"\xff", "not UTF-8"),
            (b'{"id": "m2", "description": "x", "apis": []}', "field 'apis' must not be empty"),
            (b'{"id": "m2", "description": 3, "apis": ["a"]}', "field 'description' must be a"),
        ],
    )
    def test_a_damaged_line_is_named_by_who_meets_it(self, history, tmp_path, line, problem):
        file = tmp_path / "history.jsonl"
        lines = file.read_bytes().split(b"\n")
        lines[1] = line.ljust(len(lines[1]))
        file.write_bytes(b"\n".join(lines))
        again = History.open_indexed(file)
        assert again[0] == MASHUPS[0]
        message = rf"^{re.escape(str(tmp_path))}: the model is damaged: history.jsonl, line 2: "
        for meet in (lambda: again[1], lambda: list(again), lambda: again.texts):
            with pytest.raises(ModelCorruptError, match=message + re.escape(problem)):
                meet()

    def test_offsets_inside_of_lines(self, history, tmp_path):
        offsets = np.load(tmp_path / "history.offsets.npy")
        offsets[2] += 1
        self.put(tmp_path, "history.offsets.npy", offsets)
        again = History.open_indexed(tmp_path / "history.jsonl")
        for place in (1, 2):
            with pytest.raises(ModelCorruptError, match=rf"line {place + 1}: "):
                again[place]

    @pytest.mark.parametrize(
        "ids", [["a"], {}, ["maps", "maps", "sms", "bare"], [1, 2, 3, 4], None]
    )
    def test_a_list_of_ids_that_is_none(self, catalog, tmp_path, ids):
        text = "[" if ids is None else json.dumps(ids)
        (tmp_path / "catalog.id.json").write_text(text)
        again = Catalog.open_indexed(tmp_path / "catalog.jsonl")
        with pytest.raises(ModelCorruptError, match=r"catalog.jsonl: its list (of|by)"):
            again.position("maps")


class TestPlaces:
    def test_what_is_there_stays(self, history, tmp_path):
        before = {place: place.read_bytes() for place in tmp_path.iterdir()}
        for items in (history, History(MASHUPS[:2])):
            with pytest.raises(InputError, match=r"history\.jsonl is there already"):
                items.write_indexed(tmp_path / "history.jsonl")
        (tmp_path / "history.jsonl").unlink()
        with pytest.raises(InputError, match=r"history\.offsets\.npy is there already"):
            History(MASHUPS[:2]).write_indexed(tmp_path / "history.jsonl")
        after = {place: place.read_bytes() for place in tmp_path.iterdir()}
        assert after == {place: before[place] for place in after} and len(after) == len(before) - 1

    def test_a_folder_that_is_not_there(self, history, tmp_path):
        with pytest.raises(DataFileError, match="its folder does not exist"):
            history.write_indexed(tmp_path / "none" / "history.jsonl")

    @pytest.mark.usefixtures("history")
    @pytest.mark.parametrize(
        "name", ["history.jsonl", "history.offsets.npy", "history.id.places.npy"]
    )
    def test_files_that_cannot_be_opened(self, tmp_path, name):
        place = tmp_path / name
        place.unlink()
        with pytest.raises(ModelCorruptError, match="cannot be opened"):
            History.open_indexed(tmp_path / "history.jsonl")
        if name.endswith("npy"):
            for nonsense in (b"", b"nonsense"):
                place.write_bytes(nonsense)
                with pytest.raises(ModelCorruptError, match="cannot be opened"):
                    History.open_indexed(tmp_path / "history.jsonl")
