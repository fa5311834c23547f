"""Hierarchical federated training (Eqs. 1-3); needs PyTorch."""

from stagewise.training.client import train_client
from stagewise.training.task import Evaluation, Loss, TrainingTask, Weights
from stagewise.training.team import TrainingTeam, available_cores

__all__ = [
    "Evaluation",
    "Loss",
    "TrainingTask",
    "TrainingTeam",
    "Weights",
    "available_cores",
    "train_client",
]
