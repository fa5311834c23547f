"""Eqs. 2 and 3 over the models that arrived: one code, whoever carries the messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stagewise.errors import StagewiseError

if TYPE_CHECKING:
    from stagewise.training import Weights


def mean_model(models: Sequence[Weights], data: Sequence[int]) -> Weights:
    """The mean of `models` by the samples behind each, summed in their order.

    Whole-number arrays (batch counters) take the largest. Data must be above 0.
    """
    if not models:
        raise StagewiseError("models = []: there must be at least one to take the mean of")
    total = sum(data)
    shares = [samples / total for samples in data]
    mean: Weights = {}
    for name, first in models[0].items():
        if np.issubdtype(first.dtype, np.floating):
            summed = np.zeros(first.shape)
            for model, share in zip(models, shares, strict=True):
                summed += share * model[name]
            mean[name] = summed.astype(first.dtype)
        else:
            mean[name] = np.maximum.reduce([model[name] for model in models])
    return mean


def fault(update: Weights, like: Weights) -> str:
    """Why `update` is no model in the form of `like`; empty if it is one."""
    missing = sorted(like.keys() - update.keys())
    if missing:
        return f"{missing[0]} is missing"
    extra = sorted(update.keys() - like.keys())
    if extra:
        return f"{extra[0]} is not part of the model"
    for name, expected in like.items():
        array = update[name]
        if array.shape != expected.shape:
            return f"{name} has the shape {array.shape}: must be {expected.shape}"
        if array.dtype != expected.dtype:
            return f"{name} is of {array.dtype}: must be {expected.dtype}"
        if not np.all(np.isfinite(array)):
            return f"{name} has numbers that are not finite"
    return ""
