"""Reductions, ArgMax and ArgMin, CumSum, softmax functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand

FUNCTIONS: dict[str, Any] = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
    "ReduceL1": lambda x, **k: np.abs(x).sum(**k), "ReduceL2": lambda x, **k: np.sqrt((x * x).sum(**k)),
    "ReduceSumSquare": lambda x, **k: (x * x).sum(**k), "ReduceLogSum": lambda x, **k: np.log(x.sum(**k)),
    "ReduceLogSumExp": lambda x, **k: np.log(np.exp(x).sum(**k)),
}  # fmt: skip
WHOLE = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare")
EMPTY = ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare")


def case(draw: Draw) -> Case:
    return draw.choice([_reduce, _reduce, _reduce, _arg, _cumulative, _softmax])(draw)


def _reduce(draw: Draw) -> Case:
    op = draw.choice(list(FUNCTIONS))
    opset = draw.choice([11, 13, 18])
    rank = draw.int(1, 5)
    shape = list(draw.shape(rank, 1, 7))
    kind = np.int32 if op in WHOLE and draw.flag(0.2) else np.float32
    if op in EMPTY and draw.flag(0.05):
        shape[draw.int(0, rank - 1)] = 0
    x = draw.normal(*shape) if kind is np.float32 else draw.rng.integers(-3, 4, shape).astype(kind)
    if op == "ReduceLogSum":
        x = np.abs(x) + 1
    axes = draw.subset(range(rank), 1) if draw.flag(0.75) else None
    keep, noop = draw.flag(), draw.flag(0.3)
    attributes: dict[str, Any] = {} if keep and draw.flag() else {"keepdims": int(keep)}
    inputs: list[Operand | None] = [Operand(x)]
    as_input = opset == 18 or (op == "ReduceSum" and opset == 13)
    signed = None if axes is None else [a - rank if draw.flag(0.3) else a for a in axes]
    if as_input:
        if noop or draw.flag(0.2):
            attributes["noop_with_empty_axes"] = int(noop)
        if signed is not None:
            inputs.append(Operand(np.array(signed, np.int64), draw.flag(0.1)))
        elif draw.flag(0.3):
            inputs.append(Operand(np.zeros(0, np.int64), False))
    elif signed is not None:
        attributes["axes"] = signed
    function = FUNCTIONS[op]

    def oracle(arrays: list[Any]) -> list[Any]:
        wide = arrays[0].astype(np.float64)
        if axes is None and as_input and noop:
            axis: tuple[int, ...] = ()
            return [_elementwise(op, wide).astype(kind if kind is np.int32 else np.float64)]
        axis = tuple(range(rank)) if axes is None else tuple(axes)
        found = function(wide, axis=axis, keepdims=keep)
        return [np.asarray(found).astype(kind if kind is np.int32 else np.float64)]

    products = kind is np.float32 and op in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare")
    return Case(op, inputs, attributes, opset=opset, scale="products" if products else "largest", oracle=oracle,
                slack=4, low=op not in ("ReduceProd", "ReduceLogSumExp"))  # fmt: skip


def _elementwise(op: str, x: np.ndarray) -> np.ndarray:
    """What remains of a reduction over no axes."""
    if op in ("ReduceL1", "ReduceL2"):
        return np.abs(x)
    if op == "ReduceSumSquare":
        return x * x
    return np.log(x) if op == "ReduceLogSum" else x


def _arg(draw: Draw) -> Case:
    op, rank = draw.choice(["ArgMax", "ArgMin"]), draw.int(1, 4)
    shape = draw.shape(rank, 1, 8)
    ties = draw.flag(0.4)
    x = draw.rng.integers(0, 3, shape).astype(draw.choice([np.float32, np.int32])) if ties else draw.normal(*shape)
    axis, keep, last = draw.int(0, rank - 1), draw.flag(), draw.flag(0.4)
    attributes = {
        "axis": axis - rank if draw.flag(0.3) else axis,
        "keepdims": int(keep),
        "select_last_index": int(last),
    }

    def oracle(arrays: list[Any]) -> list[Any]:
        find = np.argmax if op == "ArgMax" else np.argmin
        data = np.flip(arrays[0], axis) if last else arrays[0]
        found = find(data, axis=axis, keepdims=keep).astype(np.int64)
        return [shape[axis] - 1 - found if last else found]

    return Case(op, [Operand(x)], attributes, opset=13, scale="exact", oracle=oracle, low=False)


def _cumulative(draw: Draw) -> Case:
    rank = draw.int(1, 4)
    kind = draw.choice([np.float32, np.float32, np.int32, np.int64])
    shape = draw.shape(rank, 1, 9)
    x = draw.normal(*shape) if kind is np.float32 else draw.rng.integers(-5, 6, shape).astype(kind)
    axis, exclusive, reverse = draw.int(0, rank - 1), draw.flag(), draw.flag()
    attributes = {"exclusive": int(exclusive), "reverse": int(reverse)} if exclusive or reverse or draw.flag() else {}
    place = np.array(axis - rank if draw.flag(0.3) else axis, draw.choice([np.int32, np.int64]))

    def oracle(arrays: list[Any]) -> list[Any]:
        wide = arrays[0].astype(np.float64) if kind is np.float32 else arrays[0]
        wide = np.flip(wide, axis) if reverse else wide
        total = np.cumsum(wide, axis)
        total = total - wide if exclusive else total
        return [(np.flip(total, axis) if reverse else total).astype(np.float64 if kind is np.float32 else kind)]

    return Case("CumSum", [Operand(x), Operand(place, False)], attributes, opset=14, oracle=oracle, slack=4)


def _softmax(draw: Draw) -> Case:
    op, opset = draw.choice(["Softmax", "LogSoftmax", "Hardmax"]), draw.choice([11, 13])
    rank = draw.int(1, 5)
    x = draw.normal(*draw.shape(rank, 1, 9)) * np.float32(draw.choice([1, 5]))
    axis = draw.int(0, rank - 1)
    attributes = {"axis": axis - rank if draw.flag(0.3) else axis}
    if opset == 13 and axis == rank - 1 and draw.flag():
        attributes = {}
    axes = (axis,) if opset == 13 else tuple(range(axis, rank))

    def oracle(arrays: list[Any]) -> list[Any]:
        wide = arrays[0].astype(np.float64)
        flat = wide if opset == 13 else wide.reshape(int(np.prod(wide.shape[:axis])), -1)
        over = axes[0] if opset == 13 else 1
        if op == "Hardmax":
            best = np.expand_dims(flat.argmax(over), over)
            found = np.zeros_like(flat)
            np.put_along_axis(found, best, 1, over)
            return [found.reshape(wide.shape)]
        moved = flat - flat.max(over, keepdims=True)
        share = moved - np.log(np.exp(moved).sum(over, keepdims=True))
        return [(share if op == "LogSoftmax" else np.exp(share)).reshape(wide.shape)]

    return Case(op, [Operand(x)], attributes, opset=opset, oracle=oracle, slack=2, low=op != "Hardmax")
