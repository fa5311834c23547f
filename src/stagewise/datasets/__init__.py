"""Data sets for training: reading them in the layouts people have, and dealing them to clients."""

from stagewise.datasets.catalogue import Finding, available, load_dataset
from stagewise.datasets.dataset import Dataset
from stagewise.datasets.partitioning import Partition, partition

__all__ = ["Dataset", "Finding", "Partition", "available", "load_dataset", "partition"]
