"""The paper's system for a few clients: what `deploy up` trains where no scenario is given."""

from stagewise.world.generate import SystemParameters, image_task, numeric
from stagewise.world.scenario import Limits, Scenario


def local_scenario(
    clients: int,
    edges: int,
    name: str,
    samples: int,
    classes: int,
    image_shape: tuple[int, int, int],
    parameters: int,
    seed: int,
) -> Scenario:
    """`clients` and `edges` that share a data set of so many training `samples`.

    With a few clients to an edge none can be as poor in labels as the paper's: each holds half to
    nine tenths of them, and between a half and the whole of an equal share of the data. An edge needs
    as much as three of the smallest clients have. Everything else is Table I, but that an edge can
    take all clients and averages twice in a round: a message costs seconds here.
    """
    share = max(2, samples // clients)
    half = max(1, share // 2)
    labels = max(1, round(0.5 * classes)), max(1, round(0.9 * classes))
    task = image_task(name, classes, labels, (half, share), image_shape, parameters)
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
