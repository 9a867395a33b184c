"""Transcripts are read back as they were, and altered ones are refused."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from negotiation import CATALOG, FakeActor, PlantedRouter, acting, hold, propose, refuse

from cnp_router.agents import ApiEvidence, InterpretRequest, ProposedApi
from cnp_router.exceptions import DataFileError, TranscriptError
from cnp_router.protocols import (
    Award,
    CallForProposals,
    ContractNet,
    Ledger,
    ModelCall,
    Proposal,
    Refusal,
    Report,
    Request,
    RoundSettings,
    Transcript,
    message_from_dict,
    validate,
)
from cnp_router.protocols.messages import PERFORMATIVES

FOLDER = Path(__file__).parent / "transcripts"
ROUNDS = [Transcript.read(path) for path in sorted(FOLDER.glob("*.jsonl"))]


def with_messages(transcript, messages):
    return dataclasses.replace(transcript, messages=tuple(messages))


def crash(task):
    raise RuntimeError("a bug")


@pytest.fixture(scope="module")
def mixed():
    """A round with every kind of message."""
    model = acting({"mail": crash, "photos": refuse, "sms": propose}, {InterpretRequest: propose})
    net = ContractNet(CATALOG, model, router=PlantedRouter(), settings=RoundSettings(iterate=2))
    actor = FakeActor({"sms": "lost", "maps": "cancel"})
    return hold(net, announcement="broadcast", actor=actor).transcript


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
BY_TYPE = {
    "int": st.integers(1, 99),
    "str": TEXT,
    "bool": st.booleans(),
    "str | None": st.none() | TEXT,
    "float | None": st.none() | st.floats(0, 1e6),
    "tuple[str, ...]": st.lists(TEXT, max_size=3).map(tuple),
    "tuple[ProposedApi, ...]": st.lists(st.builds(ProposedApi, TEXT, TEXT), max_size=3).map(tuple),
    "tuple[ApiEvidence, ...]": st.lists(
        st.builds(ApiEvidence, TEXT, st.floats(0, 1), TEXT), max_size=3
    ).map(tuple),
    "FailureReason | FailureKind": st.sampled_from(["error", "timeout", "unusable", "lost"]),
    "WasDone | None": st.sampled_from([None, "no", "unknown"]),
    "int | None": st.none() | st.integers(1, 99),
    "tuple[int, ...]": st.lists(st.integers(1, 99), max_size=3).map(tuple),
    "Count": st.integers(0, 99),
    "Attempts": st.integers(1, 99),
    "Seconds": st.floats(0, 1e6),
    "Digest": st.text("0123456789abcdef", min_size=64, max_size=64),
    "ResultText": TEXT,
}


GOOD = {"performative": "refuse", "id": 3, "sender": "a", "receiver": "b", "in_reply_to": 2}
RESULT = {
    "performative": "inform-result", "api": "a", "text": "", "digest": "0" * 64, "attempts": 1,
    "seconds": 0.0, "n_bytes": 0,
}  # fmt: skip
HEAD = {
    "record": "round", "format": 4, "request": "r", "protocol": "p", "announcement": "a",
    "model": "m", "categories": None, "candidates": None, "evidence": "none", "executed": False,
    "seconds": 0.0, "digest": "0" * 64,
}  # fmt: skip
CALL = {
    "record": "call",
    **ModelCall(
        agent="a", role="manager", model="tiny", stage="bidding", steps=(1,), tokens_in=1,
        tokens_out=1, tokens_are="server",
    ).to_dict(),
}  # fmt: skip


def messages_of(kind):
    fields = [f for f in dataclasses.fields(kind) if f.name != "performative"]
    return st.builds(kind, **{f.name: BY_TYPE[f.type] for f in fields})


class TestMessages:
    @given(st.one_of([messages_of(kind) for kind in PERFORMATIVES.values()]))
    def test_any_message_is_read_back(self, message):
        assert message_from_dict(json.loads(json.dumps(message.to_dict()))) == message

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"performative": "sing"}, r"unknown performative 'sing' \(use one of request, cfp"),
            ({"performative": ["cfp"]}, "unknown performative"),
            ({"id": None}, "field 'id' of a 'refuse' message cannot be None"),
            ({"id": True}, "cannot be True"),
            ({"id": "3"}, "cannot be '3'"),
            ({"sender": 4}, "field 'sender' of a 'refuse' message cannot be 4"),
            ({"grounds": None}, "field 'grounds'"),
            ({"late": 1}, "field 'late' of a 'refuse' message cannot be 1"),
            ({"apis": []}, "a 'refuse' message has no field 'apis'"),
            ({"performative": "failure"}, "a 'failure' message needs the field 'reason'"),
            ({"performative": "failure", "reason": []}, r"field 'reason' .* cannot be \[\]"),
            ({"performative": "failure", "reason": "bad"}, "cannot be 'bad'"),
            ({"performative": "propose", "apis": "maps"}, "cannot be 'maps'"),
            ({"performative": "propose", "apis": ["maps"]}, "field 'apis'"),
            ({"performative": "propose", "apis": [{"grounds": "so"}]}, "field 'apis'"),
            ({"performative": "accept-proposal", "apis": [3]}, r"cannot be \[3\]"),
            ({"evidence": []}, "a 'refuse' message has no field 'evidence'"),
            ({**RESULT, "text": "x" * 2_001}, "field 'text' of a 'inform-result' message"),
            ({**RESULT, "digest": "0"}, "field 'digest' of a 'inform-result' message"),
            ({**RESULT, "attempts": -1}, "field 'attempts' of a 'inform-result' message"),
            ({**RESULT, "seconds": -1.0}, "field 'seconds' of a 'inform-result' message"),
            ({"performative": "failure", "reason": "lost", "n_bytes": -1}, "field 'n_bytes'"),
            ({"performative": "failure", "reason": "lost", "was_done": "yes"}, "'was_done'"),
            ({"performative": "accept-proposal", "apis": [], "approved": 1}, "'approved'"),
            ({"performative": "cancel", "why": None}, "field 'why' of a 'cancel' message"),
            ({"performative": "accept-proposal", "apis": [], "instead_of": "3"}, "'instead_of'"),
            ({"performative": "inform", "apis": [], "results": ["3"]}, "field 'results'"),
            ({"performative": "propose", "apis": [{"api": "a", "probability": 0.9}]}, "'apis'"),
        ],
    )
    def test_what_is_no_message(self, change, message):
        with pytest.raises(TranscriptError, match=message):
            message_from_dict({**GOOD, **change})

    def test_a_field_is_missing(self):
        with pytest.raises(TranscriptError, match="needs the field 'in_reply_to'"):
            message_from_dict({k: v for k, v in GOOD.items() if k != "in_reply_to"})


class TestFile:
    def test_a_round_is_read_back(self, mixed, tmp_path):
        path = tmp_path / "round.jsonl"
        mixed.write(path)
        read = Transcript.read(path)
        assert read == mixed
        assert read.seconds == pytest.approx(mixed.seconds, abs=1e-5)
        assert {m.performative for m in read.messages} == set(PERFORMATIVES)
        assert validate(read) == validate(mixed)
        assert read.ledger.to_dict() | {"seconds": 0} == mixed.ledger.to_dict() | {"seconds": 0}

    @pytest.mark.parametrize(
        ("records", "message"),
        [
            ([{"record": "message"}], "line 1: the first record, and no other, must be the round"),
            ([HEAD, HEAD], "line 2: the first record, and no other"),
            ([HEAD, {"record": "noise"}], r"line 2: unknown record 'noise' \(round, message or c"),
            ([HEAD, {}], "line 2: unknown record None"),
            ([HEAD, {"record": "message", "performative": 1}], "line 2: unknown performative 1"),
            ([{**HEAD, "format": 2}], "line 1: format 2, and this version reads 4"),
            ([{**HEAD, "request": None}], "field 'request' of a round cannot be None"),
            (
                [{**HEAD, "categories": "Mapping"}],
                "field 'categories' of a round cannot be 'Mapping'",
            ),
            ([{**HEAD, "candidates": [1]}], r"field 'candidates' of a round cannot be \[1\]"),
            ([{**HEAD, "evidence": "all"}], "field 'evidence' of a round cannot be 'all'"),
            ([{**HEAD, "executed": 1}], "field 'executed' of a round cannot be 1"),
            ([{**HEAD, "seconds": "1"}], "field 'seconds' of a round cannot be '1'"),
            ([HEAD, {"record": "call"}], "line 2: a call needs the field 'agent'"),
            ([HEAD, {**CALL, "tokens_in": -1}], "field 'tokens_in' of a call cannot be -1"),
            ([HEAD, {**CALL, "tokens_in": True}], "field 'tokens_in' of a call cannot be True"),
            ([HEAD, {**CALL, "role": "king"}], "field 'role' of a call cannot be 'king'"),
            ([HEAD, {**CALL, "stage": ["bid"]}], "field 'stage' of a call"),
            ([HEAD, {**CALL, "hallucinated": "x"}], "field 'hallucinated' of a call"),
            ([HEAD, {**CALL, "steps": ["1"]}], "field 'steps' of a call"),
        ],
    )
    def test_what_is_no_transcript(self, records, message, tmp_path):
        path = tmp_path / "round.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        with pytest.raises(DataFileError, match=message) as caught:
            Transcript.read(path)
        assert caught.value.path == path

    def test_a_call_in_good_order_is_read(self, tmp_path):
        path = tmp_path / "round.jsonl"
        path.write_text(f"{json.dumps(HEAD)}\n{json.dumps(CALL)}\n")
        assert Transcript.read(path).ledger.usage.source == "server"


class TestReplay:
    @pytest.mark.parametrize("transcript", ROUNDS, ids=lambda t: f"{t.protocol}-{t.announcement}")
    def test_it_comes_to_what_was_reported(self, transcript):
        assert validate(transcript).recommendation == transcript.messages[-1].apis

    @settings(max_examples=100)
    @given(data=st.data(), transcript=st.sampled_from(ROUNDS))
    def test_a_message_left_out_repeated_or_out_of_place_is_noticed(self, data, transcript):
        messages = list(transcript.messages)
        place = data.draw(st.integers(0, len(messages) - 1))
        other = data.draw(st.integers(0, len(messages) - 1))
        kind = data.draw(st.sampled_from(["drop", "repeat", "swap"]))
        if kind == "drop":
            del messages[place]
        elif kind == "repeat":
            messages.insert(other, messages[place])
        else:
            assume(place != other)
            messages[place], messages[other] = messages[other], messages[place]
        with pytest.raises(TranscriptError):
            validate(with_messages(transcript, messages))

    @settings(max_examples=150)
    @given(data=st.data(), transcript=st.sampled_from(ROUNDS))
    def test_a_changed_field_is_noticed(self, data, transcript):
        messages = list(transcript.messages)
        place = data.draw(st.integers(0, len(messages) - 1))
        message = messages[place]
        changes = {
            "id": message.id + data.draw(st.sampled_from([-1, 1, 100])),
            "sender": "stranger",
            "receiver": "stranger",
        }
        if hasattr(message, "in_reply_to"):
            changes["in_reply_to"] = (message.in_reply_to or 0) + data.draw(
                st.sampled_from([-1, 1, 100])
            )
        if isinstance(message, Request):
            changes["text"] = "another"
        if isinstance(message, CallForProposals) and message.request is not None:
            changes["request"] = "another"
        if isinstance(message, Proposal):
            changes |= {"late": not message.late, "apis": ()}
        negotiated = any(isinstance(m, CallForProposals) for m in messages)
        if isinstance(message, Award) or (isinstance(message, Report) and negotiated):
            changes["apis"] = data.draw(
                st.sampled_from([(*message.apis, "evil"), message.apis[1:], message.apis * 2])
            )
        name = data.draw(st.sampled_from(sorted(changes)))
        messages[place] = dataclasses.replace(message, **{name: changes[name]})
        assume(messages[place] != message)
        with pytest.raises(TranscriptError, match=r"message|the round has no report"):
            validate(with_messages(transcript, messages))

    @pytest.mark.parametrize("kind", [Award, Report])
    def test_an_api_named_twice_is_noticed(self, mixed, kind):
        messages = [
            dataclasses.replace(m, apis=m.apis * 2) if isinstance(m, kind) else m
            for m in mixed.messages
        ]
        with pytest.raises(TranscriptError, match="an API twice"):
            validate(with_messages(mixed, messages))

    def test_another_kind_of_reply_is_noticed(self, mixed):
        messages = list(mixed.messages)
        place = next(i for i, m in enumerate(messages) if isinstance(m, Proposal))
        proposal = messages[place]
        ends = {"id": proposal.id, "sender": proposal.sender, "receiver": proposal.receiver}
        messages[place] = Refusal(in_reply_to=proposal.in_reply_to, **ends)
        with pytest.raises(TranscriptError, match="no proposal"):
            validate(with_messages(mixed, messages))

    @pytest.mark.parametrize("n", [0, 1, -1])
    def test_a_round_that_was_broken_off(self, mixed, n):
        with pytest.raises(TranscriptError, match="has no report"):
            validate(with_messages(mixed, mixed.messages[:n]))

    def test_another_request_in_the_head(self, mixed):
        with pytest.raises(TranscriptError, match="of another request"):
            validate(dataclasses.replace(mixed, request="another"))


ALTERED = {
    "the report of the router": ("learned-routed", lambda t: report(t, ("photos",))),
    "less in the report of the router": ("learned-routed", lambda t: report(t, ())),
    "the report of a single agent": ("single-agent-broadcast", lambda t: report(t, ("photos",))),
    "less in the report of a single agent": ("single-agent-routed", lambda t: report(t, ())),
    "candidates": ("single-agent-broadcast", lambda t: {"candidates": t.candidates[:-1]}),
    "more candidates": ("single-agent-routed", lambda t: {"candidates": (*t.candidates, "mail")}),
    "APIs of a rejected proposal": (
        "contractor-led-broadcast",
        lambda t: changed(t, rejected(t), apis=(ProposedApi("evil", "So."),)),
    ),
    "grounds of a rejected proposal": (
        "contractor-led-broadcast",
        lambda t: changed(t, rejected(t), apis=(ProposedApi(rejected(t).apis[0].api, "So."),)),
    ),
    "tokens in": ("contractor-led-routed", lambda t: booked(t, tokens_in=1)),
    "tokens out": ("single-agent-routed", lambda t: booked(t, tokens_out=0)),
    "who counted": ("single-agent-routed", lambda t: booked(t, tokens_are="server")),
    "a call less": ("manager-led-broadcast", lambda t: {"calls": t.calls[:-1]}),
    "hallucinated names": ("manager-led-routed", lambda t: booked(t, hallucinated=("evil",))),
    "categories": ("manager-led-broadcast", lambda t: {"categories": ("Photos",)}),
    "the model": ("collaborative-routed", lambda t: {"model": "gpt-9"}),
    "the protocol": ("contractor-led-routed", lambda t: {"protocol": "collaborative"}),
    "the announcement": ("contractor-led-routed", lambda t: {"announcement": "broadcast"}),
    "the digest": ("contractor-led-routed", lambda t: {"digest": "0" * 64}),
}


def changed(transcript, message, **fields):
    messages = list(transcript.messages)
    messages[message.id - 1] = dataclasses.replace(message, **fields)
    return {"messages": tuple(messages)}


def report(transcript, apis):
    return changed(transcript, transcript.messages[-1], apis=apis)


def rejected(transcript):
    place = next(m.in_reply_to for m in transcript.messages if m.performative == "reject-proposal")
    return transcript.messages[place - 1]


def booked(transcript, **fields):
    first, *others = transcript.calls
    return {"calls": (dataclasses.replace(first, **fields), *others)}


class TestAltered:
    @pytest.mark.parametrize(("name", "alter"), ALTERED.values(), ids=ALTERED)
    def test_a_single_change_is_noticed_in_memory_and_in_the_file(self, name, alter, tmp_path):
        transcript = Transcript.read(FOLDER / f"{name}.jsonl")
        validate(transcript)
        altered = dataclasses.replace(transcript, **alter(transcript))
        assert altered != transcript
        altered.write(tmp_path / "round.jsonl")
        for each in (altered, Transcript.read(tmp_path / "round.jsonl")):
            with pytest.raises(TranscriptError, match=r"was altered|not among the candidates"):
                validate(each)

    @settings(max_examples=60)
    @given(data=st.data(), path=st.sampled_from(sorted(FOLDER.glob("*.jsonl"))))
    def test_a_value_changed_in_the_file_is_noticed(self, data, path):
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        place = data.draw(st.integers(0, len(records) - 1))
        name = data.draw(st.sampled_from(sorted(set(records[place]) - {"seconds"})))
        old = records[place][name]
        new = data.draw(st.sampled_from(["evil", ["evil"], [], None, 7, True, 0]))
        assume(new != old)
        records[place][name] = new
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "round.jsonl"
            file.write_text("".join(json.dumps(record) + "\n" for record in records))
            with pytest.raises((TranscriptError, DataFileError)):
                validate(Transcript.read(file))

    def test_the_wall_time_is_not_sealed(self):
        for transcript in ROUNDS:
            validate(dataclasses.replace(transcript, seconds=99.0))

    def test_a_file_without_a_digest_is_refused(self, tmp_path):
        head = {name: value for name, value in HEAD.items() if name != "digest"}
        (tmp_path / "round.jsonl").write_text(json.dumps(head) + "\n")
        with pytest.raises(DataFileError, match="a round needs the field 'digest'"):
            Transcript.read(tmp_path / "round.jsonl")

    def test_an_empty_digest_is_not_filled_in(self, tmp_path):
        (tmp_path / "round.jsonl").write_text(json.dumps({**HEAD, "digest": ""}) + "\n")
        with pytest.raises(DataFileError, match="digest"):
            Transcript.read(tmp_path / "round.jsonl")


class TestLedger:
    def call(self, **fields):
        usual = {"agent": "a", "role": "contractor", "stage": "bidding", "steps": (3,)}
        usual |= {"tokens_in": 10, "tokens_out": 1, "tokens_are": "server", "model": "tiny"}
        return ModelCall(**{**usual, **fields})

    def test_of_nothing(self):
        ledger = Ledger.of([], [])
        assert (ledger.n_messages, ledger.tokens, ledger.model_calls) == (0, 0, 0)
        assert ledger.to_dict()["by_role"] == {}

    def test_a_sum_is_of_the_server_only_if_all_is(self):
        calls = [self.call(), self.call(tokens_are="estimated")]
        assert Ledger.of([], calls[:1]).usage.source == "server"
        assert Ledger.of([], calls).usage.source == "estimated"

    def test_repaired_and_cached_answers(self):
        ledger = Ledger.of([], [self.call(calls=2), self.call(cached=True), self.call(role="x")])
        assert (ledger.model_calls, ledger.cached_calls) == (4, 1)
        assert ledger.by_role["contractor"].model_calls == 3
        assert ledger.by_stage["bidding"].tokens_in == 30

    def test_messages_by_who_sends_them_and_what_for(self):
        ledger = Ledger.of(
            [
                Request(id=1, sender="user", receiver="manager", text="a map"),
                CallForProposals(id=2, sender="manager", receiver="maps"),
                Refusal(id=3, sender="maps", receiver="manager", in_reply_to=2),
                Report(id=4, sender="manager", receiver="user", in_reply_to=1, apis=()),
            ],
            [self.call(seconds=0.5), self.call(seconds=0.25)],
        )
        roles = {name: cost.messages for name, cost in ledger.by_role.items()}
        assert roles == {"user": 1, "manager": 2, "contractor": 1}
        stages = {name: cost.messages for name, cost in ledger.by_stage.items()}
        assert stages == {"request": 2, "bidding": 2}
        assert ledger.by_stage["bidding"].seconds == 0.75
