"""One client's part of a round (Eq. 1), where every client is a process of its own."""

import numpy as np

from stagewise.errors import StagewiseError
from stagewise.model_weights import ModelWeights
from stagewise.outcomes import TrainingFigures
from stagewise.training.backends import make_backend
from stagewise.training.data import TrainingData
from stagewise.training.device import single_thread
from stagewise.training.jobs import TrainingSettings, TrainJob, WeightBuffers
from stagewise.training.layout import WeightLayout
from stagewise.training.task import TrainingTask


def train_client(
    task: TrainingTask, weights: ModelWeights, client: int, round_index: int, edge_round: int
) -> tuple[ModelWeights, TrainingFigures]:
    """The weights of `client` after its local steps from its edge's `weights`.

    Batches and arithmetic are those of a `Trainer`. The client must have data. The figures are of
    this edge round and this client alone; of a round they are the first edge round's loss before,
    and the last one's loss after and update norm.
    """
    clients = len(task.data_sizes)
    if not 0 <= client < clients:
        raise StagewiseError(f"client = {client}: must be from 0 to {clients - 1}")
    if task.data_sizes[client] == 0:
        raise StagewiseError(f"client = {client}: must have data to train on")
    settings = TrainingSettings.of(task)
    layout = WeightLayout(settings.build(), settings.dtype)
    buffers = WeightBuffers.of(layout, 1, 1)
    layout.pack(weights, buffers.models[0], buffers.model_counters[0])
    with single_thread():
        job = TrainJob((client,), (0,), (0,), round_index, edge_round)
        figures = make_backend(settings, TrainingData.of(task)).train(job, buffers)
    trained = layout.unpack(buffers.results[0], buffers.result_counters[0])
    return trained, TrainingFigures.of(np.array([client]), [figures])
