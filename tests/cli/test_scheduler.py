"""``--scheduler``: commands whose work is done by the workers of a real cluster."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cnp_router.cluster import connected
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.history import History
from cnp_router.shards import _read, read_history
from cnp_router.training import load_router


@pytest.fixture(scope="module")
def address(local_cluster: Any) -> str:
    return str(local_cluster.scheduler_address)


def learned(model: Path) -> dict[str, str]:
    manifest = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
    return {name: file["sha256"] for name, file in manifest["files"].items()}


def lines(history: History, place: Path) -> None:
    history.write(place)
    if place.suffix == ".gz":
        place.write_bytes(gzip.compress(place.read_bytes()))


class TestFit:
    def test_shards(self, run, address, sample, monkeypatch):
        """The model is the one that the same files give without a cluster."""
        monkeypatch.setattr("cnp_router.training.splits.LITTLE_FOLDS", 3)
        sample.catalog.write("apis.jsonl")
        for number in range(3):
            part = History(sample.history[8 * number : 8 * number + 8])
            lines(part, Path(f"part-{number}.jsonl{'.gz' * (number > 0)}"))
        files = ("--catalog", "apis.jsonl", "--history", "part-*.jsonl*")
        said = run("fit", *files, "--output", "model", "--scheduler", address)
        assert (said.exit_code, said.stderr) == (0, "")
        assert said.stdout.startswith("Learned from  24 mashups over 149 APIs\n")
        assert run("fit", *files, "--output", "alone", "--jobs", "1").exit_code == 0
        assert learned(Path("model")) == learned(Path("alone"))
        order = [mashup.id for mashup in load_router("model").history]
        assert order == [mashup.id for mashup in sample.history[:24]]

    def test_tables(self, address, sample, tmp_path):
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = [mashup.to_dict() for mashup in sample.history]
        for number in range(2):
            table = pa.Table.from_pylist(rows[number::2])
            parquet.write_table(table, tmp_path / f"part-{number}.parquet")
        with connected(address) as pool:
            history = read_history(pool, tmp_path / "part-*.parquet", catalog=sample.catalog)
        assert [m.id for m in history] == [row["id"] for row in (*rows[::2], *rows[1::2])]

    def test_nobody_is_there(self, run, sample, monkeypatch):
        monkeypatch.setattr("cnp_router.cluster.CONNECT_WITHIN", 0.3)
        said = run("fit", "--sample", "--output", "model", "--scheduler", "tcp://127.0.0.1:9")
        assert said.exit_code == 1
        assert "cluster tcp://127.0.0.1:9: it does not answer (start one: dask" in said.stderr
        assert not Path("model").exists()


class TestReading:
    def test_a_file_that_workers_do_not_see(self, address, tmp_path):
        missing = rf"{tmp_path}/a.jsonl: no such file on .* \(the workers read it: put it where"
        with connected(address) as pool, pytest.raises(DataFileError, match=missing):
            read_history(pool, tmp_path / "a.jsonl")

    def test_a_file_that_is_another_one_there(self, address, sample, tmp_path):
        """An older copy, say: another model would come of it."""
        file = tmp_path / "a.jsonl"
        sample.history.write(file)
        size = file.stat().st_size
        wrong = rf"a.jsonl: has {size:,} bytes on .*, and {size + 1:,} where it was asked for"
        with connected(address) as pool:
            shared = pool.share((sample.catalog, "error", pool.is_remote))
            assert len(pool.begin(_read, {file: size}, shared)()[0]) == len(sample.history)
            with pytest.raises(DataFileError, match=wrong):
                pool.begin(_read, {file: size + 1}, shared)()

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
    def test_a_pipe(self, address, tmp_path):
        """Who reads one waits for its writer; no worker can be told to stop that."""
        os.mkfifo(tmp_path / "a.jsonl")
        wrong = r"a.jsonl: is no regular file on .* \(the workers read it: it must be one"
        with connected(address) as pool, pytest.raises(DataFileError, match=wrong):
            read_history(pool, tmp_path / "a.jsonl")

    def test_errors_name_file_and_line(self, address, sample, tmp_path):
        sample.history.write(tmp_path / "a.jsonl")
        (tmp_path / "b.jsonl").write_text('{"id": 1}\n', encoding="utf-8")
        with connected(address) as pool, pytest.raises(DataFileError) as caught:
            read_history(pool, tmp_path / "*.jsonl")
        assert str(caught.value).startswith(f"{tmp_path}/b.jsonl, line 1: ")

    def test_an_id_in_two_files(self, address, sample, tmp_path):
        for name in "ab":
            History(sample.history[:3]).write(tmp_path / f"{name}.jsonl")
        first = sample.history[0].id
        wrong = rf"b.jsonl, line 1: duplicate mashup id '{first}', first in .*/a.jsonl, line 1"
        with connected(address) as pool, pytest.raises(DataFileError, match=wrong):
            read_history(pool, tmp_path / "*.jsonl")

    def test_what_the_catalog_does_not_have(self, address, sample, tmp_path):
        for place, name in enumerate("ab"):
            part = History(sample.history[place * 20 : place * 20 + 20])
            part.write(tmp_path / f"{name}.jsonl")
        few = type(sample.catalog)(list(sample.catalog)[:60])
        files = [tmp_path / "b.jsonl", tmp_path / "a.jsonl"]
        expected = History.read(files, catalog=few, unknown="skip")
        with connected(address) as pool:
            found = read_history(pool, files, catalog=few, unknown="skip")
            with pytest.raises(DataFileError, match=r"b.jsonl, line \d+: unknown API"):
                read_history(pool, files, catalog=few)
        assert (found, found.skipped) == (expected, expected.skipped)
        assert found.skipped > 0


class TestFigures:
    @pytest.fixture
    def files(self, files, sample_model):
        return ("--model", sample_model, "--history", "held-out.jsonl")

    def test_evaluate(self, run, address, files):
        alone, others = (
            json.loads(run("evaluate", *files, "--complete", "--json", *more).stdout)
            for more in ((), ("--scheduler", address))
        )
        for found in (alone, others):
            for timing in ("latency_ms", "curves"):
                found.pop(timing, None)
        assert others == alone

    def test_compare(self, run, address, files):
        how = (*files, "--limit", "6", "--protocol", "contractor-led", "--json")
        alone, others = (
            json.loads(run("compare", *how, *more).stdout)
            for more in ((), ("--scheduler", address))
        )
        assert timeless(others) == timeless(alone)

    def test_compare_continues(self, run, address, files):
        how = (*files, "--protocol", "contractor-led", "--resume", "kept.jsonl", "--json")
        first = run("compare", *how, "--limit", "3")
        assert first.exit_code == 0
        some = len(Path("kept.jsonl").read_text(encoding="utf-8").splitlines())
        assert run("compare", *how, "--limit", "6", "--scheduler", address).exit_code == 0
        lines = Path("kept.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(lines) - 1 == 2 * (some - 1)

    def test_models_elsewhere_are_not_for_workers(self, sample, sample_router, address):
        from cnp_router.evaluation import compare
        from cnp_router.testing import ScriptedChatModel

        with pytest.raises(InputError, match="a scheduler is for offline models"):
            compare(
                sample.catalog,
                ScriptedChatModel([]),
                sample.history,
                router=sample_router,
                scheduler=address,
            )


def timeless(found: Any) -> Any:
    """Return the same without what took how long."""
    if isinstance(found, dict):
        return {key: timeless(value) for key, value in found.items() if "seconds" not in key}
    return [timeless(each) for each in found] if isinstance(found, list) else found
