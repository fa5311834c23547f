"""A policy of ten lines gets everything that a policy can have, without a line of its own."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from helpers import renumbered
from small_runs import contents, small_run, small_scenario
from stagewise.checker import check
from stagewise.deciding import solve, wrapped
from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.policies.policy import Policy
from stagewise.policies.replanned import Triggers
from stagewise.randomness import generator
from stagewise.runs.config import Replanning
from stagewise.simulator.start import resume
from stagewise.testing import assert_conforms
from stagewise.world.participation import bernoulli
from stagewise.world.scenario import Limits


class AtRandom(Policy):
    def decide(self, round_):
        links, room = round_.scenario.links, round_.scenario.edges.capacity.copy()
        edge_of = np.full(len(round_.online), -1)
        for link in generator(7, "at random", round_.index).permutation(len(links)):
            client, edge = links.client[link], links.edge[link]
            if round_.usable[link] and edge_of[client] < 0 and room[edge] > 0:
                edge_of[client] = edge
                room[edge] -= 1
        return Answer(edge_of)


def at_random(scenario, *, seed, seconds):
    return AtRandom()


def test_it_has_ten_lines():
    lines = inspect.getsource(AtRandom.decide).splitlines()
    assert len(lines) <= 10


def test_it_conforms():
    assert_conforms(at_random)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"replanning": Triggers(every=2)},
            "replanning: needs a policy that follows a plan; 'AtRandom' does not",
        ),
        (
            {"remedy": "lend"},
            "remedy = 'lend': needs a policy that follows a plan; 'AtRandom' does not",
        ),
        (
            {"diversity": 0.5},
            "diversity = 0.5: needs a policy that takes surcharges on clients, as those that follow "
            "the pool do; 'AtRandom' does not",
        ),
    ],
)
def test_what_it_lacks_is_said_in_one_line(asked, message):
    with pytest.raises(StagewiseError) as error:
        wrapped(AtRandom(), **asked)
    assert str(error.value) == message


@pytest.mark.parametrize("remedy", ["drop", "reweight"])
def test_remedies(remedy):
    limits = Limits(kld_max=0.3, data_min=100)
    scenario = replace(small_scenario(), limits=limits, file_sha256=None)
    rounds = bernoulli(scenario, 6, 1)
    plain = solve(scenario, rounds, AtRandom())
    remedied = solve(scenario, rounds, wrapped(AtRandom(), remedy=remedy))
    assert any(decision.evaluation.failing.any() for decision in plain)
    for before, after in zip(plain, remedied, strict=True):
        failing = before.evaluation.failing
        if remedy == "drop":
            dropped = (before.edge_of >= 0) & failing[before.edge_of]
            assert after.edge_of.tolist() == np.where(dropped, -1, before.edge_of).tolist()
        else:
            assert after.edge_of.tolist() == before.edge_of.tolist()
            assert ((after.answer.edge_weights < 1) == failing).all()


def test_rounds_with_links_down():
    scenario = small_scenario()
    edge = scenario.links.edge
    rounds = bernoulli(scenario, 6, 1)
    some = [replace(r, up=np.arange(len(edge)) % 3 != r.index % 3) for r in rounds]
    gone = [replace(r, up=edge != r.index % 2) for r in rounds]
    faulty = renumbered([*some, *gone])
    decisions = solve(scenario, faulty, AtRandom())
    assert check(scenario, decisions, faulty) == []
    assert sum(len(decision.assignment) for decision in decisions) > 20


@pytest.mark.parametrize("remedy", [None, "drop", "reweight"])
def test_a_run_goes_on_after_an_interruption_byte_for_byte(remedy, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    options = {"policy": at_random, "rounds": 5, "replanning": Replanning(), "remedy": remedy}
    small_run(tmp_path / "whole", **options)

    def interrupted(policy, round_):
        if round_.index == 3:
            raise KeyboardInterrupt
        return decide(policy, round_)

    decide = AtRandom.decide
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(AtRandom, "decide", interrupted)
        small_run(tmp_path / "run", **options)
    assert resume(tmp_path / "run", policy=at_random).finished
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
