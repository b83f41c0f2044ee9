"""Numbers that are told besides the loss: functions of predictions and targets, as arrays, to the sum over samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.nn.settings import shown

Metric = Callable[[np.ndarray, np.ndarray], float]
"""Predictions and targets of a batch to a mean over its samples."""


def accuracy(predictions: np.ndarray, targets: np.ndarray) -> float:
    """The share of samples whose largest prediction is the target (a class, or one-hot)."""
    found = predictions.argmax(-1)
    wanted = targets.argmax(-1) if targets.shape == predictions.shape and targets.ndim > found.ndim else targets
    return float((found == wanted.reshape(found.shape)).mean())


def mae(predictions: np.ndarray, targets: np.ndarray) -> float:
    """The mean absolute difference."""
    return float(np.abs(predictions - targets).mean())


_KNOWN: dict[str, Metric] = {"accuracy": accuracy, "mae": mae}


def metrics_of(given: Sequence[str] | Mapping[str, Metric]) -> dict[str, Metric]:
    """Metrics by name. Raises :class:`MNNError` for names that are not known."""
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, (list, tuple)):
        raise MNNError(f"metrics are a list of names or a dict of functions, found {shown(given)}")
    if unknown := [n for n in given if not isinstance(n, str) or n not in _KNOWN]:
        raise MNNError(f"the metric '{unknown[0]}' is not known; it is one of {', '.join(_KNOWN)}, or a function")
    return {n: _KNOWN[n] for n in given}


def value_of(name: str, metric: Metric, predictions: np.ndarray, targets: np.ndarray) -> float:
    """What a metric gives. Raises :class:`MNNError` where that is no number."""
    found = metric(predictions, targets)
    if np.ndim(found) or not isinstance(found, (int, float, np.generic, np.ndarray)):
        raise MNNError(f"the metric '{name}' must give one number, it gives {type(found).__name__}")
    return float(found)


__all__ = ["Metric", "accuracy", "mae", "metrics_of", "value_of"]
