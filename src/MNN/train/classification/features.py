"""Features of pictures that a network finds once, for a last layer to be trained on."""

from __future__ import annotations

import numpy as np

from MNN.data.dataset import Dataset, Example, Rows
from MNN.model import relax
from MNN.nn.module import Module
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.train.export import inference_graph

BATCH = 8
"""Pictures that are run at once."""


class Found(Rows):
    """What a network gives for every sample of a dataset, computed by the inference engine."""

    def __init__(self, session: Session, data: Dataset) -> None:
        arrays, targets = [], []
        for begin in range(0, len(data), BATCH):
            examples = [data[i] for i in range(begin, min(begin + BATCH, len(data)))]
            images = np.stack([np.asarray(e[0][0]) for e in examples])
            (found,) = session.run({next(iter(session.inputs)): images}).values()
            arrays.append(found)
            targets += [e[1][0] for e in examples]
        self.features, self.targets = np.concatenate(arrays), np.asarray(targets)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> Example:
        return [self.features[index]], [self.targets[index]]

    def rows(self, numbers: np.ndarray) -> Example:
        """Several samples at once."""
        return [self.features[numbers]], [self.targets[numbers]]


def session_of(module: Module, shape: tuple[int, int, int], threads: int, precision: str) -> Session:
    """A module as inference runs it, for batches of any size."""
    session = Session(inference_graph(module, [[BATCH, *shape]]), Config(threads=threads, precision=precision))
    relax(session)
    return session


__all__ = ["Found", "session_of"]
