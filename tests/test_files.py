from __future__ import annotations

import gzip
import json
import os
import stat
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.exceptions import DataFileError
from cnp_router.files import alone, atomic_write, read_json, read_jsonl, read_text, write_jsonl

ONE_A_LINE = "(write one JSON object a line)"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "a.jsonl"


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def error_of(call, *args):
    """The message, with the folder cut off its path."""
    with pytest.raises(DataFileError) as caught:
        result = call(*args)
        list(result) if call is read_jsonl else None
    return str(caught.value).replace(f"{caught.value.path.parent}{os.sep}", "")


class TestReading:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "a.jsonl: the file is empty (give at least one record, or leave it out)"),
            (b" \r\n\n", "a.jsonl: the file is empty (give at least one record, or leave it out)"),
            (
                b"\xef\xbb\xbf",
                "a.jsonl: the file is empty (give at least one record, or leave it out)",
            ),
            (b'{}\n{"id": "caf\xe9"}', "a.jsonl, line 2: not UTF-8 (byte 0xe9) (save it as UTF-8)"),
            (
                gzip.compress(b"{}", mtime=0),
                "a.jsonl: it is packed by gzip (unpack it, or end its name in .gz if it is JSON "
                "Lines)",
            ),
            (
                '{"id": 1}'.encode("utf-16"),
                "a.jsonl, line 1: not UTF-8 (byte 0xff) (save it as UTF-8)",
            ),
            (
                b'{}\n\n{"id": }\n',
                f"a.jsonl, line 3: not JSON at column 8: Expecting value {ONE_A_LINE}",
            ),
            (
                b'{"id": "maps}\n',
                f"a.jsonl, line 1: not JSON at column 8: Unterminated string {ONE_A_LINE}",
            ),
            (
                b'{"id": 1} {"id": 2}',
                f"a.jsonl, line 1: not JSON at column 11: Extra data {ONE_A_LINE}",
            ),
            (
                b'[\n{"id": 1}\n]',
                f"a.jsonl, line 1: not JSON at column 2: Expecting value {ONE_A_LINE}",
            ),
            (b'[{"id": 1}]', f"a.jsonl, line 1: expected a JSON object, got list {ONE_A_LINE}"),
            (b'{}\n"id"', f"a.jsonl, line 2: expected a JSON object, got str {ONE_A_LINE}"),
            (b'{"a": NaN}', f"a.jsonl, line 1: not JSON: NaN is not a JSON value {ONE_A_LINE}"),
            (
                b'{"a": -Infinity}',
                f"a.jsonl, line 1: not JSON: -Infinity is not a JSON value {ONE_A_LINE}",
            ),
            (
                b'{"a": 1, "b": {"c": 1, "c": 2}}',
                f"a.jsonl, line 1: not JSON: key 'c' occurs twice in one object {ONE_A_LINE}",
            ),
            (
                b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
                f"a.jsonl, line 1: not JSON: nested too deep {ONE_A_LINE}",
            ),
            (
                b'{}\n{"a": "x\\ud800y"}',
                "a.jsonl, line 2: half of a surrogate pair, '\\ud800', is not a character "
                "(replace it; UTF-8 cannot hold it)",
            ),
            (
                b'{"a": "\\uDFFF"}',
                "a.jsonl, line 1: half of a surrogate pair, '\\udfff', is not a character "
                "(replace it; UTF-8 cannot hold it)",
            ),
        ],
    )
    def test_bad_content(self, file, content, message):
        file.write_bytes(content)
        assert error_of(read_jsonl, file) == message

    def test_a_number_too_long_for_python(self, file):
        file.write_text('{"a": ' + "9" * 100_000 + "}")
        assert error_of(read_jsonl, file).startswith("a.jsonl, line 1: not JSON: Exceeds the limit")

    def test_no_such_file(self, file):
        assert error_of(read_text, file) == "a.jsonl: no such file (check the path)"

    def test_a_directory(self, tmp_path):
        message = error_of(read_text, tmp_path)
        assert message == f"{tmp_path.name}: is a directory (name a file inside it)"

    def test_a_file_where_a_folder_should_be(self, file):
        file.write_text("{}")
        assert error_of(read_text, file / "b.jsonl") == "b.jsonl: cannot be read: Not a directory"

    def test_a_path_that_no_system_has(self, tmp_path):
        assert "cannot be read: embedded null" in error_of(read_text, tmp_path / "a\0b")
        assert "cannot be read: File name too long" in error_of(read_text, tmp_path / ("a" * 300))

    def test_no_permission_as_the_system_reports_it(self, file, monkeypatch):
        def refuse(self):
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
        assert error_of(read_text, file) == "a.jsonl: no permission to read it (check its mode)"

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
    def test_no_permission(self, file):
        file.write_text("{}")
        file.chmod(0)
        assert error_of(read_text, file) == "a.jsonl: no permission to read it (check its mode)"

    @pytest.mark.parametrize(
        ("content", "records"),
        [
            (b'\xef\xbb\xbf{"a": 1}\n', [(1, {"a": 1})]),
            (b'{"a": 1}\r\n{"a": 2}\r\n', [(1, {"a": 1}), (2, {"a": 2})]),
            (b'\n  \n{"a": 1}\n\n{"a": 2}', [(3, {"a": 1}), (5, {"a": 2})]),
            ('{"a": "x\u2028y\x85z"}\n'.encode(), [(1, {"a": "x\u2028y\x85z"})]),
            (b'{"a": "\\ud83d\\ude00"}', [(1, {"a": "\U0001f600"})]),
            (b'{"a": "\\\\ud800"}', [(1, {"a": "\\ud800"})]),
        ],
        ids=["BOM", "CRLF", "blank lines", "line separators in a string", "a pair", "a backslash"],
    )
    def test_good_content(self, file, content, records):
        file.write_bytes(content)
        assert list(read_jsonl(file)) == records

    def test_a_pipe_can_be_read(self, tmp_path):
        if not hasattr(os, "mkfifo"):
            pytest.skip("no named pipes here")
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        # Opened for both, so that neither end waits for the other; what is written is buffered.
        handle = os.open(pipe, os.O_RDWR)
        with atomic_write(pipe) as out:
            out.write('{"a": 1}\n')
        assert os.read(handle, 100) == b'{"a": 1}\n'
        os.close(handle)
        assert stat.S_ISFIFO(pipe.stat().st_mode)


