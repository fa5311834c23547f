"""The learning tasks of the paper's experiments, as far as a scenario depends on them."""

import math
from dataclasses import dataclass

from stagewise.world.checks import finite, one_of, whole

_BITS_PER_VALUE = 8
_BITS_PER_PARAMETER = 32


@dataclass(frozen=True)
class Task:
    """What a data set and its model mean for clients and links. Ranges are inclusive."""

    name: str
    labels: int
    labels_per_client: tuple[int, int]
    data_range: tuple[int, int]
    """How many samples a client holds."""
    sample_bits: float
    model_bits: float

    def __post_init__(self) -> None:
        whole("task.labels", self.labels, 1)
        low, high = self.labels_per_client
        whole("task.labels_per_client, lower end", low, 1)
        whole("task.labels_per_client, upper end", high, low, self.labels)
        low, high = self.data_range
        whole("task.data_range, lower end", low, 1)
        whole("task.data_range, upper end", high, low)
        finite("task.sample_bits", self.sample_bits, 0, open_below=True)
        finite("task.model_bits", self.model_bits, 0, open_below=True)


def image_task(
    name: str,
    labels: int,
    labels_per_client: tuple[int, int],
    data_range: tuple[int, int],
    shape: tuple[int, int, int],
    parameters: int,
) -> Task:
    """A task on images with a byte for a value.

    Parameters
    ----------
    name : str
        What it is called.
    labels : int
        How many there are.
    labels_per_client, data_range : pair of int
        How many labels and samples a client holds; both ends included.
    shape : tuple of int
        Height, width and channels of an image, in any order.
    parameters : int
        Of the model, 32 bits each.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.generate.image_task("mine", 5, (1, 2), (50, 80), (8, 8, 1), 1000).sample_bits
    512
    """
    return Task(
        name=name,
        labels=labels,
        labels_per_client=labels_per_client,
        data_range=data_range,
        sample_bits=math.prod(shape) * _BITS_PER_VALUE,
        model_bits=model_bits(parameters),
    )


def model_bits(parameters: int) -> float:
    """The size of a model.

    Parameters
    ----------
    parameters : int
        How many it has, of 32 bits each.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.generate.model_bits(1000)
    32000
    """
    return parameters * _BITS_PER_PARAMETER


# Sec. V: labels per client and data sizes; the appendix on data sets and models: parameters. The
# paper gives no data sizes for Tiny-ImageNet; those of CIFAR stand in.
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        image_task("mnist", 10, (1, 3), (255, 1013), (28, 28, 1), 21_840),
        image_task("fashion-mnist", 10, (1, 3), (255, 1013), (28, 28, 1), 29_034),
        image_task("cifar10", 10, (1, 3), (206, 863), (32, 32, 3), 576_778),
        # ResNet-18 and ResNet-34 in the form for small images: a 3x3 first convolution, no pooling.
        image_task("cifar100", 100, (10, 30), (206, 863), (32, 32, 3), 11_220_132),
        image_task("tiny-imagenet", 200, (20, 60), (206, 863), (64, 64, 3), 21_379_592),
    )
}


def task_of(task: str | Task) -> Task:
    """The task of that name, or the task itself.

    Parameters
    ----------
    task : str or Task
        A name of `TASKS`, or a task.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.generate.task_of("cifar10").labels
    10
    """
    return task if isinstance(task, Task) else TASKS[one_of("task", task, TASKS)]
