"""Random small ONNX graphs with named axes: every node is legal at (nearly) every size of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
INPUTS: dict[str, tuple[int | str, ...]] = {
    "picture": ("batch", 4, "height", "width"),
    "text": ("batch", "seq", 8),
}


class Maker:
    """Appends nodes drawn by ``rng``; ranks are known, sizes are not."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.tensors: list[tuple[str, int]] = []
        self.channels = {"picture": 4}

    def const(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *numbers: int) -> str:
        return self.const(np.array(numbers, np.int64))

    def node(self, op: str, inputs: list[str], outputs: int = 1, **attrs: object) -> list[str]:
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names

    def one(self, op: str, *inputs: str, **attrs: object) -> str:
        return self.node(op, list(inputs), **attrs)[0]

    def size(self, x: str, axis: int) -> str:
        """An axis's size as a tensor of one element, the way exporters ask for it."""
        return self.one("Gather", self.one("Shape", x), self.ints(axis), axis=0)

    def pick(self, rank: int) -> str:
        fitting = [name for name, r in self.tensors if r == rank] or [next(n for n, r in self.tensors if r == rank)]
        return str(fitting[-1 - int(self.rng.integers(0, min(len(fitting), 3)))])

    def add(self, name: str, rank: int, like: str | None = None, channels: int | None = None) -> None:
        self.tensors.append((name, rank))
        if rank == 4:
            self.channels[name] = channels if channels is not None else self.channels[like or "picture"]

    def model(self) -> onnx.ModelProto:
        """Every float tensor is an output of the model."""
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in INPUTS.items()]
        outputs = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n, _ in self.tensors if n not in INPUTS
        ]
        graph = helper.make_graph(self.nodes, "dynamic", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def _weight(m: Maker, *shape: int) -> str:
    return m.const((m.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))


def _conv(m: Maker) -> None:
    x, k, s = m.pick(4), int(m.rng.integers(1, 4)), int(m.rng.integers(1, 3))
    c, pad = m.channels[x], int(m.rng.integers(k > 2, 2))
    auto = {"auto_pad": "SAME_UPPER"} if not m.rng.integers(0, 4) else {"pads": [pad, pad, pad, pad]}
    m.add(m.one("Conv", x, _weight(m, 4, c, k, k), kernel_shape=[k, k], strides=[s, s], **auto), 4, channels=4)


def _transposed(m: Maker) -> None:
    x = m.pick(4)
    k, s = int(m.rng.integers(2, 4)), int(m.rng.integers(1, 3))
    made = m.one("ConvTranspose", x, _weight(m, m.channels[x], 4, k, k), kernel_shape=[k, k], strides=[s, s])
    m.add(made, 4, channels=4)


def _pool(m: Maker) -> None:
    x = m.pick(4)
    op = str(m.rng.choice(["MaxPool", "AveragePool"]))
    m.add(m.one(op, x, kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 1, 1]), 4, x)


def _resize(m: Maker) -> None:
    x, factor = m.pick(4), float(m.rng.choice([2.0, 0.5, 1.0]))
    scales = m.const(np.array([1, 1, factor, 2], np.float32))
    mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    m.add(m.one("Resize", x, "", scales, **mode), 4, x)


def _resize_like(m: Maker) -> None:
    """To another picture's size, as feature pyramids do."""
    x, y = m.pick(4), m.pick(4)
    sizes = m.one("Concat", m.size(x, 0), m.size(x, 1), m.size(y, 2), m.size(y, 3), axis=0)
    m.add(m.one("Resize", x, "", "", sizes, mode="linear"), 4, x)


def _pad(m: Maker) -> None:
    x = m.pick(4)
    m.add(m.one("Pad", x, m.ints(0, 0, 1, 0, 0, 0, int(m.rng.integers(0, 3)), 2)), 4, x)


def _pad_even(m: Maker) -> None:
    """To a multiple of four, computed from the size, as window attention does."""
    x = m.pick(3)
    rest = m.one("Mod", m.size(x, 1), m.ints(4))
    more = m.one("Mod", m.one("Sub", m.ints(4), rest), m.ints(4))
    m.add(m.one("Pad", x, m.one("Concat", m.ints(0, 0, 0, 0), more, m.ints(0), axis=0)), 3)


def _slice(m: Maker) -> None:
    rank = int(m.rng.choice([3, 4]))
    x, axis = m.pick(rank), int(m.rng.choice([1] if rank == 3 else [2, 3]))
    bounds = [(0, 3, 1), (1, 1 << 60, 1), (0, -1, 1), (-2, 1 << 60, 1), (0, 1 << 60, 2), (-1, -(1 << 60), -1)]
    start, end, step = bounds[int(m.rng.integers(0, len(bounds)))]
    m.add(m.one("Slice", x, m.ints(start), m.ints(end), m.ints(axis), m.ints(step)), rank, x)


