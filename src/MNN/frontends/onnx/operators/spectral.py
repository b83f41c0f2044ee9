"""Fourier transforms and mel filters."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.registry import onnx_op
from MNN.frontends.onnx.tensors import dtype_of
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_LONGEST = 1 << 20
"""Longest frame of a short-time transform, in samples."""


@onnx_op("DFT", operands=Operands(singles=(1, 2)))
def dft(ctx: Context, node: OnnxNode) -> Value:
    flags = {"inverse": node.bool_attr("inverse", False), "onesided": node.bool_attr("onesided", False)}
    if node.opset >= 20:
        axis = node.optional(2)
        return ctx.op("DFT", node.input(0), node.optional(1), axis, axis=None if axis else -2, **flags)
    return ctx.op("DFT", node.input(0), node.optional(1), axis=node.int_attr("axis", 1), **flags)


@onnx_op("STFT", operands=Operands(singles=(1, 3)))
def stft(ctx: Context, node: OnnxNode) -> Value:
    signal, step, window, length = node.input(0), node.input(1), node.optional(2), node.optional(3)
    sizes, steps = ctx.constant_ints(length), ctx.constant_ints(step)
    if sizes and not 0 < sizes[0] <= _LONGEST:
        raise node.unsupported(f"a frame of {sizes[0]} samples", f"use 1 to {_LONGEST}")
    if window is None and sizes:
        window, length = ctx.const(np.ones(sizes[0]), signal.dtype or DType.F32), None
    shape = None if window is None else ctx.static_shape(window)
    if shape and (sizes is None or sizes[0] == shape[0]):
        length = None if sizes else length
    return ctx.op(
        "Stft", signal, step, window, length, n_fft=shape[0] if shape else None,
        hop_length=steps[0] if steps else None, abs=node.bool_attr("onesided", True),
    )  # fmt: skip


@onnx_op("MelWeightMatrix", operands=Operands(singles=(0, 1, 2, 3, 4)))
def mel_weight_matrix(ctx: Context, node: OnnxNode) -> Value:
    code = node.int_attr("output_datatype", TensorProto.FLOAT)
    operands = [node.input(i) for i in range(5)]
    return ctx.op("MelWeightMatrix", *operands, dtype=data_type(dtype_of(code, node.where)))
