"""Reading images at computed places: GridSample, deformable convolution."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.open_numbers import is_open
from MNN.ops.core.operands import along, check_channels, operand, optional, require_rank, wide
from MNN.ops.inference import infer


class _Extent:
    """How long an axis is, within bodies: a constant, or an operand where the size is open."""

    def __init__(self, b: Builder, size: int, dtype: DType) -> None:
        self.size = size
        self.operands: list[Tensor] = []
        """What a body takes besides its own operands, and hands on as ``given``."""
        if is_open([size]):
            count = b.open_numbers.tensor([size], (), DType.I64)
            self.operands.append(b.cast(b.open_numbers.input_for(count), dtype))

    def less(self, s: BodyBuilder, dtype: DType, given: Sequence[int], by: float = 0.0, least: float = -1.0) -> int:
        """The size less a number, and no less than ``least``."""
        if not given:
            return s.const(max(float(self.size) - by, least), dtype)
        return s("sub", given[0], s.const(by, dtype)) if by else given[0]


def _reflect(s: BodyBuilder, x: int, low: float, size: _Extent, given: Sequence[int]) -> int:
    """Mirrors a coordinate between ``low``, which is not above 0, and what lies as far beyond the last element."""
    dtype = s.dtype(x)
    if size.size - 1 - 2 * low <= 0:
        return s.const(low, dtype)
    span = size.less(s, dtype, given, 1 + 2 * low)
    away = s("abs", s("sub", x, s.const(low, dtype)))
    turns = s("floor", s("div", away, span))
    rest = s("sub", away, s("mul", turns, span))
    odd = s("ne", s("rem", turns, s.const(2, dtype)), s.const(0, dtype))
    return s("add", s("select", odd, s("sub", span, rest), rest), s.const(low, dtype))


def _clip(s: BodyBuilder, x: int, size: _Extent, given: Sequence[int]) -> int:
    """A finite coordinate inside the image (NaN becomes 0)."""
    dtype = s.dtype(x)
    inside = s("min", s("max", x, s.const(0, dtype)), size.less(s, dtype, given, 1, 0))
    return s("select", s("isnan", inside), s.const(0, dtype), inside)


def _cubic(s: BodyBuilder, t: int, tap: int, a: float) -> int:
    """Keys' weight of tap -1, 0, 1 or 2 for a fraction ``t``."""
    dtype = s.dtype(t)

    def number(v: float) -> int:
        return s.const(v, dtype)

    d = s("abs", s("sub", number(tap), t))
    if tap in (0, 1):
        inner = s("sub", s("mul", number(a + 2), d), number(a + 3))
        return s("add", s("mul", s("mul", inner, d), d), number(1))
    inner = s("add", s("mul", s("sub", s("mul", number(a), d), number(5 * a)), d), number(8 * a))
    return s("sub", s("mul", inner, d), number(4 * a))


