"""Batches of a dataset, made in threads or processes ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor

import numpy as np

from MNN.data.dataset import Dataset
from MNN.data.processes import Workers, died
from MNN.data.samples import Parts, prepare
from MNN.errors import MNNError
from MNN.expr import build
from MNN.expr.types import data_format
from MNN.expr.var import Var
from MNN.formatting import plural
from MNN.nn import settings
from MNN.nn.settings import truth

Batch = tuple[list[Var], list[Var]]
AHEAD = 2
"""Batches that every worker makes before they are asked for."""


class DataLoader:
    """Batches of ``batch_size`` samples in order, or, with ``shuffle``, in another order every time that it is reset.
    The last batch may be smaller; ``drop_last`` leaves it out then. ``num_workers`` threads make batches ahead; numpy
    and image functions run in them side by side. With ``processes`` they are processes, for datasets of much Python
    code; the dataset is pickled for them, and the program's own file guarded by ``if __name__ == "__main__"``.
    ``seed``: the orders are the same every time.

    Iterating begins anew; :meth:`next` and :attr:`iter_number` are PyMNN's way.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        shuffle: bool = True,
        num_workers: int = 0,
        seed: int | None = None,
        processes: bool = False,
        drop_last: bool = False,
    ) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise MNNError(f"a DataLoader takes a Dataset, found {type(dataset).__name__}")
        counts = [isinstance(n, (int, np.integer)) for n in (batch_size, num_workers)]
        if not all(counts) or batch_size < 1 or num_workers < 0:
            raise MNNError(
                "batch_size must be a positive whole number and num_workers one that is not negative, found "
                f"{batch_size!r}, {num_workers!r}"
            )
        self.dataset, self.batch_size, self.shuffle = dataset, int(batch_size), truth("shuffle", shuffle)
        self.seed = (
            int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else settings.seed("a seed", seed)
        )
        self.epoch = -1
        """How often it has begun anew, from 0 on: with the seed it decides the order."""
        self._processes = int(num_workers) if processes else 0
        self._workers: Workers | None = None
        self._pool = ThreadPoolExecutor(num_workers, "data") if num_workers and not processes else None
        self._ahead = AHEAD * num_workers
        self._waiting: deque[tuple[Future[Parts], np.ndarray]] = deque()
        self._order = np.zeros(0, np.int64)
        self._begun = 0
        self.drop_last = truth("drop_last", drop_last)
        if not len(dataset):
            raise MNNError("the dataset is empty")
        if not len(self):
            raise MNNError(
                f"the dataset has {plural(len(dataset), 'sample')}, fewer than a batch of {self.batch_size}, and "
                "drop_last leaves out smaller ones: make batch_size smaller"
            )

    @property
    def size(self) -> int:
        """Samples."""
        return len(self.dataset)

    @property
    def iter_number(self) -> int:
        """Batches."""
        return self.size // self.batch_size if self.drop_last else -(-self.size // self.batch_size)

    def __len__(self) -> int:
        return self.iter_number

    def reset(self) -> None:
        """Begins anew."""
        self.stop()
        self.epoch += 1
        self._begun = 0
        self._order = np.arange(self.size)
        if isinstance(self.dataset, Dataset):
            self.dataset.begin_pass(self.epoch)
        if self.shuffle:
            np.random.default_rng([self.seed, self.epoch]).shuffle(self._order)
        self._order = self._order[: len(self) * self.batch_size]

    def stop(self) -> None:
        """Gives up the batches that are prepared ahead; the next one is the first of another pass."""
        for future, _ in self._waiting:
            future.cancel()
        self._waiting.clear()
        self._begun = len(self._order)

    def next(self) -> Batch:
        """The next batch: inputs, and targets. Behind the last one it begins anew."""
        if self._begun >= len(self._order) and not self._waiting:
            self.reset()
        if not self._ahead:
            return _vars(prepare(self.dataset, self._numbers()))
        while len(self._waiting) < self._ahead and self._begun < len(self._order):
            numbers = self._numbers()
            self._waiting.append((self._submit(numbers), numbers))
        return _vars(self._result(*self._waiting.popleft()))

    def _numbers(self) -> np.ndarray:
        found = self._order[self._begun : self._begun + self.batch_size]
        self._begun += self.batch_size
        return found

    def rest(self, done: int) -> Iterator[Batch]:
        """The batches behind the first ``done`` ones, beginning anew. Raises :class:`MNNError` where another pass has
        begun in between."""
        self.reset()
        self._begun, epoch = done * self.batch_size, self.epoch
        for _ in range(self.iter_number - done):
            if self.epoch != epoch:
                raise MNNError(
                    "another pass over this DataLoader has begun before this one was at its end: make a DataLoader for "
                    "each loop that runs at the same time"
                )
            yield self.next()

    def __iter__(self) -> Iterator[Batch]:
        return self.rest(0)

    def _submit(self, numbers: np.ndarray) -> Future[Parts]:
        if self._workers is None and self._processes:
            self._workers = Workers(self.dataset, self._processes)
        if self._workers is not None:
            return self._workers.submit(self.epoch, numbers)
        assert self._pool is not None
        return self._pool.submit(prepare, self.dataset, numbers)

    def _result(self, future: Future[Parts], numbers: np.ndarray) -> Parts:
        try:
            return future.result()
        except BrokenExecutor as error:
            self._waiting.clear()
            self._workers = None  # others begin with the next pass
            raise died(numbers) from error


def _vars(parts: Parts) -> Batch:
    inputs, targets = ([build.leaf(array, data_format[layout]) for array, layout in side] for side in parts)
    return inputs, targets


__all__ = ["Batch", "DataLoader"]
