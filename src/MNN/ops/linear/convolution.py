"""Convolutions in two and three dimensions. (One dimension is written as two with a height of 1.)"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir import symbolic
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ir.traced import clipped
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import along, check_channels, operand, optional, require_rank
from MNN.ops.inference import infer, symbolic_shape_check, windows
from MNN.ops.linear.compressed import compressed_matmul
from MNN.ops.linear.transposed import transposed_convolution, with_bias


def same_pads(
    sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int], lower: bool = False
) -> tuple[int, ...]:
    """Begins then ends such that the output has ``ceil(size / stride)`` elements; the odd one goes to the end
    (to the begin when ``lower``). ``spans`` are the kernel's extents with dilation."""
    totals = [(-(-n // s) - 1) * s + k - n for n, k, s in zip(sizes, spans, strides, strict=True)]
    totals = [t if k >= s else clipped(t) for t, k, s in zip(totals, spans, strides, strict=True)]
    begins = [(t + 1) // 2 if lower else t // 2 for t in totals]
    return (*begins, *(t - a for t, a in zip(totals, begins, strict=True)))


def resolve_pads(
    b: Builder,
    mode: str,
    explicit: Sequence[int],
    sizes: Sequence[int],
    spans: Sequence[int],
    strides: Sequence[int],
) -> tuple[int, ...]:
    """Begins then ends of all spatial axes for a PadMode: CAFFE (explicit), VALID, SAME or SAME_LOWER."""
    count = len(sizes)
    if mode == "VALID":
        return (0,) * (2 * count)
    if mode in ("SAME", "SAME_LOWER"):
        if any(s < 1 for s in strides):
            raise ShapeError(f"{b.where}: strides {list(strides)} must be positive")
        return same_pads(sizes, spans, strides, mode == "SAME_LOWER")
    if mode != "CAFFE":
        raise ShapeError(f"{b.where}: padMode '{mode}' is none of CAFFE, VALID, SAME, SAME_LOWER")
    if len(explicit) == count:  # symmetric
        return (*explicit, *explicit)
    if len(explicit) != 2 * count:
        raise ShapeError(f"{b.where}: pads {list(explicit)} do not fit {count} spatial axes")
    return tuple(explicit)


def activate(b: Builder, x: Tensor, relu: bool, relu6: bool) -> Tensor:
    """The activation that a convolution carries."""
    if relu6:
        return b.clamp(x, 0, 6)
    return b.clamp(x, 0, None) if relu else x


def add_bias(b: Builder, x: Tensor, bias: Tensor | None) -> Tensor:
    """Adds one number per channel (axis 1)."""
    if bias is None:
        return x
    check_channels(b, bias, x.shape[1], "the bias")
    return b.op("add", x, b.cast(along(b, bias, 1, x.rank), x.dtype))


class BaseConvolution(Operator):
    """What 2-D and 3-D (transposed) convolutions share: reading their attributes as lists over spatial axes."""

    spatial = 2
    """How many axes its windows have."""

    def geometry(self, node: Node) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Strides, dilations and explicit pads."""
        if self.spatial == 3:
            return (
                self.ints_attr(node, "strides") or (1, 1, 1),
                self.ints_attr(node, "dilates") or (1, 1, 1),
                self.ints_attr(node, "pads") or (0,) * 6,
            )
        pads = self.ints_attr(node, "pads") or (self.int_attr(node, "padY"), self.int_attr(node, "padX"))
        strides = (self.int_attr(node, "strideY"), self.int_attr(node, "strideX"))
        return strides, (self.int_attr(node, "dilateY"), self.int_attr(node, "dilateX")), pads

    def finish(self, b: Builder, node: Node, x: Tensor) -> Tensor:
        return activate(b, x, self.bool_attr(node, "relu"), self.bool_attr(node, "relu6"))


_COMMON_2D: dict[str, object] = {
    "padX": 0, "padY": 0, "kernelX": 1, "kernelY": 1, "strideX": 1, "strideY": 1, "dilateX": 1, "dilateY": 1,
    "padMode": "CAFFE", "group": 1, "outputCount": 0, "inputCount": 0, "relu": False, "relu6": False, "pads": None,
    "outPads": None, "hasOutputShape": False,
}  # fmt: skip
_COMMON_3D: dict[str, object] = {
    "dilates": None, "strides": None, "kernels": None, "pads": None, "padMode": "CAFFE", "inputCount": 0,
    "outputCount": 0, "relu": False, "relu6": False, "group": 1, "outPads": None, "hasOutputShape": False,
}  # fmt: skip


@register("Convolution", "ConvolutionDepthwise")
class Convolution(BaseConvolution):
    """``x[N, C, H, W]``, ``weight[O, C/group, kh, kw]``, ``bias[O]?``."""

    repeats = True
    attributes = _COMMON_2D

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, w = operand(b, inputs, 0, "x"), operand(b, inputs, 1, "weight")
        rank = x.rank
        if self.spatial == 2 and rank == 3:  # files of the official engine: a line is an image of width 1
            x = b.reshape(x, (*x.shape, 1))
        require_rank(b, x, 2 + self.spatial)
        require_rank(b, w, 2 + self.spatial, name="the weight")
        strides, dilations, explicit = self.geometry(node)
        spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
        pads = resolve_pads(b, self.str_attr(node, "padMode"), explicit, x.shape[2:], spans, strides)
        groups = self.int_attr(node, "group")
        if node.op == "ConvolutionDepthwise" and w.shape[1]:
            groups = x.shape[1] // w.shape[1]
        out = self.finish(b, node, add_bias(b, b.conv(x, w, strides, dilations, groups, pads), optional(inputs, 2)))
        return [out if rank == out.rank else b.squeeze(out, [-1])]

    def lower_compressed(
        self, b: Builder, node: Node, inputs: Sequence[Tensor | None], weight: QuantizedArray
    ) -> Sequence[Tensor] | None:
        """A window of one pixel over images of one pixel is a product of matrices."""
        x = operand(b, inputs, 0, "x")
        ones = (1,) * self.spatial
        if node.op == "ConvolutionDepthwise" or self.int_attr(node, "group") > 1 or x.rank != 2 + self.spatial:
            return None
        if x.shape[2:] != ones or weight.shape[2:] != ones or any(self.geometry(node)[2]):
            return None
        out = compressed_matmul(b, b.reshape(x, x.shape[:2]), weight)
        if out is None:
            return None
        return [self.finish(b, node, add_bias(b, b.reshape(out, (*out.shape, *ones)), optional(inputs, 2)))]


@register("Convolution3D")
class Convolution3D(Convolution):
    """``x[N, C, D, H, W]``, ``weight[O, C/group, kd, kh, kw]``, ``bias[O]?``."""

    attributes = _COMMON_3D
    spatial = 3


@register("Deconvolution", "DeconvolutionDepthwise")
class Deconvolution(BaseConvolution):
    """``x[N, C, H, W]``, ``weight[C, O/group, kh, kw]``, ``bias[O]?``, and with ``hasOutputShape`` the output's shape
    as last input (n, h, w, c in 2-D; the spatial sizes alone in 3-D). Transposed convolution:
    ``y[i * stride + k * dilation - pad] += x[i] * weight[k]``.
    """

    repeats = True
    attributes = _COMMON_2D

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, w = operand(b, inputs, 0, "x"), operand(b, inputs, 1, "weight")
        require_rank(b, x, 2 + self.spatial)
        require_rank(b, w, 2 + self.spatial, name="the weight")
        strides, dilations, explicit = self.geometry(node)
        extra = self.ints_attr(node, "outPads") or (0,) * self.spatial
        operands = list(inputs[2:])
        wanted: Sequence[int] | None = None
        if self.bool_attr(node, "hasOutputShape"):
            if not operands:
                raise ShapeError(f"{b.where}: the output shape is missing")
            shape = b.ints(operands.pop(), "the output shape")
            wanted = shape if len(shape) == self.spatial else shape[1 : 1 + self.spatial]
        mode = self.str_attr(node, "padMode")
        pads, sizes = transposed_sizes(b, mode, x, w, strides, dilations, explicit, extra, wanted)
        groups = self.int_attr(node, "group")
        if node.op == "DeconvolutionDepthwise":
            groups = x.shape[1]
        finish = with_bias(b, operands[0] if operands else None, w.shape[1] * groups)
        out = transposed_convolution(b, x, w, finish, strides, dilations, groups, pads, sizes)
        return [self.finish(b, node, out)]


def transposed_sizes(
    b: Builder,
    mode: str,
    x: Tensor,
    w: Tensor,
    strides: Sequence[int],
    dilations: Sequence[int],
    explicit: Sequence[int],
    extra: Sequence[int],
    sizes: Sequence[int] | None,
) -> tuple[list[int], list[int]]:
    """Begin pads and output sizes of a transposed convolution; ``sizes`` where they are given. Zeros beyond what taps
    reach are put on at the end, as TensorFlow does it, but for the modes SAME_UPPER and SAME_LOWER, which halve them as
    ONNX's formula does, with the larger half in front where that is negative (SAME_UPPER)."""
    spatial = x.rank - 2
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, k, s, d, e in zip(x.shape[2:], w.shape[2:], strides, dilations, extra, strict=True)
    ]
    if sizes is None and mode.startswith("SAME"):
        sizes = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if sizes is not None:
        if len(sizes) != spatial:
            raise ShapeError(f"{b.where}: output shape {list(sizes)} does not fit {spatial} spatial axes")
        totals = [f - n for f, n in zip(full, sizes, strict=True)]
        totals = [clipped(t) for t in totals] if mode == "SAME" else totals
        begins = [(t + 1) // 2 if mode == "SAME_LOWER" else t // 2 for t in totals]
        return begins, list(sizes)
    pads = resolve_pads(b, mode, explicit, x.shape[2:], [1] * spatial, strides)
    ends = pads[spatial:]
    return list(pads[:spatial]), [f - a - z for f, a, z in zip(full, pads, ends, strict=False)]


@register("ConvTranspose3D")
class ConvTranspose3D(Deconvolution):
    """:class:`Deconvolution` with a depth axis."""

    attributes = _COMMON_3D
    spatial = 3


@infer.rule(Deconvolution, ConvTranspose3D)
def _infer_deconvolution(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, weights = infer.operand(node, 0), infer.sizes(infer.operand(node, 1))
    flat = node.op != "ConvTranspose3D"
    spatial = 2 if flat else 3
    known = infer.sizes(x) or (None,) * (spatial + 2)
    if weights is None or len(weights) != spatial + 2 or len(known) != spatial + 2:
        return [(x.dtype, (known[0], *(None,) * (spatial + 1)))]
    if node.attrs.get("hasOutputShape"):
        return [(x.dtype, (known[0], _transposed_channels(node, known, weights), *(None,) * spatial))]
    return [(x.dtype, infer_transposed(node, known, weights, *windows.steps(node, flat)))]


def _transposed_channels(
    node: Node, x: Sequence[symbolic.Size | None], weights: Sequence[symbolic.Size | None]
) -> symbolic.Size | None:
    if node.op == "DeconvolutionDepthwise":
        return x[1]
    return symbolic.multiply(weights[1], infer.number(node, "group", 1))


def infer_transposed(
    node: Node,
    x: Sequence[symbolic.Size | None] | None,
    weights: Sequence[symbolic.Size | None],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> tuple[symbolic.Size | None, ...]:
    """The shape of a transposed convolution's result, as far as it is known."""
    spatial = len(weights) - 2
    known = (None,) * (spatial + 2) if x is None else tuple(x)
    both = list(pads) * 2 if len(pads) == spatial else pads or [0] * (2 * spatial)
    extra, mode = infer.ints(node, "outPads") or [0] * spatial, str(node.attrs.get("padMode", "CAFFE"))
    out: list[symbolic.Size | None] = []
    for i, (size, kernel) in enumerate(zip(known[2:], weights[2:], strict=True)):
        if mode.startswith("SAME"):
            out.append(symbolic.multiply(size, strides[i]))
            continue
        cut = 0 if mode == "VALID" else both[i] + both[i + spatial]
        reach = symbolic.multiply(symbolic.add(kernel, -1), dilations[i])
        out.append(symbolic.add(symbolic.multiply(symbolic.add(size, -1), strides[i]), reach, 1 + extra[i] - cut))
    return known[0], _transposed_channels(node, known, weights), *out


@infer.rule(Convolution, Convolution3D)
def _infer_convolution(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, w = infer.operand(node, 0), infer.operand(node, 1)
    known, weights = infer.sizes(x), infer.sizes(w)
    planar = node.op != "Convolution3D"
    rank = 4 if planar else 5
    if known is None or weights is None:
        return [(x.dtype, (known[0] if known else None, weights[0] if weights else None, *(None,) * (rank - 2)))]
    strides, dilations, pads = windows.steps(node, planar)
    kernel = [d if isinstance(d, int) else 0 for d in weights[2:]]
    mode = str(node.attrs.get("padMode", "CAFFE"))
    return [(x.dtype, (known[0], weights[0], *windows.windows(known[2:], kernel, strides, dilations, pads, mode)))]


@symbolic_shape_check.rule(Convolution, Convolution3D)
def fits_convolution(node: Node, shapes: list[symbolic_shape_check.Sizes | None]) -> bool:
    x, w = shapes[0], shapes[3 if node.op == "QLinearConv" else 1]
    if x is None or w is None:
        return True
    group = node.attrs.get("group") or 1
    channels = w[0] if node.op == "ConvolutionDepthwise" else None
    if isinstance(w[1], int) and isinstance(group, int) and node.op != "ConvolutionDepthwise":
        channels = w[1] * group
    return len(x) == len(w) and not symbolic_shape_check.differ(x[1], channels)


@symbolic_shape_check.rule(Deconvolution, ConvTranspose3D)
def _fits_transposed(node: Node, shapes: list[symbolic_shape_check.Sizes | None]) -> bool:
    x, w = shapes[0], shapes[1]
    return x is None or w is None or (len(x) == len(w) and not symbolic_shape_check.differ(x[1], w[0]))
