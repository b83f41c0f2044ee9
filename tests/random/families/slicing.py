"""Slice, Split, Tile, Transpose, Expand, DepthToSpace, SpaceToDepth, Concat of one input: what moves elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand

KINDS = (np.float32, np.float32, np.float32, np.int64, np.int32, np.uint8, np.bool_, np.float16)


def numbers(draw: Draw, *shape: int) -> np.ndarray:
    """Of a type that elements are moved in."""
    kind = draw.choice(KINDS)
    if kind in (np.float32, np.float16):
        return draw.normal(*shape, dtype=kind)
    return draw.rng.integers(0, 2 if kind is np.bool_ else 100, shape).astype(kind)


def case(draw: Draw) -> Case:
    return draw.choice([_slice, _slice, _split, _tile, _transpose, _expand, _blocks])(draw)


def _list(draw: Draw, values: Any, fed: bool) -> Operand:
    return Operand(np.array(values, draw.choice([np.int64, np.int32])), fed)


def _slice(draw: Draw) -> Case:
    rank = draw.int(1, 5)
    x = numbers(draw, *draw.shape(rank, 1, 9))
    axes = [int(a) for a in draw.rng.permutation(rank)[: draw.int(1, rank)]]
    starts, ends, steps, cut = [], [], [], [slice(None)] * rank
    for axis in axes:
        size = x.shape[axis]
        step = draw.often(1, [2, 3, -1, -2, -3, 7], 0.5)
        start, end = (draw.often(draw.int(-size - 2, size + 2), [0, -1, size, 2**31 - 1, -(2**31)], 0.7) for _ in "12")
        at = range(size)[_clamped(start, size, step) : _end(end, size, step) : step]
        starts.append(start)
        ends.append(end)
        steps.append(step)
        cut[axis] = slice(None) if len(at) == size and step == 1 else at  # type: ignore[call-overload]

    def oracle(arrays: list[Any]) -> list[Any]:
        out = arrays[0]
        for axis, places in enumerate(cut):
            if not isinstance(places, slice):
                out = np.take(out, list(places), axis) if len(places) else np.take(out, np.zeros(0, int), axis)
        return [out]

    signed = [a - rank if draw.flag(0.4) else a for a in axes]
    fed, kind = draw.flag(0.1), draw.choice([np.int64, np.int32])
    lists = [starts, ends, signed, steps]
    plain = all(s == 1 for s in steps)
    if signed == list(range(len(axes))) and plain and draw.flag():
        lists = lists[:2]
    elif plain and draw.flag():
        lists = lists[:3]
    return Case("Slice", [Operand(x), *(Operand(np.array(v, kind), fed) for v in lists)],
        excuse="an end of the largest number with a negative step: it goes to the first element"
        if any(e > 2**30 and s < 0 for e, s in zip(ends, steps, strict=True))
        else "", opset=draw.choice([11, 13]),
                scale="exact", oracle=oracle, low=False)  # fmt: skip


def _clamped(at: int, size: int, step: int) -> int:
    """As the specification says: negative numbers count from the end, then all are clamped."""
    at = at + size if at < 0 else at
    return min(max(at, 0), size if step > 0 else size - 1)


def _end(at: int, size: int, step: int) -> int | None:
    at = at + size if at < 0 else at
    if step > 0:
        return min(max(at, 0), size)
    at = min(max(at, -1), size - 1)
    return None if at == -1 else at


def _split(draw: Draw) -> Case:
    rank = draw.int(1, 4)
    axis, parts = draw.int(0, rank - 1), draw.int(1, 5)
    sizes = draw.ints(parts, 0 if draw.flag(0.2) else 1, 4)
    opset = draw.choice([11, 13, 18])
    shape = list(draw.shape(rank))
    even = draw.flag(0.4)
    shape[axis] = parts * draw.int(1, 4) if even else sum(sizes)
    if opset == 18 and even and parts > 1:
        shape[axis] -= draw.int(0, 1)  # the last part is smaller
    each = -(-shape[axis] // parts)
    if even and each * (parts - 1) > shape[axis]:
        shape[axis] = each * parts
    x = numbers(draw, *shape)
    attributes: dict[str, Any] = {"axis": axis - rank if draw.flag(0.3) else axis}
    inputs = [Operand(x)]
    if even:
        sizes = [min(each, shape[axis] - i * each) for i in range(parts)]
        if opset == 18:
            attributes["num_outputs"] = parts
    elif opset == 11:
        attributes["split"] = sizes
    else:
        inputs.append(Operand(np.array(sizes, np.int64), False))
    places = np.cumsum([0, *sizes])

    def oracle(arrays: list[Any]) -> list[Any]:
        return [np.take(arrays[0], range(a, z), axis) for a, z in itertools.pairwise(places)]

    excuse = ""
    if opset == 11 and min(sizes) < 1:
        excuse = "parts of nothing are refused in older opsets"
    return Case("Split", inputs, attributes, parts, opset, scale="exact", oracle=oracle, excuse=excuse, low=False)


def _tile(draw: Draw) -> Case:
    rank = draw.int(1, 5)
    x, times = numbers(draw, *draw.shape(rank, 1, 5)), draw.ints(rank, 0 if draw.flag(0.1) else 1, 3)
    return Case("Tile", [Operand(x), Operand(np.array(times, np.int64), draw.flag(0.2))], opset=13, scale="exact",
                oracle=lambda a: [np.tile(a[0], times)], low=False)  # fmt: skip


def _transpose(draw: Draw) -> Case:
    rank = draw.int(1, 6)
    x = numbers(draw, *draw.shape(rank, 1, 6))
    order = [int(a) for a in draw.rng.permutation(rank)] if draw.flag(0.9) else None
    return Case("Transpose", [Operand(x)], {} if order is None else {"perm": order}, opset=13, scale="exact",
                oracle=lambda a: [np.transpose(a[0], order)], low=False)  # fmt: skip


def _expand(draw: Draw) -> Case:
    rank = draw.int(0, 4)
    whole = list(draw.shape(draw.int(rank, 5), 1, 5))
    shape = [1 if draw.flag() else n for n in whole[len(whole) - rank :]]
    wanted = [n if draw.flag(0.8) or i < len(whole) - rank else 1 for i, n in enumerate(whole)]
    x = numbers(draw, *shape)
    return Case("Expand", [Operand(x), Operand(np.array(wanted, np.int64), draw.flag(0.2))], opset=13, scale="exact",
                oracle=lambda a: [a[0] * np.ones(wanted, a[0].dtype) if a[0].dtype != bool
                                  else a[0] & np.ones(wanted, bool)], low=False)  # fmt: skip


def _blocks(draw: Draw) -> Case:
    deep, size = draw.flag(), draw.int(1, 4)
    n, c, h, w = draw.int(1, 2), draw.int(1, 4), draw.int(1, 5), draw.int(1, 5)
    if deep:
        x = draw.normal(n, c * size * size, h, w)
        columns = draw.flag()
        attributes: dict[str, Any] = {"blocksize": size}
        if columns or draw.flag():
            attributes["mode"] = "CRD" if columns else "DCR"

        def apart(arrays: list[Any]) -> list[Any]:
            split = (n, c, size, size, h, w) if columns else (n, size, size, c, h, w)
            order = (0, 1, 4, 2, 5, 3) if columns else (0, 3, 4, 1, 5, 2)
            return [arrays[0].reshape(split).transpose(order).reshape(n, c, h * size, w * size)]

        return Case("DepthToSpace", [Operand(x)], attributes, opset=13, scale="exact", oracle=apart, low=False)

    def together(arrays: list[Any]) -> list[Any]:
        split = arrays[0].reshape(n, c, h, size, w, size)
        return [split.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * size * size, h, w)]

    x = draw.normal(n, c, h * size, w * size)
    return Case("SpaceToDepth", [Operand(x)], {"blocksize": size}, opset=13, scale="exact", oracle=together, low=False)
