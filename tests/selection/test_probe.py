"""Losses before a decision: asked for by a selector, answered by whoever trains."""

import numpy as np
import pytest

from small_runs import small_run
from stagewise.deciding import solve
from stagewise.errors import StagewiseError
from stagewise.policies.compose import Compose
from stagewise.policies.remedied import Remedied
from stagewise.runs.config import Replanning
from stagewise.selection.associators import LeastDelay
from stagewise.selection.selector import Selector, candidates
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli


class Curious(Selector):
    """Everybody, whose losses it wants to know in every second round."""

    def __init__(self):
        self.heard = {}

    def probe(self, round_):
        self.round = round_
        return candidates(round_) if round_.index % 2 == 0 else None

    def told(self, clients, losses):
        self.heard[self.round.index] = (clients.tolist(), losses)

    def select(self, round_):
        return candidates(round_)


def test_without_training_nobody_knows():
    scenario = numeric(clients=30, edges=2, seed=0)
    rounds = bernoulli(scenario, 3, 0)
    selector = Curious()
    solve(scenario, rounds, Remedied(Compose(selector, LeastDelay()), "drop"))
    assert list(selector.heard) == [0, 2]
    for round_ in rounds[::2]:
        clients, losses = selector.heard[round_.index]
        assert clients == candidates(round_).tolist()
        assert np.isnan(losses).all()


def test_the_simulator_knows_whatever_the_number_of_workers():
    pytest.importorskip("torch")
    heard = []
    for workers in (1, 2):
        selector = Curious()
        policy = Compose(selector, LeastDelay())
        small_run(rounds=5, workers=workers, policy=policy, replanning=Replanning())
        assert list(selector.heard) == [0, 2, 4]
        heard.append([losses.tolist() for _, losses in selector.heard.values()])
    assert heard[0] == heard[1]
    means = [np.mean(losses) for losses in heard[0]]
    assert means[0] > means[1] > means[2] > 0


@pytest.mark.parametrize(
    ("probed", "rule"),
    [
        ([1, 1], "probe gave 1 twice: must give a client once"),
        ([0, 5], "probe gave 5: must be the number of an online client with a link that is up"),
        ([99], "probe gave 99: must be the number of an online client"),
        (["c0"], "probe"),
    ],
)
def test_only_those_who_are_online_can_be_asked(probed, rule):
    class Wrong(Curious):
        def probe(self, round_):
            return probed

    scenario = numeric(clients=6, edges=1, seed=0)
    online = [True, True, True, True, True, False]
    with pytest.raises(StagewiseError, match=rule) as refusal:
        solve(scenario, [np.array(online)], Compose(Wrong(), LeastDelay()))
    assert "\n" not in str(refusal.value)
