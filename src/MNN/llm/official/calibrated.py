"""Weights rounded for what they are multiplied by when the model reads a text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import MNNError
from MNN.ir.graph import Value
from MNN.ir.quant import QuantizedArray
from MNN.llm.models.families import build_with, usual
from MNN.llm.models.weights import Array, Weights
from MNN.llm.official.watched import WatchedLayers
from MNN.runtime.config import Config, processors
from MNN.runtime.session import Session

TOKENS = 8192
"""Of a text, as many are read."""
LEAST = 512
"""A text must have as many: second moments of fewer rows say too little."""
WINDOW = 512
"""Tokens that are read at once, as a text of their own."""
MEMORY = 1 << 29
"""Bytes that second moments may take at once."""
Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class _Call:
    """Layers that take the same input of ``columns`` numbers."""

    names: tuple[str, ...]
    columns: int


class _Partly:
    """Weights of which some have been quantised."""

    def __init__(self, weights: Weights, done: Mapping[str, QuantizedArray]) -> None:
        self._weights, self._done = weights, done

    def __contains__(self, name: object) -> bool:
        return name in self._weights

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(name)

    def __getitem__(self, name: str) -> Array:
        return self._done[name] if name in self._done else self._weights[name]


def calibrated(
    config: Mapping[str, object],
    weights: Weights,
    modules: Collection[str],
    tokens: Sequence[int],
    quantize: Callable[[str, np.ndarray], QuantizedArray],
    told: Told,
) -> dict[str, QuantizedArray]:
    """Quantises the matrices of ``modules`` (names without ``.weight``), in the order in which the model multiplies by
    them: each for inputs that those before it give when they are quantised already.

    ``tokens``: of a text like those that the model will read, of which the first :data:`TOKENS` count. ``quantize``
    makes a matrix's form from its name and the sum of ``x x^T`` over its inputs. Modules that the model multiplies by
    in other ways (experts of a mixture) are left out. Raises :class:`MNNError` for a text that is too short.
    """
    length = min(WINDOW, usual(config).longest)
    if len(tokens) < max(LEAST, length):
        raise MNNError(f"the text to calibrate with has {len(tokens)} tokens; expected are {LEAST} or more")
    windows = np.asarray(tokens[: min(len(tokens), TOKENS) // length * length], np.int64).reshape(-1, length)
    done: dict[str, QuantizedArray] = {}
    calls = _calls(config, weights, modules)
    for some in _groups(calls):
        moments = _moments(config, _Partly(weights, done), some, windows)
        for call in some:
            for name in call.names:
                if name in modules:
                    done[f"{name}.weight"] = quantize(f"{name}.weight", moments[call.names])
                    told("calibrating", len(done), len(modules))
            del moments[call.names]
    return done


def _calls(config: Mapping[str, object], weights: Weights, modules: Collection[str]) -> list[_Call]:
    net = WatchedLayers(weights, modules)
    build_with(config, net)
    return [_Call(names, weights.shape(f"{names[0]}.weight")[1]) for names in net.seen]


def _groups(calls: Sequence[_Call]) -> list[list[_Call]]:
    """Neighbours whose moments fit into :data:`MEMORY`."""
    found: list[list[_Call]] = []
    room = 0
    for call in calls:
        size = 4 * call.columns**2
        if room < size:
            found.append([])
            room = max(MEMORY, size)
        found[-1].append(call)
        room -= size
    return found


def _moments(
    config: Mapping[str, object], weights: Weights, calls: Sequence[_Call], windows: np.ndarray
) -> dict[tuple[str, ...], np.ndarray]:
    """The sum of ``x x^T`` over the inputs ``x`` of each call, f32 ``[columns, columns]``."""
    net = WatchedLayers(weights, {name for call in calls for name in call.names})
    build_with(config, net)
    outputs: dict[str, Value] = {value.name: value for value in net.seen.values()}
    net.graph.outputs[:] = outputs.values()
    session = Session(net.graph, Config(processors(), "high", cache=False))
    columns = {value.name: weights.shape(f"{names[0]}.weight")[1] for names, value in net.seen.items()}
    sums = {name: np.zeros((size, size), np.float32) for name, size in columns.items()}
    length = windows.shape[1]
    feeds = {"positions": np.arange(length)[None]} | ({} if net.length is None else {"length": np.array([length])})
    for window in windows:
        seen = session.run({"tokens": window[None], **feeds})
        for name, total in sums.items():
            x = np.asarray(seen[name]).reshape(length, -1)
            total += x.T @ x
    return {names: sums[value.name] for names, value in net.seen.items()}


__all__ = ["TOKENS", "calibrated"]
