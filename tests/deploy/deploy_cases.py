"""A small system of digits, and a post without a network, for the tests of the deployment."""

from dataclasses import replace

import numpy as np

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


def fates(outcome):
    """(client, edge round) -> fate; an update with two fates fails."""
    found = {}
    for report in outcome.clients:
        assert (report.client, report.edge_round) not in found
        assert (report.reason == "") == (report.fate == "counted")
        found[report.client, report.edge_round] = report.fate
    return found


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds
