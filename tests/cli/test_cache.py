"""The router of the sample, in the user's cache folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cnp_router.cli import cache
from cnp_router.exceptions import ModelStoreError
from cnp_router.version import __version__


class TestFolder:
    def test_the_variable_of_the_platform_comes_first(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache.cache_folder() == tmp_path / "cnp-router"

    @pytest.mark.parametrize("value", ["", "relative/folder"])
    @pytest.mark.parametrize(
        ("platform", "folder"),
        [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "AppData/Local")],
    )
    def test_each_platform_has_its_own(self, monkeypatch, tmp_path, value, platform, folder):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        monkeypatch.delenv("LOCALAPPDATA", raising=False)
        monkeypatch.setattr("sys.platform", platform)
        monkeypatch.setattr(Path, "home", lambda: tmp_path)
        assert cache.cache_folder() == tmp_path / folder / "cnp-router"

    def test_the_name_tells_the_version_and_the_sample(self, place, monkeypatch):
        assert place.name.startswith(f"sample-{__version__}-")
        monkeypatch.setattr(cache, "__version__", "9.9.9")
        assert cache.sample_place().name == place.name.replace(__version__, "9.9.9")

    def test_a_user_without_a_home(self, run, fits, monkeypatch):
        def no_home():
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setenv("XDG_CACHE_HOME", "")
        monkeypatch.setattr(Path, "home", no_home)
        result = run("recommend", "rain")
        assert result.exit_code == 0
        assert result.stderr == (
            "Warning: cannot keep the model in a cache folder (there is no home folder), "
            "so the next run fits it again\n"
        )


class TestKeeping:
    def test_the_first_run_fits_and_keeps(self, run, fits, place):
        first = run("recommend", "rain")
        assert (first.exit_code, first.stderr, len(fits)) == (0, "", 1)
        assert [path.name for path in place.parent.iterdir()] == [place.name]
        second = run("recommend", "rain")
        assert (second.stdout, second.stderr, len(fits)) == (first.stdout, "", 1)

    @pytest.mark.parametrize("damage", ["truncated", "file"])
    def test_a_damaged_model_is_fitted_again(self, run, fits, kept, damage):
        if damage == "truncated":
            file = max(kept.rglob("*"), key=lambda path: path.stat().st_size * path.is_file())
            file.write_bytes(file.read_bytes()[:-10])
        else:
            shutil.rmtree(kept)
            kept.write_text("not a model")
        first = run("recommend", "rain")
        assert (first.exit_code, len(fits)) == (0, 1)
        assert first.stderr.startswith("Note: the kept model of the sample is fitted again: ")
        assert first.stderr.count("\n") == 1
        second = run("recommend", "rain")
        assert (second.stdout, second.stderr, len(fits)) == (first.stdout, "", 1)
        assert [path.name for path in kept.parent.iterdir()] == [kept.name]

    def test_a_folder_that_cannot_be_made(self, run, fits, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        result = run("recommend", "--json", "rain")
        assert result.exit_code == 0
        assert result.stderr.startswith(f"Warning: cannot keep the model in {tmp_path}/file/")
        assert result.stdout.startswith("{")

    def test_a_folder_that_cannot_be_written(self, run, fits, monkeypatch, place, sample_router):
        def refuse(path, overwrite=False):
            raise ModelStoreError("the disk is full")

        monkeypatch.setattr(sample_router, "save", refuse)
        result = run("recommend", "rain")
        assert result.exit_code == 0
        assert result.stderr == (
            f"Warning: cannot keep the model in {place.parent} (the disk is full), "
            "so the next run fits it again\n"
        )

    def test_two_first_runs_at_once(self, process, tmp_path):
        environment = {"XDG_CACHE_HOME": tmp_path}
        both = [process("recommend", "rain", environment=environment) for _ in range(2)]
        answers = [command.communicate() for command in both]
        assert [command.returncode for command in both] == [0, 0]
        assert answers[0] == answers[1]
        assert answers[0][1] == b""
        assert len(list((tmp_path / "cnp-router").iterdir())) == 1
        assert process("recommend", "rain", environment=environment).communicate() == answers[0]