class _Sampler:
    """Reads ``x[N, C, spatial...]`` at float coordinates, one tensor per spatial axis, all of one shape that
    broadcasts with the leading ``[N, C]``."""

    def __init__(self, b: Builder, x: Tensor, mode: str, padding: str, align: bool) -> None:
        self.b, self.x, self.mode, self.padding, self.align = b, x, mode, padding, align

    def _fold(self, s: BodyBuilder, at: int, size: _Extent, given: Sequence[int]) -> int:
        """Border or reflection applied to a coordinate."""
        if self.padding != "CLAMP":
            at = _reflect(s, at, 0.0 if self.align else -0.5, size, given)
        return _clip(s, at, size, given)

    def tap(self, at: Tensor, size: _Extent, k: int) -> tuple[Tensor, Tensor]:
        """Index (i32, inside the image) and weight of tap ``k``; nearest has tap 0, linear 0 and 1, cubic -1 to 2."""
        fold_first = self.padding != "ZEROS" and self.mode != "CUBIC"

        def place(s: BodyBuilder, a: int, given: Sequence[int]) -> tuple[int, int]:
            if fold_first:
                a = self._fold(s, a, size, given)
            base = s("round" if self.mode == "NEAREST" else "floor", a)
            return s("add", base, s.const(k, s.dtype(a))), s("sub", a, base)

        def index(s: BodyBuilder, a: int, *given: int) -> int:
            tap, _ = place(s, a, given)
            folded = self.mode == "CUBIC" and self.padding != "ZEROS"
            tap = self._fold(s, tap, size, given) if folded else _clip(s, tap, size, given)
            return s.cast(tap, DType.I32)

        def weight(s: BodyBuilder, a: int, *given: int) -> int:
            tap, t = place(s, a, given)
            one = s.const(1, s.dtype(a))
            w = one
            if self.mode == "BILINEAR":
                w = t if k else s("sub", one, t)
            elif self.mode == "CUBIC":
                w = _cubic(s, t, k, -0.75)
            if self.padding == "ZEROS":
                zero = s.const(0, s.dtype(a))
                inside = s("and", s("ge", tap, zero), s("le", tap, size.less(s, s.dtype(a), given, 1)))
                w = s("select", inside, w, zero)
            return w

        return self.b.map(index, at, *size.operands), self.b.map(weight, at, *size.operands)

    def read(self, places: Sequence[Tensor], batch: Tensor, shape: Sequence[int], walk_channel: int = 1) -> Tensor:
        """Samples of ``shape``; ``batch`` holds image numbers, channels walk along ``walk_channel`` of the output."""
        b, x = self.b, self.x
        reach = {"NEAREST": (0,), "BILINEAR": (0, 1), "CUBIC": (-1, 0, 1, 2)}[self.mode]
        sizes = [_Extent(b, n, at.dtype) for at, n in zip(places, x.shape[2:], strict=True)]
        axes = [[self.tap(at, n, k) for k in reach] for at, n in zip(places, sizes, strict=True)]
        indexed, walk = [0, *range(2, x.rank)], [-1, walk_channel, *([-1] * (x.rank - 2))]
        total: Tensor | None = None
        for combination in product(*axes):
            got = wide(b, b.gather(x, [batch, *(i for i, _ in combination)], indexed, walk, shape))
            weights = [w for _, w in combination]
            if self.mode == "NEAREST" and self.padding != "ZEROS":
                return b.cast(got, x.dtype)

            def term(s: BodyBuilder, *v: int, last: bool = total is not None, count: int = len(weights)) -> int:
                w = s.cast(v[1], s.dtype(v[0]))
                for k in range(2, count + 1):
                    w = s("mul", w, s.cast(v[k], s.dtype(v[0])))
                # a tap outside the image must not spoil the sum with its infinity or NaN
                zero = s.const(0, s.dtype(v[0]))
                part = s("select", s("eq", w, zero), zero, s("mul", v[0], w))
                return s("add", v[count + 1], part) if last else part

            total = b.map(term, got, *weights, *(() if total is None else (total,)))
        assert total is not None
        return b.cast(total, x.dtype)


