from __future__ import annotations

import json
import pickle
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.records import check_id
from cnp_router.trajectories import (
    Step,
    Trajectory,
    read_trajectories,
    read_trajectory,
    write_trajectories,
)

GOOD = '{"id": "t1", "goal": "Rain?", "steps": [{"tool": "weather"}]}\n'


def usable_id(text):
    with suppress(InputError):
        return check_id("tool", text) == text
    return False


@pytest.fixture
def file(tmp_path):
    return tmp_path / "trajectories.jsonl"


def read_error(file, content):
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataFileError) as caught:
        read_trajectories(file)
    return str(caught.value).replace(str(file), "FILE")


def line(steps, rest=""):
    return f'{{"id": "t2", "goal": "Rain?", "steps": {steps}{rest}}}'


class TestRead:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (
                '{"id": "t2", "steps": []}',
                "missing field 'goal' (it has 'id', 'steps')",
            ),
            (
                '{"id": " ", "goal": "Rain?", "steps": []}',
                "an id must be a non-blank string, got ' ' (trajectory)",
            ),
            (
                '{"id": "t2", "goal": "Rain?"}',
                "missing field 'steps' (it has 'id', 'goal')",
            ),
            (
                line('["weather"]'),
                "field 'steps' must be a list of objects, got ['weather'] "
                '(write {"tool": ...} for each step)',
            ),
            (
                line('[{"tool": "weather"}, {}]'),
                "entry 2: missing field 'tool' (it has no fields)",
            ),
            (
                line('[{"tool": "w", "inputs": [1]}]'),
                "entry 1: field 'inputs' must be an object with string keys, got [1]",
            ),
            (
                line('[{"tool": "w", "observation": 1}]'),
                "entry 1: field 'observation' must be a string, got 1",
            ),
            (
                line('[{"tool": "w", "input_tokens": 1.5}]'),
                "entry 1: field 'input_tokens' must be a whole number from 0 to 10^12, got 1.5",
            ),
            (
                line('[{"tool": "w", "output_tokens": true}]'),
                "entry 1: field 'output_tokens' must be a whole number from 0 to 10^12, got True",
            ),
            (
                line('[{"tool": "w", "seconds": -1}]'),
                "entry 1: field 'seconds' must be a number from 0 to 10^12, got -1",
            ),
            (
                line('[{"tool": "w", "seconds": 1e999}]'),
                "entry 1: field 'seconds' must be a number from 0 to 10^12, got inf",
            ),
            (
                line('[{"tool": "w", "success": "yes"}]'),
                "entry 1: field 'success' must be true or false, got 'yes'",
            ),
            (line("[]", ', "success": 1'), "field 'success' must be true or false, got 1"),
            (
                GOOD.strip(),
                "duplicate trajectory id 't1', first on line 1 (ids must be unique)",
            ),
        ],
    )
    def test_a_bad_line(self, file, content, message):
        assert read_error(file, GOOD + content) == f"FILE, line 2: {message}"

    def test_a_number_too_large_for_seconds(self, file):
        content = line(f'[{{"tool": "w", "seconds": {10**400}}}]')
        assert "'seconds' must be a number from 0 to 10^12" in read_error(file, content)

    @pytest.mark.parametrize("key", ["seconds", "input_tokens", "output_tokens"])
    @pytest.mark.parametrize("value", ["1" + "0" * 12 + "1", "1" + "0" * 308])
    def test_an_amount_whose_sums_would_overflow(self, file, key, value):
        number = f"{value}.0" if key == "seconds" else value
        told = read_error(file, line(f'[{{"tool": "w", "{key}": {number}}}]'))
        assert f"FILE, line 1: entry 1: field '{key}' must be a" in told
        assert "from 0 to 10^12, got 1" in told

    def test_the_largest_amount_is_read(self, file):
        file.write_text(line('[{"tool": "w", "seconds": 1e12, "input_tokens": 1000000000000}]'))
        assert read_trajectories(file)[0].steps[0].seconds == 1e12

    def test_what_is_missing_or_null_has_its_default_and_other_keys_are_ignored(self, file):
        file.write_text(
            '{"id": "a", "goal": "", "steps": [{"tool": "w", "inputs": null, "seconds": null}],'
            ' "success": null, "score": 7}\n'
        )
        assert read_trajectories(file) == (Trajectory("a", "", (Step("w"),)),)

    def test_ids_are_unique_over_all_files(self, tmp_path):
        files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
        for file in files:
            file.write_text(GOOD)
        with pytest.raises(DataFileError) as caught:
            read_trajectories(files)
        assert str(caught.value) == (
            f"{files[1]}, line 1: duplicate trajectory id 't1', first in {files[0]}, line 1 "
            "(ids must be unique)"
        )

    def test_several_files_are_read_in_order(self, tmp_path):
        files = [tmp_path / "b.jsonl", tmp_path / "a.jsonl"]
        for file in files:
            write_trajectories(file, [Trajectory(file.name, "Rain?", ())])
        assert [t.id for t in read_trajectories(str(f) for f in files)] == ["b.jsonl", "a.jsonl"]

    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    identifier = text.filter(usable_id)
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | text, lambda inner: st.lists(inner, max_size=2)
    )
    steps = st.builds(
        Step,
        tool=identifier,
        inputs=st.dictionaries(text, values, max_size=2),
        observation=text,
        input_tokens=st.integers(0, 10**6),
        output_tokens=st.integers(0, 10**6),
        seconds=st.floats(0, 1e6),
        success=st.none() | st.booleans(),
    )
    trajectories = st.lists(
        st.builds(
            Trajectory,
            id=identifier,
            goal=text,
            steps=st.lists(steps, max_size=3).map(tuple),
            success=st.none() | st.booleans(),
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda trajectory: trajectory.id,
    )

    @given(trajectories)
    def test_any_trajectories_are_read_back(self, tmp_path_factory, trajectories):
        file = tmp_path_factory.mktemp("trajectories") / "trajectories.jsonl"
        write_trajectories(file, trajectories)
        assert read_trajectories(file) == tuple(trajectories)

    @pytest.mark.parametrize("inputs", [{"x": object()}, {"x": float("nan")}, {"x": "half \ud800"}])
    def test_what_cannot_be_written_leaves_the_old_file(self, file, inputs):
        file.write_text(GOOD)
        with pytest.raises(DataFileError, match=r"line 1: (cannot be written as JSON|half of a)"):
            write_trajectories(file, [Trajectory("t", "Rain?", (Step("w", inputs),))])
        assert file.read_text() == GOOD


class TestReadOne:
    @pytest.mark.parametrize("indent", [None, 2])
    def test_a_line_or_a_document(self, file, indent):
        run = Trajectory("t", "Rain?", (Step("w", {"x": 1}, "rain", success=False),))
        file.write_text(json.dumps(run.to_dict(), indent=indent))
        assert read_trajectory(file) == run

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (GOOD + GOOD.replace("t1", "t2"), "FILE: holds 2 trajectories (give a file with one)"),
            ("[1]", "FILE: expected the JSON object of a trajectory, got [1] (write {"),
            ('{\n"id": "t",\n"goal" }', "FILE, line 3: not JSON at column 8"),
            (GOOD + "{", "FILE, line 2: not JSON"),
            (line("[{}]"), "FILE: entry 1: missing field 'tool'"),
            ("", "FILE: the file is empty"),
        ],
    )
    def test_a_bad_file(self, file, content, message):
        file.write_text(content)
        with pytest.raises(DataFileError) as caught:
            read_trajectory(file)
        assert str(caught.value).replace(str(file), "FILE").startswith(message)


