"""One whole transcript for each protocol and announcement, and of rounds that are acted on.

A change of a prompt, of the offline model or of a protocol changes them. To renew the files and
then read the difference before it is kept::

    CNP_ROUTER_RENEW_TRANSCRIPTS=1 python -m pytest tests/protocols/test_transcript_snapshots.py
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from negotiation import CATALOG, FakeActor, PlantedRouter, hold

from cnp_router.agents import offline_model
from cnp_router.protocols import ContractNet, Transcript, validate

FOLDER = Path(__file__).parent / "transcripts"
CASES = [
    *((p, a) for p in ("manager-led", "contractor-led", "collaborative", "hierarchical",
                       "single-agent") for a in ("broadcast", "routed")),
    ("learned", "routed"),
]  # fmt: skip
EXECUTED = [
    *(("contractor-led", "broadcast"), ("collaborative", "routed"), ("hierarchical", "routed")),
    ("learned", "routed"),
]
ENDS = {"sms": "unavailable", "weather": "cancel"}
RENEW = "CNP_ROUTER_RENEW_TRANSCRIPTS"


@pytest.mark.parametrize(("protocol", "announcement"), CASES, ids="-".join)
def test_the_transcript_is_that_of_the_file(protocol, announcement):
    compare(f"{protocol}-{announcement}", protocol, announcement)


@pytest.mark.parametrize(("protocol", "announcement"), EXECUTED, ids="-".join)
def test_the_transcript_of_an_executed_round_is_that_of_the_file(protocol, announcement):
    compare(f"{protocol}-{announcement}-executed", protocol, announcement, FakeActor(ENDS))


def compare(name, protocol, announcement, actor=None):
    net = ContractNet(CATALOG, offline_model(CATALOG), router=PlantedRouter())
    outcome = hold(net, protocol=protocol, announcement=announcement, actor=actor)
    transcript = dataclasses.replace(outcome.transcript, seconds=0.0)
    path = FOLDER / f"{name}.jsonl"
    if os.environ.get(RENEW):
        transcript.write(path)
        pytest.skip(f"{path.name} is renewed: read the difference")
    # Records rather than transcripts: pytest then shows the first that differs.
    kept = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert json.loads(json.dumps(list(transcript.records()))) == kept
    assert Transcript.read(path) == transcript
    assert validate(Transcript.read(path)).recommendation == outcome.recommendation


def test_there_is_no_other_file():
    names = {f"{protocol}-{announcement}" for protocol, announcement in CASES}
    names |= {f"{protocol}-{announcement}-executed" for protocol, announcement in EXECUTED}
    assert {path.stem for path in FOLDER.iterdir()} == names
