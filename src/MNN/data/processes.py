"""Processes that prepare batches: for datasets whose Python code takes longer than the steps."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor

import numpy as np

from MNN.data.dataset import Dataset
from MNN.data.samples import Parts, prepare
from MNN.errors import MNNError

_here: list[Dataset] = []
"""In a worker: the dataset."""
_passes: list[int] = []
"""In a worker: the pass that the dataset was told of."""


class Workers:
    """Fresh processes (no copies of this one, whose threads hold locks), each with a copy of the dataset."""

    def __init__(self, dataset: Dataset, count: int) -> None:
        try:
            packed = pickle.dumps(dataset)
        except Exception as error:
            raise MNNError(
                f"the dataset cannot be sent to worker processes ({type(error).__name__}: {error}); define its class "
                "at the top of a module, and open files in __getitem__, or leave processes=False"
            ) from error
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(count, context, _begin, (packed,))

    def submit(self, epoch: int, numbers: np.ndarray) -> Future[Parts]:
        """Has a batch prepared."""
        try:
            return self._pool.submit(_work, epoch, numbers)
        except BrokenExecutor as error:
            raise died(numbers) from error


def died(numbers: np.ndarray) -> MNNError:
    """What is said of a worker that is gone."""
    first, last = int(numbers.min()), int(numbers.max())
    return MNNError(
        f"a data worker process died while samples {first} to {last} were prepared, without a word: was it killed, out "
        "of memory, or is the program not guarded by if __name__ == '__main__'? With num_workers=0 there are none"
    )


def _begin(packed: bytes) -> None:
    _here[:] = [pickle.loads(packed)]


def _work(epoch: int, numbers: np.ndarray) -> Parts:
    (dataset,) = _here
    if _passes != [epoch] and isinstance(dataset, Dataset):
        dataset.begin_pass(epoch)
        _passes[:] = [epoch]
    return prepare(dataset, numbers)


__all__ = ["Workers", "died"]
