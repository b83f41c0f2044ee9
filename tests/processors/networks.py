"""Small whole networks of every kind that kernels differ for, with seeded random widths: multiples of nothing.

Sizes are the least at which the kernels of large networks are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass
class Net:
    """A model that is being written; methods give the name of the tensor that they add."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def input(self, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = shape
        return name

    def const(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape: int, fan: int = 0) -> str:
        """Normal, so that sums of ``fan`` products (by default of all but the first dimension) have a variance of 1."""
        scale = np.sqrt(fan or np.prod(shape[1:]) or 1)
        return self.const((self.rng.standard_normal(shape) / scale).astype(np.float32))

    def op(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: object) -> str:
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0]

    def conv(self, x: str, c: int, o: int, kernel: int | Sequence[int] = 3, stride: int = 1, groups: int = 1,
             dilation: int = 1, dims: int = 2) -> str:  # fmt: skip
        sizes = [kernel] * dims if isinstance(kernel, int) else list(kernel)
        pads = [dilation * (k - 1) // 2 for k in sizes]
        w, b = self.weights(o, c // groups, *sizes), self.const(self.rng.standard_normal(o).astype(np.float32) / 4)
        return self.op("Conv", x, w, b, kernel_shape=sizes, strides=[stride] * len(sizes), pads=[*pads, *pads],
                       dilations=[dilation] * len(sizes), group=groups)  # fmt: skip

    def width(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def model(self, *outputs: str) -> onnx.ModelProto:
        def value(name: str, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        graph = helper.make_graph(
            self.nodes, "net", [value(n, s) for n, s in self.inputs.items()], [value(n, None) for n in outputs],
            self.constants,
        )  # fmt: skip
        domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=8)


def silu(n: Net, x: str) -> str:
    return n.op("Mul", x, n.op("Sigmoid", x))


def lines(n: Net) -> onnx.ModelProto:
    """Few channels under windows with strides, then 1x1 and 3x3 windows."""
    c, w = n.width(17, 31), n.width(70, 110)
    x = n.input(1, c, n.width(33, 47), n.width(33, 47))
    y = silu(n, n.conv(x, c, w, stride=2))
    z = n.conv(y, w, m := n.width(33, 63), 1)
    return n.model(n.conv(z, m, n.width(65, 130)))


def stem(n: Net) -> onnx.ModelProto:
    """An image's three channels under a large window, pooling, and bottlenecks with residual sums."""
    c, inner = n.width(49, 79), n.width(33, 50)
    x = n.op("Relu", n.conv(n.input(1, 3, n.width(50, 65), 61), 3, c, 7, stride=2))
    x = n.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(2):
        y = n.op("Relu", n.conv(x, c, inner, 1))
        y = n.op("Relu", n.conv(y, inner, inner, 3))
        x = n.op("Relu", n.op("Add", x, n.conv(y, inner, c, 1)))
    flat = n.op("Flatten", n.op("GlobalAveragePool", x))
    return n.model(n.op("Gemm", flat, n.weights(c, 101, fan=c), n.weights(101, fan=16)))


def mobile(n: Net) -> onnx.ModelProto:
    """Inverted bottlenecks: depthwise windows, squeeze and excitation, hard activations."""
    c = n.width(17, 30)
    x = n.op("HardSwish", n.conv(n.input(1, 3, 41, 37), 3, c, 3, stride=2))
    for kernel, stride in ((3, 1), (5, 2)):
        wide = n.width(70, 100)
        y = n.op("Clip", n.conv(x, c, wide, 1), n.const(np.float32(0)), n.const(np.float32(6)))
        y = n.op("HardSwish", n.conv(y, wide, wide, kernel, stride, groups=wide))
        gate = n.op("Relu", n.conv(n.op("GlobalAveragePool", y), wide, 11, 1))
        y = n.op("Mul", y, n.op("HardSigmoid", n.conv(gate, 11, wide, 1)))
        z = n.conv(y, wide, c, 1)
        x = n.op("Add", x, z) if stride == 1 else z
    return n.model(x)


def transformer(n: Net) -> onnx.ModelProto:
    """Two layers: products of rows, attention, normalised rows, GELU."""
    rows, heads, each = n.width(35, 70), 3, n.width(17, 40)
    d = heads * each
    x = n.input(1, rows, d)

    def norm(v: str) -> str:
        return n.op("LayerNormalization", v, n.weights(d, fan=1), n.weights(d, fan=4), axis=-1)

    def linear(v: str, a: int, b: int) -> str:
        return n.op("Add", n.op("MatMul", v, n.weights(a, b, fan=a)), n.weights(b, fan=4))

    def split(v: str, perm: Sequence[int]) -> str:
        shape = n.const(np.array([1, rows, heads, each]))
        return n.op("Transpose", n.op("Reshape", v, shape), perm=perm)

    for _ in range(2):
        h = norm(x)
        q, k, v = (linear(h, d, d) for _ in range(3))
        scores = n.op("MatMul", split(q, (0, 2, 1, 3)), split(k, (0, 2, 3, 1)))
        weights = n.op("Softmax", n.op("Mul", scores, n.const(np.float32(each**-0.5))), axis=-1)
        mixed = n.op("Transpose", n.op("MatMul", weights, split(v, (0, 2, 1, 3))), perm=(0, 2, 1, 3))
        x = n.op("Add", x, linear(n.op("Reshape", mixed, n.const(np.array([1, rows, d]))), d, d))
        h = linear(norm(x), d, 4 * d)
        half = n.op("Mul", h, n.const(np.float32(0.5)))
        erf = n.op("Erf", n.op("Mul", h, n.const(np.float32(2**-0.5))))
        h = n.op("Mul", half, n.op("Add", erf, n.const(np.float32(1))))
        x = n.op("Add", x, linear(h, 4 * d, d))
    return n.model(x)


def unet(n: Net) -> onnx.ModelProto:
    """Down and up again: transposed windows, resizing, joined channels, normalised instances."""
    c, d = n.width(17, 35), n.width(33, 60)
    x = n.conv(n.input(1, 4, 20, 28), 4, c)
    norm = n.op("InstanceNormalization", x, n.weights(c, fan=1), n.weights(c, fan=4))
    x = n.op("LeakyRelu", norm, alpha=0.1)
    low = n.op("Relu", n.conv(n.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]), c, d))
    up = n.op("ConvTranspose", low, n.weights(d, c, 2, 2, fan=d), kernel_shape=[2, 2], strides=[2, 2])
    scales = n.const(np.array([1, 1, 2, 2], np.float32))
    wide = n.op("Resize", low, "", scales, mode="linear", coordinate_transformation_mode="half_pixel")
    return n.model(n.conv(n.op("Concat", x, up, wide, axis=1), 2 * c + d, 5))


def recurrent(n: Net) -> onnx.ModelProto:
    """An LSTM in both directions and a GRU over sequences."""
    size, hidden, steps = n.width(20, 50), n.width(17, 40), 13
    x = n.input(steps, 2, size)
    y = n.op("LSTM", x, n.weights(2, 4 * hidden, size, fan=size), n.weights(2, 4 * hidden, hidden, fan=hidden),
             n.weights(2, 8 * hidden, fan=9), hidden_size=hidden, direction="bidirectional")  # fmt: skip
    y = n.op("Reshape", n.op("Transpose", y, perm=(0, 2, 1, 3)), n.const(np.array([steps, 2, 2 * hidden])))
    gates = n.weights(1, 3 * hidden, 2 * hidden, fan=2 * hidden), n.weights(1, 3 * hidden, hidden, fan=hidden)
    y = n.op("GRU", y, *gates, n.weights(1, 6 * hidden, fan=9), hidden_size=hidden, linear_before_reset=1)
    return n.model(y)


def volumes(n: Net) -> onnx.ModelProto:
    """Windows over three dimensions and over one, with dilation and groups."""
    c, g = n.width(17, 40), n.width(9, 20)
    x = n.op("Relu", n.conv(n.input(1, 3, 6, 15, 13), 3, c, 3, dims=3))
    x = n.conv(x, c, 2 * g, (1, 3, 3), dims=3)
    x = n.op("MaxPool", x, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    line = n.op("Reshape", x, n.const(np.array([1, 2 * g, -1])))
    line = n.op("PRelu", n.conv(line, 2 * g, 4 * g, 3, dims=1, dilation=2, groups=2), n.weights(4 * g, 1, fan=4))
    return n.model(n.conv(line, 4 * g, 33, 5, stride=2, dims=1))


def video(n: Net) -> onnx.ModelProto:
    """Residual blocks of volumes, windows over two axes and over the third, a filter per channel, pooling with borders,
    and up again."""
    batch, unit = n.width(1, 2), 16 if n.width(0, 1) else 1  # whole vectors of channels, or not
    c, wide = n.width(33, 70) // unit * unit, n.width(33, 90) // unit * unit
    x = n.op("Relu", n.conv(n.input(batch, 5, n.width(5, 9), 15, n.width(12, 20)), 5, c, (1, 3, 3), dims=3))
    y = n.op("Relu", n.conv(x, c, c, 3, dims=3))
    x = n.op("Relu", n.op("Add", x, n.conv(y, c, c, 3, dims=3)))
    w, b = n.weights(wide, c, 3, 3, 3), n.weights(wide, fan=9)
    pads = [n.width(0, 3) for _ in range(6)]
    dilation, stride = n.width(1, 2), n.width(1, 2)
    x = n.op("Conv", x, w, b, strides=[n.width(1, 3), stride, stride], dilations=[dilation, 1, 1], pads=pads)
    y = n.op("Relu", n.conv(x, wide, c, (1, 3, 3), dims=3))
    y = n.op("Relu", n.conv(y, c, wide, (3, 1, 1), dims=3))
    z = silu(n, n.conv(y, wide, wide, 3, groups=wide, dims=3))
    z = n.op("Add", z, n.conv(y, wide, wide, (n.width(2, 3) * 2 - 1, 1, 1), groups=wide, dims=3))
    sizes: dict[str, object] = {"kernel_shape": [2, 3, 3], "strides": [1, 2, 2], "pads": [1, 1, 0, 0, 1, 1]}
    best = n.op("MaxPool", z, **sizes, ceil_mode=1)
    mean = n.op("AveragePool", z, **sizes, ceil_mode=1, count_include_pad=n.width(0, 1))
    both = n.op("Concat", best, mean, axis=1)
    up = n.op("ConvTranspose", both, n.weights(2 * wide, c, 2, 3, 2, fan=4 * wide), strides=[2, 2, 2])
    return n.model(x, n.conv(up, c, 33, (3, 3, 1), dims=3))


def grouped(n: Net) -> onnx.ModelProto:
    """Windows over a few channels each, and channels shuffled."""
    groups, each = 4, n.width(9, 24)
    c = groups * each
    x = n.op("Relu", n.conv(n.input(2, c, 15, 17), c, c, 3, groups=groups))
    shape = n.const(np.array([2, groups, each, 15, 17]))
    x = n.op("Transpose", n.op("Reshape", x, shape), perm=(0, 2, 1, 3, 4))
    x = n.op("Reshape", x, n.const(np.array([2, c, 15, 17])))
    return n.model(n.conv(x, c, 2 * c, 3, stride=2, groups=groups))


def bytes_(n: Net) -> onnx.ModelProto:
    """Integers: quantised on the way, weights per channel; and products that quantise their rows."""
    c, o = n.width(17, 40), n.width(33, 60)

    def quantised(v: str, scale: float) -> str:
        pair = n.const(np.float32(scale)), n.const(np.uint8(128))
        return n.op("DequantizeLinear", n.op("QuantizeLinear", v, *pair), *pair)

    def weights(*shape: int) -> str:
        w = n.const(n.rng.integers(-127, 128, shape).astype(np.int8))
        scale = (n.rng.uniform(0.5, 1.5, shape[0]) / 73 / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        return n.op("DequantizeLinear", w, n.const(scale), n.const(np.zeros(shape[0], np.int8)), axis=0)

    x = quantised(n.input(1, c, 15, 13), 1 / 32)
    x = n.op("Relu", n.op("Conv", x, weights(o, c, 3, 3), kernel_shape=[3, 3], pads=[1] * 4))
    x = n.op("Conv", quantised(x, 1 / 32), weights(48, o, 1, 1), kernel_shape=[1, 1])
    rows = n.op("Reshape", quantised(x, 1 / 32), n.const(np.array([48, -1])))
    n.nodes.append(helper.make_node("DynamicQuantizeLinear", [rows], ["q", "scale", "zero"]))
    table = n.const(n.rng.integers(-127, 128, (15 * 13, 37)).astype(np.int8))
    product = n.op("Cast", n.op("MatMulInteger", "q", table, "zero"), to=TensorProto.FLOAT)
    return n.model(n.op("Mul", product, n.op("Mul", "scale", n.const(np.float32(1e-3)))))


def nbits(n: Net) -> onnx.ModelProto:
    """Weights of four bits in blocks, for one row and for many."""
    k, wide, block = 96, n.width(40, 90), 32
    x = n.input(1, n.width(1, 40), k)
    packed = n.const(n.rng.integers(0, 256, (wide, k // block, block // 2)).astype(np.uint8))
    scales = n.const((n.rng.uniform(0.5, 1.5, wide * (k // block)) / 40).astype(np.float32))
    y = n.op("MatMulNBits", x, packed, scales, domain="com.microsoft", K=k, N=wide, bits=4, block_size=block)
    row = n.op("ReduceMean", n.op("Relu", y), axes=[1], keepdims=1)
    again = n.const(n.rng.integers(0, 256, (50, 1, 16)).astype(np.uint8))
    one = n.op("Slice", row, n.const(np.array([0])), n.const(np.array([32])), n.const(np.array([2])))
    scale = n.const((n.rng.uniform(0.5, 1.5, 50) / 40).astype(np.float32))
    return n.model(y, n.op("MatMulNBits", one, again, scale, domain="com.microsoft", K=32, N=50, bits=4, block_size=32))


NETWORKS: dict[str, Callable[[Net], onnx.ModelProto]] = {
    "lines": lines, "stem": stem, "mobile": mobile, "transformer": transformer, "unet": unet, "recurrent": recurrent,
    "volumes": volumes, "video": video, "grouped": grouped, "bytes": bytes_, "nbits": nbits,
}  # fmt: skip


def made(name: str, seed: int) -> onnx.ModelProto:
    return NETWORKS[name](Net(np.random.default_rng((seed, len(name)))))


def feeds(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Normal numbers, and from odd seeds uniform ones."""
    rng = np.random.default_rng(seed)
    found = {}
    for value in model.graph.input:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        numbers = rng.uniform(0, 1, shape) if seed % 2 else rng.standard_normal(shape)
        found[value.name] = numbers.astype(np.float32)
    return found
