"""All that training depends on, in one file: parameters, moments, counts, the order of the data, what has happened."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from MNN.errors import MNNError
from MNN.nn import settings as settings_of
from MNN.nn.layers import Dropout
from MNN.nn.module import Module, check_parameters, inside, set_parameters
from MNN.nn.settings import shown
from MNN.optim.optimizer import Optimizer
from MNN.schema.arrays import read_arrays, write_arrays
from MNN.train.history import History

_NONE = np.zeros(0, np.int64)


def write(
    path: str | os.PathLike[str],
    model: Module,
    optimizer: Optimizer,
    history: History,
    seed: int,
    best: Mapping[str, np.ndarray] | None = None,
    settings: Mapping[str, object] | None = None,
) -> None:
    """Writes a checkpoint at the end of an epoch, whole or not at all. ``best``: the parameters of the best epoch;
    ``settings``: what else the numbers depend on."""
    arrays = {f"model/{n}": a for n, a in numbers(model).items()}
    arrays |= {f"best/{n}": a for n, a in (best or {}).items()}
    arrays |= {f"optimizer/{n}": a for n, a in optimizer.state().items()}
    texts = {"kind": type(optimizer).__name__, "history": history.text(), "settings": text_of(settings)}
    arrays |= {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()}
    arrays["seed"] = np.asarray(seed)
    arrays["dropped"] = np.array([layer.seed for layer in _dropping(model)], np.int64)
    write_arrays(path, arrays)


def read(
    path: str | os.PathLike[str], model: Module, optimizer: Optimizer, settings: Mapping[str, object] | None = None
) -> tuple[History, int, dict[str, np.ndarray]]:
    """Goes on from a checkpoint: what has happened until then, the seed of the data's order, and the parameters of the
    best epoch. Raises :class:`MNNError` for one of another model, optimizer or settings, before anything is changed."""
    where = os.fspath(Path(path))
    arrays = read_arrays(path, "checkpoint of training")
    if not {"kind", "history", "seed", "settings"} <= set(arrays):
        raise MNNError(f"{where} is no checkpoint of training")
    kind = _text(arrays["kind"])
    if kind != type(optimizer).__name__:
        raise MNNError(f"{where} is of the optimizer {kind}, this one is {type(optimizer).__name__}")
    try:
        before, history = json.loads(_text(arrays["settings"])), History.of(_text(arrays["history"]))
        seed = settings_of.seed("the seed", arrays["seed"].item())
        dropped = [settings_of.count("a layer's seed", number) for number in arrays.get("dropped", _NONE).tolist()]
        if not isinstance(before, dict):
            raise TypeError("its settings are no dict")
    except (ValueError, TypeError, KeyError, MNNError) as error:
        raise MNNError(f"{where} is damaged ({error}): go on from another checkpoint, or begin anew") from error
    now = json.loads(text_of(settings))
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            raise MNNError(
                f"{where} is of a training with {name} = {before.get(name)!r}, now it is {now.get(name)!r}: go on with "
                "what it was, or begin anew without the checkpoint"
            )
    parts = {
        key: {n.removeprefix(key): a for n, a in arrays.items() if n.startswith(key)}
        for key in ("model/", "optimizer/", "best/")
    }
    check_parameters(model, parts["model/"], where)
    if parts["best/"]:
        check_parameters(model, parts["best/"], where)
    layers = _dropping(model)
    if "dropped" in arrays and len(layers) != len(dropped):
        raise MNNError(f"{where} is of another module: it has {len(dropped)} layers of dropout, this one {len(layers)}")
    optimizer.load_state(parts["optimizer/"])
    set_parameters(model, parts["model/"], where)
    for layer, number in zip(layers, dropped, strict=False):
        layer.seed = number
    return history, seed, parts["best/"]


def _text(array: np.ndarray) -> str:
    """A text that is held as bytes."""
    return array.tobytes().decode(errors="replace")


def text_of(settings: object) -> str:
    """Settings as a checkpoint holds them. Raises :class:`MNNError` for what cannot be written."""
    try:
        if settings is None or isinstance(settings, Mapping):
            return json.dumps(dict(settings or {}))
    except (TypeError, ValueError):
        pass
    raise MNNError(f"settings= is a dict of texts, numbers and lists of them by name, found {shown(settings)}")


def _dropping(model: Module) -> list[Dropout]:
    """The layers whose masks depend on a seed of their own, which another run of the program would draw anew."""
    return [layer for layer in inside(model) if isinstance(layer, Dropout)]


def numbers(model: Module) -> dict[str, np.ndarray]:
    """Copies of all parameters by name."""
    return {n: np.array(v.read()) for n, v in model.named_parameters().items()}


__all__ = ["numbers", "read", "text_of", "write"]
