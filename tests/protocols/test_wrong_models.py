"""A `ChatModel` of one's own that returns a wrong type is told so, whoever was asked."""

from __future__ import annotations

import pytest
from negotiation import CATALOG, PlantedRouter, acting, hold

from cnp_router.exceptions import InputError
from cnp_router.llm import ChatModel, ChatResponse, Usage
from cnp_router.protocols import ContractNet, RoundSettings

PAID = Usage(5, 2, "server")
WRONG = [
    None,
    "maps",
    {"apis": ["maps"]},
    b"maps",
    ChatResponse("", ["maps"], PAID, "tiny", 0.1),
    ChatResponse("", {}, None, "tiny", 0.1),
    ChatResponse("", {}, PAID, "tiny", None),
]


class Wrong(ChatModel):
    name = "wrong"

    def __init__(self, answer, good=()):
        self.answer = answer
        self.good = good
        self.offline = acting()

    async def complete(self, request):
        if request.task.role in self.good:
            return await self.offline.complete(request)
        return self.answer


@pytest.mark.parametrize("answer", WRONG, ids=str)
@pytest.mark.parametrize(
    "protocol", ["manager-led", "contractor-led", "collaborative", "single-agent"]
)
@pytest.mark.parametrize("good", [(), ("manager",), ("contractor",)], ids=str)
def test_it_is_an_error_and_no_empty_outcome(answer, protocol, good):
    if protocol == "single-agent" and good:
        pytest.skip("it has neither")
    net = ContractNet(CATALOG, Wrong(answer, good), router=PlantedRouter())
    with pytest.raises(InputError, match=r"^Wrong.complete (must return|returned)") as caught:
        hold(net, protocol=protocol, announcement="broadcast")
    assert str(caught.value).endswith(("'maps'", "None", "['maps']", "{'apis': ['maps']}"))


@pytest.mark.parametrize("concurrency", [1, 64])
def test_it_ends_the_round_at_once(concurrency):
    model = Wrong(None)
    net = ContractNet(CATALOG, model, settings=RoundSettings(max_concurrency=concurrency))
    with pytest.raises(InputError, match=r"Wrong\.complete must return a ChatResponse, got None"):
        hold(net, announcement="broadcast")


def test_a_class_that_is_no_chat_model_is_refused_when_the_net_is_made():
    with pytest.raises(InputError, match="model must be of type ChatModel, got 'gpt'"):
        ContractNet(CATALOG, "gpt")
