"""Wire next-tool prediction into an agent loop: the model is asked only where it is needed.

The environment is a toy: a town where parcels are delivered. The model is a script that knows the
right tool; a real one is `cnp_router.llm.OpenAIChatModel`. The policy says when it is asked;
every finished run is kept on disk and learned from at once.
"""

import json
import tempfile
from pathlib import Path

from cnp_router import Api
from cnp_router.llm import ChatRequest
from cnp_router.online import OnlineStore
from cnp_router.prediction import AgentRun, ChooseTool, NextToolPolicy, NextToolRouter
from cnp_router.testing import FunctionChatModel
from cnp_router.trajectories import Step

RUNS = 60
TOOLS = [
    Api("find-parcel", "Find parcel", "Looks up where a parcel lies."),
    Api("fetch", "Fetch", "Takes a parcel out of its depot."),
    Api("clear-customs", "Clear customs", "Gets a parcel from abroad through customs."),
    Api("deliver", "Deliver", "Brings a parcel to its address."),
]


def right_tool(steps: tuple[Step, ...]) -> str:
    """Say what a good model would: parcels from abroad go through customs first."""
    if not steps:
        return "find-parcel"
    last = steps[-1]
    if last.tool == "find-parcel":
        return "clear-customs" if "abroad" in last.observation else "fetch"
    return {"clear-customs": "fetch", "fetch": "deliver"}[last.tool]


def act(tool: str, inputs: dict[str, str], number: int) -> str:
    """Play the environment."""
    if tool == "find-parcel":
        origin = "abroad" if number % 3 == 0 else "home"
        return json.dumps({"depot": f"depot-{number % 4}", "origin": origin})
    return f"{tool} done at {inputs.get('depot', 'the door')}"


def answer(request: ChatRequest) -> dict[str, str]:
    """Answer as the model does."""
    assert isinstance(request.task, ChooseTool)
    return {"tool": right_tool(request.task.prefix)}


model = FunctionChatModel(answer)
policy = NextToolPolicy(ask_first=10, max_in_a_row=3)
router = NextToolRouter(model=model, tools=TOOLS, policy=policy)
n_steps = n_wrong = 0

with (
    tempfile.TemporaryDirectory() as folder,
    OnlineStore(Path(folder, "online.sqlite"), [router]) as store,
):
    for number in range(RUNS):
        run = AgentRun(router, f"run-{number}", "Deliver the parcel.", observe=store.observe)
        while not run.steps or run.steps[-1].tool != "deliver":
            said = run.next()
            tool = said.tool if said.source != "none" else None
            if tool != right_tool(run.steps):
                n_wrong += 1  # here the environment would complain; the toy puts it right
                tool = right_tool(run.steps)
            hinted = {hint.input: str(hint.value) for hint in reversed(run.hints(tool))}
            inputs = {"depot": hinted.get("depot", f"depot-{number % 4}")} if run.steps else {}
            run.add(Step(tool, inputs, act(tool, inputs, number)))
        n_steps += len(run.steps)
        run.end(success=True)

print(f"{n_steps} steps in {RUNS} runs, {n_wrong} of them predicted wrongly.")
asked = len(model.calls)
print(f"Model calls saved: {n_steps - asked} of {n_steps} ({1 - asked / n_steps:.0%}).")
hint = router.hints("fetch", [Step("find-parcel", {}, act("find-parcel", {}, 2))])[0]
print(f"The {hint.input} of fetch: {hint.value}, from {hint.tool} ({hint.count} of {hint.of}).")
