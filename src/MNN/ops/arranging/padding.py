"""Operators that put borders around a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir import symbolic
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import normalize_axis
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional
from MNN.ops.inference import infer

MAX_SIZE = 1 << 28
"""Padded axes stay below this."""


@register("Padding")
class Padding(Operator):
    """x, pads ``[begin0, end0, begin1, end1, ...]``, value?: a border of ``mode`` CONSTANT, REFLECT, SYMMETRIC or EDGE.

    Negative amounts crop.
    """

    sizes_from = 1
    attributes = {"mode": "CONSTANT"}

    def moved_operands(self, node: Node) -> Sequence[int]:
        return (0, 2) if self.str_attr(node, "mode") == "CONSTANT" else (0,)

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        return [pad(b, x, self.str_attr(node, "mode"), b.ints(operand(b, inputs, 1), "the pads"), optional(inputs, 2))]


@register("PadWrap")
class PadWrap(Operator):
    """Like Padding, continuing the tensor periodically."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [pad(b, operand(b, inputs, 0), "WRAP", b.ints(operand(b, inputs, 1), "the pads"), None)]


@register("PadAxes")
class PadAxes(Operator):
    """x, pads, value?, axes: pads are the begins, then the ends, of the named axes only (ONNX)."""

    in_mnn = False
    attributes = {"mode": "CONSTANT"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, pads = operand(b, inputs, 0), b.ints(operand(b, inputs, 1), "the pads")
        axes = [normalize_axis(a, x.rank, b.where) for a in b.ints(operand(b, inputs, 3), "the axes")]
        if len(pads) != 2 * len(axes):
            raise ShapeError(f"{b.where}: {len(pads)} pads for {len(axes)} axes, expected two for each")
        full = [0] * (2 * x.rank)
        for i, axis in enumerate(axes):
            full[2 * axis : 2 * axis + 2] = pads[i], pads[i + len(axes)]
        return [pad(b, x, self.str_attr(node, "mode"), full, optional(inputs, 2))]


def pad(b: Builder, x: Tensor, mode: str, pads: Sequence[int], value: Tensor | None) -> Tensor:
    """A border of ``pads`` (begin and end of axis 0, of axis 1, ...)."""
    if len(pads) != 2 * x.rank:
        raise ShapeError(f"{b.where}: {len(pads)} pads for an input of shape {list(x.shape)}, expected {2 * x.rank}")
    if mode not in ("CONSTANT", "REFLECT", "SYMMETRIC", "EDGE", "WRAP"):
        raise ShapeError(f"{b.where}: mode {mode} is not one of CONSTANT, REFLECT, SYMMETRIC, EDGE")
    low, high = pads[0::2], pads[1::2]
    if mode == "CONSTANT":
        if any(d + a + z < 0 for d, a, z in zip(x.shape, low, high, strict=True)):
            raise ShapeError(f"{b.where}: pads {list(pads)} take more than all of {list(x.shape)}")
        number = b.value(value, "the value to pad with").reshape(-1) if value is not None else np.zeros(1)
        if x.dtype is DType.STR or number.size != 1:
            raise ShapeError(f"{b.where}: one number pads a tensor of numbers, found {number.size} for {x.dtype.value}")
        return b.pad(x, low, high, number[0].item())
    for axis, (a, z) in enumerate(zip(low, high, strict=True)):
        if a or z:
            x = _pad_axis(b, x, axis, mode, a, z)
    return x


def _pad_axis(b: Builder, x: Tensor, axis: int, mode: str, low: int, high: int) -> Tensor:
    first, size = max(-low, 0), x.shape[axis] + min(low, 0) + min(high, 0)  # what is cut off is not repeated
    if (size < 1 and (x.shape[axis] == 0 or low > 0 or high > 0)) or not 0 <= x.shape[axis] + low + high < MAX_SIZE:
        raise ShapeError(f"{b.where}: cannot pad axis {axis} of {list(x.shape)} by {low} and {high} in mode {mode}")
    starts, counts = [0] * x.rank, list(x.shape)
    starts[axis], counts[axis] = (first, size) if size > 0 else (0, 0)
    x, low, high = b.slice(x, starts, counts), max(low, 0), max(high, 0)
    if not low and not high:
        return x
    b.require(size + low + high, f"axis {axis}")
    borders = _borders(mode, size, low, high)
    if borders is None:  # the tensor goes on more than once
        return b.take(x, b.const(_index(mode, size, low, high), DType.I64), axis)
    (before, step), (after, _) = borders
    ends = [_border(b, x, axis, *part, step) for part in ((before, low), (after, high))]
    return b.concat([ends[0], x, ends[1]], axis)


def _borders(mode: str, size: int, low: int, high: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Where the borders before and behind an axis begin in it, and by what they step, where each is one run."""
    most = max(low, high)
    if mode == "EDGE":
        return (0, 0), (size - 1, 0)
    if mode == "WRAP" and size >= most:
        return (size - low, 1), (0, 1)
    if mode == "SYMMETRIC" and size >= most:
        return (low - 1, -1), (size - 1, -1)
    if mode == "REFLECT" and size > most:
        return (low, -1), (size - 2, -1)
    return None


def _border(b: Builder, x: Tensor, axis: int, start: int, count: int, step: int) -> Tensor:
    starts, counts, steps = [0] * x.rank, list(x.shape), [1] * x.rank
    starts[axis], counts[axis], steps[axis] = start if count else 0, count if step else min(count, 1), step or 1
    found = b.slice(x, starts, counts, steps)
    return found if step else b.expand(found, [count if i == axis else d for i, d in enumerate(x.shape)])


def _index(mode: str, size: int, low: int, high: int) -> np.ndarray:
    """Which element of an axis stands where."""
    where = np.arange(-low, size + high)
    if mode == "WRAP":
        return where % size
    if mode == "SYMMETRIC":
        folded = where % (2 * size)
        return np.where(folded < size, folded, 2 * size - 1 - folded)
    period = max(2 * size - 2, 1)
    folded = where % period
    return np.where(folded < size, folded, period - folded)


@infer.rule(Padding, PadWrap)
def _infer_padding(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, pads = infer.operand(node, 0), h.ints(node.inputs[1])
    known = infer.sizes(x)
    if known is None or pads is None:
        return [(x.dtype, None if known is None else (None,) * len(known))]
    return [(x.dtype, tuple(symbolic.add(d, a, b) for d, a, b in zip(known, pads[0::2], pads[1::2], strict=True)))]


@infer.rule(PadAxes)
def _infer_pad_axes(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    known = infer.sizes(infer.operand(node, 0))
    return [(infer.operand(node, 0).dtype, None if known is None else (None,) * len(known))]
