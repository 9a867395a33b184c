"""Files that readers take besides plain JSON Lines: packed ones, patterns, and Parquet."""

from __future__ import annotations

import datetime
import gzip
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.data_files import data_files
from cnp_router.exceptions import DataFileError, MissingExtraError
from cnp_router.history import History, Mashup, read_shards
from cnp_router.pool import LocalPool
from cnp_router.shards import read_history

DAY = datetime.date(2024, 1, 31)
MASHUPS = [
    Mashup("m1", "Rain by text", ("weather", "sms"), ("Messaging",), None, DAY),
    Mashup("m2", "Bars on a map", ("maps",)),
    Mashup("m3", "Text me a map", ("maps", "sms"), ordered=True, user="ann"),
]
READERS = {
    "all": History.read,
    "each": lambda paths: [mashup for history in read_shards(paths) for mashup in history],
    "pool": lambda paths: read_history(LocalPool(2, threads=True), paths),
}


def packed(path, mashups):
    lines = (json.dumps(mashup.to_dict()) for mashup in mashups)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


def error(call):
    with pytest.raises(DataFileError) as caught:
        call()
    return str(caught.value)


@pytest.fixture
def shards(tmp_path):
    """Two packed files and a plain one."""
    packed(tmp_path / "part-1.jsonl.gz", MASHUPS[1:2])
    packed(tmp_path / "part-0.jsonl.gz", MASHUPS[:1])
    History(MASHUPS[2:]).write(tmp_path / "part-2.jsonl")
    return tmp_path


@pytest.fixture
def theirs(shards):
    """A folder with the files, of somebody whom modes bind: root is not."""
    with tempfile.TemporaryDirectory() as name:
        folder = shutil.copytree(shards, Path(name) / "theirs")
        (folder / "a" / "b").mkdir(parents=True)
        if os.geteuid() == 0:
            for place in (Path(name), folder, *folder.rglob("*")):
                os.chown(place, 65534, -1)
        yield folder
        for place in (folder, folder / "a"):
            place.chmod(0o700)


