"""Hierarchical federated training (Eqs. 1-3); needs PyTorch."""

from stagewise.training.client import train_client
from stagewise.training.task import Evaluation, Loss, TrainingTask, Weights
from stagewise.training.team import TrainingTeam

__all__ = [
    "Evaluation",
    "Loss",
    "TrainingTask",
    "TrainingTeam",
    "Weights",
    "train_client",
]
