"""Trains a model on data, epoch by epoch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from MNN.data.dataset import ArrayDataset, Dataset
from MNN.data.loader import Batch, DataLoader
from MNN.errors import MNNError
from MNN.expr.var import Var
from MNN.formatting import plural
from MNN.nn.module import Module, in_mode, set_parameters
from MNN.nn.settings import count, not_negative, truth
from MNN.optim.methods import ADAM
from MNN.optim.optimizer import Optimizer
from MNN.optim.schedules import Schedule
from MNN.train import checkpoint as checkpoints
from MNN.train.history import Begun, Epoch, History
from MNN.train.interruption import Interruption
from MNN.train.metrics import Metric, metrics_of, value_of
from MNN.train.step import Steps
from MNN.train.telling import Telling

Loss = Callable[[Var, Var], Var]
_EXAMPLES = {"loss": "nn.loss.mse", "schedule": "train.schedules.cosine(0.01, 1000)"}


def fit(
    model: Module,
    data: Any,
    epochs: int = 1,
    *,
    loss: Loss | None = None,
    optimizer: Optimizer | None = None,
    batch_size: int = 32,
    validation: Any = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
    schedule: Schedule | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    patience: int = 0,
    seed: int = 0,
    threads: int | None = None,
    precision: str | None = None,
    progress: bool = True,
    keep_best: bool = False,
    settings: Mapping[str, object] | None = None,
) -> History:
    """Trains ``model`` in place and says what happened. Layers that were switched to inference (``train(False)``) in a
    model that is in training mode stay so.

    ``data``: a :class:`~MNN.data.DataLoader`, a :class:`~MNN.data.Dataset`, or arrays ``(inputs, targets)``; so is
    ``validation``, of which loss and metrics are told after every epoch. ``loss`` takes what the model gives and the
    targets; by default cross entropy of logits for whole numbers and the squared error for floats. ``optimizer``: by
    default ADAM. ``schedule``: from the number of a step to the learning rate. ``checkpoint``: a file that is written
    after every epoch, and that training goes on from exactly where there is one; what was there stays until the new one
    is whole. ``patience``: ends when the validation's loss (without one: the loss) has not improved for so many epochs.
    ``precision``: that of the optimizer, unless None: ``high``, ``normal``, or ``low`` (activations and gradients in
    bf16, parameters and sums in fp32). ``keep_best``: at the end the parameters are those of the epoch with the least
    loss of the validation. ``settings``: what else the numbers depend on, by name (texts, numbers, lists): a checkpoint
    of other settings is refused. Ctrl-C ends it after the step that is under way, writes the checkpoint, and is
    raised again; where data fail, the checkpoint is written, too, before the error is raised.

    Raises :class:`MNNError` for data that do not fit, a loss that is no number, or one that is infinite or NaN.
    """
    if not isinstance(model, Module):
        raise MNNError(f"fit() trains a Module, found {type(model).__name__}")
    if checkpoint is not None and not isinstance(checkpoint, (str, os.PathLike)):
        raise MNNError(f"checkpoint is the path of a file, found {checkpoint!r}")
    for name, number in (("epochs", epochs), ("patience", patience)):
        not_negative(name, count(name, number))
    for name, given in (("loss", loss), ("schedule", schedule)):
        if given is not None and not callable(given):
            raise MNNError(f"{name} is a function, such as MNN.{_EXAMPLES[name]}, found {given!r}")
    checkpoints.text_of(settings)
    loader = _loader(data, batch_size, True, seed)
    own = ADAM(model, 1e-3, threads=threads) if optimizer is None else optimizer
    if not isinstance(own, Optimizer):
        raise MNNError(f"optimizer is made beforehand, such as MNN.optim.SGD(model, 0.1), found {own!r}")
    if own.module is not model:
        raise MNNError("the optimizer trains another module than the one that is given")
    keep_best = truth("keep_best", keep_best)
    if precision is not None:
        own.precision = precision
    found, best = History(), dict[str, np.ndarray]()
    if checkpoint is not None and Path(checkpoint).exists():
        found, loader.seed, best = checkpoints.read(checkpoint, model, own, settings)
        _check_begun(found.begun, loader, checkpoint)

    def save(begun: Begun | None = None) -> None:
        if checkpoint is not None:
            checkpoints.write(checkpoint, model, own, replace(found, begun=begun), loader.seed, best, settings)

    loader.epoch = len(found.epochs) - 1
    check = None if validation is None else _loader(validation, batch_size, False, seed)
    steps, looks = Steps(model, own, loss), Steps(model, None, loss)
    telling = Telling(progress)
    if not model.is_training:  # otherwise the layers that are not trained were left out on purpose
        model.train(True)
    stopped = _stale(found, patience)
    with Interruption() as interruption:
        while len(found.epochs) < epochs and not stopped:
            number, clock = len(found.epochs) + 1, time.perf_counter()
            wanted = None if metrics is None else metrics_of(metrics)
            begun, found.begun = found.begun or Begun(batch_size=loader.batch_size, size=loader.size), None
            for inputs, targets in _batches(loader, begun, save):
                if schedule is not None:
                    own.learning_rate = not_negative("the schedule's rate", schedule(own.steps))
                value, predicted = steps.step(inputs, targets)
                target = targets[0].read()
                if wanted is None:
                    wanted = metrics_of(["accuracy"] if target.dtype.kind in "iu" and loss is None else [])
                told = {n: value_of(n, metric, predicted, target) for n, metric in wanted.items()}
                _add(begun, len(predicted), value, told)
                telling.batch(number, epochs, begun.batches, len(loader), begun.loss / begun.samples)
                if interruption.came and begun.batches < len(loader):
                    loader.stop()
                    save(begun)
                    raise KeyboardInterrupt
            means = {name: total / begun.samples for name, total in begun.metrics.items()}
            checked = {} if check is None else _means(model, looks, check, wanted or {})
            seconds = time.perf_counter() - clock
            found.losses += begun.losses
            epoch = Epoch(number, begun.loss / begun.samples, means, checked, seconds, own.learning_rate)
            found.epochs.append(epoch)
            telling.epoch(str(epoch))
            if keep_best and found.best is epoch:
                best = checkpoints.numbers(model)
            save()
            if interruption.came:
                raise KeyboardInterrupt
            stopped = _stale(found, patience)
    found.stopped = stopped
    if keep_best and best:
        set_parameters(model, best, "the best epoch")
    return found


def evaluate(
    model: Module,
    data: Any,
    *,
    loss: Loss | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] = ("accuracy",),
    batch_size: int = 32,
) -> dict[str, float]:
    """The means over data of the loss and the metrics, in inference mode."""
    if not isinstance(model, Module):
        raise MNNError(f"evaluate() takes a Module, found {type(model).__name__}")
    return _means(model, Steps(model, None, loss), _loader(data, batch_size, False, 0), metrics_of(metrics))


def _means(model: Module, steps: Steps, loader: DataLoader, wanted: Mapping[str, Metric]) -> dict[str, float]:
    sums: dict[str, float] = {}
    seen = 0
    with in_mode(model, False):
        steps.begin()
        for inputs, targets in loader:
            value, predicted = steps.look(inputs, targets)
            count, target = int(inputs[0].shape[0]), targets[0].read()
            seen += count
            sums["loss"] = sums.get("loss", 0.0) + count * value
            for name, metric in wanted.items():
                sums[name] = sums.get(name, 0.0) + count * value_of(name, metric, predicted, target)
    return {name: s / seen for name, s in sums.items()}


def _batches(loader: DataLoader, begun: Begun, save: Callable[[Begun], None]) -> Iterator[Batch]:
    """The rest of an epoch. What was trained until a batch cannot be had is saved."""
    try:
        yield from loader.rest(begun.batches)
    except MNNError:
        loader.stop()
        if begun.batches:
            save(begun)
        raise


def _check_begun(begun: Begun | None, loader: DataLoader, where: str | os.PathLike[str]) -> None:
    """Raises :class:`MNNError` where the rest of an epoch that was interrupted would be other samples."""
    if begun is not None and begun.size and (begun.batch_size, begun.size) != (loader.batch_size, loader.size):
        raise MNNError(
            f"{os.fspath(where)} is of an epoch of {plural(begun.size, 'sample')} in batches of {begun.batch_size} "
            f"that was interrupted, now there are {loader.size} in batches of {loader.batch_size}: go on with what it "
            "was, or begin anew without the checkpoint"
        )


def _add(begun: Begun, count: int, loss: float, metrics: Mapping[str, float]) -> None:
    """Another batch."""
    begun.batches += 1
    begun.samples += count
    begun.loss += count * loss
    begun.losses.append(loss)
    for name, value in metrics.items():
        begun.metrics[name] = begun.metrics.get(name, 0.0) + count * value


def _stale(found: History, patience: int) -> str:
    """Why to stop, if to."""
    if not patience or found.best is None:
        return ""
    waited = len(found.epochs) - found.best.epoch
    return f"the loss has not improved for {waited} epochs" if waited >= patience else ""


def _loader(data: Any, batch_size: int, shuffle: bool, seed: int) -> DataLoader:
    if isinstance(data, DataLoader):
        return data
    if isinstance(data, Dataset):
        return DataLoader(data, batch_size, shuffle, seed=seed)
    if isinstance(data, tuple) and len(data) == 2:
        return DataLoader(ArrayDataset(*data), batch_size, shuffle, seed=seed)
    raise MNNError(f"data are a DataLoader, a Dataset or arrays (inputs, targets), found {type(data).__name__}")


__all__ = ["evaluate", "fit"]
