"""Which backend trains a model, and how many clients it takes at once."""

from stagewise.training.batched_backend import BatchedBackend
from stagewise.training.data import TrainingData
from stagewise.training.jobs import TrainingSettings
from stagewise.training.module_backend import ModuleBackend

SAMPLES_AT_ONCE = 128
"""With more samples than these, further clients at once no longer save time."""

CLIENTS_AT_ONCE = 8

Backend = ModuleBackend | BatchedBackend


def make_backend(settings: TrainingSettings, data: TrainingData) -> Backend:
    """The fastest backend that can train the model."""
    if settings.network is None:
        return ModuleBackend(settings, data)
    return BatchedBackend(settings, data, settings.network)


def clients_at_once(settings: TrainingSettings, batch_size: int) -> int:
    """How many clients with batches of at most this size make a job."""
    if settings.network is None:
        return 1
    return min(max(SAMPLES_AT_ONCE // batch_size, 1), CLIENTS_AT_ONCE)
