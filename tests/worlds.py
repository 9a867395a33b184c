"""Small logs whose right predictions are known by construction."""

from __future__ import annotations

import numpy as np

from cnp_router.trajectories import Step, Trajectory


def run(number, goal, *steps, success=None):
    """One trajectory of steps or bare tool ids."""
    made = (step if isinstance(step, Step) else Step(step) for step in steps)
    return Trajectory(f"t{number}", goal, tuple(made), success)


def noisy(n, seed=0, tools=("weather", "maps", "sms", "mail", "pay")):
    """Random walks with inputs, observations, goals and tokens; the last two steps decide."""
    rng = np.random.default_rng(seed)
    log = []
    for number in range(n):
        places, steps = [0, 1], []
        for _ in range(int(rng.integers(3, 12))):
            follower = (2 * places[-1] + places[-2]) % len(tools)
            places.append(follower if rng.random() < 0.7 else int(rng.integers(len(tools))))
            steps.append(
                Step(
                    tools[places[-1]],
                    {"x": int(rng.integers(3))},
                    str(rng.choice(["It is done.", "No such thing.", "Rain until noon."])),
                    int(rng.integers(10, 100)),
                    int(rng.integers(1, 10)),
                    float(rng.random()),
                )
            )
        log.append(Trajectory(f"n{number}", f"Goal {rng.integers(4)}", tuple(steps)))
    return log
