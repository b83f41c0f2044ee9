"""A decoder-only language model with a key-value cache and seeded random weights, built without torch.

As exporters write them: past keys and values are inputs, present ones outputs (past, and behind it what is new), rotary
positions and the causal mask follow from the lengths of both.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS = 1024


class _Graph:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._count = 0

    def const(self, array: np.ndarray) -> str:
        self._count += 1
        self.constants.append(numpy_helper.from_array(array, f"c{self._count}"))
        return f"c{self._count}"

    def ints(self, *numbers: int) -> str:
        return self.const(np.array(numbers, np.int64))

    def number(self, value: float) -> str:
        return self.const(np.array(value, np.float32))

    def weight(self, *shape: int) -> str:
        return self.const((self.rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def add(self, op: str, *inputs: str, name: str = "", **attrs: object) -> str:
        self._count += 1
        name = name or f"t{self._count}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{op}_{self._count}", **attrs))
        return name


def cached_decoder(
    layers: int = 24, width: int = 256, heads: int = 4, kv_heads: int = 2, inner: int = 512, seed: int = 11
) -> onnx.ModelProto:
    """``tokens`` i64 ``[batch, sequence]`` and per layer ``past_k<i>``, ``past_v<i>`` f32 ``[batch, kv_heads, past,
    width / heads]`` to ``logits`` f32 ``[batch, sequence, 1024]`` and ``present_k<i>``, ``present_v<i>`` f32 ``[batch,
    kv_heads, total, width / heads]``, ``total`` being ``past + sequence``."""
    g, size = _Graph(seed), width // heads
    sequence = g.add("Shape", "tokens", start=1, end=2)
    past = g.add("Shape", "past_k0", start=2, end=3)
    total = g.add("Add", past, sequence)
    scalar = g.ints(0)
    first, last = (g.add("Squeeze", n, scalar) for n in (past, total))
    zero, one = (g.const(np.array(n, np.int64)) for n in (0, 1))
    rows, columns = g.add("Range", first, last, one), g.add("Range", zero, last, one)
    hidden = g.add("Less", g.add("Unsqueeze", rows, g.ints(1)), g.add("Unsqueeze", columns, g.ints(0)))
    mask = g.add("Where", hidden, g.number(-1e9), g.number(0.0))
    turns = 1e4 ** (-np.arange(0, size, 2, dtype=np.float32) / size)
    angles = g.add(
        "Mul", g.add("Cast", g.add("Unsqueeze", rows, g.ints(1)), to=TensorProto.FLOAT), g.const(turns[None])
    )
    angles = g.add("Concat", angles, angles, axis=-1)
    cos, sin = g.add("Cos", angles), g.add("Sin", angles)

    def norm(x: str) -> str:
        mean = g.add("ReduceMean", g.add("Mul", x, x), g.ints(-1), keepdims=1)
        root = g.add("Sqrt", g.add("Add", mean, g.number(1e-5)))
        return g.add("Mul", g.add("Div", x, root), g.const(np.ones(width, np.float32)))

    def split(x: str, count: int) -> str:
        return g.add("Transpose", g.add("Reshape", x, g.ints(0, 0, count, size)), perm=[0, 2, 1, 3])

    def turned(x: str) -> str:
        halves = [g.add("Slice", x, g.ints(a), g.ints(b), g.ints(3)) for a, b in ((0, size // 2), (size // 2, size))]
        back = g.add("Concat", g.add("Neg", halves[1]), halves[0], axis=-1)
        return g.add("Add", g.add("Mul", x, cos), g.add("Mul", back, sin))

    def shared(x: str) -> str:
        """Every head of keys or values once per query head that reads it."""
        times = heads // kv_heads
        apart = g.add("Unsqueeze", x, g.ints(2))
        wide = g.add("Expand", apart, g.ints(1, 1, times, 1, 1))
        return g.add("Reshape", wide, g.ints(0, heads, -1, size))

    x = g.add("Gather", g.weight(TOKENS, width), "tokens")
    for i in range(layers):
        y = norm(x)
        q = turned(split(g.add("MatMul", y, g.weight(width, width)), heads))
        k = turned(split(g.add("MatMul", y, g.weight(width, kv_heads * size)), kv_heads))
        v = split(g.add("MatMul", y, g.weight(width, kv_heads * size)), kv_heads)
        k = g.add("Concat", f"past_k{i}", k, name=f"present_k{i}", axis=2)
        v = g.add("Concat", f"past_v{i}", v, name=f"present_v{i}", axis=2)
        scores = g.add("MatMul", q, g.add("Transpose", shared(k), perm=[0, 1, 3, 2]))
        scores = g.add("Add", g.add("Mul", scores, g.number(size**-0.5)), mask)
        mixed = g.add("MatMul", g.add("Softmax", scores, axis=-1), shared(v))
        joined = g.add("Reshape", g.add("Transpose", mixed, perm=[0, 2, 1, 3]), g.ints(0, 0, width))
        x = g.add("Add", x, g.add("MatMul", joined, g.weight(width, width)))
        y = norm(x)
        gate = g.add("MatMul", y, g.weight(width, inner))
        gate = g.add("Mul", gate, g.add("Sigmoid", gate))
        x = g.add(
            "Add",
            x,
            g.add("MatMul", g.add("Mul", gate, g.add("MatMul", y, g.weight(width, inner))), g.weight(inner, width)),
        )
    g.add("MatMul", norm(x), g.weight(width, TOKENS), name="logits")
    info, f32 = helper.make_tensor_value_info, TensorProto.FLOAT
    caches = [f"{n}{i}" for i in range(layers) for n in "kv"]
    inputs = [info(f"past_{n}", f32, ["batch", kv_heads, "past", size]) for n in caches]
    outputs = [info(f"present_{n}", f32, ["batch", kv_heads, "total", size]) for n in caches]
    graph = helper.make_graph(
        g.nodes, "cached_decoder", [info("tokens", TensorProto.INT64, ["batch", "sequence"]), *inputs],
        [info("logits", f32, ["batch", "sequence", TOKENS]), *outputs], g.constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
