"""Compile the kernels of planning and deciding and keep them on disk, in two processes.

Run before the tests: with an empty cache each of their processes would compile the same for itself.
"""

import sys
from multiprocessing import Process

from stagewise.plan_a.planners import plan
from stagewise.plan_b.pool import load_pick
from stagewise.policies.exact import exact_policy
from stagewise.pool.windows import load_windows
from stagewise.warm_up import smallest_scenario, warm_up


def search() -> None:
    warm_up()
    plan(smallest_scenario(), method="paper")


def clusters() -> None:
    load_pick()
    load_windows()
    exact_policy(smallest_scenario(), seed=0, seconds=None)


if __name__ == "__main__":
    parts = [Process(target=part) for part in (search, clusters)]
    for process in parts:
        process.start()
    for process in parts:
        process.join()
    sys.exit(any(process.exitcode for process in parts))