class TestValues:
    def test_a_blank_tool(self):
        with pytest.raises(
            InputError, match=r"^an id must be a non-blank string, got '' \(tool\)$"
        ):
            Step("")

    @pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 1e308])
    def test_a_bad_amount(self, value):
        with pytest.raises(InputError, match=r"^seconds must be a number from 0 to 10\^12, got"):
            Step("w", seconds=value)

    def test_observation_and_inputs_of_another_type(self):
        with pytest.raises(InputError, match=r"^observation must be a string, got None$"):
            Step("w", observation=None)
        for inputs in ([1], {1: "a"}):
            with pytest.raises(
                InputError, match=r"^inputs must be an object with string keys, got"
            ):
                Step("w", inputs)

    def test_a_blank_id(self):
        with pytest.raises(InputError, match=r"got ' ' \(trajectory\)$"):
            Trajectory(" ", "Rain?", ())

    def test_a_list_of_steps_is_kept_as_a_tuple(self):
        assert Trajectory("t", "Rain?", [Step("w")]).steps == (Step("w"),)

    def test_inputs_are_not_shared(self):
        assert Step("a").inputs is not Step("a").inputs

    def test_they_travel_to_worker_processes(self):
        trajectory = Trajectory("t", "Rain?", (Step("w", {"x": [1]}, "rain", 1, 2, 0.5, True),))
        assert pickle.loads(pickle.dumps(trajectory)) == trajectory


@pytest.mark.shared_data
def test_the_real_data_is_read(shared_data):
    files = sorted((shared_data / "scienceworld").glob("trajectories-*.jsonl"))
    assert [len(read_trajectories(file)) for file in files] == [89, 89, 89]
