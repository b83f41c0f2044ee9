"""Gather, GatherElements, GatherND, ScatterElements, ScatterND and TopK."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.families.slicing import numbers

REDUCTIONS = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def case(draw: Draw) -> Case:
    return draw.choice([_gather, _elements, _nd, _scatter, _scatter_nd, _top])(draw)


def _indices(draw: Draw, size: int, *shape: int) -> np.ndarray:
    """Some count from the end."""
    low = -size if draw.flag(0.4) else 0
    return np.asarray(draw.rng.integers(low, size, shape), draw.choice([np.int64, np.int32]))


def _axis(draw: Draw, rank: int) -> tuple[int, dict[str, Any]]:
    axis = draw.int(0, rank - 1)
    if axis == 0 and draw.flag():
        return 0, {}
    return axis, {"axis": axis - rank if draw.flag(0.3) else axis}


def _gather(draw: Draw) -> Case:
    x = numbers(draw, *draw.shape(draw.int(1, 4), 1, 6))
    axis, attributes = _axis(draw, x.ndim)
    at = _indices(draw, x.shape[axis], *draw.shape(draw.int(0, 3), 1, 4))
    return Case("Gather", [Operand(x, draw.flag(0.8)), Operand(at, draw.flag())], attributes, opset=13, scale="exact",
                oracle=lambda a: [np.take(a[0], a[1], axis)], low=False)  # fmt: skip


def _elements(draw: Draw) -> Case:
    x = numbers(draw, *draw.shape(draw.int(1, 4), 1, 6))
    axis, attributes = _axis(draw, x.ndim)
    shape = [draw.int(1, 7) if i == axis else draw.int(1, n) for i, n in enumerate(x.shape)]
    at = _indices(draw, x.shape[axis], *shape)

    def oracle(arrays: list[Any]) -> list[Any]:
        part = arrays[0][tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(shape))]
        return [np.take_along_axis(part, arrays[1].astype(np.int64), axis)]

    return Case("GatherElements", [Operand(x), Operand(at, draw.flag())], attributes, opset=13, scale="exact",
                oracle=oracle, low=False)  # fmt: skip


def _nd(draw: Draw) -> Case:
    rank = draw.int(1, 4)
    x = numbers(draw, *draw.shape(rank, 1, 5))
    batch = draw.often(0, range(rank), 0.6)
    depth = draw.int(1, rank - batch)
    lead = [*x.shape[:batch], *draw.shape(draw.int(0, 2), 1, 4)]
    at = np.stack([_indices(draw, x.shape[batch + i], *lead).astype(np.int64) for i in range(depth)], -1)

    def oracle(arrays: list[Any]) -> list[Any]:
        data, where = arrays
        out = np.empty((*lead, *data.shape[batch + depth :]), data.dtype)
        for place in np.ndindex(*lead):
            out[place] = data[(*place[:batch], *where[place])]
        return [out]

    attributes = {"batch_dims": batch} if batch or draw.flag(0.3) else {}
    return Case("GatherND", [Operand(x), Operand(at, draw.flag())], attributes, opset=13, scale="exact",
                oracle=oracle, low=False)  # fmt: skip


def _reduction(draw: Draw, kind: Any) -> tuple[str, int]:
    """And the opset that has it."""
    name = draw.often("none", list(REDUCTIONS), 0.4) if kind in (np.float32, np.int64, np.int32) else "none"
    return name, 18 if name in ("max", "min") else 16


def _unique(draw: Draw, size: int, count: int) -> np.ndarray:
    return draw.rng.permutation(size)[:count]


def _scatter(draw: Draw) -> Case:
    x = numbers(draw, *draw.shape(draw.int(1, 4), 1, 6))
    axis, attributes = _axis(draw, x.ndim)
    name, opset = _reduction(draw, x.dtype.type)
    shape = [draw.int(1, n) for n in x.shape]
    if name == "none":  # each place once, as the result is open otherwise
        at = np.empty(shape, np.int64)
        for line in np.ndindex(*(n for i, n in enumerate(shape) if i != axis)):
            where = (*line[:axis], slice(None), *line[axis:])
            at[where] = _unique(draw, x.shape[axis], shape[axis])
        at = np.where(draw.rng.random(shape) < 0.3, at - x.shape[axis], at)
    else:
        shape[axis] = draw.int(1, 7)
        at = _indices(draw, x.shape[axis], *shape)
    updates = _like(draw, x, shape)
    if name != "none" or draw.flag(0.3):
        attributes["reduction"] = name

    def oracle(arrays: list[Any]) -> list[Any]:
        out = arrays[0].astype(np.float64) if x.dtype == np.float32 else arrays[0].copy()
        for place in np.ndindex(*shape):
            to = (*place[:axis], int(arrays[1][place]), *place[axis + 1 :])
            found = REDUCTIONS[name]
            out[to] = arrays[2][place] if found is None else found(out[to], arrays[2][place])
        return [out]

    return Case("ScatterElements", [Operand(x), Operand(at, draw.flag()), Operand(updates)], attributes, opset=opset,
                oracle=oracle, low=False, slack=4)  # fmt: skip


def _like(draw: Draw, x: np.ndarray, shape: Any) -> np.ndarray:
    if x.dtype.kind == "f":
        return draw.normal(*shape, dtype=x.dtype)
    return draw.rng.integers(0, 2 if x.dtype == bool else 10, shape).astype(x.dtype)


def _scatter_nd(draw: Draw) -> Case:
    rank = draw.int(1, 4)
    x = numbers(draw, *draw.shape(rank, 1, 5))
    depth = draw.int(1, rank)
    name, opset = _reduction(draw, x.dtype.type)
    head = int(np.prod(x.shape[:depth]))
    if name == "none":
        lead = [draw.int(1, head)]
        flat = _unique(draw, head, lead[0])
        at = np.stack(np.unravel_index(flat, x.shape[:depth]), -1).astype(np.int64)
    else:
        lead = list(draw.shape(draw.int(1, 2), 1, 4))
        at = np.stack([_indices(draw, n, *lead).astype(np.int64) for n in x.shape[:depth]], -1)
    updates = _like(draw, x, [*lead, *x.shape[depth:]])

    def oracle(arrays: list[Any]) -> list[Any]:
        out = arrays[0].astype(np.float64) if x.dtype == np.float32 else arrays[0].copy()
        for place in np.ndindex(*lead):
            to, found = tuple(arrays[1][place]), REDUCTIONS[name]
            out[to] = arrays[2][place] if found is None else found(out[to], arrays[2][place])
        return [out]

    attributes = {"reduction": name} if name != "none" or draw.flag(0.3) else {}
    return Case("ScatterND", [Operand(x), Operand(at, draw.flag()), Operand(updates)], attributes, opset=opset,
                oracle=oracle, low=False, slack=4)  # fmt: skip


def _top(draw: Draw) -> Case:
    shape = draw.shape(draw.int(1, 4), 1, 9)
    kind = draw.choice([np.float32, np.float32, np.int64, np.int32])
    ties = draw.flag(0.3)
    x = draw.normal(*shape) if kind is np.float32 and not ties else draw.rng.integers(0, 5, shape).astype(kind)
    axis = draw.int(0, len(shape) - 1)
    k, largest = draw.int(1, shape[axis]), draw.flag()
    attributes: dict[str, Any] = {"axis": axis - len(shape) if draw.flag(0.3) else axis, "largest": int(largest)}
    if draw.flag():
        attributes["sorted"] = 1

    def oracle(arrays: list[Any]) -> list[Any]:
        wide = arrays[0].astype(np.float64)
        order = np.argsort(-wide if largest else wide, axis, kind="stable")  # of equals the first comes first
        order = np.take(order, range(k), axis)
        return [np.take_along_axis(arrays[0], order, axis), order.astype(np.int64)]

    return Case("TopK", [Operand(x), Operand(np.array([k], np.int64), draw.flag(0.1))], attributes, 2, opset=11,
                scale="exact", oracle=oracle, low=False)  # fmt: skip
