"""Small integer tensors that a model computes from shapes, as far as they are known.

An element is an int, the name of a size (``"batch"``), or None when nothing is known of it. Everything is done on
numpy arrays of objects, so that cutting, joining and picking are numpy's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from MNN.ir.graph import Node, Value
from MNN.ir.symbolic import Size
from MNN.ops.arranging.extents import MASKS, masked_index
from MNN.ops.core.sizes import combine
from MNN.passes.patterns import attribute, ints, plain

MAX_ELEMENTS = 64
Element = Size


def known_dim(dim: int | str | None) -> Element:
    """A size as an element; names that stand for "any" are None."""
    return None if isinstance(dim, str) and not dim.strip("?*_- ") else dim


Dims = list[Element]
WHOLE = (1 << 31) - 1
"""Ends of slices from here on mean "to the end"."""


def dims_of(value: Value | None) -> Dims | None:
    """The sizes of a value as elements; None when not even the rank is known."""
    if value is None:
        return None
    if value.data is not None:
        return list(value.data.shape)
    return None if value.shape is None else [known_dim(d) for d in value.shape]


class Symbols:
    """Answers what is known of values of one graph; ``maker`` gives the node that makes a value."""

    def __init__(self, maker: Mapping[Value, Node]) -> None:
        self._maker = maker
        self._found: dict[Value, np.ndarray | None] = {}

    def array(self, value: Value | None) -> np.ndarray | None:
        """An array of elements, or None when not even the shape is known."""
        if value is None:
            return None
        if value not in self._found:
            self._found[value] = None  # for cycles, which a verified graph has not
            self._found[value] = self._compute(value)
        return self._found[value]

    def elements(self, value: Value | None) -> list[Element] | None:
        """A flat list of elements."""
        found = self.array(value)
        return None if found is None else list(found.reshape(-1))

    def forget(self, value: Value) -> None:
        self._found.pop(value, None)

    def _compute(self, value: Value) -> np.ndarray | None:
        data = plain(value)
        if data is not None:
            if data.dtype.kind not in "iub" or data.size > MAX_ELEMENTS:
                return None
            return np.array(data.tolist(), dtype=object).reshape(data.shape)
        node = self._maker.get(value)
        rule = _RULES.get(node.op) if node is not None else None
        if node is None or rule is None or node.outputs[0] is not value:
            return None
        try:
            found = rule(self, node)
        except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError):  # a misfit: reported when it runs
            return None
        return _within(value, found) if found is not None and found.size <= MAX_ELEMENTS else None


def _within(value: Value, found: np.ndarray) -> np.ndarray:
    """Elements as far as the value's type holds them: what goes beyond it wraps around when the model runs."""
    if value.dtype is None or not value.dtype.is_int:
        return found
    info = np.iinfo(value.dtype.numpy.name)
    if all(info.min <= d <= info.max for d in found.flat if isinstance(d, int)):
        return found
    return _each(lambda d: None if isinstance(d, int) and not info.min <= d <= info.max else d, found)


def _objects(items: list[Element]) -> np.ndarray:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def _shape(s: Symbols, node: Node) -> np.ndarray | None:
    x = node.inputs[0]
    if x is None or x.shape is None:
        return None
    start = attribute(node, "start") if attribute(node, "hasStart") else None
    end = attribute(node, "end") if attribute(node, "hasEnd") else None
    return _objects([known_dim(d) for d in x.shape][start:end])


def _same(s: Symbols, node: Node) -> np.ndarray | None:
    return s.array(node.inputs[0])


def _cast(s: Symbols, node: Node) -> np.ndarray | None:
    return s.array(node.inputs[0]) if attribute(node, "dstT") in ("DT_INT64", "DT_INT32") else None


def _gather(s: Symbols, node: Node) -> np.ndarray | None:
    data, indices = s.array(node.inputs[0]), s.array(node.inputs[1])
    axis = ints(node.inputs[2]) if len(node.inputs) > 2 else [int(attribute(node, "axis") or 0)]
    if data is None or indices is None or not axis or any(not isinstance(i, int) for i in indices.reshape(-1)):
        return None
    return np.asarray(np.take(data, indices.astype(np.int64), axis=axis[0]), dtype=object)


def _strided(s: Symbols, node: Node) -> np.ndarray | None:
    x = s.array(node.inputs[0])
    index = None if x is None or x.ndim != 1 else strided_index(node, 1)
    try:
        return None if x is None or index is None else np.asarray(x[tuple(index)], object)
    except IndexError:  # lowering will say what is wrong with it
        return None


