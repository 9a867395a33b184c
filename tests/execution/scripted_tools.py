"""What stands in for sources, people and time in tests of executions."""

from __future__ import annotations

import asyncio

from cnp_router.catalog import Api
from cnp_router.sources import CallResult

READ = Api("weather__today", "today", "Forecasts.", effects="reads")
WRITE = Api("sms__send", "send", "Sends a text message.", effects="writes")
UNKNOWN = Api("home__act", "act", "Does something.")


class Scripted:
    """Sources whose answers are given beforehand; it keeps what was called.

    An answer is a result, an exception that is raised, or None: it never comes.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []
        self.called = asyncio.Event()

    async def api(self, api_id):
        return {api.id: api for api in (READ, WRITE, UNKNOWN)}[api_id]

    async def call(self, call):
        self.calls.append(call)
        self.called.set()
        answer = self.answers.pop(0)
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Person:
    """Answers questions, and keeps them."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __call__(self, approval):
        self.asked.append(approval)
        return self.answers.pop(0)

    @property
    def whys(self):
        return [approval.why for approval in self.asked]


class Sleep:
    """Waits for no time at all, and keeps for how long it would have."""

    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        self.seconds.append(seconds)


def failed(kind, **fields):
    return CallResult.failed(kind, f"it was {kind}", **fields)
