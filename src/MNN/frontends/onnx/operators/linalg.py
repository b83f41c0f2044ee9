"""Einstein summation, determinants, affine grids, random numbers."""

from __future__ import annotations

import numpy as np

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.registry import onnx_op
from MNN.frontends.onnx.tensors import dtype_of
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@onnx_op("Einsum")
def einsum(ctx: Context, node: OnnxNode) -> Value:
    inputs = [node.input(i) for i in range(len(node.inputs))]
    return ctx.op("Einsum", *inputs, equation=node.str_attr("equation"))


@onnx_op("Det")
def det(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Det", node.input(0))


@onnx_op("AffineGrid", operands=Operands(lists=(1,)))
def affine_grid(ctx: Context, node: OnnxNode) -> Value:
    """ONNX defines it by a function that goes wrong for a batch of one, so it is done here."""
    return ctx.op("AffineGrid", node.input(0), node.input(1), alignCorners=node.bool_attr("align_corners", False))


def _seed(node: OnnxNode) -> int:
    """ONNX seeds are floats; 0 means none here, so a seed of zero becomes 1."""
    if not node.has("seed"):
        return 0
    return int(np.float32(node.float_attr("seed")).view(np.int32)) or 1


def _type(node: OnnxNode, default: str) -> str:
    return data_type(dtype_of(node.int_attr("dtype"), node.where)) if node.has("dtype") else default


@onnx_op("RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike")
def random(ctx: Context, node: OnnxNode) -> Value:
    like = node.op.endswith("Like")
    names = ("low", "high") if "Uniform" in node.op else ("mean", "scale")
    low, high = node.float_attr(names[0], 0.0), node.float_attr(names[1], 1.0)
    default = "DT_FLOAT"
    if like:
        source = node.input(0)
        shape = ctx.op("Shape", source)
        if not node.has("dtype") and source.dtype is None:
            raise node.unsupported("an input of unknown element type", "give the attribute dtype")
        default = data_type(source.dtype) if source.dtype is not None else default
    else:
        shape = ctx.const(np.asarray(node.ints_attr("shape"), np.int64))
    kind = _type(node, default)
    return ctx.op(node.op.removesuffix("Like"), shape, seed=_seed(node), type=kind, low=low, high=high)


@onnx_op("Bernoulli")
def bernoulli(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Bernoulli", node.input(0), seed=_seed(node), type=_type(node, "DT_INVALID"))


@onnx_op("Multinomial")
def multinomial(ctx: Context, node: OnnxNode) -> Value:
    count, kind = node.int_attr("sample_size", 1), _type(node, "DT_INT32")
    return ctx.op("Multinomial", node.input(0), seed=_seed(node), type=kind, count=count)
