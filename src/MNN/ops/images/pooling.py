"""Pooling over spatial windows: maximum, average, p-norm, with indices, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ir.symbolic import Size
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.common import numbers
from MNN.ops.core.open_numbers import is_open
from MNN.ops.core.operands import operand, require_rank, wide
from MNN.ops.inference import infer
from MNN.ops.inference.windows import windows as window_counts
from MNN.ops.linear.convolution import resolve_pads


@dataclass(frozen=True)
class Windows:
    """Where the windows of a pooling lie. ``ends`` may exceed the declared padding (``ceil``), and may be less of it;
    what of the input no window reaches stays: a crop under a border would cost a copy."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    declared_ends: tuple[int, ...]
    out: tuple[int, ...]

    def positions(self, axis: int) -> np.ndarray:
        """Input coordinates ``[out, kernel]`` along a spatial axis (outside the input in the padding)."""
        start = np.arange(self.out[axis]) * self.strides[axis] - self.begins[axis]
        found: np.ndarray = start[:, None] + np.arange(self.kernel[axis]) * self.dilations[axis]
        return found

    def counts(self, sizes: Sequence[int], include_pads: bool) -> np.ndarray:
        """How many elements each window averages over, ``[out...]``."""
        total = np.ones((), np.float64)
        for axis, size in enumerate(sizes):
            at = self.positions(axis)
            low, high = (-self.begins[axis], size + self.declared_ends[axis]) if include_pads else (0, size)
            per = ((at >= low) & (at < high)).sum(1)
            total = total[..., None] * per
        return np.asarray(total)


def windows(
    b: Builder,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    mode: str,
    explicit: Sequence[int],
    ceil: bool,
) -> Windows:
    """The windows over a spatial extent. With ``ceil`` a window may hang over the end, if it starts inside."""
    count = len(sizes)
    if not (len(kernel) == len(strides) == len(dilations) == count):
        raise ShapeError(f"{b.where}: kernel {list(kernel)} and strides do not fit {count} spatial axes")
    if any(v < 1 for v in (*kernel, *strides, *dilations)):
        raise ShapeError(f"{b.where}: kernel {list(kernel)}, strides {list(strides)} must be positive")
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = resolve_pads(b, mode, explicit, sizes, spans, strides)
    begins, declared = pads[:count], pads[count:]
    out, ends = [], []
    for n, a, z, k, s in zip(sizes, begins, declared, spans, strides, strict=True):
        room = n + a + z - k
        steps = (n + a + min(z - k + s - 1, -1)) // s if ceil else room // s
        if (room < 0 and not ceil) or steps < 0:
            raise ShapeError(f"{b.where}: window {spans} is larger than the padded input {list(sizes)}")
        out.append(steps + 1)
        hangs = min(z + s - 1, k - 1) if ceil else z  # the most that any window does, whatever the size is
        ends.append(hangs if is_open([n]) else max(steps * s + k - n - a, min(z, 0)))
    return Windows(tuple(kernel), tuple(strides), tuple(dilations), begins, tuple(ends), declared, tuple(out))


def reduce_windows(b: Builder, x: Tensor, op: str, w: Windows, fill: float | int) -> Tensor:
    """``op`` over every window; ``fill`` stands for what lies outside the input."""
    padded = b.pad(x, (0, 0, *w.begins), (0, 0, *w.ends), fill)
    return b.window(op, padded, w.kernel, w.strides, w.dilations)


def lowest(dtype: DType) -> float | int:
    """The neutral element of a maximum."""
    if dtype.is_float:
        return float("-inf")
    return 0 if dtype is DType.BOOL else int(np.iinfo(dtype.numpy.name).min)


def max_windows(b: Builder, x: Tensor, w: Windows) -> Tensor:
    return reduce_windows(b, x, "max", w, lowest(x.dtype))


def average_windows(b: Builder, x: Tensor, w: Windows, include_pads: bool) -> Tensor:
    total = reduce_windows(b, wide(b, x), "sum", w, 0)
    if is_open(x.shape[2:]):
        return b.cast(b.op("mul", total, _counted(b, x, w, include_pads, total.dtype)), x.dtype)
    b.require(max(o * k for o, k in zip(w.out, w.kernel, strict=True)), "the table of positions")
    b.require(math.prod(w.out), "the table of counts")
    counts = w.counts(x.shape[2:], include_pads)
    if counts.size and counts.min() == counts.max():
        counts = counts.reshape(-1)[:1].reshape(())
    with np.errstate(divide="ignore"):
        scale = np.where(counts > 0, 1.0 / counts, 0.0)
    return b.cast(b.op("mul", total, b.const(scale, total.dtype)), x.dtype)