@register("GridSample")
class GridSample(Operator):
    """``x[N, C, spatial...]`` read at ``grid[N, out..., k]``, whose last axis counts from the innermost spatial axis
    and runs from -1 to 1 over the image (Jaderberg et al. 2015, arXiv:1506.02025)."""

    attributes = {"mode": "BILINEAR", "paddingMode": "ZEROS", "alignCorners": False, "backward": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, grid = operand(b, inputs, 0), wide(b, operand(b, inputs, 1, "grid"))
        spatial, align = x.rank - 2, self.bool_attr(node, "alignCorners")
        padding = self.str_attr(node, "paddingMode")
        if spatial < 1 or grid.rank != x.rank or grid.shape[-1] != spatial or grid.shape[0] != x.shape[0]:
            raise ShapeError(f"{b.where}: grid {list(grid.shape)} does not fit the input {list(x.shape)}")
        if self.bool_attr(node, "backward") or padding not in ("ZEROS", "CLAMP", "REFLECTION"):
            raise ShapeError(f"{b.where}: backward or padding mode {padding} is not supported")
        out = grid.shape[1:-1]
        places = []
        for i, size in enumerate(x.shape[2:]):
            starts, counts = [0] * grid.rank, list(grid.shape)
            starts[-1], counts[-1] = spatial - 1 - i, 1
            one = b.reshape(b.slice(grid, starts, counts), (x.shape[0], 1, *out))
            extent = _Extent(b, size, one.dtype)

            def position(s: BodyBuilder, g: int, *given: int, extent: _Extent = extent) -> int:
                scale, shift = (self._half(s, extent, s.dtype(g), given, by) for by in (int(align), 1))
                return s("add", s("mul", g, scale), shift)

            places.append(b.map(position, one, *extent.operands))
        batch = b.const(np.arange(x.shape[0], dtype=np.int32).reshape(-1, *(1,) * (x.rank - 1)))
        sampler = _Sampler(b, x, self.str_attr(node, "mode"), padding, align)
        return [sampler.read(places, batch, (*x.shape[:2], *out))]

    @staticmethod
    def _half(s: BodyBuilder, extent: _Extent, dtype: DType, given: Sequence[int], by: int) -> int:
        """Half of the size less ``by``."""
        if not given:
            return s.const((extent.size - by) / 2, dtype)
        return s("mul", extent.less(s, dtype, given, by), s.const(0.5, dtype))


@register("OnnxGridSample")
class CubicGridSample(GridSample):
    """:class:`GridSample` in the modes that MNN lacks (``CUBIC``)."""

    in_mnn = False


@register("DeformConv")
class DeformConv(Operator):
    """Convolution whose taps are displaced by ``offset`` and scaled by ``mask`` (Dai et al. 2017, arXiv:1703.06211;
    Zhu et al. 2018, arXiv:1811.11168). Inputs ``x[N, C, H, W], weight[O, C/group, kh, kw],
    offset[N, offset_group*kh*kw*2, oh, ow], bias[O]?, mask[N, offset_group*kh*kw, oh, ow]?``."""

    in_mnn = False
    attributes = {"strides": None, "dilations": None, "pads": None, "group": 1, "offset_group": 1}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, w, offset = operand(b, inputs, 0), operand(b, inputs, 1, "weight"), operand(b, inputs, 2, "offset")
        bias, mask = optional(inputs, 3), optional(inputs, 4)
        for t in (x, w, offset):
            require_rank(b, t, 4)
        strides, dilations = (self.ints_attr(node, k) or (1, 1) for k in ("strides", "dilations"))
        pads = self.ints_attr(node, "pads") or (0, 0, 0, 0)
        group, parts = self.int_attr(node, "group"), self.int_attr(node, "offset_group")
        (n, c, _, _), (o, per, kh, kw), (oh, ow) = x.shape, w.shape, offset.shape[2:]
        taps, cells = kh * kw, oh * ow
        if bias is not None:
            check_channels(b, bias, o, "bias")
        room = [(x.shape[2 + i] + pads[i] + pads[i + 2] - dilations[i] * (w.shape[2 + i] - 1) - 1) for i in (0, 1)]
        if any(s < 1 for s in strides) or [r // s + 1 for r, s in zip(room, strides, strict=True)] != [oh, ow]:
            raise ShapeError(f"{b.where}: offsets {list(offset.shape)} do not cover the output of {list(x.shape)}")
        if group < 1 or parts < 1 or c % parts or per * group != c or o % group or offset.shape[1] != parts * taps * 2:
            raise ShapeError(
                f"{b.where}: input {list(x.shape)}, weights {list(w.shape)} and offsets {list(offset.shape)} do not fit"
            )
        # [N, parts, 1, taps, cells] per coordinate
        moved = b.reshape(wide(b, offset), (n, parts, 1, taps, 2, cells))
        places = []
        for axis, count in enumerate((oh, ow)):
            start = np.arange(count) * strides[axis] - pads[axis]
            tap = np.arange((kh, kw)[axis]) * dilations[axis]
            tap_line, out_line = ((kh, 1), (oh, 1)) if axis == 0 else ((1, kw), (1, ow))
            at = np.broadcast_to(tap.reshape(tap_line), (kh, kw)).reshape(taps, 1)
            base = at + np.broadcast_to(start.reshape(out_line), (oh, ow)).reshape(1, cells)
            one = b.slice(moved, (0, 0, 0, 0, axis, 0), (n, parts, 1, taps, 1, cells))
            one = b.reshape(one, (n * parts, 1, taps, cells))
            places.append(b.op("add", one, b.const(base.reshape(1, 1, taps, cells), one.dtype)))
        images = b.reshape(x, (n * parts, c // parts, *x.shape[2:]))
        batch = b.const(np.arange(n * parts, dtype=np.int32).reshape(-1, 1, 1, 1))
        sampler = _Sampler(b, images, "BILINEAR", "ZEROS", align=True)
        columns = sampler.read(places, batch, (n * parts, c // parts, taps, cells))
        if mask is not None:
            columns = b.op("mul", columns, b.cast(b.reshape(mask, (n * parts, 1, taps, cells)), columns.dtype))
        columns = b.reshape(columns, (n, group, per * taps, cells))
        out = b.reshape(b.matmul(b.reshape(w, (1, group, o // group, per * taps)), columns), (n, o, oh, ow))
        return [out if bias is None else b.op("add", out, along(b, bias, 1, 4))]


@infer.rule(CubicGridSample, GridSample)
def _infer_grid_sample(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, grid = infer.operand(node, 0), infer.operand(node, 1)
    known, places = infer.sizes(x), infer.sizes(grid)
    if known is None or places is None or len(places) != len(known):
        return [(x.dtype, None if known is None else (*known[:2], *(None,) * (len(known) - 2)))]
    return [(x.dtype, (*known[:2], *places[1:-1]))]


@infer.rule(DeformConv)
def _infer_deformed(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, shapes = infer.operand(node, 0), [infer.sizes(infer.operand(node, i)) for i in range(3)]
    if any(s is None or len(s) != 4 for s in shapes):
        return [(x.dtype, (None,) * 4)]
    known, weights, offset = (s for s in shapes if s is not None)
    return [(x.dtype, (known[0], weights[0], *offset[2:]))]
