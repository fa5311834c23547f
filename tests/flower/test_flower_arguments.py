"""Arguments that cannot be, and strategies that do not fit together."""

import numpy as np
import pytest
from flower_clients import FirstFreeEdge, a_grid, a_scenario, start
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

from stagewise.errors import StagewiseError
from stagewise.flower import StagewiseStrategy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"wrapped": FedAvg()}, "wrapped.min_train_nodes = 2: must be at most 1"),
        (
            {"wrapped": FedAvg(fraction_train=0.5)},
            "wrapped.fraction_train = 0.5: must be 1.0",
        ),
        ({"edge_rounds": 0}, "edge_rounds = 0: must be at least 1"),
        ({"answer_s": 0}, "answer_s = 0: must be a finite number above 0"),
        ({"remedy": "pray"}, "remedy = 'pray': must be one of drop, reweight, lend"),
        (
            {"edge_rounds": 2, "aggregate_by_edge": False},
            "edge_rounds = 2: must go with aggregate_by_edge = True",
        ),
        (
            {"remedy": "reweight", "aggregate_by_edge": False},
            "remedy = 'reweight': must go with aggregate_by_edge = True",
        ),
        ({"policy": "oracle"}, "method = 'oracle': must be one of"),
        ({"seed": -1}, "seed = -1: must be at least 0"),
    ],
)
def test_arguments_that_cannot_be(arguments, message):
    with pytest.raises(StagewiseError) as error:
        StagewiseStrategy(a_scenario(), **{"policy": FirstFreeEdge(), **arguments})
    assert message in str(error.value)


@pytest.mark.parametrize(
    "weights", [{"edge_weights": [1.0, 0.5, 0.0]}, {"client_weights": np.arange(1.0, 11.0)}]
)
def test_weights_need_edges_that_are_averaged(weights):
    policy = FirstFreeEdge(**weights)
    wrapped = FedAvg(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1)
    strategy = StagewiseStrategy(a_scenario(), policy, wrapped=wrapped, aggregate_by_edge=False)
    with pytest.raises(
        StagewiseError, match="round 1: weights of edges or clients in the"
    ) as error:
        start(strategy, a_grid())
    assert "answer of 'FirstFreeEdge': must go with aggregate_by_edge = True" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wrapped_strategy_that_chooses_for_itself():
    class Choosy(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            return list(super().configure_train(server_round, arrays, config, grid))[1:]

    wrapped = Choosy(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1)
    strategy = StagewiseStrategy(a_scenario(), FirstFreeEdge(), wrapped=wrapped)
    with pytest.raises(StagewiseError, match="must be one to each of the"):
        start(strategy, a_grid())


def test_a_strategy_around_ours_is_refused():
    around = DifferentialPrivacyServerSideFixedClipping(
        StagewiseStrategy(a_scenario(), FirstFreeEdge()),
        noise_multiplier=0.1,
        clipping_norm=1.0,
        num_sampled_clients=10,
    )
    with pytest.raises(StagewiseError, match="must be the strategy that is started"):
        start(around, a_grid())
