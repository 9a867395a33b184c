"""Results whose texts try to be markup, terminal commands, or secrets; and rounds of any size."""

from __future__ import annotations

import json

from cnp_router.agents import ProposedApi
from cnp_router.execution import Act, Execution, Job, JobReport, Plan
from cnp_router.protocols import ModelCall, Transcript
from cnp_router.protocols.messages import (
    Award,
    CallForProposals,
    Failure,
    InformResult,
    Proposal,
    Refusal,
    Rejection,
    Report,
    Request,
)
from cnp_router.sources import CallResult

SECRET = "sk-abcdef1234567890abcdef12"  # of nobody
DIGEST = "0" * 64


def round_of(n: int, *, n_propose: int = 40, n_fail: int = 5, text: str = "a map") -> Transcript:
    """Return a broadcast round of so many contractors, some of which propose."""
    names = [f"api-{number}-{text}" if text != "a map" else f"api-{number}" for number in range(n)]
    messages = [Request(id=1, sender="user", receiver="manager", text=text)]

    def send(kind, sender, receiver, **fields):
        messages.append(kind(id=len(messages) + 1, sender=sender, receiver=receiver, **fields))
        return messages[-1].id

    calls = {name: send(CallForProposals, "manager", name, request=text) for name in names}
    proposals = {}
    for number, name in enumerate(names):
        if number < n_propose:
            proposed = (ProposedApi(name, text),)
            proposals[name] = send(
                Proposal, name, "manager", in_reply_to=calls[name], apis=proposed
            )
        elif number < n_propose + n_fail:
            why = {"reason": "error", "error": text}
            send(Failure, name, "manager", in_reply_to=calls[name], **why)
        else:
            send(Refusal, name, "manager", in_reply_to=calls[name], grounds=text)
    awards = {}
    for name in list(proposals)[:3]:
        awards[name] = send(Award, "manager", name, in_reply_to=proposals[name], apis=(name,))
    for name in list(proposals)[3:]:
        send(Rejection, "manager", name, in_reply_to=proposals[name])
    cost = {"attempts": 2, "seconds": 0.25, "n_bytes": 9}
    results = [
        send(
            InformResult, name, "manager", in_reply_to=award, api=name, text=text,
            digest=DIGEST, **cost,
        )
        for name, award in awards.items()
    ]  # fmt: skip
    send(Report, "manager", "user", in_reply_to=1, apis=tuple(awards), results=tuple(results))
    paid = [
        ModelCall(
            agent=name, role="contractor", model="tiny", stage="bidding", steps=(3,),
            tokens_in=90, tokens_out=9, tokens_are="estimated", seconds=0.5, cfp=calls[name],
        )
        for name in names
    ]  # fmt: skip
    return Transcript(
        text, "contractor-led", "broadcast", "tiny", tuple(messages), tuple(paid), seconds=2.5,
        executed=True,
    )  # fmt: skip


def execution_of(text: str, n: int = 4) -> Execution:
    """Return an execution in which everything happened, and every text is this one."""
    jobs = [Job("a", text, after=())]
    jobs += [
        Job(f"j{number}", text, after=(f"j{number - 1}" if number else "a",)) for number in range(n)
    ]
    plan = Plan(text, tuple(jobs), guideline=text)
    broken = CallResult.failed("tool", text)
    said = CallResult(json.dumps({"text": text, "api_key": SECRET}))

    def act(by, result, began, **more):
        inputs = {"q": text, "password": SECRET}
        return Act("x__y", by, inputs, result, 2, 0.1, began=began, ended=began + 0.1, **more)

    tried = [act("award", broken, 0.0), act("re-award", said, 0.1)]
    reports = [JobReport("a", text, state="done", acts=tried, began=0.0, ended=0.2)]
    for number, job in enumerate(jobs[1:], start=1):
        times = {"began": float(number), "ended": number + 0.3}
        acts = [act("award", broken, float(number))]
        reports.append(
            JobReport(
                job.id, text, job.after, "failed", acts=acts, problem=text, lost=text, **times
            )
        )
    return Execution(
        "e1", text, plan, tuple(reports), (round_of(6, n_propose=4, n_fail=1, text=text),), 9.0,
        problem=text, failed=(JobReport("old", text, state="failed", problem=text),),
        context_problem=text, unmet=(text,),
    )  # fmt: skip
