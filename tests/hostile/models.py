"""The models that are attacked: a trained convolutional net, recurrence with control flow, and quantised attention.

The last two are written here, small and from seeded noise, so that they hold many kinds of structure in few bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import MNN
from MNN.frontends.mnn import net_of
from MNN.frontends.onnx.load import load
from MNN.schema import write_net

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Net:
    """Collects nodes and constants of a model."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._rng = np.random.default_rng(seed)

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"{kind.lower()}{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"/{names[0]}", **attributes))
        return names[0]

    def const(self, array: object, dtype: type = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def noise(self, *shape: int) -> str:
        return self.const(self._rng.normal(0, 0.3, shape), np.float32)

    def model(self, inputs: dict[str, tuple[int, list[int | str]]], outputs: dict[str, int]) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
            self.constants,
        )
        made: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return made.SerializeToString()


def _subgraph(
    name: str, inputs: dict[str, tuple[int, list[int | str]]], net: Net, outputs: dict[str, int]
) -> GraphProto:
    return helper.make_graph(
        net.nodes,
        name,
        [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()],
        net.constants,
    )


def sequence() -> bytes:
    """LSTM, GRU, If, Loop and Scan over a sequence of any length."""
    net = Net(1)
    hidden, width = 5, 4
    both = net.op("LSTM", "x", net.noise(2, 4 * hidden, width), net.noise(2, 4 * hidden, hidden),
                  net.noise(2, 8 * hidden), outputs=3, hidden_size=hidden, direction="bidirectional")  # fmt: skip
    flat = net.op("Reshape", net.op("Transpose", both, perm=[0, 2, 1, 3]), net.const([0, 0, -1]))
    last = net.op("GRU", flat, net.noise(1, 3 * hidden, 2 * hidden), net.noise(1, 3 * hidden, hidden),
                  outputs=2, hidden_size=hidden, linear_before_reset=1)  # fmt: skip
    rows = net.op("Squeeze", last, net.const([1]))
    loud = net.op("Greater", net.op("ReduceMax", rows, keepdims=0), net.const(0.2, np.float32))
    then, other = Net(2), Net(3)
    then_out = then.op("Softmax", rows, axis=-1)
    other_out = other.op("Pad", rows, other.const([0, 0, 0, 0, 1, 0]), mode="reflect")
    taken = net.op("If", loud, then_branch=_subgraph("then", {}, then, {then_out: F32}),
                   else_branch=_subgraph("else", {}, other, {other_out: F32}))  # fmt: skip
    body = Net(4)
    scaled = body.op("Mul", "state", body.const(0.5, np.float32))
    kept = body.op("Identity", "going")
    seen = body.op("Concat", scaled, net.const([1.0], np.float32), axis=0)
    turns = _subgraph("turn", {"turn": (I64, []), "going": (BOOL, []), "state": (F32, [3])}, body,
                      {kept: BOOL, scaled: F32, seen: F32})  # fmt: skip
    looped = net.op("Loop", net.const(40), net.const(True, np.bool_), net.const([1, 2, 3], np.float32), outputs=2,
                    body=turns)  # fmt: skip
    step = Net(5)
    total = step.op("Add", "sum", step.op("ReduceSum", "row", keepdims=0))
    element = step.op("Cast", total, to=TensorProto.DOUBLE)
    scanned = net.op("Scan", net.const(0, np.float32), taken, outputs=2, num_scan_inputs=1,
                     body=_subgraph("step", {"sum": (F32, []), "row": (F32, ["width", 5])}, step,
                                    {total: F32, element: TensorProto.DOUBLE}))  # fmt: skip
    return net.model({"x": (F32, ["steps", 2, width])}, {taken: F32, looped: F32, f"{looped}_1": F32, scanned: F32})


def attention() -> bytes:
    """Two heads over quantised weights, any batch and length; shapes computed in the graph, a window and a resize."""
    net = Net(7)
    width, heads = 8, 2

    def weight(*shape: int) -> str:
        values = net.const(np.random.default_rng(len(net.nodes)).integers(-90, 90, shape), np.int8)
        return net.op("DequantizeLinear", values, net.const(0.01, np.float32), net.const(3, np.int8))

    x = net.op("Gather", weight(20, width), "tokens", axis=0)
    x = net.op("LayerNormalization", x, net.noise(width), net.noise(width), axis=-1)
    shape = net.op("Shape", "tokens")
    batch, length = (net.op("Slice", shape, net.const([i]), net.const([i + 1])) for i in (0, 1))
    split = net.op("Concat", batch, length, net.const([heads, width // heads]), axis=0)

    def projected(perm: list[int]) -> str:
        made = net.op("Add", net.op("MatMul", x, weight(width, width)), net.noise(width))
        return net.op("Transpose", net.op("Reshape", made, split), perm=perm)

    scores = net.op("MatMul", projected([0, 2, 1, 3]), projected([0, 2, 3, 1]))
    mask = net.op("Less", net.op("Range", net.const(0), net.op("Squeeze", length, net.const([0])), net.const(1)),
                  net.const(100))  # fmt: skip
    scores = net.op("Where", mask, scores, net.const(-1e9, np.float32))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), projected([0, 2, 1, 3]))
    back = net.op("Reshape", net.op("Transpose", mixed, perm=[0, 2, 1, 3]), net.op("Concat", batch, length,
                  net.const([width]), axis=0))  # fmt: skip
    x = net.op("Add", x, net.op("Erf", back))
    rows = net.op("Transpose", x, perm=[0, 2, 1])
    windows = net.op("Conv", rows, net.noise(6, 4, 3), pads=[1, 1], group=2, strides=[2], dilations=[1])
    pooled = net.op("MaxPool", windows, kernel_shape=[2], pads=[1, 1], strides=[1])
    wide = net.op("Resize", pooled, "", net.const([1, 1, 2.5], np.float32), mode="linear")
    tiled = net.op("Tile", net.op("Expand", net.op("ReduceMean", wide, axes=[2]), net.const([1, 1, 3])),
                   net.const([1, 2, 1]))  # fmt: skip
    best = net.op("TopK", tiled, net.const([2]), outputs=2, axis=1)
    zeros = net.op("ConstantOfShape", net.op("Shape", best), value=numpy_helper.from_array(np.ones(1, np.float32)))
    out = net.op("Add", net.op("CumSum", best, net.const(1)), zeros)
    return net.model({"tokens": (I64, ["batch", "length"])}, {out: F32, scores: F32})


def digits() -> bytes:
    """The trained net that the package carries."""
    return (Path(MNN.__file__).parent / "assets" / "digits.onnx").read_bytes()


MODELS: dict[str, Callable[[], bytes]] = {"digits": digits, "sequence": sequence, "attention": attention}
FORMATS = ("onnx", "mnn")


def model(name: str, form: str) -> bytes:
    """The file of a model in a format; the .mnn is what the converter writes of the .onnx."""
    data = MODELS[name]()
    if form == "onnx":
        return data
    written = write_net(net_of(load(data)))
    assert written is not None
    return written
