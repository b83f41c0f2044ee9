"""LSTM, GRU and RNN. MNN's own operators hold the usual forms, the rest keep ONNX's attributes."""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value
from MNN.ops.sequences.recurrent_cells import NAMES

_USUAL = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}


@onnx_op("LSTM", "GRU", "RNN", operands=Operands(ranks=(3, 3, 3)))
def recurrent(ctx: Context, node: OnnxNode) -> list[Value]:
    direction = node.choice_attr("direction", "forward", "forward", "reverse", "bidirectional")
    activations = node.strs_attr("activations", None)
    unknown = [a for a in activations or () if a.lower() not in NAMES]
    if unknown:
        raise node.unsupported(f"activation '{unknown[0]}'", f"use one of {', '.join(NAMES)}")
    alpha, beta = node.floats_attr("activation_alpha", None), node.floats_attr("activation_beta", None)
    clip, layout = node.float_attr("clip", 0.0), node.int_attr("layout", 0)
    node.ignore("output_sequence")  # before opset 7
    hidden = node.int_attr("hidden_size", 0)
    extra = 0
    attrs: dict[str, object] = {}
    if node.op == "LSTM":
        extra = attrs["input_forget"] = node.int_attr("input_forget", 0)
    if node.op == "GRU":
        attrs["linear_before_reset"] = node.int_attr("linear_before_reset", 0)
    operands = [node.optional(i) for i in range(8 if node.op == "LSTM" else 6)]
    outputs = 3 if node.op == "LSTM" else 2
    usual = activations is None or [a.lower() for a in activations] == _USUAL[node.op] * (
        2 if direction == "bidirectional" else 1
    )
    plain = node.op != "GRU" and direction != "reverse" and usual and not (clip or layout or extra)
    bias = ctx.constant(operands[3])
    plain = plain and operands[4] is None and all(v is None for v in operands[7:])
    if plain and bias is not None and bias.ndim == 2 and bias.shape[1] % 2 == 0:
        half = bias.shape[1] // 2
        both = ctx.const(bias[:, :half] + bias[:, half:])
        return ctx.emit(node.op, [*operands[:3], both, *operands[5:7]], outputs, outputCount=hidden)
    attrs |= {
        "direction": direction, "activations": activations, "activation_alpha": alpha, "activation_beta": beta,
        "clip": clip, "hidden_size": hidden, "layout": layout,
    }  # fmt: skip
    return ctx.emit(f"Onnx{node.op}", operands, outputs, **attrs)
