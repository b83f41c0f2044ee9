"""Processes that prepare batches: for datasets whose Python code takes longer than the steps."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor

import numpy as np

from MNN.data.dataset import Dataset
from MNN.data.samples import Parts, prepare
from MNN.errors import MNNError

_here: list[Dataset] = []
"""In a worker: the dataset."""
_failed: list[str] = []
"""In a worker: why it has none."""
_passes: list[int] = []
"""In a worker: the pass that the dataset was told of."""
SAID = 6
"""Numbers of samples that a message lists."""


class Workers:
    """Fresh processes (no copies of this one, whose threads hold locks), each with a copy of the dataset. Ctrl-C, which
    a terminal sends to all processes of a program, is for this one alone: it says when they end."""

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
            with _without_interruptions():  # it may start a process, which has them as they are here
                return self._pool.submit(_work, epoch, numbers)
        except BrokenExecutor as error:
            raise died(numbers) from error


def died(numbers: np.ndarray) -> MNNError:
    """What is said of a worker that is gone."""
    listed = ", ".join(str(n) for n in numbers[:SAID]) + (", ..." if len(numbers) > SAID else "")
    return MNNError(
        f"a data worker process died without a word while batches were prepared, the first one of samples {listed}: "
        "was it killed, out of memory, or is the program not guarded by if __name__ == '__main__'? With num_workers=0 "
        "there are none"
    )


@contextlib.contextmanager
def _without_interruptions() -> Iterator[None]:
    """Ctrl-C waits until the block's end, where the system can have it wait."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(packed: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _here[:] = [pickle.loads(packed)]
    except Exception as error:  # noqa: BLE001 - told with each batch: raised here it would only be printed
        _failed[:] = [f"{type(error).__name__}: {error}"]


def _end_with_parent() -> None:
    """A worker waits for batches to prepare, and would for ever when the program is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(epoch: int, numbers: np.ndarray) -> Parts:
    if _failed:
        raise MNNError(
            f"a worker process cannot load the dataset ({_failed[0]}); define its class at the top of a module that "
            "can be imported, or leave processes=False"
        )
    (dataset,) = _here
    try:
        if _passes != [epoch] and isinstance(dataset, Dataset):
            dataset.begin_pass(epoch)
            _passes[:] = [epoch]
        return prepare(dataset, numbers)
    except MNNError as error:
        raise _plain(error) from None
    except BaseException as error:  # noqa: BLE001 - the user's begin_pass(), or sys.exit(), which would end the program
        raise MNNError(f"the dataset failed in a worker process ({type(error).__name__}: {error})") from None


def _plain(error: MNNError) -> MNNError:
    """The error, or one with its words where it cannot be sent to another process."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception:  # noqa: BLE001 - whatever the user's class needs
        pass
    return MNNError(str(error))


__all__ = ["Workers", "died"]
