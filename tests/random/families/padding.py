"""Pad: modes, negative pads, axes, types."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.families.slicing import numbers


def case(draw: Draw) -> Case:
    rank = draw.int(1, 5)
    mode = draw.choice(["constant", "constant", "reflect", "edge", "wrap"])
    opset = 19 if mode == "wrap" else draw.choice([11, 13, 18, 19])
    shape = draw.shape(rank, 2 if mode == "reflect" else 1, 6)
    x = numbers(draw, *shape)
    if x.dtype == bool:
        opset = max(opset, 13)
    axes = list(range(rank))
    if opset >= 18 and draw.flag():
        axes = [int(a) for a in draw.rng.permutation(rank)[: draw.int(1, rank)]]
    negative = draw.flag(0.3)
    low, high = ([_pad(draw, mode, shape[a], negative) for a in axes] for _ in "12")
    for i, a in enumerate(axes):  # something is left
        if shape[a] + min(low[i], 0) + min(high[i], 0) < 1:
            low[i], high[i] = max(low[i], 0), max(high[i], 0)
        if mode == "reflect":  # as far as what is left goes
            rest = shape[a] + min(low[i], 0) + min(high[i], 0)
            low[i], high[i] = min(low[i], rest - 1), min(high[i], rest - 1)
    fed = draw.flag(0.1)
    inputs: list[Operand | None] = [Operand(x), Operand(np.array(low + high, np.int64), fed)]
    value = np.array(draw.int(0, 1) if x.dtype == bool else draw.int(0, 9)).astype(x.dtype)
    given = mode == "constant" and draw.flag()
    if given or (axes != list(range(rank)) and draw.flag()):
        inputs.append(Operand(value, draw.flag(0.2)))
    if axes != list(range(rank)):
        inputs += [None] * (3 - len(inputs))
        inputs.append(Operand(np.array([a - rank if draw.flag(0.4) else a for a in axes], np.int64), False))
    used = value if len(inputs) > 2 and inputs[2] is not None else np.zeros((), x.dtype)
    attributes = {} if mode == "constant" and draw.flag() else {"mode": mode}
    kinds = (np.float32, np.int64, np.int32, np.uint8, np.bool_)
    return Case("Pad", inputs, attributes, opset=opset, scale="exact", low=False,
                oracle=lambda arrays: [padded(arrays[0], axes, low, high, mode, used)],
                excuse="" if x.dtype in kinds else "it has no form of float16")  # fmt: skip


def _pad(draw: Draw, mode: str, size: int, negative: bool) -> int:
    if negative and draw.flag(0.4):
        return -draw.int(0, size // 2)
    return draw.int(0, size - 1 if mode == "reflect" else 2 * size if mode == "wrap" and draw.flag(0.2) else 4)


def padded(x: Any, axes: list[int], low: list[int], high: list[int], mode: str, value: Any) -> np.ndarray:
    """Negative pads cut first, then the rest is padded."""
    for axis, a, z in zip(axes, low, high, strict=True):
        x = np.take(x, range(max(-a, 0), x.shape[axis] - max(-z, 0)), axis)
    widths = [(0, 0)] * x.ndim
    for axis, a, z in zip(axes, low, high, strict=True):
        widths[axis] = (max(a, 0), max(z, 0))
    more = {"constant_values": value} if mode == "constant" else {}
    padded: np.ndarray = np.pad(x, widths, mode=mode, **more)  # type: ignore[call-overload]
    return padded
