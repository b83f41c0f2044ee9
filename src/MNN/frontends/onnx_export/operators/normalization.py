"""Normalisations."""

from __future__ import annotations

import numpy as np

from MNN.frontends.onnx_export.exporter import Exporter, exports
from MNN.ir.graph import Node, Value


def per_channel(e: Exporter, vector: Value, x: Value) -> str:
    """A vector that broadcasts along axis 1."""
    rank = e.rank(x)
    return e.name(vector) if rank < 3 else e.op("Reshape", e.name(vector), e.const([-1, *(1,) * (rank - 2)]))


@exports("BatchNorm")
def batch_norm(e: Exporter, node: Node) -> str:
    return e.op("BatchNormalization", *(e.input(node, i) for i in range(5)), epsilon=e.number(node, "epsilon"))


@exports("BatchNormTraining")
def batch_norm_training(e: Exporter, node: Node) -> list[str]:
    return e.emit(
        "BatchNormalization", [e.input(node, i) for i in range(5)], 3, epsilon=e.number(node, "epsilon"),
        momentum=e.number(node, "momentum"), training_mode=1,
    )  # fmt: skip


@exports("Scale")
def scale(e: Exporter, node: Node) -> str:
    x = e.required(node, 0)
    out = e.op("Mul", e.name(x), per_channel(e, e.required(node, 1), x))
    shift = e.value(node, 2)
    return out if shift is None else e.op("Add", out, per_channel(e, shift, x))


@exports("InstanceNorm")
def instance_norm(e: Exporter, node: Node) -> str:
    x = e.required(node, 0)
    scale_name, bias = e.input(node, 1), e.input(node, 2)
    if not scale_name or not bias:
        channels = x.shape[1] if x.shape is not None and len(x.shape) > 1 else None
        if not isinstance(channels, int):
            raise e.unsupported(node, "instance normalisation without a scale, of unknown channels")
        scale_name = scale_name or e.const(np.ones(channels), e.dtype(x))
        bias = bias or e.const(np.zeros(channels), e.dtype(x))
    return e.op("InstanceNormalization", e.name(x), scale_name, bias, epsilon=e.number(node, "epsilon"))


@exports("GroupNorm")
def group_norm(e: Exporter, node: Node) -> str:
    """By instance normalisation of the groups, which any runtime has."""
    x, group = e.required(node, 0), e.integer(node, "group")
    one, zero = (e.const(np.full(group, v), e.dtype(x)) for v in (1, 0))
    flat = e.op("Reshape", e.name(x), e.const([0, group, -1]))
    normal = e.op("InstanceNormalization", flat, one, zero, epsilon=e.number(node, "epsilon"))
    out = e.op("Reshape", normal, e.op("Shape", e.name(x)))
    if e.value(node, 1) is not None:
        out = e.op("Mul", out, per_channel(e, e.required(node, 1), x))
    if e.value(node, 2) is not None:
        out = e.op("Add", out, per_channel(e, e.required(node, 2), x))
    return e.op("Mul", out, e.op("Sigmoid", out)) if e.integer(node, "bSwish") else out


@exports("LayerNorm", "LayerNormalization")
def layer_norm(e: Exporter, node: Node) -> list[str]:
    x, count = e.required(node, 0), max(len(e.list_of(node, "axis")), 1)
    if e.integer(node, "group") > 1:
        raise e.unsupported(node, "layer normalisation in groups")
    sizes = None if x.shape is None else x.shape[len(x.shape) - count :]
    gamma, beta = (_trailing(e, e.value(node, i), count, sizes) for i in (1, 2))
    epsilon = e.number(node, "epsilon")
    if e.flag(node, "useRMSNorm"):
        axes = e.const(list(range(-count, 0)))
        square = e.op("ReduceMean", e.op("Mul", e.name(x), e.name(x)), axes, keepdims=1)
        root = e.op("Sqrt", e.op("Add", square, e.like(epsilon, x)))
        out = e.op("Div", e.name(x), root)
        out = e.op("Mul", out, gamma) if gamma else out
        return [e.op("Add", out, beta) if beta else out]
    if not gamma:
        if sizes is None or not all(isinstance(d, int) for d in sizes):
            raise e.unsupported(node, "layer normalisation without a scale, of unknown size")
        gamma = e.const(np.ones([int(d) for d in sizes]), e.dtype(x))
    outputs = 3 if node.op == "LayerNormalization" else 1
    return e.emit("LayerNormalization", [e.name(x), gamma, beta], outputs, axis=-count, epsilon=epsilon)


def _trailing(e: Exporter, vector: Value | None, count: int, sizes: tuple[int | str, ...] | None) -> str:
    """Gamma or beta, which files keep flat also where they belong to several axes."""
    if vector is None:
        return ""
    flat = count > 1 and vector.shape is not None and len(vector.shape) == 1
    if flat and sizes is not None and all(isinstance(d, int) for d in sizes):
        return e.op("Reshape", e.name(vector), e.const([int(d) for d in sizes]))
    return e.name(vector)


@exports("LRN")
def lrn(e: Exporter, node: Node) -> str:
    if e.integer(node, "regionType"):
        raise e.unsupported(node, "response normalisation over squares of pixels")
    return e.op(
        "LRN", e.input(node, 0), size=e.integer(node, "localSize"), alpha=e.number(node, "alpha"),
        beta=e.number(node, "beta"), bias=e.number(node, "bias"),
    )  # fmt: skip


@exports("LpNormalization")
def lp_normalization(e: Exporter, node: Node) -> str:
    return e.op("LpNormalization", e.input(node, 0), axis=e.integer(node, "axis"), p=e.integer(node, "p"))


@exports("Normalize")
def normalize(e: Exporter, node: Node) -> str:
    x = e.required(node, 0)
    axes = list(range(1, e.rank(x))) if e.integer(node, "acrossSpatial") else [1]
    total = e.op("ReduceSumSquare", e.name(x), e.const(axes), keepdims=1)
    out = e.op("Div", e.name(x), e.op("Sqrt", e.op("Add", total, e.like(e.number(node, "eps"), x))))
    gain = e.value(node, 1)
    return out if gain is None else e.op("Mul", out, per_channel(e, gain, x))
