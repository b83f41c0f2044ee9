"""Numbers that are told besides the loss: functions of predictions and targets, as arrays, to the sum over samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from MNN.errors import MNNError, ShapeError
from MNN.nn.settings import shown

Metric = Callable[[np.ndarray, np.ndarray], float]
"""Predictions and targets of a batch to a mean over its samples."""


def accuracy(predictions: np.ndarray, targets: np.ndarray) -> float:
    """The share of samples whose largest prediction is the target (a class, or one-hot). Raises :class:`ShapeError`
    for anything else."""
    classes = predictions.shape[-1] if predictions.ndim else 0
    one_hot = targets.shape == predictions.shape and targets.ndim > 1
    if classes < 2 or (not one_hot and targets.size * classes != predictions.size):
        raise ShapeError(
            "the metric 'accuracy' takes scores [..., classes] of two classes or more, and labels [...] or one-hot "
            f"ones, found {list(predictions.shape)} and {list(targets.shape)}; give a function instead"
        )
    found = predictions.argmax(-1)
    return float((found == (targets.argmax(-1) if one_hot else targets.reshape(found.shape))).mean())


def mae(predictions: np.ndarray, targets: np.ndarray) -> float:
    """The mean absolute difference. Raises :class:`ShapeError` where there are more of one than of the other."""
    if predictions.size != targets.size:
        raise ShapeError(
            "the metric 'mae' takes as many predictions as targets, found "
            f"{list(predictions.shape)} and {list(targets.shape)}; give a function instead"
        )
    return float(np.abs(predictions - targets.reshape(predictions.shape)).mean())


_KNOWN: dict[str, Metric] = {"accuracy": accuracy, "mae": mae}


def metrics_of(given: Sequence[str] | Mapping[str, Metric]) -> dict[str, Metric]:
    """Metrics by name. Raises :class:`MNNError` for names that are not known."""
    if isinstance(given, Mapping) and all(callable(metric) for metric in given.values()):
        return dict(given)
    if not isinstance(given, (list, tuple)) or not all(isinstance(n, str) for n in given):
        raise MNNError(f"metrics are a list of names or a dict of functions, found {shown(given)}")
    if unknown := [n for n in given if n not in _KNOWN]:
        raise MNNError(f"the metric '{unknown[0]}' is not known; it is one of {', '.join(_KNOWN)}, or a function")
    return {n: _KNOWN[n] for n in given}


def value_of(name: str, metric: Metric, predictions: np.ndarray, targets: np.ndarray) -> float:
    """What a metric gives. Raises :class:`MNNError` where that is no number."""
    found = metric(predictions, targets)
    if np.ndim(found) or not isinstance(found, (int, float, np.generic, np.ndarray)):
        raise MNNError(f"the metric '{name}' must give one number, it gives {type(found).__name__}")
    return float(found)


__all__ = ["Metric", "accuracy", "mae", "metrics_of", "value_of"]