def strided_index(node: Node, rank: int) -> list[slice | int | None] | None:
    """What a strided slice with constant bounds takes, as numpy's index of ``rank`` axes; None for all other nodes."""
    bounds = [None if v is None else ints(v) for v in node.inputs[1:]]
    if node.op != "StridedSlice" or len(bounds) < 2 or any(b is None for b in bounds):
        return None
    begins, ends, *others = [b for b in bounds if b is not None]
    onnx = attribute(node, "fromType") == 1
    axes = others.pop(0) if onnx and others else list(range(len(begins)))
    steps = others[0] if others else [1] * len(begins)
    if not len(begins) == len(ends) == len(steps) == len(axes) or 0 in steps:
        return None
    if not onnx:
        return masked_index([int(attribute(node, name)) for name in MASKS], begins, ends, steps, rank)
    if min(steps, default=1) < 0 or any(not -rank <= a < rank for a in axes):
        return None
    index: list[slice | int | None] = [slice(None)] * rank
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        index[axis] = slice(begin, end, step)
    return index


def _concat(s: Symbols, node: Node) -> np.ndarray | None:
    parts = [s.array(v) for v in node.inputs]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts) or not known:
        return None
    return np.concatenate(known, axis=int(attribute(node, "axis")))


def _pack(s: Symbols, node: Node) -> np.ndarray | None:
    parts = [s.array(v) for v in node.inputs]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts) or not known:
        return None
    return np.stack(known, axis=int(attribute(node, "axis")))


def _unsqueeze(s: Symbols, node: Node) -> np.ndarray | None:
    x, axes = s.array(node.inputs[0]), axes_of(node)
    return None if x is None or axes is None else np.expand_dims(x, tuple(axes))


def _squeeze(s: Symbols, node: Node) -> np.ndarray | None:
    x, axes = s.array(node.inputs[0]), axes_of(node)
    return None if x is None or axes is None else np.squeeze(x, tuple(axes) or None)


def _reshape(s: Symbols, node: Node) -> np.ndarray | None:
    x, dims = s.array(node.inputs[0]), ints(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if x is None or dims is None or 0 in dims else x.reshape(dims)


def _fill(s: Symbols, node: Node) -> np.ndarray | None:
    dims, value = s.elements(node.inputs[0]), s.elements(node.inputs[1])
    if dims is None or value is None or any(not isinstance(d, int) for d in dims):
        return None
    sizes = [d for d in dims if isinstance(d, int)]
    if any(d > MAX_ELEMENTS for d in sizes):
        return None
    return np.full(sizes, value[0], dtype=object)


def _select(s: Symbols, node: Node) -> np.ndarray | None:
    which, yes, no = (s.array(v) for v in node.inputs[:3])
    if which is None or yes is None or no is None:
        return None
    return _each(lambda c, a, b: None if c is None or isinstance(c, str) else (a if c else b), which, yes, no)


def _each(fn: Callable[..., Element], *arrays: np.ndarray) -> np.ndarray:
    parts = np.broadcast_arrays(*arrays)
    out = np.empty(parts[0].shape, dtype=object)
    for at in np.ndindex(out.shape):
        out[at] = fn(*(p[at] for p in parts))
    return out


def _binary(s: Symbols, node: Node) -> np.ndarray | None:
    kind = str(attribute(node, "opType"))
    x, y = s.array(node.inputs[0]), s.array(node.inputs[1])
    if x is None or y is None:
        return None
    if any(v is not None and v.dtype is not None and not v.dtype.is_int for v in node.inputs):
        return None
    return _each(lambda a, b: combine(kind, a, b), x, y)


def axes_of(node: Node) -> list[int] | None:
    """The axes of a Squeeze or Unsqueeze, from its attribute or a constant operand."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return ints(node.inputs[1])
    found: Any = node.attrs.get("squeezeDims")
    return [] if found is None else [int(v) for v in found]


_RULES: dict[str, Callable[[Symbols, Node], np.ndarray | None]] = {
    "Shape": _shape,
    "Identity": _same,
    "Cast": _cast,
    "GatherV2": _gather,
    "StridedSlice": _strided,
    "Concat": _concat,
    "Pack": _pack,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Fill": _fill,
    "Select": _select,
    "BinaryOp": _binary,
}
