"""A selector and an associator as one policy; a selector of ten lines gets everything."""

import inspect

import numpy as np
import pytest

import stagewise
from helpers import decide_round
from small_runs import contents, small_run
from stagewise.errors import StagewiseError
from stagewise.policies.compose import Compose
from stagewise.runs.config import Replanning
from stagewise.selection.associators import LeastDelay
from stagewise.selection.catalogue import associator_names, make_associator, selector_names
from stagewise.selection.selector import Selector, candidates
from stagewise.simulator.start import resume
from stagewise.testing import assert_conforms
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import everybody_online


class LeastSeen(Selector):
    """The five that have trained least often."""

    times = np.zeros(0)

    def select(self, round_):
        self.times = np.resize(self.times, len(round_.online))
        clients = candidates(round_)
        return clients[np.argsort(self.times[clients], kind="stable")][:5]

    def observe(self, outcome):
        self.times = self.times + (outcome.decision.edge_of >= 0)

    def state(self):
        return {"times": self.times}

    def restore(self, state):
        self.times = state["times"]


def least_seen(scenario, *, seed, seconds):
    return Compose(LeastSeen(), LeastDelay())


class Given(Selector):
    def __init__(self, answer):
        self.answer = answer

    def select(self, round_):
        return self.answer


def test_it_has_ten_lines():
    assert len(inspect.getsource(LeastSeen.select).splitlines()) <= 10


@pytest.mark.parametrize("associator", associator_names())
def test_it_works_with_every_associator(associator):
    def make(scenario, *, seed, seconds):
        return Compose(LeastSeen(), make_associator(associator, scenario, seed, seconds))

    assert_conforms(make, seeds=1)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0, 3], "select gave 3: must be the number of an online client with a link that is up"),
        ([-1], "select gave -1: must be the number of an online client"),
        ([99], "select gave 99: must be the number of an online client"),
        ([1, 0, 1], "select gave 1 twice: must give a client once"),
        ([0.5], r"select\[0\] = 0.5: must be a whole number"),
        (None, "select = None: must be an array of numbers"),
    ],
)
def test_what_no_selector_may_give(answer, message):
    scenario = numeric(clients=6, edges=2, seed=0)
    online = np.array([True, True, True, False, True, True])
    policy = Compose(Given(answer), LeastDelay())
    with pytest.raises(StagewiseError, match=f"selector 'Given', round 4: {message}"):
        policy.decide(stagewise.Round(scenario, online, 4))


def test_its_parts_must_be_what_they_are():
    with pytest.raises(StagewiseError, match=r"selector = .*must be a Selector"):
        Compose(LeastDelay(), LeastDelay())
    with pytest.raises(StagewiseError, match=r"associator = .*must be a Associator"):
        Compose(LeastSeen(), LeastSeen())


def test_who_is_selected_is_who_trains():
    scenario = numeric(clients=30, edges=2, seed=0)
    three = Compose(Given(np.array([7, 2, 9])), LeastDelay())
    decision = decide_round(three, everybody_online(scenario))
    assert np.flatnonzero(decision.edge_of >= 0).tolist() == [2, 7, 9]
    nobody = Compose(Given(np.zeros(0, dtype=int)), LeastDelay())
    assert decide_round(nobody, everybody_online(scenario)).assignment == {}


def test_state_and_feedback_are_those_of_the_parts():
    scenario = numeric(clients=30, edges=2, seed=0)
    policy = least_seen(scenario, seed=0, seconds=None)
    assert policy.uses_feedback
    assert policy.title == "LeastSeen+LeastDelay"
    assert not stagewise.make_policy("random-k+pool", scenario).uses_feedback
    assert stagewise.make_policy("random-k+pool", scenario).state() == {}
    stagewise.solve(scenario, bernoulli(scenario, 3, 0), policy)
    assert policy.state()["selector"]["times"].sum() == 15


@pytest.mark.parametrize("name", [name for name in selector_names() if name != "all-online"])
def test_a_used_policy_becomes_as_it_was_even_before_its_first_round(name):
    """Under a wrapper too; the state of some is empty until then."""
    scenario = numeric(clients=30, edges=2, seed=0)
    rounds = bernoulli(scenario, 6, 0)
    policy = stagewise.Remedied(stagewise.make_policy(f"{name},k=5", scenario), "reweight")
    before = policy.state()

    def played():
        decisions = stagewise.solve(scenario, rounds, policy)
        return [decision.edge_of.tolist() for decision in decisions]

    first = played()
    policy.restore(before)
    assert played() == first


def test_an_associator_becomes_as_it_was_too():
    class Turning(LeastDelay):
        """Places nobody in every second round; it has no state before the first."""

        rounds = 0

        def associate(self, round_, clients):
            return super().associate(round_, clients[: len(clients) * (1 - self.rounds % 2)])

        def observe(self, outcome):
            self.rounds += 1

        def state(self):
            return {"rounds": self.rounds} if self.rounds else {}

        def restore(self, state):
            self.rounds = state.get("rounds", 0)

    scenario = numeric(clients=6, edges=1, seed=0)
    policy = Compose(stagewise.make_selector("all-online", scenario), Turning())
    before = policy.state()
    first, second = stagewise.solve(scenario, 2 * [np.ones(6, dtype=bool)], policy)
    assert first.assignment and not second.assignment
    policy.associator.rounds = 1
    policy.restore(before)
    [again] = stagewise.solve(scenario, [np.ones(6, dtype=bool)], policy)
    assert again.assignment == first.assignment


OPTIONS = {"rounds": 5, "replanning": Replanning()}


def interrupted(cls, monkeypatch, run):
    """`run`, stopped when a policy of class `cls` is asked for its fourth round."""
    decide = cls.decide

    def stopping(policy, round_):
        if round_.index == 3:
            raise KeyboardInterrupt
        return decide(policy, round_)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cls, "decide", stopping)
        run()


def test_a_run_goes_on_after_an_interruption_byte_for_byte(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    small_run(tmp_path / "whole", policy=least_seen, **OPTIONS)
    interrupted(
        Compose, monkeypatch, lambda: small_run(tmp_path / "run", policy=least_seen, **OPTIONS)
    )
    assert resume(tmp_path / "run", policy=least_seen).finished
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
