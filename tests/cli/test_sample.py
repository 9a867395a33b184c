from __future__ import annotations

from cnp_router import Catalog, History, load_sample


def test_the_sample_comes_apart_and_nothing_is_lost(run, tmp_path):
    result = run("sample", "new/data")
    assert (result.exit_code, result.stderr) == (0, "")
    folder = tmp_path / "new" / "data"
    sample = load_sample()
    catalog = Catalog.read(folder / "apis.jsonl")
    past = History.read(folder / "mashups.jsonl", catalog=catalog)
    held_out = History.read(folder / "held-out.jsonl", catalog=catalog)
    assert catalog.ids == sample.catalog.ids
    assert {m.id for m in past}.isdisjoint(m.id for m in held_out)
    assert {m.id for m in (*past, *held_out)} == {m.id for m in sample.history}
    assert f"{len(held_out)} mashups" in result.stdout


def test_what_is_there_is_replaced_only_when_told(run, tmp_path):
    own = tmp_path / "held-out.jsonl"
    own.write_text("mine")
    result = run("sample", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "is there already" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == [own.name]
    assert own.read_text() == "mine"
    assert run("sample", tmp_path, "--overwrite").exit_code == 0
    assert own.read_text() != "mine"


def test_a_folder_that_cannot_be(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("sample", tmp_path / "file" / "data")
    assert result.exit_code == 1
    assert "Not a directory" in result.stderr
