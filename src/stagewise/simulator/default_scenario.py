"""The paper's system for any data set: Table I, data sizes in proportion to the samples there are."""

from dataclasses import replace

from stagewise.world.generate import TASKS, Task, image_task, model_bits, numeric
from stagewise.world.scenario import Limits, Scenario

CLIENTS, EDGES = 93, 4

_PAPER_SAMPLES = 60_000
_PAPER_DATA_MIN = 2500


def default_scenario(
    name: str,
    samples: int,
    classes: int,
    image_shape: tuple[int, int, int],
    parameters: int,
    seed: int,
) -> Scenario:
    """93 clients and 4 edges that share a data set of so many training `samples`; see `sized_task`."""
    task, share = sized_task(name, samples, classes, image_shape, parameters)
    limits = Limits(data_min=round(share * _PAPER_DATA_MIN))
    return numeric(CLIENTS, EDGES, seed, task=task, limits=limits)


def sized_task(
    name: str, samples: int, classes: int, image_shape: tuple[int, int, int], parameters: int
) -> tuple[Task, float]:
    """What a data set means for clients, and by which factor `data_min` goes with it.

    A data set of the paper has the paper's sizes. Any other is dealt out as MNIST is: a client holds
    one to three tenths of the labels; its data and `data_min` are smaller or larger than the paper's by
    the same factor as the data set is than MNIST. Each sample then takes as many cycles more as there
    are samples less, so that delays and energies stay the paper's.
    """
    if name in TASKS:
        return replace(TASKS[name], model_bits=model_bits(parameters)), 1.0
    share = samples / _PAPER_SAMPLES
    low, high = TASKS["mnist"].data_range
    sizes = max(1, round(share * low)), max(1, round(share * high))
    fewest = max(1, round(0.1 * classes))
    labels = fewest, max(fewest, round(0.3 * classes))
    task = image_task(name, classes, labels, sizes, image_shape, parameters)
    return replace(task, sample_bits=task.sample_bits / share), share
