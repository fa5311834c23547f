"""`uses_feedback`: said, or taken from whether a policy observes."""

import numpy as np
import pytest

import stagewise
from stagewise.decisions import Answer
from stagewise.policies.diverse import Diverse
from stagewise.policies.policy import Policy, Wrapper
from stagewise.policies.proven import Proven
from stagewise.policies.registry import make_policy
from stagewise.policies.remedied import Remedied
from stagewise.testing import conformance_problems
from stagewise.world.generate import numeric


class Nobody(Policy):
    takes_surcharge = True

    def decide(self, round_):
        return Answer(np.full(len(round_.online), -1))


class Observer(Nobody):
    def observe(self, outcome):
        pass


class Child(Observer):
    pass


class Counter(Nobody):
    uses_feedback = False

    def observe(self, outcome):
        pass


class Listener(Wrapper):
    def observe(self, outcome):
        super().observe(outcome)


class Learner(Observer):
    """One client serves if the last accuracy was good."""

    def __init__(self):
        self.good = False

    def decide(self, round_):
        answer = np.full(len(round_.online), -1)
        usable = np.flatnonzero(round_.usable)
        if self.good and len(usable) and round_.scenario.edges.capacity.min() > 0:
            links = round_.scenario.links
            answer[links.client[usable[0]]] = links.edge[usable[0]]
        return Answer(answer)

    def observe(self, outcome):
        self.good = outcome.accuracy is not None and outcome.accuracy > 0.1

    def state(self):
        return {"good": self.good}

    def restore(self, state):
        self.good = state["good"]


class Liar(Learner):
    uses_feedback = False


@pytest.mark.parametrize(
    ("policy", "uses"),
    [
        (Nobody(), False),
        (Observer(), True),
        (Child(), True),
        (Counter(), False),
        (Remedied(Nobody(), "drop"), False),
        (Remedied(Observer(), "drop"), True),
        (Proven(Observer()), True),
        (Diverse(Nobody(), 1.0), False),
        (Diverse(Observer(), 1.0), True),
        (Listener(Nobody()), True),
        (Remedied(Listener(Nobody()), "drop"), True),
    ],
)
def test_who_uses_feedback(policy, uses):
    assert policy.uses_feedback is uses


@pytest.mark.parametrize("name", ["fedcs", "local-search", "exact", "stagewise-flexible"])
def test_no_policy_of_ours_does(name):
    policy = make_policy(name, numeric(30, 2, 0))
    assert not policy.uses_feedback
    if policy.plan is not None:
        replanned = stagewise.Replanned(policy, stagewise.Triggers(every=2))
        assert not replanned.uses_feedback
        replanned.close()


def test_the_conformance_kit_finds_feedback_that_is_denied():
    assert conformance_problems(lambda s, *, seed, seconds: Learner(), seeds=1) == []
    problems = conformance_problems(lambda s, *, seed, seconds: Liar(), seeds=1)
    assert len(problems) == 1
    assert "`uses_feedback` must be true, but is not" in problems[0]
