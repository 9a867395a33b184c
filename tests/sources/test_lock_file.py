"""The file of accepted definitions."""

from __future__ import annotations

import json

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
