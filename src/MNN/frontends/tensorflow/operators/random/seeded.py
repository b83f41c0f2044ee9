"""Random numbers whose seeds are attributes: of the same distribution, not the same numbers."""

from __future__ import annotations

import math

from MNN.frontends.common.expressions import binary, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


def _seed(node: TfNode) -> int:
    return (node.int_attr("seed", 0) * 31 + node.int_attr("seed2", 0)) % (1 << 31)


@tf_op("RandomUniform", "RandomStandardNormal")
def random(ctx: Context, node: TfNode) -> Value:
    """Numbers of the same distribution; which ones they are is the engine's own matter."""
    seed = _seed(node)
    op = "RandomUniform" if node.op == "RandomUniform" else "RandomNormal"
    kind = data_type(node.dtype_attr("dtype"))
    return ctx.op(op, node.input(0), seed=seed, type=kind, low=0.0, high=1.0)


@tf_op("TruncatedNormal")
def truncated_normal(ctx: Context, node: TfNode) -> Value:
    """Normal numbers within two deviations of 0: quantiles of uniform shares of what lies there."""
    seed, kind = _seed(node), node.dtype_attr("dtype")
    share = math.erf(math.sqrt(2.0))  # of a normal distribution within two deviations
    uniform = ctx.op("RandomUniform", node.input(0), seed=seed, type="DT_DOUBLE", low=-share, high=share)
    uniform.dtype = DType.F64
    found = binary(ctx, "MUL", unary(ctx, "ERFINV", uniform), math.sqrt(2.0))
    return ctx.op("Cast", found, dstT=data_type(kind))


@tf_op("RandomUniformInt")
def random_int(ctx: Context, node: TfNode) -> Value:
    seed = _seed(node)
    kind = data_type(node.dtype_attr("Tout"))
    shape, low, high = node.tensors(0, 3)
    share = ctx.op("RandomUniform", shape, seed=seed, type="DT_DOUBLE", low=0.0, high=1.0)
    first, last = (ctx.op("Cast", v, dstT="DT_DOUBLE") for v in (low, high))
    scaled = binary(ctx, "MUL", share, binary(ctx, "SUB", last, first))
    return ctx.op("Cast", binary(ctx, "ADD", unary(ctx, "FLOOR", scaled), first), dstT=kind)


@tf_op("Multinomial")
def multinomial(ctx: Context, node: TfNode) -> Value:
    seed = _seed(node)
    count = ctx.constant_ints(node.input(1))
    if not count:
        raise node.unsupported("a number of samples that is not constant", "use a constant")
    kind = data_type(node.dtype_attr("output_dtype", DType.I64))
    return ctx.op("Multinomial", node.input(0), seed=seed, type=kind, count=count[0])
