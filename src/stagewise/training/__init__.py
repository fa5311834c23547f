"""Hierarchical federated training (Eqs. 1-3); needs PyTorch."""

from stagewise.outcomes import TrainingFigures
from stagewise.training.client import train_client
from stagewise.training.task import Evaluation, Loss, TrainingTask
from stagewise.training.trainer import Trainer

__all__ = [
    "Evaluation",
    "Loss",
    "Trainer",
    "TrainingFigures",
    "TrainingTask",
    "train_client",
]
