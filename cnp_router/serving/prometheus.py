"""`Metrics`: what OpenTelemetry has measured, as Prometheus reads it, of all workers together."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from cnp_router.exceptions import InputError, MissingExtraError

__all__ = ["CONTENT_TYPE", "Metrics", "merged", "set_up_metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<rest>.*)")
_PATIENCE = 2.0  # seconds that a worker has to say its figures
_END = b"# EOF\n"  # without it, an answer was cut, as where a worker is killed


def set_up_metrics() -> None:
    """Have what the library measures kept for Prometheus, unless the program has it go elsewhere.

    Raises
    ------
    MissingExtraError
        If OpenTelemetry's SDK or its exporter is not installed.
    """
    try:
        from opentelemetry import metrics
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from opentelemetry.sdk.metrics import MeterProvider
    except ImportError as exc:
        package = "opentelemetry-exporter-prometheus"
        raise MissingExtraError("/metrics", package=package, extra="serve") from exc
    if not isinstance(metrics.get_meter_provider(), MeterProvider):
        reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False)
        metrics.set_meter_provider(MeterProvider([reader]))


class Metrics:
    """The figures of this worker and of those beside it, each with a label ``worker``.

    Workers ask one another by sockets in a folder that they share, so that whoever is asked knows
    of all, as they are at that moment. Enter it to be asked.

    Parameters
    ----------
    folder : Path or None, default=None
        None for a worker that is alone.
    worker : int, default=0
        Its number, which nobody else has in this folder.

    Raises
    ------
    InputError
        On entering it, if there can be no socket in the folder, as where its path is too long.

    Examples
    --------
    >>> text = asyncio.run(Metrics().text())
    >>> 'cnp_router_worker_up{worker="0"} 1' in text
    True
    """

    def __init__(self, folder: Path | None = None, worker: int = 0) -> None:
        self.folder = folder
        self.worker = worker
        self._server: asyncio.Server | None = None

    @property
    def _place(self) -> Path | None:
        return None if self.folder is None else self.folder / f"{self.worker}.metrics"

    async def __aenter__(self) -> Self:
        if self._place is not None:
            self._place.unlink(missing_ok=True)  # of one that was killed
            try:
                self._server = await asyncio.start_unix_server(_answer, self._place)
            except OSError as exc:
                raise InputError(
                    f"{self._place}: no socket for /metrics of several workers: {exc} (set TMPDIR "
                    "to a folder with a short path, or use one worker)"
                ) from exc
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None and self._place is not None:
            self._server.close()
            self._place.unlink(missing_ok=True)

    async def text(self) -> str:
        """Return all figures in Prometheus's text format, version 0.0.4.

        A worker that does not answer has none but ``cnp_router_worker_up``, which is 0.
        """
        others = [] if self.folder is None else sorted(self.folder.glob("*.metrics"))
        others = [place for place in others if place != self._place]
        said = await asyncio.gather(*map(_asked, others))
        texts = {str(self.worker): _own()}
        texts |= {place.stem: text for place, text in zip(others, said, strict=True) if text}
        known = sorted({str(self.worker), *(place.stem for place in others)}, key=int)
        up = "".join(f'cnp_router_worker_up{{worker="{n}"}} {int(n in texts)}\n' for n in known)
        return (
            "# HELP cnp_router_worker_up Whether a worker answers.\n"
            f"# TYPE cnp_router_worker_up gauge\n{up}{merged(texts)}"
        )


def merged(texts: Mapping[str, str]) -> str:
    r"""Return one exposition of those of several workers, each sample with its worker.

    Examples
    --------
    >>> text = "# HELP a_total Some.\n# TYPE a_total counter\na_total{b=\"c\"} 1.0\n"
    >>> print(merged({"0": text, "1": text}), end="")
    # HELP a_total Some.
    # TYPE a_total counter
    a_total{worker="0",b="c"} 1.0
    a_total{worker="1",b="c"} 1.0
    """
    families: dict[str, tuple[list[str], list[str]]] = {}
    for worker, text in texts.items():
        about: list[str] = []
        samples: list[str] = []
        for line in text.split("\n"):
            if line.startswith("# HELP "):
                new = line.split(" ", 3)[2] not in families
                about, samples = families.setdefault(line.split(" ", 3)[2], ([], []))
                about += [line] * new
            elif line.startswith("# TYPE "):
                about += [line] * (len(about) == 1)
            elif found := _SAMPLE.fullmatch(line):
                labels = ",".join(filter(None, [f'worker="{worker}"', found["labels"]]))
                samples.append(f"{found['name']}{{{labels}}} {found['rest']}")
    lines = [line for about, samples in families.values() for line in (*about, *samples)]
    return "".join(f"{line}\n" for line in lines)


def _own() -> str:
    """Return the figures of this process."""
    try:
        from prometheus_client import REGISTRY, generate_latest
    except ImportError as exc:
        raise MissingExtraError("/metrics", package="prometheus-client", extra="serve") from exc
    return generate_latest(REGISTRY).decode()


async def _answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the figures of this worker to another one."""
    with contextlib.suppress(ConnectionError):  # that one did not wait for them
        writer.write(_own().encode() + _END)
        writer.close()
        await writer.wait_closed()


async def _asked(place: Path) -> str | None:
    """Return the figures of another worker; None if it is gone or does not send them all."""
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_unix_connection(place)
            try:
                figures = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    return figures.decode() if figures.endswith(_END) else None
