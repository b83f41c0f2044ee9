"""What there is to train on, by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from MNN.errors import MNNError, ShapeError, UndefinedError

Example = tuple[Sequence[Any], Sequence[Any]]
"""Inputs and targets of one sample: Vars or arrays."""


class Dataset:
    """Base of datasets: subclasses define ``__len__`` and ``__getitem__``, which gives ``[inputs], [targets]`` of a
    sample."""

    def __getitem__(self, index: int) -> Example:
        raise UndefinedError(f"{type(self).__name__} does not define __getitem__()")

    def __len__(self) -> int:
        raise UndefinedError(f"{type(self).__name__} does not define __len__()")

    def begin_pass(self, number: int) -> None:
        """Called before every pass over the data with its number, from 0 on: for those that draw numbers."""


class Rows(Dataset):
    """A dataset that gives several samples at once."""

    def rows(self, numbers: np.ndarray) -> Example:
        """Inputs and targets of these samples, each an array with a row for each of them."""
        raise UndefinedError(f"{type(self).__name__} does not define rows()")


class ArrayDataset(Rows):
    """Rows of arrays: inputs and targets, one array each or several."""

    def __init__(self, inputs: Any, targets: Any) -> None:
        self.inputs, self.targets = (_arrays(v) for v in (inputs, targets))
        sizes = {len(a) for a in (*self.inputs, *self.targets)}
        if len(sizes) != 1:
            raise ShapeError(f"inputs and targets have {sorted(sizes)} rows, and must have as many")

    def __getitem__(self, index: int) -> Example:
        return [a[index] for a in self.inputs], [a[index] for a in self.targets]

    def __len__(self) -> int:
        return len(self.inputs[0])

    def rows(self, numbers: np.ndarray) -> Example:
        """Several samples at once."""
        return [a[numbers] for a in self.inputs], [a[numbers] for a in self.targets]


def _arrays(value: Any) -> list[np.ndarray]:
    found = [np.asarray(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
    if not found or any(a.ndim < 1 or a.dtype.kind not in "fiub" for a in found):
        raise MNNError("data for training are arrays of numbers, one row for each sample")
    return found


__all__ = ["ArrayDataset", "Dataset", "Example", "Rows"]