def _slice_half(m: Maker) -> None:
    x = m.pick(3)
    half = m.one("Div", m.size(x, 1), m.ints(2))
    first = m.one("Slice", x, m.ints(0), half, m.ints(1))
    second = m.one("Slice", x, half, m.size(x, 1), m.ints(1))
    m.add(second, 3)
    m.add(m.one("Concat", second, first, axis=1), 3)


def _concat(m: Maker) -> None:
    x = m.pick(3)
    m.add(m.one("Concat", x, m.one("Neg", x), axis=1), 3)


def _split(m: Maker) -> None:
    first, second = m.node("Split", [m.pick(3)], 2, axis=1, num_outputs=2)
    m.add(second, 3)
    m.add(first, 3)


def _attention(m: Maker) -> None:
    """Heads apart, scores and back, with a causal mask of a Range."""
    x = m.pick(3)
    b, s = m.size(x, 0), m.size(x, 1)
    heads = m.one("Reshape", x, m.one("Concat", b, s, m.ints(2, 4), axis=0))
    q = m.one("Transpose", heads, perm=[0, 2, 1, 3])
    scores = m.one("MatMul", q, m.one("Transpose", heads, perm=[0, 2, 3, 1]))
    zero, step = m.const(np.array(0, np.int64)), m.const(np.array(1, np.int64))
    place = m.one("Range", zero, m.one("Squeeze", s, m.ints(0)), step)
    ahead = m.one("Greater", m.one("Unsqueeze", place, m.ints(0)), m.one("Unsqueeze", place, m.ints(1)))
    masked = m.one("Where", ahead, m.const(np.array(-1e4, np.float32)), scores)
    mixed = m.one("MatMul", m.one("Softmax", masked, axis=-1), q)
    back = m.one("Transpose", mixed, perm=[0, 2, 1, 3])
    m.add(m.one("Reshape", back, m.one("Concat", b, s, m.ints(8), axis=0)), 3)


def _flatten(m: Maker) -> None:
    """Rows of all sequences together and apart again."""
    x = m.pick(3)
    flat = m.one("MatMul", m.one("Reshape", x, m.ints(-1, 8)), _weight(m, 8, 8))
    m.tensors.append((flat, 2))
    m.add(m.one("Reshape", flat, m.one("Shape", x)), 3)


def _tokens(m: Maker) -> None:
    """A picture's places as a sequence."""
    x = m.pick(4)
    c = m.channels[x]
    flat = m.one("Reshape", x, m.ints(0, c, -1))
    tokens = m.one("Transpose", flat, perm=[0, 2, 1])
    m.add(m.one("MatMul", tokens, _weight(m, c, 8)), 3)


def _mean(m: Maker) -> None:
    x = m.pick(4)
    m.add(m.one("ReduceMean", x, m.ints(2, 3), keepdims=1), 4, x)


def _expand(m: Maker) -> None:
    x = m.pick(3)
    row = m.one("ReduceMax", x, m.ints(1), keepdims=1)
    shape = m.one("Concat", m.size(x, 0), m.one("Mul", m.size(x, 1), m.ints(2)), m.ints(8), axis=0)
    m.add(m.one("Expand", row, shape), 3)


def _tile(m: Maker) -> None:
    m.add(m.one("Tile", m.pick(3), m.ints(1, int(m.rng.integers(1, 4)), 1)), 3)


def _blocks(m: Maker) -> None:
    x = m.pick(4)
    if m.channels[x] == 4:
        m.add(m.one("DepthToSpace", x, blocksize=2), 4, channels=1)


_KINDS: list[Callable[[Maker], None]] = [
    _conv, _transposed, _pool, _resize, _resize_like, _pad, _pad_even, _slice, _slice_half, _concat, _split,
    _attention, _flatten, _tokens, _mean, _expand, _tile, _blocks,
]  # fmt: skip


def graph(seed: int, most: int = 7) -> onnx.ModelProto:
    """A graph of up to ``most`` parts; all its float tensors are outputs."""
    m = Maker(np.random.default_rng(seed))
    m.tensors += [(name, len(shape)) for name, shape in INPUTS.items()]
    for _ in range(int(m.rng.integers(2, most + 1))):
        _KINDS[int(m.rng.integers(0, len(_KINDS)))](m)
    return m.model()


def feeds(seed: int, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {n: [sizes[d] if isinstance(d, str) else d for d in s] for n, s in INPUTS.items()}
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
