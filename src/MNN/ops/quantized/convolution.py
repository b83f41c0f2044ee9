"""Convolutions of quantised tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import along, operand, optional
from MNN.ops.inference import infer, symbolic_shape_check, windows
from MNN.ops.linear.convolution import Convolution, fits_convolution, resolve_pads
from MNN.ops.quantized.quantization import (
    centred,
    centred_floats,
    in_bytes,
    output_factor,
    product_operands,
    requantize,
)


def quantized_attributes(attrs: Mapping[str, Any]) -> dict[str, object]:
    """The attributes of a convolution over images or volumes (transposed or not) as the quantised ones have them."""
    given = {key: v for key, v in attrs.items() if v is not None}
    common = {"padMode": str(given.get("padMode", "CAFFE")), "group": int(given.get("group", 1))}
    if "strides" in given or "dilates" in given or "kernels" in given:
        of_all = {key: list(given.get(key) or [number] * 3) for key, number in (("strides", 1), ("dilates", 1))}
        pads = list(given.get("pads") or [0] * 6)
        return {"strides": of_all["strides"], "dilations": of_all["dilates"], "pads": pads, **common}
    given = {**Convolution.attributes, **given}
    return {
        "strides": [int(given["strideY"]), int(given["strideX"])],
        "dilations": [int(given["dilateY"]), int(given["dilateX"])],
        "pads": list(given["pads"] or [int(given["padY"]), int(given["padX"])] * 2),
        **common,
    }  # fmt: skip


def over_lines(attrs: Mapping[str, object]) -> dict[str, object]:
    """The same without the first axis, which has no extent: a convolution over lines."""
    lists = {key: v for key, v in attrs.items() if isinstance(v, list)}
    both = {"pads": [n for i, n in enumerate(lists["pads"]) if i % 2]} if len(lists["pads"]) == 4 else {}
    return {**attrs, **{key: v[1:] for key, v in lists.items()}, **both}


class QuantizedConvolution(Operator):
    """What convolutions of integers have in common; their borders hold what stands for zero."""

    in_mnn = False
    attributes = {"strides": None, "dilations": None, "pads": None, "padMode": "CAFFE", "group": 1, "exact": False}

    def total(
        self, b: Builder, node: Node, x: Tensor, w: Tensor, xz: Tensor | None, wz: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        """The convolution of ``x - xz`` with ``w - wz`` in i32, plus ``bias``; borders hold ``xz``."""
        spatial = x.rank - 2
        strides, dilations, pads = self._window(b, node, x, w)
        padded, zero = _bordered(b, x, xz, (0, 0, *pads[:spatial]), (0, 0, *pads[spatial:]))
        group, w_zero = self.int_attr(node, "group"), None if wz is None else along(b, wz, 0, w.rank)
        whole = centred(b, w, w_zero)
        weights, taken = in_bytes(b, w, w_zero, x, w.shape[1:]) if group == 1 else (whole, 0)
        out = b.conv(*product_operands(b, padded, weights), strides, dilations, group, (0,) * (2 * spatial))
        if taken:
            sums = b.window("sum", b.cast(_channel_sums(b, padded), DType.F32), w.shape[2:], strides, dilations)
            out = b.map(
                lambda s, a, r: s("add", a, s("mul", s.cast(r, DType.I32), s.const(taken, DType.I32))), out, sums
            )
        plus = None if bias is None else along(b, b.cast(bias, DType.I32), 1, w.rank)
        if zero is not None:
            sums = b.reduce("sum", b.cast(whole, DType.I32), range(1, w.rank))
            sums = b.reshape(sums, (1, -1, *(1,) * spatial))
            if zero.const is not None:
                shift = b.op("mul", sums, b.op("neg", zero))
                plus = shift if plus is None else b.op("add", plus, shift)
            else:
                out = b.map(lambda s, a, t, z: s("sub", a, s("mul", t, z)), out, sums, zero)
        return out if plus is None else b.op("add", out, plus)

    def total_of_words(
        self, b: Builder, node: Node, x: Tensor, w: Tensor, xz: Tensor, wz: Tensor, bias: Tensor | None
    ) -> Tensor:
        """The same of 16-bit integers ``x``: in i32 where that is known to be exact, else in f32."""
        strides, dilations, pads = self._window(b, node, x, w)
        if not self.bool_attr(node, "exact"):
            x, w = centred_floats(b, x, b.reshape(xz, ())), centred_floats(b, w, along(b, wz, 0, w.rank))
        out = b.conv(x, w, strides, dilations, self.int_attr(node, "group"), pads)
        return out if bias is None else b.op("add", out, along(b, b.cast(bias, out.dtype), 1, w.rank))

    def _window(
        self, b: Builder, node: Node, x: Tensor, w: Tensor
    ) -> tuple[tuple[int, ...], tuple[int, ...], Sequence[int]]:
        """Strides, dilations and borders."""
        spatial = x.rank - 2
        if spatial < 1 or w.rank != x.rank:
            raise ShapeError(f"{b.where}: input {list(x.shape)} does not fit weights {list(w.shape)}")
        strides = self.ints_attr(node, "strides") or (1,) * spatial
        dilations = self.ints_attr(node, "dilations") or (1,) * spatial
        spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
        explicit = self.ints_attr(node, "pads") or (0,) * (2 * spatial)
        pads = resolve_pads(b, self.str_attr(node, "padMode"), explicit, x.shape[2:], spans, strides)
        return strides, dilations, pads


def _bordered(
    b: Builder, x: Tensor, zero: Tensor | None, low: Sequence[int], high: Sequence[int]
) -> tuple[Tensor, Tensor | None]:
    """``x`` with borders that hold its zero point, and this number, or that of each sample, in i32 (None when it is
    0)."""
    if zero is None or (zero.const is not None and not zero.const.any()):
        return b.pad(x, low, high), None
    if zero.const is not None and zero.const.size == 1:
        number = int(zero.const.reshape(-1)[0])
        return b.pad(x, low, high, number), b.const(number, DType.I32)
    one = (1,) * (x.rank - 1)
    if zero.rank != x.rank:
        zero = b.reshape(zero, (1, *one))
    elif zero.shape[0] not in (1, x.shape[0]) or zero.shape[1:] != one:
        raise ShapeError(f"{b.where}: zero points {list(zero.shape)} are not one for each sample of {list(x.shape)}")
    padded = x  # what makes it writes between the borders
    for axis in range(2, x.rank):
        before, behind = (
            b.expand(zero, (x.shape[0], *(n if i == axis else d for i, d in enumerate(padded.shape) if i)))
            for n in (low[axis], high[axis])
        )
        padded = b.concat([before, padded, behind], axis)
    return padded, b.cast(zero, DType.I32)


def _channel_sums(b: Builder, x: Tensor) -> Tensor:
    return b.reduce("sum", b.cast(x, DType.I32), [1])


@register("ConvInteger")
class ConvInteger(QuantizedConvolution):
    """Convolution of 8-bit integers in i32; inputs ``x, w, x_zero?, w_zero?``. ``x_zero`` is one number, or one for
    each sample in a tensor of ``x``'s rank."""

    zero_points = {0: 2, 1: 3}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, w = operand(b, inputs, 0), operand(b, inputs, 1)
        return [self.total(b, node, x, w, optional(inputs, 2), optional(inputs, 3), None)]


