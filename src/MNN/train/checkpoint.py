"""All that training depends on, in one file: parameters, moments, counts, the order of the data, what has happened."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from MNN.errors import MNNError
from MNN.nn.files import read_arrays, write_arrays
from MNN.nn.module import Module, set_parameters
from MNN.optim.optimizer import Optimizer
from MNN.train.history import History


def write(path: str | os.PathLike[str], model: Module, optimizer: Optimizer, history: History, seed: int) -> None:
    """Writes a checkpoint at the end of an epoch, whole or not at all."""
    arrays = {f"model/{n}": v.read() for n, v in model.named_parameters().items()}
    arrays |= {f"optimizer/{n}": a for n, a in optimizer.state().items()}
    arrays["kind"] = np.frombuffer(type(optimizer).__name__.encode(), np.uint8)
    arrays["history"] = np.frombuffer(history.text().encode(), np.uint8)
    arrays["seed"] = np.asarray(seed)
    write_arrays(path, arrays)


def read(path: str | os.PathLike[str], model: Module, optimizer: Optimizer) -> tuple[History, int]:
    """Goes on from a checkpoint: what has happened until then, and the seed of the data's order. Raises
    :class:`MNNError` for one of another model or optimizer, before anything is changed."""
    arrays = read_arrays(path)
    where = os.fspath(Path(path))
    if not {"kind", "history", "seed"} <= set(arrays):
        raise MNNError(f"{where} is no checkpoint of training")
    kind = arrays["kind"].tobytes().decode()
    if kind != type(optimizer).__name__:
        raise MNNError(f"{where} is of the optimizer {kind}, this one is {type(optimizer).__name__}")
    parts = {
        key: {n.removeprefix(key): a for n, a in arrays.items() if n.startswith(key)}
        for key in ("model/", "optimizer/")
    }
    set_parameters(model, parts["model/"], where)
    optimizer.load_state(parts["optimizer/"])
    return History.of(arrays["history"].tobytes().decode()), int(arrays["seed"])


__all__ = ["read", "write"]
