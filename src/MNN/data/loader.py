"""Batches of a dataset, made in threads ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from MNN.data.dataset import Dataset, Rows
from MNN.errors import MNNError, ShapeError
from MNN.expr import build, compute
from MNN.expr.types import NCHW, data_format
from MNN.expr.var import Var

Batch = tuple[list[Var], list[Var]]
AHEAD = 2
"""Batches that every worker makes before they are asked for."""


class DataLoader:
    """Batches of ``batch_size`` samples in order, or, with ``shuffle``, in another order every time that it is reset.
    The last batch may be smaller. ``num_workers`` threads make batches ahead; numpy and image functions run in them
    side by side. ``seed``: the orders are the same every time.

    Iterating begins anew; :meth:`next` and :attr:`iter_number` are PyMNN's way.
    """

    def __init__(
        self, dataset: Dataset, batch_size: int, shuffle: bool = True, num_workers: int = 0, seed: int | None = None
    ) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise MNNError(f"a DataLoader takes a Dataset, found {type(dataset).__name__}")
        if batch_size < 1 or num_workers < 0:
            raise MNNError(
                f"batch_size must be positive and num_workers not negative, found {batch_size}, {num_workers}"
            )
        self.dataset, self.batch_size, self.shuffle = dataset, int(batch_size), bool(shuffle)
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)
        self.epoch = -1
        """How often it has begun anew, from 0 on: with the seed it decides the order."""
        self._pool = ThreadPoolExecutor(num_workers, "data") if num_workers else None
        self._ahead = AHEAD * num_workers
        self._waiting: deque[Future[Batch]] = deque()
        self._order = np.zeros(0, np.int64)
        self._begun = 0
        if not len(dataset):
            raise MNNError("the dataset is empty")

    @property
    def size(self) -> int:
        """Samples."""
        return len(self.dataset)

    @property
    def iter_number(self) -> int:
        """Batches."""
        return -(-self.size // self.batch_size)

    def __len__(self) -> int:
        return self.iter_number

    def reset(self) -> None:
        """Begins anew."""
        for future in self._waiting:
            future.cancel()
        self._waiting.clear()
        self.epoch += 1
        self._begun = 0
        self._order = np.arange(self.size)
        if isinstance(self.dataset, Dataset):
            self.dataset.begin_pass(self.epoch)
        if self.shuffle:
            np.random.default_rng([self.seed, self.epoch]).shuffle(self._order)

    def next(self) -> Batch:
        """The next batch: inputs, and targets. Behind the last one it begins anew."""
        if self._begun >= len(self._order) and not self._waiting:
            self.reset()
        if self._pool is None:
            return self._make(self._numbers())
        while len(self._waiting) < self._ahead and self._begun < len(self._order):
            self._waiting.append(self._pool.submit(self._make, self._numbers()))
        return self._waiting.popleft().result()

    def _numbers(self) -> np.ndarray:
        found = self._order[self._begun : self._begun + self.batch_size]
        self._begun += self.batch_size
        return found

    def rest(self, done: int) -> Iterator[Batch]:
        """The batches behind the first ``done`` ones, beginning anew."""
        self.reset()
        self._begun = done * self.batch_size
        for _ in range(self.iter_number - done):
            yield self.next()

    def __iter__(self) -> Iterator[Batch]:
        return self.rest(0)

    def _make(self, numbers: np.ndarray) -> Batch:
        if isinstance(self.dataset, Rows):
            inputs, targets = self.dataset.rows(numbers)
            return [_leaf(a) for a in inputs], [_leaf(a) for a in targets]
        examples = []
        for number in numbers:
            try:
                found = self.dataset[int(number)]
            except MNNError:
                raise
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise MNNError(f"sample {number} of the dataset cannot be had ({what})") from error
            if not isinstance(found, (list, tuple)) or len(found) != 2:
                raise MNNError(f"sample {number} of the dataset is not ([inputs], [targets])")
            examples.append(found)
        inputs, targets = ([_stack(column) for column in zip(*[e[k] for e in examples], strict=True)] for k in (0, 1))
        return inputs, targets


def _stack(column: Sequence[object]) -> Var:
    """A batch, which lists its sizes as the samples do where they are Vars."""
    arrays = [v._array() if isinstance(v, Var) else np.asarray(v) for v in column]
    if any(a.shape != arrays[0].shape for a in arrays):
        raise ShapeError(f"samples of one batch have different shapes: {sorted({a.shape for a in arrays})}")
    return _leaf(np.stack(arrays), column[0].data_format if isinstance(column[0], Var) else NCHW)


def _leaf(array: np.ndarray, layout: data_format = NCHW) -> Var:
    return build.leaf(np.ascontiguousarray(compute.as_array(array, "a sample")), layout)


__all__ = ["Batch", "DataLoader"]
