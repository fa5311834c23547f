"""Eqs. 2 and 3 over the models that arrived: one code, whoever carries the messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stagewise.errors import StagewiseError
from stagewise.robust.norms import TOO_LARGE
from stagewise.robust.rules import Aggregator, combine, is_mean
from stagewise.world.scenario import BoolArray

if TYPE_CHECKING:
    from stagewise.model_weights import ModelWeights

_STATISTICS = ("running_mean", "running_var")  # as PyTorch names them


def mean_model(models: Sequence[ModelWeights], data: Sequence[float]) -> ModelWeights:
    """The mean of `models` by the samples behind each, summed in their order.

    Whole-number arrays (batch counters) take the largest. The sum of the data must be above 0.
    """
    if not models:
        raise StagewiseError("models = []: there must be at least one to take the mean of")
    total = sum(data)
    shares = [samples / total for samples in data]
    mean: ModelWeights = {}
    for name, first in models[0].items():
        if np.issubdtype(first.dtype, np.floating):
            summed = np.zeros(first.shape)
            for model, share in zip(models, shares, strict=True):
                summed += share * model[name]
            mean[name] = summed.astype(first.dtype)
        else:
            mean[name] = np.maximum.reduce([model[name] for model in models])
    return mean


def combined_model(
    models: Sequence[ModelWeights], data: Sequence[float], aggregator: Aggregator
) -> tuple[ModelWeights, BoolArray]:
    """One model from several by a rule, and which of them are in it; by the mean, all are."""
    if is_mean(aggregator):
        return mean_model(models, data), np.ones(len(models), np.bool_)
    names = [name for name, part in models[0].items() if np.issubdtype(part.dtype, np.floating)]
    vectors = np.stack([np.concatenate([m[name].ravel() for name in names]) for m in models])
    combined, kept = combine(vectors, np.asarray(data, np.float64), aggregator)
    chosen = [model for model, is_kept in zip(models, kept, strict=True) if is_kept]
    model, start = mean_model(chosen, [1.0] * len(chosen)), 0
    for name in names:
        part = model[name]
        model[name] = combined[start : start + part.size].reshape(part.shape).astype(part.dtype)
        start += part.size
    return model, kept


def cloud_model(
    before: ModelWeights,
    edges: Iterable[tuple[str, ModelWeights | None, int]],
    edge_weights: Mapping[str, float] | None = None,
    aggregator: Aggregator = "mean",
) -> tuple[ModelWeights, list[str]]:
    """The mean of the edges' models by their data (Eq. 3), each times the weight of its edge.

    `edges` are the id, the model and its samples. The model `before` stays where nothing counts.
    Another aggregator may leave edges out: they are named.
    """
    counted = [(edge, model, data) for edge, model, data in edges if model is not None and data]
    weights = [1.0 if edge_weights is None else edge_weights[edge] for edge, _, _ in counted]
    if max(weights, default=0.0) == 0:
        return before, []
    shares = weighted_data([data for _, _, data in counted], weights)
    model, kept = combined_model([model for _, model, _ in counted], shares, aggregator)
    return model, [edge for (edge, _, _), is_kept in zip(counted, kept, strict=True) if not is_kept]


def weighted_data(data: Sequence[int], weights: Sequence[float]) -> list[float]:
    """Samples times weights, of which one is above 0, up to a common factor.

    Only the proportions matter; relative to the largest weight no product is too large to represent.
    """
    largest = max(weights)
    return [weight / largest * samples for weight, samples in zip(weights, data, strict=True)]


def update_norm(before: ModelWeights, after: ModelWeights) -> float:
    """The Euclidean norm of the change of all parameters, or `TOO_LARGE`.

    The running statistics of normalisation layers are no parameters.
    """
    with np.errstate(over="ignore"):
        norms = [
            np.linalg.norm((after[name].astype(np.float64) - array).ravel())
            for name, array in before.items()
            if np.issubdtype(array.dtype, np.floating) and not name.endswith(_STATISTICS)
        ]
        norm = float(np.linalg.norm(norms))
    return min(norm, TOO_LARGE)


def model_fault(model: ModelWeights | None, like: ModelWeights) -> str:
    """Why `model` is none in the form of `like`; empty if it is one."""
    if model is None:
        return "no model"
    missing = sorted(like.keys() - model.keys())
    if missing:
        return f"{missing[0]} is missing"
    extra = sorted(model.keys() - like.keys())
    if extra:
        return f"{extra[0]} is not part of the model"
    for name, expected in like.items():
        array = model[name]
        if array.shape != expected.shape:
            return f"{name} has the shape {array.shape}: must be {expected.shape}"
        if array.dtype != expected.dtype:
            return f"{name} is of {array.dtype}: must be {expected.dtype}"
        if not np.all(np.isfinite(array)):
            return f"{name} has numbers that are not finite"
    return ""