@register("QLinearConv")
class QLinearConv(QuantizedConvolution):
    """Quantised convolution; inputs ``x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias?`` (i32).

    ``x`` may be of 16 bits. Its products with weights of 8 bits are summed in f32, or with ``exact``, which says that
    zero points are zero and that no sum leaves 32 bits, as integers (:mod:`MNN.compiler.integers.exact_words`).
    """

    zero_points, result_zero_point = {0: 2, 3: 5}, 7

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, xs, xz, w, ws, wz, os, oz = (operand(b, inputs, i) for i in range(8))
        form = self.total_of_words if x.dtype is DType.I16 else self.total
        total = form(b, node, x, w, xz, wz, optional(inputs, 8))
        factor = output_factor(b, xs, along(b, ws, 1, total.rank), os)
        return [requantize(b, total, factor, b.reshape(oz, ()))]


@infer.rule(QLinearConv, ConvInteger)
def _infer_quantized_convolution(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    linear = node.op == "QLinearConv"
    x, w = infer.operand(node, 0), infer.operand(node, 3 if linear else 1)
    dtype = infer.operand(node, 7).dtype if linear else DType.I32
    known, weights = infer.sizes(x), infer.sizes(w)
    if known is None or weights is None:
        return [(dtype, None if weights is None else (None, weights[0], *(None,) * (len(weights) - 2)))]
    count = len(weights) - 2
    strides, dilations = (infer.ints(node, key) or [1] * count for key in ("strides", "dilations"))
    kernel = [d if isinstance(d, int) else 0 for d in weights[2:]]
    mode = str(node.attrs.get("padMode", "CAFFE"))
    return [
        (
            dtype,
            (
                known[0],
                weights[0],
                *windows.windows(known[2:], kernel, strides, dilations, infer.ints(node, "pads"), mode),
            ),
        )
    ]


symbolic_shape_check.rule(ConvInteger, QLinearConv)(fits_convolution)
