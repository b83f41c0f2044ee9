"""Samples put together to batches, as plain arrays that threads and processes hand on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.data.dataset import Dataset, Example, Rows
from MNN.errors import MNNError, ShapeError
from MNN.expr import compute
from MNN.expr.types import NCHW
from MNN.expr.var import Var
from MNN.formatting import plural

Part = tuple[np.ndarray, str]
"""One input or target of a batch, and the name of the format in which it lists its sizes."""
Parts = tuple[list[Part], list[Part]]
"""Inputs and targets."""


def prepare(dataset: Dataset, numbers: np.ndarray) -> Parts:
    """A batch of the samples with these numbers. Raises :class:`MNNError` for one that cannot be had."""
    if isinstance(dataset, Rows):
        inputs, targets = dataset.rows(numbers)
        return [_part(a) for a in inputs], [_part(a) for a in targets]
    examples = []
    for number in numbers:
        try:
            found = dataset[int(number)]
        except MNNError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise MNNError(f"sample {number} of the dataset cannot be had ({what})") from error
        examples.append(_example(int(number), found))
    first = [len(side) for side in examples[0]]
    for number, example in zip(numbers, examples, strict=True):
        counts = [len(side) for side in example]
        if counts != first:
            raise MNNError(
                f"sample {number} of the dataset has {plural(counts[0], 'input')} and {plural(counts[1], 'target')}, "
                f"and sample {numbers[0]} has {first[0]} and {first[1]}: all must have as many"
            )
    inputs, targets = ([_stack(column) for column in zip(*[e[k] for e in examples], strict=True)] for k in (0, 1))
    return inputs, targets


def _example(number: int, found: object) -> Example:
    """What the dataset gave for a sample, if it is one."""
    if isinstance(found, (list, tuple)) and len(found) == 2:
        inputs, targets = found
        if isinstance(inputs, (list, tuple)) and isinstance(targets, (list, tuple)):
            return inputs, targets
        what = ", ".join(type(side).__name__ for side in found)
        raise MNNError(
            f"sample {number} of the dataset is ({what}), not ([inputs], [targets]): give lists, also of a single one"
        )
    raise MNNError(f"sample {number} of the dataset is not ([inputs], [targets])")


def _stack(column: Sequence[object]) -> Part:
    """A part of a batch, which lists its sizes as the samples do where they are Vars."""
    arrays = [v._array() if isinstance(v, Var) else _numbers(v) for v in column]
    if any(a.shape != arrays[0].shape for a in arrays):
        raise ShapeError(f"samples of one batch have different shapes: {sorted({a.shape for a in arrays})}")
    layout = column[0].data_format if isinstance(column[0], Var) else NCHW
    return _part(np.stack(arrays), layout.name)


def _numbers(value: object) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else compute.as_array(value, "a sample")


def _part(array: np.ndarray, layout: str = NCHW.name) -> Part:
    return np.ascontiguousarray(compute.as_array(array, "a sample")), layout


__all__ = ["Part", "Parts", "prepare"]