def _counted(b: Builder, x: Tensor, w: Windows, include_pads: bool, dtype: DType) -> Tensor:
    """The scale of averages for sizes that are open, ``[out...]``: computed from them when they are known, since what
    the last windows have depends on all of the size."""

    def number(n: int) -> Tensor:
        return b.cast(numbers(b, n, DType.I32), dtype)

    spatial = len(w.out)
    total = b.const(np.ones((1,) * spatial), dtype)
    for axis, (size, kernel, step) in enumerate(zip(x.shape[2:], w.kernel, w.dilations, strict=True)):
        begin, end = (w.begins[axis], w.declared_ends[axis]) if include_pads else (0, 0)
        line = [1] * spatial
        line[axis] = int(w.out[axis])
        steps = b.const((np.arange(line[axis]) * w.strides[axis]).reshape(line), dtype)
        start = b.op("sub", steps, number(w.begins[axis]))
        before, taps = (
            b.op("ceil", b.op("div", b.op("sub", number(n), start), number(step))) for n in (-begin, size + end)
        )
        before = b.op("min", b.op("max", before, number(0)), number(kernel))
        here = b.op("sub", b.op("min", taps, number(kernel)), before)
        total = b.op("mul", total, b.op("max", here, number(0)))
    one = b.const(np.ones(()), dtype)
    return b.op("div", one, b.op("max", total, one))


def _global(b: Builder, x: Tensor, average: bool) -> Tensor:
    axes = range(2, x.rank)
    if not average:
        return b.reduce("max", x, axes)
    return b.cast(b.reduce("mean", wide(b, x), axes), x.dtype)


@register("Pooling")
class Pooling(Operator):
    """Maximum or average over windows of ``x[N, C, H, W]``; over everything when ``isGlobal``."""

    repeats = True
    attributes = {
        "padX": 0, "padY": 0, "isGlobal": False, "kernelX": 0, "kernelY": 0, "strideX": 0, "strideY": 0,
        "type": "MAXPOOL", "padType": "CAFFE", "dataType": "DT_FLOAT", "ceilModel": True, "pads": None,
        "countType": "DEFAULT",
    }  # fmt: skip

    def moved_operands(self, node: Node) -> Sequence[int]:
        return (0,) if self.str_attr(node, "type") == "MAXPOOL" else ()

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        average = self.str_attr(node, "type") == "AVEPOOL"
        if self.bool_attr(node, "isGlobal"):
            return [_global(b, x, average)]
        require_rank(b, x, 4)
        kernel = (self.int_attr(node, "kernelY"), self.int_attr(node, "kernelX"))
        strides = (self.int_attr(node, "strideY") or 1, self.int_attr(node, "strideX") or 1)
        explicit = self.ints_attr(node, "pads") or (self.int_attr(node, "padY"), self.int_attr(node, "padX"))
        mode, count = self.str_attr(node, "padType"), self.str_attr(node, "countType")
        w = windows(b, x.shape[2:], kernel, strides, (1, 1), mode, explicit, self.bool_attr(node, "ceilModel"))
        if not average:
            return [max_windows(b, x, w)]
        # left open, the official engine counts explicit padding in and computed padding not
        include = count == "INCLUDE_PADDING" or (count == "DEFAULT" and mode == "CAFFE")
        return [average_windows(b, x, w, include)]