class TestReadJson:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{\n "a": }', "a.jsonl, line 2: not JSON at column 7: Expecting value"),
            ("[" * 100_000, "a.jsonl: not JSON: nested too deep"),
            ("[NaN]", "a.jsonl: not JSON: NaN is not a JSON value"),
            ('{"a": 1, "a": 1}', "a.jsonl: not JSON: key 'a' occurs twice in one object"),
        ],
    )
    def test_bad_content(self, file, content, message):
        file.write_text(content)
        assert error_of(read_json, file) == f"{message} (give one valid JSON document)"

    def test_good_content(self, file):
        file.write_text("\ufeff [1,\r\n 2]\n", encoding="utf-8")
        assert read_json(file) == [1, 2]


def interrupt():
    raise KeyboardInterrupt


def fail():
    raise RuntimeError("midway")


class TestAtomicWrite:
    @pytest.mark.parametrize(
        ("stop", "error"), [(interrupt, KeyboardInterrupt), (fail, RuntimeError)]
    )
    @pytest.mark.parametrize("before", [None, "old"])
    def test_a_failure_midway_leaves_everything_as_it_was(self, file, stop, error, before):
        if before is not None:
            file.write_text(before)
        with pytest.raises(error), atomic_write(file) as out:
            out.write("new " * 100_000)
            stop()
        assert (file.read_text() if file.exists() else None) == before
        assert names_in(file.parent) == ([] if before is None else [file.name])

    def test_a_failing_replacement_leaves_the_old_file(self, file, monkeypatch):
        file.write_text("old")

        def refuse(self, target):
            raise PermissionError(13, "Permission denied", str(target))

        monkeypatch.setattr("pathlib.Path.replace", refuse)
        with pytest.raises(DataFileError, match="cannot be written: Permission denied"):
            write_jsonl(file, [{"a": 1}])
        assert file.read_text() == "old"
        assert names_in(file.parent) == [file.name]

    def test_a_missing_folder(self, tmp_path):
        message = error_of(write_jsonl, tmp_path / "no" / "a.jsonl", [])
        assert message == "a.jsonl: its folder does not exist (create it first)"

    def test_a_file_where_a_folder_should_be(self, file):
        file.write_text("old")
        message = error_of(write_jsonl, file / "b.jsonl", [])
        assert message == "b.jsonl: its folder does not exist (create it first)"

    def test_a_directory(self, tmp_path):
        message = error_of(write_jsonl, tmp_path, [])
        assert message == f"{tmp_path.name}: is a directory (name a file)"

    def test_a_path_that_no_system_has(self, tmp_path):
        assert "cannot be written: " in error_of(write_jsonl, tmp_path / "a\0b", [])
        assert "cannot be written: " in error_of(write_jsonl, tmp_path / ("a" * 300), [])
        assert names_in(tmp_path) == []

    def test_a_read_only_folder_as_the_system_reports_it(self, file, monkeypatch):
        def refuse(path, *args):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr("cnp_router.files.os.open", refuse)
        message = error_of(write_jsonl, file, [])
        assert message == "a.jsonl: cannot be written: Permission denied"

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
    )
    def test_a_read_only_folder(self, file):
        file.parent.chmod(0o500)
        message = error_of(write_jsonl, file, [])
        file.parent.chmod(0o700)
        assert message == "a.jsonl: cannot be written: Permission denied"

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_link_stays_and_its_target_is_written(self, tmp_path, exists):
        (tmp_path / "there").mkdir()
        target = tmp_path / "there" / "real.jsonl"
        if exists:
            target.write_text("old")
        link = tmp_path / "link.jsonl"
        link.symlink_to(target)
        write_jsonl(link, [{"a": 1}])
        assert link.is_symlink()
        assert target.read_text() == '{"a": 1}\n'
        assert names_in(target.parent) == ["real.jsonl"]

    @pytest.mark.skipif(sys.platform == "win32", reason="no modes there")
    def test_modes(self, file):
        umask = os.umask(0o027)
        try:
            write_jsonl(file, [])
            assert stat.S_IMODE(file.stat().st_mode) == 0o640
            file.chmod(0o600)
            write_jsonl(file, [{"a": 1}])
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        finally:
            os.umask(umask)

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")  # noqa: PTH110
    def test_devices_are_written_and_never_replaced(self):
        write_jsonl("/dev/null", [{"a": 1}])
        assert error_of(write_jsonl, "/dev/full", [{"a": 1}]) == (
            "full: cannot be written: No space left on device (make room)"
        )
        assert stat.S_ISCHR(os.stat("/dev/full").st_mode)  # noqa: PTH116

    def test_an_error_of_the_callers_block_stays_what_it_is(self, file):
        with pytest.raises(FileNotFoundError), atomic_write(file):
            file.with_name("other").read_text()

    def test_a_relative_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_jsonl("a.jsonl", [{"a": 1}])
        assert names_in(tmp_path) == ["a.jsonl"]


