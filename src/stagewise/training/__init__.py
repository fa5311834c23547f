"""Hierarchical federated training (Eqs. 1-3); needs PyTorch."""

from stagewise.outcomes import TrainingFigures as TrainingFigures
from stagewise.training.client import train_client as train_client
from stagewise.training.task import Evaluation as Evaluation
from stagewise.training.task import Loss as Loss
from stagewise.training.task import TrainingTask as TrainingTask
from stagewise.training.trainer import Trainer as Trainer
