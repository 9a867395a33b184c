"""Shared fixtures, and a switch that keeps every test off the network."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from cnp_router import telemetry
from cnp_router.catalog import Api, Catalog
from cnp_router.datasets import Dataset, load_sample
from cnp_router.history import History, Mashup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watching import Watched

    from cnp_router.training import LearnedRouter

ROOT = Path(__file__).resolve().parents[1]

# No deadline: a slow machine is not a reason for a test to fail. No database: the tests must run in
# a checkout that they may not write to.
settings.register_profile("cnp-router", deadline=None, database=None, print_blob=True)
settings.load_profile("cnp-router")

# What a shell starts in the background ignores Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LOCAL = {"127.0.0.1", "::1", "localhost"}
_switch = pytest.MonkeyPatch()


class NetworkUsedError(RuntimeError):
    """A test tried to reach something other than this machine."""


def _check(host: Any) -> None:
    if host not in _LOCAL:
        raise NetworkUsedError(f"a test must not reach the network, tried {host!r}")


def _guarded(name: str) -> Any:
    original = getattr(socket.socket, name)

    def method(self: socket.socket, *args: Any) -> Any:
        # The address is always last: connect(address), sendto(data[, flags], address).
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _check(args[-1][0])
        return original(self, *args)

    return method


def _guarded_lookup() -> Any:
    original = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        _check(host.decode() if isinstance(host, bytes) else host)
        return original(host, *args, **options)

    return getaddrinfo


def pytest_configure() -> None:
    # A hook, not a fixture: so it holds for doctests outside tests/ too.
    _switch.setattr(telemetry, "strict", True)  # an unknown name or attribute is an error
    _switch.setenv("CNP_ROUTER_MODEL_REQUESTS", "none")
    for name in ("connect", "connect_ex", "sendto"):
        _switch.setattr(socket.socket, name, _guarded(name))
    _switch.setattr(socket, "getaddrinfo", _guarded_lookup())


def pytest_unconfigure() -> None:
    _switch.undo()


@pytest.fixture
def catalog() -> Catalog:
    """Five APIs of three categories; nothing has used the last one yet."""
    return Catalog(
        [
            Api("weather", "Weather", "Forecasts rain, wind and sun.", ("Science",)),
            Api("maps", "Maps", "Shows places on a map.", ("Mapping",)),
            Api("sms", "SMS", "Sends text messages to phones.", ("Messaging",)),
            Api("mail", "Mail", "Sends e-mail.", ("Messaging",)),
            Api("tides", "Tides", "Tells high and low water.", ("Science", "Mapping")),
        ]
    )


@pytest.fixture
def history() -> History:
    """Four mashups over the APIs of `catalog`."""
    return History(
        [
            Mashup("m1", "Send me a text message when it rains.", ("weather", "sms")),
            Mashup("m2", "Show the forecast of each place on a map.", ("weather", "maps")),
            Mashup("m3", "Mail me the weather every morning.", ("weather", "mail")),
            Mashup("m4", "Text me where my friends are on the map.", ("maps", "sms")),
        ]
    )


@pytest.fixture(scope="session")
def sample() -> Dataset:
    """The bundled sample."""
    return load_sample()


@pytest.fixture(scope="session")
def sample_router(sample: Dataset) -> LearnedRouter:
    """The router of the bundled sample, fitted once."""
    from cnp_router.training import fit_router

    return fit_router(sample.catalog, sample.history)


@pytest.fixture(scope="session")
def sample_model(sample_router: LearnedRouter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its model folder. Not to be changed: copy it first."""
    folder = tmp_path_factory.mktemp("sample") / "model"
    sample_router.save(folder)
    return folder


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """What an SDK of OpenTelemetry sees, in memory."""
    from watching import Watched

    with Watched(monkeypatch) as seen:
        yield seen


@pytest.fixture(scope="module")
def local_cluster() -> Iterator[Any]:
    """A Dask cluster of two processes of one thread; the test is skipped where there is no Dask."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        cluster.wait_for_workers(2, timeout=120)
        yield cluster


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository; the test is skipped where it is absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real data is not beside the repository")
    return folder
