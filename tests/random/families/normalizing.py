"""Normalisations: of batches, instances, groups, layers, local responses, lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand


def case(draw: Draw) -> Case:
    return draw.choice([_batch, _instance, _group, _layer, _rms, _local, _length, _mean_variance])(draw)


def _image(draw: Draw, channels: int, low: int = 0, high: int = 3) -> np.ndarray:
    count = draw.int(low, high)
    shift = np.float32(draw.choice([0, 0, 3]))
    return draw.normal(draw.int(1, 3), channels, *draw.ints(count, 1, {0: 1, 1: 30, 2: 9, 3: 5}[count])) + shift


def _epsilon(draw: Draw) -> dict[str, Any]:
    return {"epsilon": draw.choice([1e-5, 1e-3, 1e-2])} if draw.flag() else {}


def _made(op: str, inputs: list[Any], attributes: dict[str, Any], function: Callable[..., Any], opset: int,
          excuse: str = "", constant: bool = True) -> Case:  # fmt: skip
    """Statistics of float64; operands after the first are constants."""

    def oracle(arrays: list[Any]) -> list[Any]:
        found = function(*(None if a is None else a.astype(np.float64) for a in arrays))
        return list(found) if isinstance(found, tuple) else [found]

    operands = [None if a is None else Operand(a, k == 0 or not constant) for k, a in enumerate(inputs)]
    return Case(op, operands, attributes, opset=opset, oracle=oracle, slack=10, excuse=excuse)


def _line(v: Any, rank: int) -> Any:
    return v.reshape(-1, *[1] * (rank - 2))


def _batch(draw: Draw) -> Case:
    channels, attributes = draw.channels(), _epsilon(draw)
    x, epsilon = _image(draw, channels), attributes.get("epsilon", 1e-5)
    scale, bias, mean = (draw.normal(channels) for _ in "123")
    variance = draw.uniform(0.2, 3, channels)
    if draw.flag(0.3):
        attributes["momentum"] = 0.8

    def normalised(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
        scale, bias, mean, variance = (_line(v, x.ndim) for v in (scale, bias, mean, variance))
        return (x - mean) / np.sqrt(variance + epsilon) * scale + bias

    return _made("BatchNormalization", [x, scale, bias, mean, variance], attributes, normalised,
                 draw.choice([9, 14, 15]), constant=draw.flag(0.8))  # fmt: skip


def _instance(draw: Draw) -> Case:
    channels, attributes = draw.channels(), _epsilon(draw)
    x, epsilon = _image(draw, channels, 1), attributes.get("epsilon", 1e-5)

    def normalised(x: Any, scale: Any, bias: Any) -> Any:
        axes = tuple(range(2, x.ndim))
        apart = x - x.mean(axes, keepdims=True)
        return apart / np.sqrt((apart**2).mean(axes, keepdims=True) + epsilon) * _line(scale, x.ndim) + _line(
            bias, x.ndim
        )

    return _made("InstanceNormalization", [x, draw.normal(channels), draw.normal(channels)], attributes, normalised,
                 draw.choice([6, 22]), constant=draw.flag(0.8))  # fmt: skip


def _group(draw: Draw) -> Case:
    groups, attributes = draw.int(1, 5), _epsilon(draw)
    channels, epsilon = groups * draw.int(1, 5), attributes.get("epsilon", 1e-5)
    x, opset = _image(draw, channels, 1), draw.choice([18, 21])
    count = groups if opset == 18 else channels

    def normalised(x: Any, scale: Any, bias: Any) -> Any:
        flat = x.reshape(x.shape[0], groups, -1)
        apart = flat - flat.mean(2, keepdims=True)
        unit = (apart / np.sqrt((apart**2).mean(2, keepdims=True) + epsilon)).reshape(x.shape)
        scale, bias = (np.repeat(v, channels // count) for v in (scale, bias))
        return unit * _line(scale, x.ndim) + _line(bias, x.ndim)

    return _made("GroupNormalization", [x, draw.normal(count), draw.normal(count)],
                 attributes | {"num_groups": groups}, normalised, opset,
                 constant=opset == 18 or draw.flag(0.8))  # fmt: skip


def _layer(draw: Draw) -> Case:
    rank, attributes = draw.int(1, 4), _epsilon(draw)
    x, epsilon = draw.normal(*draw.shape(rank, 1, 20 if rank < 3 else 9)), attributes.get("epsilon", 1e-5)
    axis = draw.int(0, rank - 1)
    if axis != rank - 1 or draw.flag():
        attributes["axis"] = axis - rank if draw.flag() else axis
    axes = tuple(range(axis, rank))
    scale = draw.normal(*x.shape[axis:])
    bias = draw.normal(*x.shape[axis:]) if draw.flag(0.7) else None
    both = draw.flag(0.3)

    def normalised(x: Any, scale: Any, bias: Any = None) -> Any:
        mean = x.mean(axes, keepdims=True)
        inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)
        out = (x - mean) * inverse * scale + (0 if bias is None else bias)
        return (out, mean, inverse) if both else out

    made = _made("LayerNormalization", [x, scale, *([] if bias is None else [bias])], attributes, normalised, 17,
                 constant=draw.flag(0.8))  # fmt: skip
    made.outputs = 3 if both else 1
    made.low = int(np.prod(x.shape[axis:])) > 4  # of few numbers the deviation may vanish
    return made


def _rms(draw: Draw) -> Case:
    rank, attributes = draw.int(1, 4), _epsilon(draw)
    x, epsilon = draw.normal(*draw.shape(rank, 1, 20 if rank < 3 else 9)), attributes.get("epsilon", 1e-5)
    axis = draw.int(0, rank - 1)
    if axis != rank - 1 or draw.flag():
        attributes["axis"] = axis - rank if draw.flag() else axis
    axes = tuple(range(axis, rank))

    def normalised(x: Any, scale: Any) -> Any:
        return x / np.sqrt((x**2).mean(axes, keepdims=True) + epsilon) * scale

    return _made("RMSNormalization", [x, draw.normal(*x.shape[axis:])], attributes, normalised, 23,
                 constant=draw.flag(0.8))  # fmt: skip


def _local(draw: Draw) -> Case:
    size = draw.choice([1, 3, 5, 7, 2, 4])
    x = _image(draw, draw.int(1, 12), 2, 2)
    attributes: dict[str, Any] = {"size": size}
    alpha, beta, bias = draw.choice([1e-4, 0.3]), draw.choice([0.75, 0.5, 1.2]), draw.choice([1.0, 2.0])
    if draw.flag(0.8):
        attributes |= {"alpha": alpha, "beta": beta, "bias": bias}
    alpha, beta, bias = attributes.get("alpha", 1e-4), attributes.get("beta", 0.75), attributes.get("bias", 1.0)

    def normalised(x: Any) -> Any:
        channels = x.shape[1]
        total = np.zeros_like(x)
        for c in range(channels):
            low, high = max(0, c - (size - 1) // 2), min(channels - 1, c + size // 2)  # ceil((size - 1) / 2) after
            total[:, c] = (x[:, low : high + 1] ** 2).sum(1)
        return x / (bias + alpha / size * total) ** beta

    return _made("LRN", [x], attributes, normalised, 13,
                 "an even size is refused" if size % 2 == 0 else "")  # fmt: skip


def _length(draw: Draw) -> Case:
    rank, p = draw.int(1, 4), draw.choice([1, 2])
    x = draw.normal(*draw.shape(rank, 1, 9))
    axis = draw.int(0, rank - 1)
    attributes: dict[str, Any] = {"p": p} if p == 1 or draw.flag() else {}
    if axis != rank - 1 or draw.flag():
        attributes["axis"] = axis - rank if draw.flag() else axis

    def normalised(x: Any) -> Any:
        length = np.abs(x).sum(axis, keepdims=True) if p == 1 else np.sqrt((x**2).sum(axis, keepdims=True))
        return np.where(length == 0, 0, x / np.where(length == 0, 1, length))

    return _made("LpNormalization", [x], attributes, normalised, draw.choice([1, 22]))


def _mean_variance(draw: Draw) -> Case:
    x = _image(draw, draw.int(2, 6), 2, 2)
    axes = draw.subset(range(4), 1) if draw.flag(0.7) else None
    while axes is not None and 1 < np.prod([x.shape[a] for a in axes]) < 6:
        axes = draw.subset(range(4), 2)  # the deviation of two or three numbers may be next to nothing
    over = tuple([0, 2, 3] if axes is None else axes)

    def normalised(x: Any) -> Any:
        apart = x - x.mean(over, keepdims=True)
        return apart / (np.sqrt((apart**2).mean(over, keepdims=True)) + 1e-9)

    alone = np.prod([x.shape[a] for a in over]) == 1
    made = _made("MeanVarianceNormalization", [x], {} if axes is None else {"axes": axes}, normalised, 13,
                 "of one number alone it makes NaN" if alone else "")  # fmt: skip
    made.slack, made.low = 40, False
    return made
