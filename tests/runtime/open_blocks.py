"""Blocks of networks with drawn parameters for :mod:`tests.runtime.open_networks`: from one tensor to another of the
same kind (images, volumes, sequences), whatever its sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

END = 1 << 40


class Net:
    """Nodes and constants of a network that is being made; ``at`` is the tensor that the next block takes, of
    ``channels``, with so many axes behind them."""

    def __init__(self, rng: np.random.Generator, channels: int, axes: int) -> None:
        self.rng, self.channels, self.axes, self.at = rng, channels, axes, "x"
        self.nodes: list[NodeProto] = []
        self.constants: list[Any] = []

    def const(self, array: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def ints(self, *numbers: int) -> str:
        return self.const(numbers, np.int64)

    def weight(self, *shape: int) -> str:
        fan = int(np.prod(shape[1:])) or 1
        return self.const(self.rng.standard_normal(shape) / np.sqrt(fan), np.float32)

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; the name of its first output, others being ``<name>_1`` and so on."""
        name = f"t{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{len(self.nodes)}", **attributes))
        return name

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def shape(self, of: str, start: int = 0, end: int | None = None) -> str:
        more = {} if end is None else {"end": end}
        return self.add("Shape", of, start=start, **more)

    def spatial(self, of: str | None = None) -> str:
        """The sizes of all axes behind the channels."""
        return self.shape(of or self.at, 2)

    def flat(self) -> str:
        """Images or volumes as sequences ``[batch, channels, places]``."""
        return self.add("Reshape", self.at, self.ints(0, 0, -1)) if self.axes > 1 else self.at

    def like(self, flat: str, channels: int | None = None) -> str:
        """A sequence in the form of the tensor that the block takes."""
        if self.axes == 1:
            return flat
        first = self.ints(0, channels or self.channels)
        return self.add("Reshape", flat, self.add("Concat", first, self.spatial(), axis=0))


Block = Callable[[Net], str]


