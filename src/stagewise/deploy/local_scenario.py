"""Defaults of a deployment: the task on a data set, and the paper's system for a few clients."""

from stagewise.datasets.dataset import Dataset
from stagewise.deploy.task import TaskFile
from stagewise.simulator.start import default_learning_rate, default_model
from stagewise.world.generate import SystemParameters, image_task, numeric
from stagewise.world.scenario import Limits, Scenario


def task_on(
    data: Dataset,
    model: str | None,
    learning_rate: float | None,
    seed: int,
    data_dir: str | None = None,
) -> TaskFile:
    """The task on a data set; None is the model by the data set, the rate by the model."""
    model = model or default_model(data.name)
    rate = default_learning_rate(model) if learning_rate is None else learning_rate
    return TaskFile(
        dataset=data.name, data_dir=data_dir, model=model, learning_rate=rate, seed=seed
    )


def local_scenario(clients: int, edges: int, data: Dataset, model: str, seed: int) -> Scenario:
    """`clients` and `edges` that share a data set and train `model` on it.

    With a few clients to an edge none can be as poor in labels as the paper's: each holds half to
    nine tenths of them, and between a half and the whole of an equal share of the data. An edge needs
    as much as three of the smallest clients have. Everything else is Table I, but that an edge can
    take all clients and averages twice in a round: a message costs seconds here.
    """
    from stagewise.models import parameter_count

    classes, shape = data.classes, data.image_shape
    share = max(2, len(data.train_labels) // clients)
    half = max(1, share // 2)
    labels = max(1, round(0.5 * classes)), max(1, round(0.9 * classes))
    parameters = parameter_count(model, classes, shape)
    task = image_task(data.name, classes, labels, (half, share), shape, parameters)
    return numeric(
        clients,
        edges,
        seed,
        task=task,
        parameters=SystemParameters(
            online_probability=(0.8, 1.0), capacity=(clients, clients), edge_rounds=2
        ),
        limits=Limits(kld_max=0.35, data_min=share + half),
    )
