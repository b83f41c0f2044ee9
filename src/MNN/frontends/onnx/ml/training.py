"""Steps of optimisers, as models that train themselves hold them. (Gradients are not derived here.)"""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value

_TRAINING = "ai.onnx.preview.training"


@onnx_op("Adagrad", domain=_TRAINING)
def adagrad(ctx: Context, node: OnnxNode) -> list[Value]:
    return ctx.emit(
        "Adagrad", node.inputs, len(node.outputs), decayFactor=node.float_attr("decay_factor", 0.0),
        epsilon=node.float_attr("epsilon", 1e-6), normCoefficient=node.float_attr("norm_coefficient", 0.0),
    )  # fmt: skip


@onnx_op("Adam", domain=_TRAINING)
def adam(ctx: Context, node: OnnxNode) -> list[Value]:
    return ctx.emit(
        "Adam", node.inputs, len(node.outputs), alpha=node.float_attr("alpha", 0.9),
        beta=node.float_attr("beta", 0.999),
        epsilon=node.float_attr("epsilon", 1e-6), normCoefficient=node.float_attr("norm_coefficient", 0.0),
        normCoefficientPost=node.float_attr("norm_coefficient_post", 0.0),
    )  # fmt: skip


@onnx_op("Momentum", domain=_TRAINING)
def momentum(ctx: Context, node: OnnxNode) -> list[Value]:
    mode = node.choice_attr("mode", "standard", "standard", "nesterov")
    return ctx.emit(
        "Momentum", node.inputs, len(node.outputs), alpha=node.float_attr("alpha"), beta=node.float_attr("beta"),
        normCoefficient=node.float_attr("norm_coefficient"), mode=mode,
    )  # fmt: skip
