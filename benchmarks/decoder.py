"""A decoder-only language model (LLaMA's blocks) with seeded random weights, built without torch.

Pre-normalisation with root mean square norms, rotary-free causal attention, gated SiLU feed-forward: what the products
of such models look like, which is all that its quantised forms are measured for.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, HEADS, INNER, TOKENS = 6, 768, 12, 2048, 8192
_LONGEST = 512


class _Graph:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def const(self, name: str, array: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        spread = 1 / np.sqrt(shape[0])
        return self.const(name, (self.rng.standard_normal(shape) * spread).astype(np.float32))

    def add(self, op: str, *inputs: str, name: str, **attrs: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attrs))
        return name

    def norm(self, x: str, name: str) -> str:
        """``x / sqrt(mean(x^2) + eps) * weight`` over the last axis."""
        squares = self.add("Mul", x, x, name=f"{name}/squares")
        mean = self.add("ReduceMean", squares, "last", name=f"{name}/mean", keepdims=1)
        root = self.add("Sqrt", self.add("Add", mean, "eps", name=f"{name}/eps"), name=f"{name}/root")
        scaled = self.add("Div", x, root, name=f"{name}/div")
        return self.add("Mul", scaled, self.const(f"{name}/w", np.ones(WIDTH, np.float32)), name=name)

    def product(self, x: str, name: str, k: int, n: int) -> str:
        return self.add("MatMul", x, self.weight(f"{name}/w", k, n), name=name)

    def heads(self, x: str, name: str, order: list[int]) -> str:
        apart = self.add("Reshape", x, "apart", name=f"{name}/apart")
        return self.add("Transpose", apart, name=f"{name}/heads", perm=order)

    def layer(self, x: str, name: str) -> str:
        y = self.norm(x, f"{name}/norm1")
        orders = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
        q, k, v = (
            self.heads(self.product(y, f"{name}/{p}", WIDTH, WIDTH), f"{name}/{p}", o) for p, o in orders.items()
        )
        scores = self.add("Mul", self.add("MatMul", q, k, name=f"{name}/qk"), "scale", name=f"{name}/scores")
        masked = self.add("Add", scores, "mask", name=f"{name}/masked")
        mixed = self.add("MatMul", self.add("Softmax", masked, name=f"{name}/soft", axis=-1), v, name=f"{name}/mixed")
        back = self.add("Transpose", mixed, name=f"{name}/back", perm=[0, 2, 1, 3])
        joined = self.add("Reshape", back, "joined", name=f"{name}/joined")
        x = self.add("Add", x, self.product(joined, f"{name}/o", WIDTH, WIDTH), name=f"{name}/attended")
        y = self.norm(x, f"{name}/norm2")
        gate = self.product(y, f"{name}/gate", WIDTH, INNER)
        gate = self.add("Mul", gate, self.add("Sigmoid", gate, name=f"{name}/sigmoid"), name=f"{name}/silu")
        inner = self.add("Mul", gate, self.product(y, f"{name}/up", WIDTH, INNER), name=f"{name}/inner")
        return self.add("Add", x, self.product(inner, f"{name}/down", INNER, WIDTH), name=name)


def decoder() -> onnx.ModelProto:
    """``tokens`` i64 ``[batch, sequence]`` (at most 512 long) to ``logits`` f32 ``[batch, sequence, 8192]``."""
    g = _Graph()
    for name, number in (("eps", 1e-5), ("scale", (WIDTH // HEADS) ** -0.5)):
        g.const(name, np.array(number, np.float32))
    g.const("last", np.array([-1], np.int64))
    g.const("apart", np.array([0, 0, HEADS, WIDTH // HEADS], np.int64))
    g.const("joined", np.array([0, 0, WIDTH], np.int64))
    g.const("triangle", np.triu(np.full((_LONGEST, _LONGEST), -1e9, np.float32), 1))
    g.const("zeros", np.zeros(2, np.int64))
    g.const("axes", np.array([0, 1], np.int64))
    length = g.add("Shape", "tokens", name="length", start=1, end=2)
    square = g.add("Concat", length, length, name="square", axis=0)
    g.add("Slice", "triangle", "zeros", square, "axes", name="mask")
    x = g.add("Gather", g.weight("embedding", TOKENS, WIDTH), "tokens", name="embedded")
    for i in range(LAYERS):
        x = g.layer(x, f"layer{i}")
    g.product(g.norm(x, "norm"), "logits", WIDTH, TOKENS)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        g.nodes, "decoder", [info("tokens", TensorProto.INT64, ["batch", "sequence"])],
        [info("logits", TensorProto.FLOAT, ["batch", "sequence", TOKENS])], g.constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
