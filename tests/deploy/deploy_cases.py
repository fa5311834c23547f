"""A small system of digits, a clock that is moved, and waiting, for the tests of the deployment."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from stagewise.deploy.task import TaskFile
from stagewise.world.generate import Task, numeric
from stagewise.world.scenario import Limits

TASK = TaskFile(dataset="digits", model="mlp", learning_rate=0.1, seed=3)


def small_system(clients=3, edges=2, edge_rounds=2):
    """Every client is covered by every edge."""
    task = Task("digits", 10, (2, 5), (20, 40), sample_bits=512, model_bits=77_120)
    limits = Limits(kld_max=0.9, data_min=60, kld_risk=0.6, data_risk=0.6)
    scenario = numeric(clients, edges, 0, task=task, limits=limits)
    scenario = replace(scenario, local_steps=2, edge_rounds=edge_rounds)
    assert len(scenario.links) == clients * edges
    return scenario


def largest_difference(weights, others):
    assert weights.keys() == others.keys()
    return max(np.abs(weights[name] - others[name]).max() for name in weights)


def fates(trained):
    """(client, edge round) -> fate; an update with two fates fails."""
    found = {}
    for report in trained.clients:
        assert (report.client, report.edge_round) not in found
        assert (report.reason == "") == (report.fate == "counted")
        found[report.client, report.edge_round] = report.fate
    return found


def same_figures(trained, expected):
    """What the simulator finds of updates, also where edges and clients report it."""
    last = max(report.edge_round for report in expected.clients)
    names = {0: ["loss_before"], last: ["loss_after", "update_norm"]}
    found = {(report.client, report.edge_round): report for report in trained.clients}
    for report in expected.clients:
        for name in names[report.edge_round]:
            other = getattr(found[report.client, report.edge_round], name)
            assert other == pytest.approx(getattr(report, name), abs=1e-6)
    for report in trained.clients:
        assert None not in (report.loss_before, report.loss_after, report.update_norm)


class ManualClock:
    """Time that passes when somebody waits."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


def wait_until(condition: Callable[[], object], deadline_s: float = 60.0) -> None:
    """Return once `condition` holds; fails after `deadline_s`, which a busy machine must not reach."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s"
        time.sleep(0.02)
