"""GridSample of planes and volumes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand


def case(draw: Draw) -> Case:
    count = draw.choice([2, 2, 3])
    opset = 20 if count == 3 else draw.choice([16, 20])
    modes = ["linear", "nearest", *(["cubic"] if count == 2 else [])]
    mode = draw.choice(modes)
    padding, align = draw.choice(["zeros", "border", "reflection"]), draw.flag()
    batch = draw.int(1, 3)
    x = draw.normal(batch, draw.int(1, 6), *draw.ints(count, 1, 8 if count == 2 else 5))
    reach = draw.choice([0.9, 1.2, 3.0])
    grid = draw.uniform(-reach, reach, batch, *draw.ints(count, 1, 7 if count == 2 else 4), count)
    if mode == "nearest":  # away from borders between two, where the last digit decides
        for axis, size in enumerate(x.shape[:1:-1]):
            at = (grid[..., axis] + 1) / 2 * (size - 1) if align else ((grid[..., axis] + 1) * size - 1) / 2
            grid[..., axis] += np.where(np.abs(np.abs(at - np.floor(at)) - 0.5) < 1e-3, np.float32(0.01), 0)
    older = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    attributes: dict[str, Any] = {"mode": mode if opset == 20 else older[mode]}
    if padding != "zeros" or draw.flag():
        attributes["padding_mode"] = padding
    if align or draw.flag():
        attributes["align_corners"] = int(align)

    def oracle(arrays: list[Any]) -> list[Any]:
        return [_sample(arrays[0].astype(np.float64), arrays[1].astype(np.float64), mode, padding, align)]

    return Case(
        "GridSample",
        [Operand(x), Operand(grid, draw.flag(0.8))],
        attributes,
        opset=opset,
        slack=8,
        oracle=oracle,
        sums=lambda arrays: [np.full((*x.shape[:2], *grid.shape[1:-1]), np.abs(arrays[0]).max())],
        low=False,
    )


def _sample(x: np.ndarray, grid: np.ndarray, mode: str, padding: str, align: bool) -> np.ndarray:
    """One output element at a time over products of taps along each axis."""
    spatial, batch = x.shape[2:], x.shape[0]
    out = np.zeros((batch, x.shape[1], *grid.shape[1:-1]))
    for n, place in itertools.product(range(batch), np.ndindex(*grid.shape[1:-1])):
        taps = [
            _taps(grid[(n, *place, len(spatial) - 1 - axis)], size, mode, padding, align)
            for axis, size in enumerate(spatial)
        ]
        total = np.zeros(x.shape[1])
        for chosen in itertools.product(*taps):
            at = [t[0] for t in chosen]
            if None not in at:
                total += np.prod([t[1] for t in chosen]) * x[(n, slice(None), *at)]
        out[(n, slice(None), *place)] = total
    return out


def _taps(g: float, size: int, mode: str, padding: str, align: bool) -> list[tuple[int | None, float]]:
    """Indices (None outside, in zeros) and weights along an axis."""
    at = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    if mode != "cubic":
        at = _within(at, size, low, high, padding)
    if mode == "nearest":
        return [(_index(int(np.rint(at)), size, low, high, padding), 1.0)]
    base = int(np.floor(at))
    part = at - base
    if mode == "linear":
        pairs = [(base, 1 - part), (base + 1, part)]
    else:
        pairs = [(base + k, _cubic(abs(k - part))) for k in range(-1, 3)]
    return [(_index(i, size, low, high, padding), w) for i, w in pairs]


def _within(at: float, size: int, low: float, high: float, padding: str) -> float:
    if padding == "border":
        return min(max(at, 0.0), size - 1.0)
    return _reflected(at, low, high) if padding == "reflection" else at


def _reflected(at: float, low: float, high: float) -> float:
    if high <= low:
        return low
    span = high - low
    turned = abs(at - low) % (2 * span)
    return low + (turned if turned <= span else 2 * span - turned)


def _index(i: int, size: int, low: float, high: float, padding: str) -> int | None:
    if padding == "reflection":
        i = int(np.clip(np.rint(_reflected(i, low, high)), 0, size - 1))
    elif padding == "border":
        i = min(max(i, 0), size - 1)
    return i if 0 <= i < size else None


def _cubic(distance: float) -> float:
    a = -0.75
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    return a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a if distance < 2 else 0.0
