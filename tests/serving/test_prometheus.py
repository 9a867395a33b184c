"""The metrics of several workers as one page for Prometheus."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from http_serving import home
from prometheus_client.parser import text_string_to_metric_families

from cnp_router.exceptions import InputError
from cnp_router.serving.prometheus import CONTENT_TYPE, Metrics, merged

ONE = """\
# HELP calls_total Calls, by "outcome".
# TYPE calls_total counter
calls_total{outcome="ok",tool="a } {b\\"c"} 2.0
calls_total 1.0
# HELP seconds How long.
# TYPE seconds histogram
seconds_bucket{le="0.1"} 1.0
seconds_bucket{le="+Inf"} 2.0
seconds_sum 0.5
seconds_count 2.0
"""
TWO = """\
# HELP only_there Only there.
# TYPE only_there gauge
only_there NaN
# HELP calls_total Calls, by "outcome".
# TYPE calls_total counter
calls_total 5.0 1395066363000
"""


@pytest.fixture
def place():
    """A folder whose path is short, as those of sockets have to be."""
    folder = Path(tempfile.mkdtemp(prefix="m"))
    yield folder
    shutil.rmtree(folder)


def up(text):
    (family,) = (
        f for f in text_string_to_metric_families(text) if f.name == "cnp_router_worker_up"
    )
    return {sample.labels["worker"]: sample.value for sample in family.samples}


def test_each_sample_has_its_worker():
    found = list(text_string_to_metric_families(merged({"0": ONE, "1": TWO})))
    assert [family.name for family in found] == ["calls", "seconds", "only_there"]
    calls = [(s.labels, s.value) for s in found[0].samples]
    assert calls == [
        ({"worker": "0", "outcome": "ok", "tool": 'a } {b"c'}, 2.0),
        ({"worker": "0"}, 1.0),
        ({"worker": "1"}, 5.0),
    ]
    assert found[0].samples[2].timestamp == 1395066363
    assert len(found[1].samples) == 4 and found[1].type == "histogram"


def test_a_family_is_named_once():
    text = merged({"0": ONE, "1": ONE})
    assert text.count("# TYPE calls_total") == text.count("# HELP calls_total") == 1


def test_of_nothing():
    assert merged({"0": ""}) == ""


def test_one_worker_alone():
    text = asyncio.run(Metrics().text())
    assert up(text) == {"0": 1}
    families = {family.name for family in text_string_to_metric_families(text)}
    assert "process_resident_memory_bytes" in families


def test_workers_ask_one_another(place):
    async def main():
        async with Metrics(place, 0) as one, Metrics(place, 10) as other, Metrics(place, 9):
            return await one.text(), await other.text()

    for text in asyncio.run(main()):
        assert list(up(text)) == ["0", "9", "10"]
        assert set(up(text).values()) == {1}
        for worker in ("0", "9", "10"):
            assert f'process_cpu_seconds_total{{worker="{worker}"}}' in text


def test_one_that_was_killed_is_down_until_another_has_its_place(place):
    async def main():
        async with Metrics(place, 0) as one:
            killed = Metrics(place, 1)
            await killed.__aenter__()
            killed._server.close()  # as the system does it; the file stays
            await killed._server.wait_closed()
            if not killed._place.exists():
                killed._place.touch()
            down = up(await one.text())
            async with Metrics(place, 1):
                return down, up(await one.text())

    assert asyncio.run(main()) == ({"0": 1, "1": 0}, {"0": 1, "1": 1})


def test_one_that_does_not_answer_is_waited_for_only_so_long(place, monkeypatch):
    monkeypatch.setattr("cnp_router.serving.prometheus._PATIENCE", 0.1)

    async def main():
        async def say_nothing(reader, writer):
            await reader.read()
            writer.close()

        async with Metrics(place, 0) as one:
            stuck = await asyncio.start_unix_server(say_nothing, place / "1.metrics")
            text = await one.text()
            stuck.close()
            return text

    assert up(asyncio.run(main())) == {"0": 1, "1": 0}


def test_figures_of_a_megabyte_come_whole(place, monkeypatch):
    lines = (f'many_total{{n="{n}",of="é"}} 1.0\n' for n in range(40_000))
    figures = "# HELP many_total Many.\n# TYPE many_total counter\n" + "".join(lines)
    assert len(figures) > 2**20
    monkeypatch.setattr("cnp_router.serving.prometheus._own", lambda: figures)

    async def main():
        async with Metrics(place, 0) as one, Metrics(place, 1):
            return await one.text()

    text = asyncio.run(main())
    assert up(text) == {"0": 1, "1": 1}
    assert text.count("\nmany_total{") == 80_000


def test_one_that_ends_in_the_middle_has_no_figures(place):
    async def main():
        async def break_off(reader, writer):
            writer.write('a_total{of="é'.encode()[:-1])
            writer.close()

        async with Metrics(place, 0) as one:
            broken = await asyncio.start_unix_server(break_off, place / "1.metrics")
            text = await one.text()
            broken.close()
            return text

    text = asyncio.run(main())
    assert up(text) == {"0": 1, "1": 0}
    assert "a_total{" not in text


def test_one_that_asks_and_does_not_wait_is_no_fault(place, monkeypatch):
    monkeypatch.setattr("cnp_router.serving.prometheus._own", lambda: "a" * 2**22)
    faults = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        async with Metrics(place, 0):
            _, writer = await asyncio.open_unix_connection(place / "0.metrics")
            await asyncio.sleep(0.05)
            writer.close()
            await asyncio.sleep(0.05)

    asyncio.run(main())
    assert faults == []


def test_a_path_too_long_for_a_socket_is_one_clear_error(place):
    folder = place / ("x" * 100)
    folder.mkdir()

    async def main():
        async with Metrics(folder, 0):
            pass

    with pytest.raises(InputError, match=r"0\.metrics: no socket .* too long \(set TMPDIR"):
        asyncio.run(main())


def test_the_page_is_of_the_type_that_prometheus_reads():
    async def main():
        async with home() as (browser, _):
            return await browser.get("/metrics")

    answer = asyncio.run(main())
    assert answer.headers["content-type"] == CONTENT_TYPE
    assert up(answer.body.decode()) == {"0": 1}
