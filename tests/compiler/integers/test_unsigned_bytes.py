"""Signed bytes that become unsigned ones: not a bit differs, and what is asked for stays signed."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.backend import CpuBackend
from MNN.compiler.integers.unsigned_bytes import with_unsigned_bytes
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.verify import verify
from MNN.runtime.config import Config
from MNN.runtime.session import Session

SIZE, CHANNELS = 9, 70
"""Channels of depthwise windows are more than a group of 64, and no multiple of it."""


class _Drawn:
    """A graph of quantised layers, drawn: convolutions, pools, concatenations, other orders of axes, several uses."""

    def __init__(self, seed: int) -> None:
        self.rng, self.count = np.random.default_rng(seed), 0
        self.graph = Graph("drawn", [Value("x", DType.F32, (1, CHANNELS, SIZE, SIZE))])

    def constant(self, data: np.ndarray) -> Value:
        self.count += 1
        return Value(f"c{self.count}", DType.of(data), data.shape, data)

    def node(self, op: str, *inputs: Value | None, dtype: DType, **attrs: object) -> Value:
        self.count += 1
        out = Value(f"v{self.count}", dtype, (None,) * 4)
        self.graph.nodes.append(Node(op, f"n{self.count}", list(inputs), [out], attrs))
        return out

    def quantised(self, x: Value, parameters: tuple[Value, Value | None] | None = None) -> tuple[Value, Value | None]:
        """Integers and their zero point, which is that of ``parameters`` or drawn."""
        zero = self.constant(np.array(self.rng.integers(-128, 128), np.int8))
        scale = self.constant(np.array(self.rng.uniform(0.01, 0.05), np.float32))
        scale, zero = parameters or (scale, zero)
        self.last = scale, zero
        return self.node("QuantizeLinear", x, scale, zero, dtype=DType.I8), zero

    def convolved(self, q: Value, zero: Value | None, depthwise: bool) -> Value:
        """The scaled sums of a convolution of integers."""
        shape = (CHANNELS, 1 if depthwise else CHANNELS, 3, 3)
        w = self.constant(self.rng.integers(-127, 128, shape).astype(np.int8))
        attrs = {"pads": [1, 1, 1, 1], "strides": [1, 1], "group": CHANNELS if depthwise else 1}
        sums = self.node("ConvInteger", q, w, zero, dtype=DType.I32, **attrs)
        wide = self.node("Cast", sums, dtype=DType.F32, dstT="DT_FLOAT")
        step = 0.002 if depthwise else 0.0002
        return self.node("BinaryOp", wide, self.constant(np.array(step, np.float32)), dtype=DType.F32, opType="MUL")

    def made(self) -> Graph:
        x = self.graph.inputs[0]
        for _ in range(3):
            q, zero = self.quantised(x)
            parameters = self.last
            kind = self.rng.integers(7)
            if kind == 0:
                q = self.node("Pooling", q, dtype=DType.I8, type="MAXPOOL", kernelX=3, kernelY=3, strideX=1, strideY=1,
                              pads=[1, 1, 1, 1])  # fmt: skip
            elif kind == 1:
                other, _ = self.quantised(self.node("ReLU", x, dtype=DType.F32), parameters)
                both = self.node("Concat", q, other, dtype=DType.I8, axis=2)
                half = self.constant(np.array([0, 0, 3, 0], np.int32))
                whole = self.constant(np.array([1, CHANNELS, SIZE, SIZE], np.int32))
                q = self.node("SliceTf", both, half, whole, dtype=DType.I8)
            elif kind == 2:
                q = self.node("Permute", q, dtype=DType.I8, dims=[0, 1, 3, 2])
            elif kind == 4:  # a border of the zero point, of another number, or of the zeros that it has by itself
                sides = self.constant(np.array([0, 0, 0, 0, 2, 0, 0, 1], np.int32))
                number = (zero, self.constant(np.array(5, np.int8)), None)[self.rng.integers(3)]
                bordered = self.node("Padding", q, sides, *([] if number is None else [number]), dtype=DType.I8)
                half = self.constant(np.array([0, 0, 0, 1], np.int32))
                whole = self.constant(np.array([1, CHANNELS, SIZE, SIZE], np.int32))
                q = self.node("SliceTf", bordered, half, whole, dtype=DType.I8)
            elif kind == 5:
                shown = self.constant(self.rng.integers(-128, 128, (1, CHANNELS, 2, SIZE)).astype(np.int8))
                both = self.node("Concat", shown, q, dtype=DType.I8, axis=2)
                half = self.constant(np.array([0, 0, 0, 0], np.int32))
                whole = self.constant(np.array([1, CHANNELS, SIZE, SIZE], np.int32))
                q = self.node("SliceTf", both, half, whole, dtype=DType.I8)
            elif kind == 3:  # an output of the graph, which stays what it is
                self.graph.outputs.append(q)
            x = self.convolved(q, zero, bool(self.rng.integers(2)))
            if self.rng.integers(2):
                back = self.node("DequantizeLinear", q, *parameters, dtype=DType.F32)
                x = self.node("BinaryOp", x, back, dtype=DType.F32, opType="ADD")
        self.last_bytes, _ = self.quantised(x)
        self.graph.outputs += [self.node("DequantizeLinear", self.last_bytes, *self.last, dtype=DType.F32)]
        return self.graph


@pytest.mark.parametrize("seed", range(10))
def test_same_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = _Drawn(seed)
    graph = drawn.made()
    changed, gone = with_unsigned_bytes(graph)
    verify(changed, "after with_unsigned_bytes")
    assert gone
    assert gone.isdisjoint(graph.outputs)
    assert drawn.last_bytes in gone
    x = np.random.default_rng(seed).normal(size=(1, CHANNELS, SIZE, SIZE)).astype(np.float32)
    names = [v.name for v in (*graph.outputs, drawn.last_bytes)]
    found = {}
    for unsigned in (False, True):
        monkeypatch.setattr(CpuBackend, "prefers_unsigned", lambda self, wanted=unsigned: wanted)
        session = Session(graph, Config(threads=1))
        found[unsigned] = [*session.run({"x": x}).values(), *session.run({"x": x}, names).values()]
    for signed, other in zip(found[False], found[True], strict=True):
        assert signed.dtype == other.dtype
        np.testing.assert_array_equal(signed, other)


def test_values_that_others_look_at_stay() -> None:
    """A zero point that is computed, a use as the right side of a product, a subgraph."""
    x, zero = Value("x", DType.F32, (4, 4)), Value("z", DType.I8, ())
    scale = Value("s", DType.F32, (), np.array(0.1, np.float32))
    none = Value("n", DType.I8, (), np.zeros((), np.int8))
    names = iter("abcdefgh")

    def quantised(zero: Value) -> tuple[Value, Node]:
        out = Value(next(names), DType.I8, (4, 4))
        return out, Node("QuantizeLinear", out.name, [x, scale, zero], [out])

    (computed, first), (right, second), (seen, third), (left, fourth) = map(quantised, (zero, none, none, none))
    product = Value("product", DType.I32, (4, 4))
    inner, taken = Value("inner", DType.I8, (4, 4)), Value("taken", DType.I8, (4, 4))
    branch = Graph("branch", [], [inner], [Node("Identity", "i", [seen], [inner])])
    flag, back = Value("flag", DType.BOOL, ()), Value("back", DType.F32, (4, 4))
    nodes = [
        first, second, third, fourth,
        Node("MatMulInteger", "m", [left, right, none, none], [product]),
        Node("If", "if", [flag], [taken], {"then_branch": branch, "else_branch": branch}),
        Node("DequantizeLinear", "d", [computed, scale, zero], [back]),
    ]  # fmt: skip
    graph = Graph("mixed", [x, zero, flag], [product, taken, back], nodes)
    _, gone = with_unsigned_bytes(graph)
    assert gone == {left}