class TestWriteJsonl:
    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            (
                "x\ud800",
                "half of a surrogate pair, '\\ud800', is not a character "
                "(replace it; UTF-8 cannot hold it)",
            ),
            (float("nan"), "cannot be written as JSON: Out of range float values"),
            ({1, 2}, "cannot be written as JSON: Object of type set is not JSON serializable"),
        ],
    )
    def test_a_value_that_cannot_be_written(self, file, value, problem):
        file.write_text("old")
        message = error_of(write_jsonl, file, [{"a": "fine"}, {"a": value}])
        assert message.startswith(f"a.jsonl, line 2: {problem}")
        assert file.read_text() == "old"

    def test_nesting_without_end(self, file):
        loop: list[object] = []
        loop.append(loop)
        message = error_of(write_jsonl, file, [{"a": loop}])
        assert message.startswith("a.jsonl, line 1: cannot be written as JSON: ")

    values = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
        ),
        max_leaves=8,
    )

    @given(st.lists(st.dictionaries(st.sampled_from(["id", "a\u2028", "é"]), values), min_size=1))
    def test_what_is_written_is_read(self, tmp_path_factory, records):
        file = tmp_path_factory.mktemp("round") / "a.jsonl"
        write_jsonl(file, records)
        assert list(read_jsonl(file)) == list(enumerate(records, start=1))

    @given(st.text())
    def test_any_text_is_written_or_refused_clearly(self, tmp_path_factory, text):
        file = tmp_path_factory.mktemp("text") / "a.jsonl"
        try:
            text.encode()
        except UnicodeEncodeError:
            assert "half of a surrogate pair" in error_of(write_jsonl, file, [{"a": text}])
            file.write_text(json.dumps({"a": text}))
            assert "half of a surrogate pair" in error_of(read_jsonl, file)
        else:
            write_jsonl(file, [{"a": text}])
            assert list(read_jsonl(file)) == [(1, {"a": text})]


class TestAlone:
    def test_one_at_a_time_and_nothing_is_left(self, tmp_path):
        with alone(tmp_path / "file"):
            said = r"others have been writing it for 0\.02 s"
            with pytest.raises(DataFileError, match=said), alone(tmp_path / "file", wait=0.02):
                pass
            with alone(tmp_path / "other"):
                pass
        assert list(tmp_path.iterdir()) == []
        with alone(tmp_path / "file", wait=0):
            pass

    def test_an_error_inside_frees_it(self, tmp_path):
        with pytest.raises(KeyError), alone(tmp_path / "file"):
            raise KeyError
        with alone(tmp_path / "file", wait=0):
            pass
        assert list(tmp_path.iterdir()) == []

    def test_what_a_killed_process_left_does_not_hold_it(self, tmp_path):
        (tmp_path / ".file.writing").touch()
        with alone(tmp_path / "file", wait=0):
            pass
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_is_not_there(self, tmp_path):
        there, said = tmp_path / "no" / "file", "its folder does not exist"
        with pytest.raises(DataFileError, match=said), alone(there):
            pass

    def test_a_link_is_the_file_that_it_leads_to(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "file")
        one, link = alone(tmp_path / "file"), alone(tmp_path / "link", wait=0)
        with one, pytest.raises(DataFileError, match="others"), link:
            pass
