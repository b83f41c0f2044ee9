"""Recurrent layers over ``[length, width]``."""

from __future__ import annotations

import numpy as np

from MNN.frontends.ncnn.context import Context, inverted
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import Weights, ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_ORDERS = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 1, 3)}
"""Where ncnn has the gates in the order of the engine: GRU (R U N) as z r h, LSTM (I F O G) as i o f c."""


def _directions(p: Params) -> int:
    return 2 if p.integer(2) == 2 else 1


def _reader(kind: str) -> Weights:
    gates = _GATES[kind]

    def weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
        outputs, both = p.integer(0), _directions(p)
        hidden = p.integer(3, outputs) if kind == "LSTM" else outputs
        rows = hidden * gates * both
        width = p.integer(1) // max(rows, 1)
        found = {"x": r.tagged(rows * width), "bias": r.tagged(hidden * (4 if kind == "GRU" else gates) * both)}
        found["h"] = r.tagged(rows * outputs)
        if hidden != outputs:
            found["projection"] = r.tagged(hidden * outputs * both)
        if p.flag(8):
            found |= {"x_scales": r.plain(rows), "h_scales": r.plain(rows)}
        return found

    return weights


@ncnn_layer("RNN", weights=_reader("RNN"))
@ncnn_layer("GRU", weights=_reader("GRU"))
@ncnn_layer("LSTM", weights=_reader("LSTM"))
def recurrent(ctx: Context, node: NcnnNode) -> list[Value]:
    """Operands: the sequence, and the first states or none; results: the states at all times, and the last ones.
    8-bit weights are taken as floats."""
    p, kind = node.params, node.op
    outputs, both = p.integer(0), _directions(p)
    if node.has_weight("projection"):
        raise node.unsupported("a projection of its states", "export the network without proj_size")
    if outputs < 1 or not 0 <= p.integer(2) <= 2:
        raise node.malformed(f"{outputs} states in direction {p.integer(2)}")
    x = ctx.op("Permute", ctx.expect(node, node.input(0), 2), dims=[1, 0, 2])  # [T, 1, I]
    gates = _GATES[kind]
    w, r = (_gates(node, name, kind, both, gates * outputs) for name in ("x", "h"))
    rows = 4 if kind == "GRU" else gates
    bias = node.weight("bias", (both, rows, outputs)).astype(np.float32)
    if kind == "GRU":  # R U WN BN: the last is added within the reset gate
        outer = np.concatenate([bias[:, [1]], bias[:, [0]], bias[:, [2]]], 1)
        inner = np.concatenate([np.zeros_like(bias[:, :2]), bias[:, [3]]], 1)
        bias = np.concatenate([outer.reshape(both, -1), inner.reshape(both, -1)], 1)
    else:
        ordered = bias[:, list(_ORDERS[kind])].reshape(both, -1)
        bias = np.concatenate([ordered, np.zeros_like(ordered)], 1)
    states = [ctx.op("Reshape", v, ctx.const([both, 1, outputs])) for v in node.inputs[1 : 3 if kind == "LSTM" else 2]]
    attrs: dict[str, object] = {"linear_before_reset": 1} if kind == "GRU" else {}
    attrs |= {"direction": ("forward", "reverse", "bidirectional")[p.integer(2)], "hidden_size": outputs}
    given = [ctx.const(np.ascontiguousarray(a)) for a in (w, r, bias)]
    y, *lasts = ctx.emit(f"Onnx{kind}", [x, *given, None, *states], 3 if kind == "LSTM" else 2, **attrs)
    sequence = ctx.op("Reshape", ctx.op("Permute", y, dims=[2, 0, 1, 3]), ctx.const([1, -1, both * outputs]))
    ends = [ctx.op("Reshape", v, ctx.const([1, both, outputs])) for v in lasts]
    return [sequence, *ends][: len(node.outputs)]


def _gates(node: NcnnNode, name: str, kind: str, both: int, rows: int) -> np.ndarray:
    """Weights ``[directions, gates * H, K]`` in the engine's order of gates."""
    found = node.weights(name)
    width = found.size // max(both * rows, 1)
    weight = node.weight(name, (both, rows, width))
    if weight.dtype == np.int8:
        scales = node.weights(f"{name}_scales").reshape(both, rows, 1)
        weight = weight.astype(np.float32) * inverted(scales)
    gates = weight.reshape(both, _GATES[kind], rows // _GATES[kind], width)
    return gates[:, list(_ORDERS[kind])].reshape(both, rows, width)