@register("Pooling3D")
class Pooling3D(Operator):
    """Maximum or average over windows of ``x[N, C, D, H, W]``; over everything, at any rank, when ``isGlobal``.
    An average leaves the padding out."""

    attributes = {
        "strides": None, "kernels": None, "pads": None, "type": "MAXPOOL", "padType": "CAFFE", "isGlobal": False,
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        average = self.str_attr(node, "type") == "AVEPOOL"
        if self.bool_attr(node, "isGlobal"):
            return [_global(b, x, average)]
        require_rank(b, x, 5)
        kernel, strides = self.ints_attr(node, "kernels"), self.ints_attr(node, "strides") or (1, 1, 1)
        pads, mode = self.ints_attr(node, "pads") or (0, 0, 0), self.str_attr(node, "padType")
        w = windows(b, x.shape[2:], kernel, strides, (1, 1, 1), mode, pads, False)
        return [average_windows(b, x, w, False) if average else max_windows(b, x, w)]


class _OnnxPool(Operator):
    """Pooling in ONNX's own terms, for the forms that MNN lacks (dilations, indices, any rank)."""

    in_mnn = False
    attributes = {
        "kernel_shape": None, "strides": None, "dilations": None, "pads": None, "padMode": "CAFFE", "ceil_mode": False,
        "count_include_pad": False, "storage_order": 0, "p": 2,
    }  # fmt: skip

    def windows(self, b: Builder, node: Node, x: Tensor) -> Windows:
        kernel = self.ints_attr(node, "kernel_shape")
        ones = (1,) * len(kernel)
        if x.rank != 2 + len(kernel):
            raise ShapeError(f"{b.where}: input {list(x.shape)} does not fit the kernel {list(kernel)}")
        return windows(
            b, x.shape[2:], kernel, self.ints_attr(node, "strides") or ones, self.ints_attr(node, "dilations") or ones,
            self.str_attr(node, "padMode"), self.ints_attr(node, "pads") or (0,) * (2 * len(kernel)),
            self.bool_attr(node, "ceil_mode"),
        )  # fmt: skip


@register("MaxPool")
class MaxPool(_OnnxPool):
    """Maximum, and optionally its flat index in the whole input (i64; column-major when ``storage_order`` is 1)."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        w = self.windows(b, node, x)
        best = max_windows(b, x, w)
        if len(node.outputs) < 2:
            return [best]
        return [best, self._indices(b, x, w, column_major=self.int_attr(node, "storage_order") == 1)]

    def _indices(self, b: Builder, x: Tensor, w: Windows, column_major: bool) -> Tensor:
        sizes, spatial = x.shape[2:], x.rank - 2
        plane, count = int(np.prod(sizes)), int(np.prod(w.kernel))
        order = [0] * spatial
        step = 1
        for axis in range(spatial) if column_major else range(spatial - 1, -1, -1):
            order[axis], step = step, step * sizes[axis]
        # flat positions [out..., kernel...] in the padded input, and the answer for each
        b.require(math.prod(w.out) * math.prod(w.kernel), "the table of positions")
        padded = b.pad(x, (0, 0, *w.begins), (0, 0, *w.ends), lowest(x.dtype))
        place = np.zeros((1,) * (2 * spatial), np.int64)
        answer = place
        stride = 1
        for axis in range(spatial - 1, -1, -1):
            line = [1] * (2 * spatial)
            line[axis], line[axis + spatial] = w.out[axis], w.kernel[axis]
            at = w.positions(axis)
            place = place + (at + w.begins[axis]).reshape(line) * stride
            answer = answer + _inside(at, sizes[axis]).reshape(line) * order[axis]
            stride *= padded.shape[axis + 2]
        flat = b.reshape(padded, (*x.shape[:2], -1))
        patches = b.take(flat, b.const(place.reshape(-1, count)), 2)
        chosen = b.argreduce("argmax", patches, 3)
        table = b.const(answer.reshape(-1, count))
        found = b.gather(table, [chosen], [1], [2, -1], chosen.shape)
        base = np.arange(x.shape[0] * x.shape[1], dtype=np.int64).reshape(*x.shape[:2], 1, 1) * plane
        return b.reshape(b.op("add", found, b.const(base)), (*x.shape[:2], *w.out))


def _inside(at: np.ndarray, size: int) -> np.ndarray:
    """Positions ``[out, kernel]`` with those in the padding replaced by the window's first one in the input: the
    padding is chosen where all numbers are as low as it."""
    inside = (at >= 0) & (at < size)
    first = np.take_along_axis(at, inside.argmax(1)[:, None], 1)
    return np.clip(np.where(inside, at, first), 0, max(size - 1, 0))


@register("AveragePool")
class AveragePool(_OnnxPool):
    """Average; the padding counts when ``count_include_pad``."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        return [average_windows(b, x, self.windows(b, node, x), self.bool_attr(node, "count_include_pad"))]


def _power(b: Builder, x: Tensor, p: int) -> Tensor:
    def body(s: BodyBuilder, a: int) -> int:
        if p == 2:  # a square has a second derivative at 0, that of a size has not
            return s("mul", a, a)
        return s("abs", a) if p == 1 else s("pow", s("abs", a), s.const(p, x.dtype))

    return b.map(body, x)


def _root(b: Builder, x: Tensor, p: int) -> Tensor:
    return x if p == 1 else b.op("sqrt", x) if p == 2 else b.op("pow", x, b.like(1.0 / p, x))


@register("LpPool")
class LpPool(_OnnxPool):
    """``(sum |x|^p)^(1/p)`` over windows."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, p = operand(b, inputs, 0), self.int_attr(node, "p")
        total = reduce_windows(b, _power(b, wide(b, x), p), "sum", self.windows(b, node, x), 0)
        return [b.cast(_root(b, total, p), x.dtype)]


@register("GlobalLpPool")
class GlobalLpPool(Operator):
    """``(sum |x|^p)^(1/p)`` over all spatial axes."""

    in_mnn = False
    attributes = {"p": 2}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, p = operand(b, inputs, 0), self.int_attr(node, "p")
        total = b.reduce("sum", _power(b, wide(b, x), p), range(2, x.rank))
        return [b.cast(_root(b, total, p), x.dtype)]


@register("MaxUnpool")
class MaxUnpool(_OnnxPool):
    """Puts ``x`` back to the flat places ``indices`` of MaxPool; zeros elsewhere. The third input gives the shape."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, indices = operand(b, inputs, 0), operand(b, inputs, 1)
        if indices.shape != x.shape:
            raise ShapeError(f"{b.where}: {list(indices.shape)} places for {list(x.shape)} numbers")
        kernel = self.ints_attr(node, "kernel_shape")
        ones = (1,) * len(kernel)
        strides, pads = self.ints_attr(node, "strides") or ones, self.ints_attr(node, "pads") or (*ones, *ones)
        if not self.ints_attr(node, "pads"):
            pads = (0,) * (2 * len(kernel))
        inferred = [
            (n - 1) * s + k - a - z
            for n, s, k, a, z in zip(
                x.shape[2:], strides, kernel, pads[: len(kernel)], pads[len(kernel) :], strict=True
            )
        ]
        # indices count in the tensor that MaxPool saw; a larger output shape is filled from the front
        inner = (*x.shape[:2], *inferred)
        shape = inner if len(inputs) < 3 or inputs[2] is None else b.ints(inputs[2], "the output shape")
        if len(shape) != x.rank or any(n < m for n, m in zip(shape, inner, strict=True)):
            raise ShapeError(f"{b.where}: output shape {list(shape)} cannot hold {list(inner)}")
        zeros = b.expand(b.like(0, x), (int(np.prod(inner)),))
        flat, where = b.reshape(x, (-1,)), b.reshape(indices, (-1,))
        out = b.reshape(b.scatter("set", zeros, flat, [where], [0], [-1]), inner)
        return [b.pad(out, [0] * x.rank, [n - m for n, m in zip(shape, inner, strict=True)])]


@infer.rule(Pooling, Pooling3D)
def _infer_pooling(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known = infer.sizes(x)
    if known is None:
        return [(x.dtype, None)]
    if node.attrs.get("isGlobal"):
        return [(x.dtype, (*known[:2], *(1,) * (len(known) - 2)))]
    if node.op == "Pooling":
        kernel = [infer.number(node, "kernelY"), infer.number(node, "kernelX")]
        strides = [infer.number(node, "strideY") or 1, infer.number(node, "strideX") or 1]
        pads = infer.ints(node, "pads") or [infer.number(node, "padY"), infer.number(node, "padX")]
        ceil = bool(node.attrs.get("ceilModel", True))
    else:
        kernel, strides, ceil = infer.ints(node, "kernels"), infer.ints(node, "strides") or [1] * 3, False
        pads = infer.ints(node, "pads") or [0] * 3
    mode = str(node.attrs.get("padType", "CAFFE"))
    if ceil and (mode != "CAFFE" or len(known) != 4):
        return [(x.dtype, (*known[:2], *(None,) * (len(known) - 2)))]
    if ceil:
        both = list(pads) * 2 if len(pads) == 2 else list(pads)
        sides = zip(known[2:], both[:2], both[2:], kernel, strides, strict=False)
        return [(x.dtype, (*known[:2], *(_ceiled(*side) for side in sides)))]
    return [(x.dtype, (*known[:2], *window_counts(known[2:], kernel, strides, [1] * len(kernel), pads, mode)))]


def _ceiled(size: Size, begin: int, end: int, kernel: int, stride: int) -> int | None:
    """How many windows there are where they may hang over the end, but begin in it; a rule for numbers alone."""
    if not isinstance(size, int) or stride < 1:
        return None
    return max((size + begin + min(end - kernel + stride - 1, -1)) // stride + 1, 0)


@infer.rule(MaxPool, AveragePool, LpPool, GlobalLpPool)
def _infer_onnx_pooling(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known = infer.sizes(x)
    out: infer.Sizes | None = None if known is None else (*known[:2], *(None,) * (len(known) - 2))
    kernel, mode = infer.ints(node, "kernel_shape"), str(node.attrs.get("padMode", "CAFFE"))
    if known is not None and node.op == "GlobalLpPool":
        out = (*known[:2], *(1,) * (len(known) - 2))
    elif known is not None and len(known) == len(kernel) + 2 and not node.attrs.get("ceil_mode"):
        ones = [1] * len(kernel)
        strides, dilations = infer.ints(node, "strides") or ones, infer.ints(node, "dilations") or ones
        out = (*known[:2], *window_counts(known[2:], kernel, strides, dilations, infer.ints(node, "pads"), mode))
    return [(x.dtype, out), (DType.I64, out)]