def found_by_them(pattern):
    """Return the files that a pattern means to the owner of the folder, and what is wrong."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        return data_files(pattern), ""
    except DataFileError as exc:
        return (), str(exc)
    finally:
        os.seteuid(user)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="has no such modes")
class TestModes:
    @pytest.mark.parametrize("mode", [0o000, 0o400])
    @pytest.mark.parametrize(
        "pattern", ["**", "**/part-*", "*/part-*", "a/part-*", "*/b/part-*", "**/b/part-*", "a/**"]
    )
    def test_a_folder_that_may_not_be_looked_into(self, theirs, pattern, mode):
        (theirs / "a").chmod(mode)
        _, problem = found_by_them(theirs / pattern)
        assert problem == f"{theirs / 'a'}/: no permission to look into it (check its mode)"
        found, problem = found_by_them(theirs / "part-*")
        assert (len(found), problem) == (3, "")

    def test_to_enter_a_folder_is_enough_where_the_name_is_known(self, theirs):
        theirs.chmod(0o100)
        found, problem = found_by_them(theirs.parent / "*" / "part-2.jsonl")
        assert ([file.name for file in found], problem) == (["part-2.jsonl"], "")
        _, problem = found_by_them(theirs.parent / "*" / "part-*")
        assert problem.startswith(f"{theirs}/: no permission to look into it")


class TestPatterns:
    def test_a_pattern_means_all_files_that_match_sorted(self, shards):
        assert [m.id for m in History.read(shards / "part-*.jsonl.gz")] == ["m1", "m2"]
        assert list(History.read([shards / "part-?.jsonl", shards / "part-[01]*"])) == [
            *(MASHUPS[2], *MASHUPS[:2])
        ]

    def test_a_link_that_leads_nowhere_is_not_passed_over(self, shards):
        (shards / "part-9.jsonl.gz").symlink_to(shards / "not-mounted")
        with pytest.raises(DataFileError, match=r"part-9\.jsonl\.gz: no such file"):
            History.read(str(shards / "part-*.jsonl.gz"))

    def test_the_ending_may_be_in_capitals(self, shards):
        file = next(shards.glob("*.gz"))
        upper = file.rename(shards / file.name.upper())
        assert len(History.read(upper)) == 1

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
    def test_a_pipe_is_one_of_them(self, shards):
        os.mkfifo(shards / "part-9.jsonl")
        assert len(data_files(shards / "part-*")) == len(data_files(shards / "part-[0-8]*")) + 1

    def test_folders_are_passed_over(self, shards, caplog):
        files = data_files(shards / "part-*")
        for name in ("part-folder", "part-other"):
            (shards / name).mkdir()
        assert data_files(shards / "part-*") == files
        assert caplog.messages == [
            f"{shards}/part-folder: is a folder, and passed over, and 1 more"
        ]
        caplog.clear()
        assert set(data_files(f"{shards}/**")) == set(files)
        assert not caplog.messages
        assert error(lambda: data_files(f"{shards}/part-[fo]*")) == (
            f"{shards}/part-[fo]*: no file matches (give what is in it, as {shards}/part-folder/*)"
        )

    def test_a_file_is_given_once(self, shards):
        first, *_ = sorted(shards.iterdir())
        said = rf"{re.escape(first.name)}: it is given twice \(.*part-\* means it, too\)"
        with pytest.raises(DataFileError, match=said):
            data_files([first, str(shards / "part-*")])

    def test_a_pattern_without_a_folder(self, shards, monkeypatch):
        monkeypatch.chdir(shards)
        assert len(History.read("part-*")) == 3

    def test_nothing_matches(self, tmp_path):
        message = error(lambda: History.read(tmp_path / "part-*.jsonl"))
        assert message == f"{tmp_path}/part-*.jsonl: no file matches (check the pattern)"

    def test_a_file_whose_name_looks_like_a_pattern(self, tmp_path):
        file = tmp_path / "past[1].jsonl"
        History(MASHUPS).write(file)
        History(MASHUPS[:1]).write(tmp_path / "past1.jsonl")
        assert list(History.read(file)) == MASHUPS

    def test_an_id_in_two_files(self, shards):
        packed(shards / "part-3.jsonl.gz", [*MASHUPS[2:], MASHUPS[0]])
        assert error(lambda: History.read(shards / "*.gz")) == (
            f"{shards / 'part-3.jsonl.gz'}, line 2: duplicate mashup id 'm1', "
            f"first in {shards / 'part-0.jsonl.gz'}, line 1 (ids must be unique)"
        )

    @pytest.mark.parametrize("read", READERS.values(), ids=READERS)
    def test_files_that_hold_nothing(self, shards, read, caplog):
        """Who writes in parts leaves some behind."""
        for name in ("part-1.jsonl.gz", "part-2.jsonl"):
            (shards / name).write_bytes(gzip.compress(b"\n") if name.endswith("gz") else b"")
        ids = [m.id for m in read(shards / "part-*")]
        assert [m.id for m in MASHUPS if m.id in ids] == ids != []
        assert caplog.messages == [
            f"{shards / 'part-1.jsonl.gz'}: the file is empty, and passed over, and 1 more"
        ]

    @pytest.mark.parametrize("read", READERS.values(), ids=READERS)
    def test_files_of_which_none_holds_anything(self, tmp_path, read, caplog):
        files = [tmp_path / f"{n}.jsonl" for n in range(2)]
        for file in files:
            file.touch()
        said = f"{files[0]}: the file is empty (give at least one record, or leave it out)"
        assert error(lambda: read(files)) == said
        assert not caplog.messages

    def test_one_history_a_file(self, shards):
        found = [[m.id for m in history] for history in read_shards(shards / "part-*")]
        assert found == [["m1"], ["m2"], ["m3"]]

    def test_shards_know_the_catalog(self, shards):
        catalog = Catalog([Api("maps", "Maps")])
        shown = [len(h) for h in read_shards(shards / "*.gz", catalog=catalog, unknown="skip")]
        assert shown == [0, 1]


class TestGzip:
    def test_a_packed_catalog(self, tmp_path):
        catalog = Catalog([Api("maps", "Maps"), Api("caf\u00e9", "\u2028")])
        catalog.write(tmp_path / "apis.jsonl")
        file = tmp_path / "apis.jsonl.gz"
        file.write_bytes(gzip.compress((tmp_path / "apis.jsonl").read_bytes()))
        assert Catalog.read(file) == catalog

    @pytest.mark.parametrize("kept", [5, 40, -1])
    def test_one_that_is_cut(self, tmp_path, kept):
        file = tmp_path / "past.jsonl.gz"
        packed(file, MASHUPS)
        file.write_bytes(file.read_bytes()[:kept])
        message = error(lambda: History.read(file))
        assert message.startswith(f"{file}: cannot be unpacked as gzip: ")
        assert message.endswith("(pack it again, or drop the .gz)")

    def test_one_that_is_none(self, tmp_path):
        file = tmp_path / "past.jsonl.gz"
        History(MASHUPS).write(file)
        assert "cannot be unpacked as gzip: Not a gzipped file" in error(lambda: History.read(file))

    def test_one_that_is_not_there(self, tmp_path):
        message = error(lambda: History.read(tmp_path / "past.jsonl.gz"))
        assert message.endswith("past.jsonl.gz: no such file (check the path)")

    def test_a_wrong_line_is_named(self, tmp_path):
        file = tmp_path / "past.jsonl.gz"
        file.write_bytes(gzip.compress(b'\n{"id": "m1"}\n'))
        assert error(lambda: History.read(file)).startswith(f"{file}, line 2: missing field 'descr")


def test_parquet_without_its_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    file = tmp_path / "past.parquet"
    file.write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError) as caught:
        History.read(file)
    assert str(caught.value) == (
        "reading Parquet needs pyarrow (pip install 'cnp-router[parquet]')"
    )


class TestParquet:
    @pytest.fixture
    def write(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")

        def write(file="past.parquet", /, **columns):
            parquet.write_table(pa.table(columns), tmp_path / file)
            return tmp_path / file

        return write

    def columns(self, mashups, **changed):
        names = ("id", "description", "apis", "categories", "date", "ordered", "user")
        columns = {name: [getattr(m, name) for m in mashups] for name in names}
        columns["apis"] = [list(apis) for apis in columns["apis"]]
        columns["categories"] = [list(names) or None for names in columns["categories"]]
        return columns | changed

    def test_a_history(self, write):
        assert list(History.read(write(**self.columns(MASHUPS), other=[1, 2, 3]))) == MASHUPS

    @pytest.mark.parametrize("day", ["2024-01-31", datetime.datetime(2024, 1, 31)])
    def test_a_date_may_be_text_or_midnight(self, write, day):
        file = write(**self.columns(MASHUPS, date=[day, None, None]))
        assert History.read(file)[0].date == DAY

    def test_a_time_of_the_day_is_no_date(self, write):
        noon = datetime.datetime(2024, 1, 31, 12)
        file = write(**self.columns(MASHUPS, date=[None, noon, None]))
        assert error(lambda: History.read(file)) == (
            f"{file}: row 2: field 'date' must be YYYY-MM-DD, got '2024-01-31T12:00:00' "
            "(write the day alone)"
        )

    @pytest.mark.parametrize(
        ("number", "kind"),
        [
            (1, "timestamp[ns]"),
            (10**7, "date32[day]"),
            (10**12, "timestamp[s]"),
            (0, "timestamp[us, tz=Mars/Phobos]"),
        ],
    )
    def test_a_time_that_python_has_not(self, write, number, kind):
        pa = pytest.importorskip("pyarrow")
        storage = pa.int32() if kind.startswith("date") else pa.int64()
        to = pa.timestamp("us", "Mars/Phobos") if "tz" in kind else pa.type_for_alias(kind)
        days = pa.array([None, number, None], storage).cast(to)
        file = write(**self.columns(MASHUPS, date=days))
        said = error(lambda: History.read(file))
        assert said.startswith(f"{file}: row 2 has a value that cannot be read: ")
        assert said.endswith(
            "(write times in microseconds, of the years 1 to 9999, in UTC or no time zone)"
        )

    def test_a_column_that_is_there_twice(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        columns = [pa.array(own) for own in (["m1"], ["maps"], [["sms"]], ["m2"])]
        table = pa.table(columns, names=["id", "description", "apis", "id"])
        parquet.write_table(table, tmp_path / "past.parquet")
        said = error(lambda: History.read(tmp_path / "past.parquet"))
        assert "it has the column 'id' more than once (give each column" in said

    def test_a_catalog(self, write):
        inputs = {"type": "object", "properties": {"to": {"type": "string"}}}
        file = write(
            "apis.parquet",
            id=["maps", "sms"],
            name=["Maps", "SMS"],
            categories=[["Mapping"], None],
            parameters=[None, json.dumps(inputs)],
            returns=[{"a": 1, "b": None}, None],
        )
        assert list(Catalog.read(file)) == [
            Api("maps", "Maps", categories=("Mapping",), returns={"a": 1}),
            Api("sms", "SMS", parameters=inputs),
        ]

    def test_rows_and_lines_together(self, write, tmp_path):
        write("part-0.parquet", **self.columns(MASHUPS[:2]))
        packed(tmp_path / "part-1.jsonl.gz", MASHUPS[2:])
        assert list(History.read(tmp_path / "part-*")) == MASHUPS
        packed(tmp_path / "part-1.jsonl.gz", MASHUPS[1:])
        assert error(lambda: History.read(tmp_path / "part-*")).endswith(
            f"duplicate mashup id 'm2', first in {tmp_path}/part-0.parquet, row 2 "
            "(ids must be unique)"
        )

    def test_a_table_of_no_rows_is_passed_over(self, write, tmp_path, caplog):
        write("part-0.parquet", **self.columns(MASHUPS))
        empty = write("part-1.parquet", **self.columns(MASHUPS[:0]))
        assert list(History.read(tmp_path / "part-*")) == MASHUPS
        assert caplog.messages == [f"{empty}: the table is empty, and passed over"]

    def test_a_file_of_no_bytes_is_passed_over(self, write, tmp_path, caplog):
        write("part-0.parquet", **self.columns(MASHUPS))
        empty = tmp_path / "part-1.parquet"
        empty.touch()
        assert list(History.read(tmp_path / "part-*")) == MASHUPS
        assert caplog.messages == [f"{empty}: the file is empty, and passed over"]

    @pytest.mark.parametrize("read", READERS.values(), ids=READERS)
    @pytest.mark.parametrize("given", ["past [1].parquet", "p*.parquet"])
    def test_a_table_that_is_a_folder(self, write, tmp_path, read, given, caplog):
        """As Dask and Spark write it."""
        folder = tmp_path / "past [1].parquet"
        folder.mkdir()
        (folder / "_SUCCESS").touch()
        for n in (1, 0):
            rows = MASHUPS[2 * n : 2 * n + 2]
            write(f"{folder.name}/part.{n}.snappy.parquet", **self.columns(rows))
        assert list(read(tmp_path / given)) == MASHUPS
        assert not caplog.messages

    def test_tables_in_folders_under_two_stars(self, write, tmp_path, caplog):
        for n, name in enumerate(["a.parquet/part-0", "b.parquet/c.parquet/part-0"]):
            (tmp_path / name).parent.mkdir(parents=True)
            write(f"{name}.parquet", **self.columns(MASHUPS[n : n + 1]))
        assert list(History.read(f"{tmp_path}/**/*.parquet")) == MASHUPS[:2]
        assert list(History.read(tmp_path / "b.parquet" / "**" / "*.parquet")) == MASHUPS[1:2]
        assert not caplog.messages
        write("b.parquet/part-1.parquet", **self.columns(MASHUPS[2:]))
        for read in READERS.values():
            caplog.clear()
            assert list(read(tmp_path / "b.parquet")) == MASHUPS[2:]
            said = f"{tmp_path}/b.parquet/c.parquet: is a folder, and passed over"
            assert caplog.messages == [said]

    @pytest.mark.parametrize("name", ["a\0.parquet", "x" * 300 + ".parquet"])
    @pytest.mark.parametrize("read", READERS.values(), ids=READERS)
    def test_a_name_that_cannot_be(self, read, name):
        pytest.importorskip("pyarrow")
        assert "cannot be read as Parquet: " in error(lambda: read(name))

    def test_a_folder_that_has_no_table_in_it(self, tmp_path):
        folder = tmp_path / "past.parquet"
        (folder / "year=2020").mkdir(parents=True)
        assert error(lambda: History.read(folder)) == (
            f"{folder}: no Parquet file in it (give them, as {folder}/**/*.parquet)"
        )

    def test_a_row_that_is_wrong(self, write):
        file = write(**self.columns(MASHUPS, apis=[["sms"], None, []]))
        assert error(lambda: History.read(file)).startswith(f"{file}: row 2: missing field 'apis'")

    @pytest.mark.parametrize(
        ("columns", "problem"),
        [
            ({"text": ["x"]}, "no column of it is known (it has 'text'; rename its columns to"),
            ({"id": []}, "the table is empty (give at least one record, or leave it out)"),
        ],
    )
    def test_a_table_without_records(self, write, columns, problem):
        file = write(**columns)
        assert error(lambda: History.read(file)).startswith(f"{file}: {problem}")

    def test_a_file_that_is_none(self, write, tmp_path):
        file = tmp_path / "past.parquet"
        file.write_text("id,description\n")
        assert "cannot be read as Parquet: " in error(lambda: History.read(file))
        assert "no such file" in error(lambda: History.read(Path(tmp_path, "none.parquet")))
