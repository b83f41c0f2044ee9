"""Attention."""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value


@onnx_op("Attention", since=23)
def attention(ctx: Context, node: OnnxNode) -> list[Value]:
    node.ignore("softmax_precision")  # the softmax is computed in float32 at least
    mode = node.int_attr("qk_matmul_output_mode", 0)
    if not 0 <= mode <= 3:
        raise node.unsupported(f"qk_matmul_output_mode {mode}", "use 0 to 3")
    return ctx.emit(
        "OnnxAttention", [node.optional(i) for i in range(7)], 4, is_causal=node.bool_attr("is_causal", False),
        q_num_heads=node.int_attr("q_num_heads", 0), kv_num_heads=node.int_attr("kv_num_heads", 0),
        scale=node.float_attr("scale", 0.0), softcap=node.float_attr("softcap", 0.0), qk_matmul_output_mode=mode,
        left_window_size=node.int_attr("left_window_size", -1),
        right_window_size=node.int_attr("right_window_size", -1),
    )  # fmt: skip
