"""The paper's system for a few clients: what `deploy up` trains where no scenario is given."""

from stagewise.world.generate import SystemParameters, Task, numeric
from stagewise.world.scenario import Limits, Scenario

_BITS_PER_VALUE = 8
_BITS_PER_PARAMETER = 32


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
    channels, height, width = image_shape
    half = max(1, share // 2)
    task = Task(
        name=name,
        labels=classes,
        labels_per_client=(max(1, round(0.5 * classes)), max(1, round(0.9 * classes))),
        data_range=(half, share),
        sample_bits=channels * height * width * _BITS_PER_VALUE,
        model_bits=parameters * _BITS_PER_PARAMETER,
    )
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
