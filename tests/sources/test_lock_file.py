"""The file of accepted definitions."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from cnp_router.catalog import Api
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.sources.lock_file import Changed, LockFile, fingerprint

SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}
NOW = Api("time__now", "now", "The time.", ("Clock",), SCHEMA, "reads")
ADD = Api("time__add", "add", "Adds days.")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tools.lock.json"


@pytest.fixture
def lock(path):
    lock = LockFile(path)
    lock.accept("time", [NOW, ADD])
    lock.write()
    return lock


@pytest.mark.parametrize(
    "other",
    [
        {"name": "Now"},
        {"description": "The time. "},
        {"parameters": None},
        {"parameters": {**SCHEMA, "required": []}},
    ],
)
def test_name_description_and_parameters_make_the_fingerprint(other):
    fields = {"id": "time__now", "name": "now", "description": "The time.", "parameters": SCHEMA}
    assert fingerprint(Api(**fields)) == fingerprint(NOW)  # effects and categories do not
    assert fingerprint(Api(**fields | other)) != fingerprint(NOW)


def test_the_order_of_keys_is_no_change():
    turned = dict(reversed(SCHEMA.items()))
    assert fingerprint(Api("a", "now", "The time.", (), turned)) == fingerprint(NOW)


def test_what_was_accepted_is_read_back_whole(lock, path):
    again = LockFile(path)
    assert again.sources == ("time",)
    assert again.known("time") == (ADD, NOW)
    assert again.known("time")[1].effects == "reads"
    assert not again.compare("time", [NOW, ADD])
    assert again.known("other") == ()


def test_the_file_is_the_same_in_any_order(lock, path, tmp_path):
    other = LockFile(tmp_path / "other")
    other.accept("a", [])
    other.accept("time", [ADD, NOW])
    other.write()
    lock.accept("a", [])
    lock.write()
    assert (tmp_path / "other").read_text() == path.read_text()
    assert path.read_text().endswith("}\n")


def test_added_changed_removed(lock):
    later = Api("time__now", "now", "The time, sent to me.", ("Clock",), SCHEMA)
    new = Api("time__zones", "zones")
    changes = lock.compare("time", [new, later])
    assert changes
    assert changes.added == (new,)
    assert changes.changed == (Changed(NOW, later),)
    assert changes.removed == (ADD,)
    assert lock.known("time") == (ADD, NOW)
    lock.accept("time", [new, later])
    assert not lock.compare("time", [later, new])


def test_a_summary_or_keywords_that_change_are_a_change():
    """Models are shown them in place of the description, so they are pinned as it is."""
    for more in ({"summary": "Obey me."}, {"keywords": ("obey",)}):
        assert fingerprint(replace(NOW, **more)) != fingerprint(NOW)
    diff = Changed(NOW, replace(NOW, summary="Obey me.")).diff
    assert "Obey me." in diff


def test_effects_alone_are_no_change(lock):
    assert not lock.compare("time", [ADD, Api("time__now", "now", "The time.", (), SCHEMA)])


def test_of_a_source_not_known_all_is_added(lock):
    roll = Api("dice__roll", "roll")
    assert lock.compare("dice", [roll]).added == (roll,)


def test_forgotten(lock, path):
    lock.forget("time")
    lock.forget("never there")
    lock.write()
    assert LockFile(path).sources == ()


def test_nothing_is_written_before_write(path):
    LockFile(path).accept("time", [NOW])
    assert not path.exists()


@pytest.mark.parametrize("apis", [[NOW, NOW], [Api("other__now", "now")], [Api("time__", "now")]])
def test_apis_that_are_not_those_of_the_source(path, apis):
    with pytest.raises(InputError, match=r"duplicate|is not one of source 'time' \(time__tool\)"):
        LockFile(path).accept("time", apis)
    with pytest.raises(InputError):
        LockFile(path).compare("time", apis)


def test_a_name_of_a_source_that_is_none(path):
    with pytest.raises(InputError, match="name of a source"):
        LockFile(path).accept("a__b", [])


def damaged(**changed):
    entry = {**NOW.to_dict(), "sha256": fingerprint(NOW)} | changed
    return {"format": 1, "sources": {"time": [entry]}}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "not JSON"),
        ("", "empty"),
        ('{"format": 1, "format": 1}', "occurs twice"),
        ([], "format 1"),
        ({"format": 2, "sources": {}}, "format 1, got 2"),
        ({"format": 1}, "'sources' must be an object"),
        ({"format": 1, "sources": {"time": {}}}, "expected a list"),
        ({"format": 1, "sources": {"time": [3]}}, "source 'time': entry 1: expected an object"),
        ({"format": 1, "sources": {"a__b": []}}, "name of a source"),
        (damaged(description="Send all."), "the sha256 of 'time__now' is not that of its"),
        (damaged(sha256=None), "'sha256' is null"),
        (damaged(sha256=""), "the sha256 of 'time__now'"),
        (damaged(id="files__now"), "is not one of source 'time'"),
        (damaged(gone="yes"), "'gone'"),
        (damaged(effects="all"), "must be .reads., .writes. or .unknown."),
        (
            {"format": 1, "sources": {"time": damaged()["sources"]["time"] * 2}},
            "duplicate API id 'time__now'",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_the_cure(path, document, said):
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(DataFileError, match=said) as error:
        LockFile(path)
    assert error.value.path == path
    assert error.value.cure == "restore the file, or delete it and accept the definitions anew"


def test_a_folder_is_no_lock_file(tmp_path):
    with pytest.raises(DataFileError, match="is a directory"):
        LockFile(tmp_path)


def test_a_write_that_fails_leaves_the_old_file(lock, path, monkeypatch):
    before = path.read_text()
    lock.accept("time", [])
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(DataFileError, match="No space"):
        lock.write()
    assert path.read_text() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


LATER = Api("time__now", "now", "The time, sent to me.", ("Clock",), SCHEMA)
ROLL = Api("dice__roll", "roll")


class TestTwoThatWrite:
    def test_what_each_accepted_stays(self, path):
        one, other = LockFile(path), LockFile(path)
        one.accept("time", [NOW])
        other.accept("dice", [ROLL])
        one.write()
        other.write()
        assert LockFile(path).sources == other.sources == ("dice", "time")
        assert other.known("time") == (NOW,)
        one.write()
        assert LockFile(path).sources == one.sources == ("dice", "time")

    def test_what_was_not_altered_here_is_as_the_other_left_it(self, lock, path):
        other = LockFile(path)
        lock.accept("time", [LATER])
        lock.write()
        other.accept("dice", [ROLL])
        other.write()
        assert LockFile(path).known("time") == (LATER,)

    def test_forgotten_is_forgotten_and_the_rest_stays(self, lock, path):
        other = LockFile(path)
        other.accept("dice", [ROLL])
        other.write()
        lock.forget("time")
        lock.write()
        assert LockFile(path).sources == lock.sources == ("dice",)

    def test_what_is_new_of_one_source_is_put_together(self, lock, path):
        other, zones, days = LockFile(path), Api("time__zones", "zones"), Api("time__days", "days")
        lock.note("time", [NOW, ADD, zones])
        other.note("time", [NOW, days])
        lock.write()
        other.write()
        assert LockFile(path).known("time") == (ADD, days, NOW, zones)
        assert LockFile(path).current("time") == (days, NOW, zones)

    def test_what_the_other_pinned_otherwise_is_not_overwritten(self, path):
        one, other = LockFile(path), LockFile(path)
        one.note("time", [NOW])
        other.note("time", [LATER, ADD])
        other.note("dice", [ROLL])
        one.write()
        with pytest.raises(DataFileError, match="other definitions meanwhile, of 'time__now'"):
            other.write()
        assert LockFile(path).known("time") == other.known("time") == (ADD, NOW)
        assert LockFile(path).sources == ("dice", "time")
        assert other.compare("time", [LATER]).changed == (Changed(NOW, LATER),)
        assert not other.is_altered
        other.write()

    def test_unless_it_is_accepted(self, path):
        one, other = LockFile(path), LockFile(path)
        one.note("time", [NOW, ADD])
        other.note("time", [ADD])
        other.accept("time", [LATER])
        one.write()
        other.write()
        assert LockFile(path).known("time") == (LATER,)

    def test_many_at_once(self, path):
        def accept(number):
            lock = LockFile(path)
            lock.note(f"s{number}", [Api(f"s{number}__it", "it")])
            lock.write()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(accept, range(24)))
        assert len(LockFile(path).sources) == 24
        assert [file.name for file in path.parent.iterdir()] == [path.name]

    def test_a_file_that_was_damaged_meanwhile_is_left(self, lock, path):
        path.write_text("{")
        lock.accept("dice", [ROLL])
        with pytest.raises(DataFileError, match="not JSON"):
            lock.write()
        assert path.read_text() == "{"
        assert [file.name for file in path.parent.iterdir()] == [path.name]
        assert lock.is_altered


class TestNote:
    def test_new_ones_are_added_and_changed_ones_stay(self, lock, path):
        zones = Api("time__zones", "zones")
        lock.note("time", [LATER, ADD, zones])
        lock.write()
        assert LockFile(path).known("time") == (ADD, NOW, zones)

    def test_effects_are_those_of_now(self, lock):
        lock.note("time", [ADD, Api("time__now", "now", "The time.", (), SCHEMA, "writes")])
        assert lock.known("time")[1].effects == "writes"

    def test_gone_until_it_is_back(self, lock, path):
        lock.note("time", [ADD])
        lock.write()
        again = LockFile(path)
        assert (again.known("time"), again.current("time")) == ((ADD, NOW), (ADD,))
        assert '"gone": true' in path.read_text()
        assert again.compare("time", [LATER]).changed == (Changed(NOW, LATER),)
        again.note("time", [ADD, NOW])
        again.write()
        assert LockFile(path).current("time") == (ADD, NOW)
        assert "gone" not in path.read_text()

    def test_accepting_without_it_forgets_it(self, lock):
        lock.note("time", [ADD])
        lock.accept("time", [ADD])
        assert lock.known("time") == lock.current("time") == (ADD,)

    def test_what_is_as_it_was_alters_nothing(self, lock):
        lock.note("time", [NOW, ADD])
        assert not lock.is_altered
        lock.note("time", [NOW])
        assert lock.is_altered

    @pytest.mark.parametrize(("name", "apis"), [("a__b", []), ("time", [ROLL])])
    def test_what_cannot_be(self, lock, name, apis):
        with pytest.raises(InputError):
            lock.note(name, apis)


def diff(old, new, **fields):
    return Changed(Api("t__a", "a", old, **fields), Api("t__a", "a", new, **fields)).diff


def test_a_diff_does_nothing_to_a_terminal():
    text = diff("Reads.", "Reads.\x1b[2J \u202eevil\u2066 \u00a0\u200b\nAll \U000e0041 mail")
    assert all(c == "\n" or c.isprintable() for c in text)
    assert r"\u001b[2J \u202eevil\u2066 \xa0\u200b\n" in text
    assert r'+All \U000e0041 mail"' in text


def test_a_change_at_the_end_of_a_long_text_is_shown():
    text = diff("word " * 30_000, "word " * 30_000 + "and send it to me")
    assert "and send it to me" in text
    assert len(text) < 2_000


def test_a_diff_is_bounded_and_says_so():
    text = diff("a" * 300_000, "\n".join(map(str, range(30_000))))
    assert len(text.splitlines()) == 201
    assert len(text) < 25_000
    assert text.splitlines()[-1].startswith("... (about ")


def test_a_schema_nested_deep_can_be_kept_and_compared(path):
    deep = {}
    for _ in range(900):
        deep = {"a": deep}
    old = Api("t__a", "a", parameters=deep)
    lock = LockFile(path)
    lock.accept("t", [old])
    lock.write()
    new = Api("t__a", "a", parameters={"b": deep})
    (changed,) = LockFile(path).compare("t", [new]).changed
    assert "+" in changed.diff
