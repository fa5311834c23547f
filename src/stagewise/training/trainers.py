"""Which way of training suits a recipe, and how many clients it takes at once."""

from stagewise.training.data import TrainingData
from stagewise.training.fast import FastTrainer
from stagewise.training.jobs import Recipe, Trainer
from stagewise.training.lean import LeanTrainer

SAMPLES_AT_ONCE = 128
"""With more samples than these, further clients at once no longer save time."""

CLIENTS_AT_ONCE = 8


def make_trainer(recipe: Recipe, data: TrainingData) -> Trainer:
    """The fastest trainer that fits the recipe."""
    if recipe.network is None:
        return LeanTrainer(recipe, data)
    return FastTrainer(recipe, data, recipe.network)


def clients_at_once(recipe: Recipe, batch_size: int) -> int:
    """How many clients with batches of at most this size make a job."""
    if recipe.network is None:
        return 1
    return min(max(SAMPLES_AT_ONCE // batch_size, 1), CLIENTS_AT_ONCE)