def convolution(n: Net) -> str:
    kernel = [n.pick(1, 2, 3, 3, 5) for _ in range(n.axes)]
    groups = n.pick(1, 1, 1, 2, n.channels)
    if n.channels % groups:
        groups = 1
    out = groups * n.pick(1, 2, 4) if groups > 1 else n.pick(4, 8, 12, 16)
    how: dict[str, Any] = {"group": groups, "strides": [n.pick(1, 1, 2, 3) for _ in kernel]}
    way = n.pick("pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
    if way == "pads":
        how["dilations"] = [n.pick(1, 1, 2) for _ in kernel]
        how["pads"] = [n.pick(0, k // 2, 1) for k in kernel * 2]
    else:
        how["auto_pad"] = way
    w, b = n.weight(out, n.channels // groups, *kernel), n.weight(out)
    n.channels = out
    return n.add("Conv", n.at, w, b, **how)


def transposed(n: Net) -> str:
    kernel = [n.pick(1, 2, 3, 4) for _ in range(n.axes)]
    strides = [n.pick(1, 2, 3) for _ in kernel]
    out = n.pick(1, 4, 8)
    how: dict[str, Any] = {"strides": strides}
    if n.flag():
        how["pads"] = [min(n.pick(0, 1), k - 1) for k in kernel * 2]
        how["output_padding"] = [n.pick(0, s - 1) for s in strides]
    w = n.weight(n.channels, out, *kernel)
    n.channels = out
    return n.add("ConvTranspose", n.at, w, **how)


def pooled(n: Net) -> str:
    kernel = [n.pick(1, 2, 3) for _ in range(n.axes)]
    how: dict[str, Any] = {"kernel_shape": kernel, "strides": [n.pick(1, 2, 3) for _ in kernel]}
    way = n.pick("pads", "pads", "SAME_UPPER", "SAME_LOWER")
    if way == "pads":
        how["pads"] = [n.pick(0, k // 2) for k in kernel * 2]
        how["ceil_mode"] = int(n.flag())
    else:
        how["auto_pad"] = way
        how["strides"] = [min(k, s) for k, s in zip(kernel, how["strides"], strict=True)]  # else ONNX Runtime differs
    op = n.pick("MaxPool", "AveragePool", "AveragePool")
    if op == "AveragePool" and not how.get("ceil_mode"):  # with both, ONNX Runtime's own versions differ
        how["count_include_pad"] = int(n.flag())
    return n.add(op, n.at, **how)


def resized(n: Net) -> str:
    mode = n.pick("nearest", "linear", "cubic")
    if mode == "cubic" and n.axes != 2:
        mode = "linear"
    how: dict[str, Any] = {"mode": mode}
    how["coordinate_transformation_mode"] = n.pick("half_pixel", "asymmetric", "pytorch_half_pixel")
    if mode != "nearest" and n.axes == 2 and n.flag():
        how["antialias"] = 1
        how["coordinate_transformation_mode"] = "half_pixel"
    if mode == "cubic":
        how["exclude_outside"] = int(n.flag() and not how.get("antialias"))
        how["cubic_coeff_a"] = n.pick(-0.75, -0.5)
    if mode == "nearest":
        how["nearest_mode"] = n.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    if n.flag():
        scales = [1, 1, *(n.pick(0.5, 0.75, 1.5, 2, 1.3, 0.6) for _ in range(n.axes))]
        return n.add("Resize", n.at, "", n.const(scales, np.float32), **how)
    sizes = n.spatial()
    if n.flag():
        sizes = n.add("Add", n.add("Div", n.add("Mul", sizes, n.ints(n.pick(1, 2, 3))), n.ints(2)), n.ints(1))
    elif n.flag():
        sizes = n.ints(*[n.pick(7, 16, 24) for _ in range(n.axes)])
    return n.add("Resize", n.at, "", "", n.add("Concat", n.shape(n.at, 0, 2), sizes, axis=0), **how)


def back_to_size(n: Net) -> str:
    small = n.add("MaxPool", n.at, kernel_shape=[2] * n.axes, strides=[2] * n.axes, ceil_mode=1)
    how = {"mode": n.pick("nearest", "linear"), "coordinate_transformation_mode": n.pick("half_pixel", "asymmetric")}
    return n.add("Add", n.at, n.add("Resize", small, "", "", n.shape(n.at), **how))


def norm(n: Net) -> str:
    kind = n.pick("InstanceNormalization", "GroupNormalization", "LpNormalization", "LayerNormalization", "batch")
    if kind == "InstanceNormalization":
        return n.add(kind, n.at, n.weight(n.channels), n.weight(n.channels))
    if kind == "GroupNormalization":
        groups = 2 if n.channels % 2 == 0 else 1
        return n.add(kind, n.at, n.weight(n.channels), n.weight(n.channels), num_groups=groups)
    if kind == "LpNormalization":
        return n.add(kind, n.at, axis=1, p=n.pick(1, 2))
    order = [0, *range(2, n.axes + 2), 1]
    if kind == "LayerNormalization":
        y = n.add(kind, n.add("Transpose", n.at, perm=order), n.weight(n.channels), n.weight(n.channels), axis=-1)
        return n.add("Transpose", y, perm=[0, n.axes + 1, *range(1, n.axes + 1)])
    stats = [n.weight(n.channels) for _ in range(3)]
    return n.add("BatchNormalization", n.at, *stats, n.const(n.rng.uniform(0.5, 2, n.channels), np.float32))


def activation(n: Net) -> str:
    return n.add(n.pick("Relu", "Tanh", "Sigmoid", "HardSwish", "Elu", "Softplus", "Gelu", "Mish"), n.at)


def softmax(n: Net) -> str:
    return n.add("Softmax", n.at, axis=int(n.rng.integers(1, n.axes + 2)))


def reduced(n: Net) -> str:
    axes = sorted({int(a) for a in n.rng.integers(1, n.axes + 2, 2)})
    op = n.pick("ReduceMean", "ReduceMax", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
    return n.add("Sub", n.at, n.add(op, n.at, n.ints(*axes), keepdims=1))


def gate(n: Net) -> str:
    small = n.add("GlobalAveragePool", n.at)
    one = [1] * n.axes
    return n.add("Mul", n.at, n.add("Sigmoid", n.add("Conv", small, n.weight(n.channels, n.channels, *one))))


def attention(n: Net) -> str:
    """Of every place to every other; masked by what comes later, or not; heads, or not."""
    x = n.add("Transpose", n.flat(), perm=[0, 2, 1])
    heads = 2 if n.channels % 2 == 0 and n.flag() else 1
    size = n.channels // heads
    q, k, v = [
        n.add("Transpose", n.add("Reshape", y, n.ints(0, 0, heads, size)), perm=[0, 2, 1, 3])
        for y in [n.add("MatMul", x, n.weight(n.channels, n.channels)) for _ in range(3)]
    ]
    scores = n.add("Mul", n.add("MatMul", q, n.add("Transpose", k, perm=[0, 1, 3, 2])), n.const(size**-0.5, np.float32))
    if n.axes == 1 and n.flag():
        ones = n.add("Expand", n.const(1, np.int64), n.add("Concat", *[n.shape(x, 1, 2)] * 2, axis=0))
        seen = n.add("Cast", n.add("Trilu", ones, upper=0), to=TensorProto.BOOL)
        scores = n.add("Where", seen, scores, n.const(-1e4, np.float32))
    y = n.add("MatMul", n.add("Softmax", scores, axis=-1), v)
    y = n.add("Reshape", n.add("Transpose", y, perm=[0, 2, 1, 3]), n.ints(0, 0, n.channels))
    return n.like(n.add("Transpose", y, perm=[0, 2, 1]))


def attention_operator(n: Net) -> str:
    """The same as one operator of opset 23."""
    x = n.add("Transpose", n.flat(), perm=[0, 2, 1])
    heads = 2 if n.channels % 2 == 0 else 1
    parts = [n.add("MatMul", x, n.weight(n.channels, n.channels)) for _ in range(3)]
    y = n.add("Attention", *parts, q_num_heads=heads, kv_num_heads=heads, is_causal=int(n.flag()))
    return n.like(n.add("Transpose", y, perm=[0, 2, 1]))


def recurrent(n: Net) -> str:
    """Along all places."""
    kind, gates = n.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    both, c = n.flag(), n.channels
    d = 1 + both
    x = n.add("Transpose", n.flat(), perm=[2, 0, 1])
    how = {"direction": "bidirectional" if both else n.pick("forward", "reverse")}
    if kind == "GRU":
        how["linear_before_reset"] = int(n.flag())
    y = n.add(kind, x, n.weight(d, gates * c, c), n.weight(d, gates * c, c), hidden_size=c, **how)
    return n.like(n.add("Transpose", n.add("ReduceSum", y, n.ints(1), keepdims=0), perm=[1, 2, 0]))


def padded(n: Net) -> str:
    mode = n.pick("constant", "reflect", "edge", "wrap")
    amounts = [int(v) for v in n.rng.integers(-1 if mode == "constant" else 0, 3, 2 * n.axes)]
    pads = [0, 0, *amounts[: n.axes], 0, 0, *amounts[n.axes :]]
    return n.add("Pad", n.at, n.ints(*pads), mode=mode)


def sliced(n: Net) -> str:
    axis, step = int(n.rng.integers(2, n.axes + 2)), n.pick(1, 1, 2, -1)
    start, end = (n.pick(0, 1, -6), n.pick(END, -1)) if step > 0 else (-1, -END)
    return n.add("Slice", n.at, n.ints(start), n.ints(end), n.ints(axis), n.ints(step))


def rolled(n: Net) -> str:
    axis, by = n.ints(int(n.rng.integers(2, n.axes + 2))), n.ints(n.pick(1, 2))
    tail, head = n.add("Slice", n.at, by, n.ints(END), axis), n.add("Slice", n.at, n.ints(0), by, axis)
    return n.add("Concat", tail, head, axis=int(numpy_helper.to_array(n.constants[int(axis[1:])])[0]))


def summed(n: Net) -> str:
    axis = int(n.rng.integers(1, n.axes + 2))
    how = {"exclusive": int(n.flag()), "reverse": int(n.flag())}
    return n.add("Mul", n.add("CumSum", n.at, n.const(axis, np.int64), **how), n.const(0.1, np.float32))


def largest(n: Net) -> str:
    """The mean of the largest two."""
    axis = int(n.rng.integers(2, n.axes + 2))
    top = n.add("TopK", n.at, n.ints(2), axis=axis, outputs=2)
    return n.add("Add", n.at, n.add("ReduceMean", top, n.ints(axis), keepdims=1))


def positions(n: Net) -> str:
    """Sines of where along the last axis."""
    length = n.add("Squeeze", n.shape(n.at, n.axes + 1))
    steps = n.add("Range", n.const(0, np.int64), length, n.const(1, np.int64))
    return n.add("Add", n.at, n.add("Sin", n.add("Cast", steps, to=TensorProto.FLOAT)))


def table(n: Net) -> str:
    """Learned positions along the last axis, of which as many are taken as there are places."""
    length = n.shape(n.at, n.axes + 1)
    return n.add("Add", n.at, n.add("Slice", n.weight(1500), n.ints(0), length, n.ints(0)))


def halves(n: Net) -> str:
    if n.channels % 2:
        return n.add("Neg", n.at)
    parts = n.add("Split", n.at, axis=1, num_outputs=2, outputs=2)
    return n.add("Concat", n.add("Tanh", f"{parts}_1"), parts, axis=1)


def indexed(n: Net) -> str:
    """The place of the maximum, as a number; of what is given alone, since numbers that are nearly alike may change
    places."""
    if n.at != "x":
        return n.add("Abs", n.at)
    axis = int(n.rng.integers(1, n.axes + 2))
    at = n.add(n.pick("ArgMax", "ArgMin"), n.at, axis=axis, keepdims=1)
    return n.add("Add", n.at, n.add("Mul", n.add("Cast", at, to=TensorProto.FLOAT), n.const(0.125, np.float32)))


def quantized(n: Net) -> str:
    """A convolution of bytes, as files of quantised networks have it."""

    def rounded(x: str, scale: float, zero: Any) -> str:
        pair = n.const(scale, np.float32), n.const(zero)
        return n.add("DequantizeLinear", n.add("QuantizeLinear", x, *pair), *pair)

    kernel = [n.pick(1, 3)] * n.axes
    w = n.const(n.rng.integers(-127, 128, (8, n.channels, *kernel)), np.int8)
    scales = n.const(np.full(8, 0.01 / np.sqrt(np.prod(kernel) * n.channels)), np.float32)
    w = n.add("DequantizeLinear", w, scales, n.const(np.zeros(8), np.int8), axis=0)
    x = rounded(n.add("Tanh", n.at), 1 / 127, np.int8(0))
    n.channels = 8
    y = n.add("Conv", x, w, pads=[k // 2 for k in kernel * 2], strides=[n.pick(1, 2) for _ in kernel])
    return rounded(n.add("Sigmoid", y), 1 / 255, np.uint8(0)) if n.flag() else y


def sampled(n: Net) -> str:
    """Images looked at through a turned and stretched grid."""
    theta = n.const(np.eye(2, 3)[None] + n.rng.uniform(-0.2, 0.2, (1, 2, 3)), np.float32)
    batch = n.shape(n.at, 0, 1)
    theta = n.add("Expand", theta, n.add("Concat", batch, n.ints(2, 3), axis=0))
    corners = int(n.flag())
    grid = n.add("AffineGrid", theta, n.shape(n.at), align_corners=0)
    how = {"mode": n.pick("linear", "cubic"), "padding_mode": n.pick("zeros", "border", "reflection")}
    return n.add("GridSample", n.at, grid, align_corners=corners, **how)


def regions(n: Net) -> str:
    """Regions of the first image of a batch."""
    rois = n.const(np.sort(n.rng.uniform(0, 9, (3, 2, 2)), axis=1).reshape(3, 4), np.float32)
    how = {"output_height": n.pick(3, 6), "output_width": 5, "sampling_ratio": n.pick(0, 2), "spatial_scale": 0.7}
    return n.add("RoiAlign", n.at, rois, n.const([0, 0, 0], np.int64), mode=n.pick("avg", "max"), **how)


def deeper(n: Net) -> str:
    if n.channels % 4 == 0 and n.flag():
        n.channels //= 4
        return n.add("DepthToSpace", n.at, blocksize=2, mode=n.pick("DCR", "CRD"))
    up = n.add("Pad", n.at, n.add("Concat", n.ints(0, 0, 0, 0, 0, 0), n.add("Mod", n.spatial(), n.ints(2)), axis=0))
    n.channels *= 4
    return n.add("SpaceToDepth", up, blocksize=2)


def residual(n: Net) -> str:
    before, channels = n.at, n.channels
    one, three = [1] * n.axes, [3] * n.axes
    y = n.add("Conv", before, n.weight(channels, channels, *three), pads=[1] * 2 * n.axes)
    return n.add("Add", before, n.add("Conv", n.add("Relu", y), n.weight(channels, channels, *one)))


def separable(n: Net) -> str:
    one, three = [1] * n.axes, [3] * n.axes
    c = n.channels
    wide = n.add("Relu", n.add("Conv", n.at, n.weight(3 * c, c, *one)))
    deep = n.add(
        "Conv", wide, n.weight(3 * c, 1, *three), group=3 * c, pads=[1] * 2 * n.axes, strides=[n.pick(1, 2)] * n.axes
    )
    return n.add("Conv", n.add("Clip", deep, n.const(0, np.float32), n.const(6, np.float32)), n.weight(c, 3 * c, *one))


BLOCKS: tuple[Block, ...] = (
    convolution, convolution, transposed, pooled, resized, back_to_size, norm, activation, softmax, reduced, gate,
    attention, attention_operator, recurrent, padded, sliced, rolled, summed, largest, positions, table, halves,
    indexed, quantized, residual, separable,
)  # fmt: skip
IMAGES: tuple[Block, ...] = (sampled, regions, deeper)
"""Blocks of images alone."""
