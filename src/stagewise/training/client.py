"""One client's part of a round (Eq. 1), where every client is a process of its own."""

import torch

from stagewise.errors import StagewiseError
from stagewise.training.data import TrainingData
from stagewise.training.jobs import Board, Recipe, TrainJob
from stagewise.training.layout import WeightLayout
from stagewise.training.task import TrainingTask, Weights
from stagewise.training.team import single_thread
from stagewise.training.trainers import make_trainer


def train_client(
    task: TrainingTask, weights: Weights, client: int, round_index: int, edge_round: int
) -> Weights:
    """The weights of `client` after its local steps from its edge's `weights`.

    Batches and arithmetic are those of a `TrainingTeam`. The client must hold data.
    """
    clients = len(task.data_sizes)
    if not 0 <= client < clients:
        raise StagewiseError(f"client = {client}: must be from 0 to {clients - 1}")
    if task.data_sizes[client] == 0:
        raise StagewiseError(f"client = {client}: must hold data to train on")
    recipe = Recipe.of(task)
    layout = WeightLayout(recipe.build(), recipe.dtype)
    models, results = torch.zeros(2, 1, layout.length, dtype=recipe.dtype)
    model_counters, result_counters = torch.zeros(2, 1, layout.counter_length, dtype=torch.int64)
    board = Board(models, results, model_counters, result_counters)
    layout.pack(weights, models[0], model_counters[0])
    with single_thread():
        job = TrainJob((client,), (0,), (0,), round_index, edge_round)
        make_trainer(recipe, TrainingData.of(task)).train(job, board)
    return layout.unpack(results[0], result_counters[0])
