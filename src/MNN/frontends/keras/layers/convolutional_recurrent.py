"""ConvLSTM layers: an LSTM whose products are convolutions (Shi et al. 2015, without peepholes, as Keras has it)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.convolution import convolved, rank_of
from MNN.frontends.keras.layers.recurrent import cell_variables, last_step
from MNN.frontends.keras.node import KerasNode, tensors
from MNN.frontends.keras.registry import Config, keras_layer
from MNN.frontends.keras.steps import lstm_step, over_steps
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_KINDS = ("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
_ONCE = ("strides", "dilation_rate", "padding")
"""What the convolution of the states does without: it keeps their size."""


def _cell(config: Config) -> Sequence[tuple[str, Config]]:
    return [("cell", {"class_name": "ConvLSTMCell", "config": config})]


@keras_layer("ConvLSTMCell", variables=cell_variables)
def lone_cell(ctx: KerasContext, node: KerasNode) -> Value:
    raise node.unsupported("a cell by itself", "use a ConvLSTM layer")


@keras_layer(*_KINDS, parts=_cell)
def conv_lstm(ctx: KerasContext, node: KerasNode) -> list[Value]:
    """``x[batch, steps, ...]``. What depends on the inputs alone is one convolution over all steps; a loop does the
    rest. Results are the output and, with ``return_state``, the last states."""
    if node.bool_attr("stateful"):
        raise node.unsupported("a stateful layer", "give the model its states as inputs and outputs (initial_state)")
    if any(m is not None for m in node.masks) or node.tensor_kwarg("mask") is not None:
        raise node.unsupported("a mask of steps", "leave the masked steps out before the layer")
    cell = KerasNode(node.part.child("cell"), [], {})
    kernel, recurrent, bias = (cell.array(key) for key in ("kernel", "recurrent_kernel", "bias"))
    rank = rank_of(node.op)
    if kernel is None or recurrent is None or not kernel.ndim == recurrent.ndim == rank + 2 or recurrent.shape[-1] % 4:
        raise FormatError(f"{node.where}: its cell has no kernels of {rank + 2} axes")
    x = node.input(0)
    given = _over_inputs(ctx, node, x, kernel, bias)
    states = list(tensors(node.kwargs.get("initial_state"))) or node.inputs[1:]
    outs, h, c = _run(ctx, node, given, recurrent, states)
    turned = ctx.op("Permute", outs, dims=[1, 0, *range(2, rank + 3)])
    turned.dtype = x.dtype
    sizes = [d for d in (given.shape or ())[2:] if isinstance(d, int)]
    if x.shape is not None and len(sizes) == rank + 1:
        sizes[0 if node.channels_first() else rank] = recurrent.shape[-1] // 4
        turned.shape = (*x.shape[:2], *sizes)
        h.shape = c.shape = (x.shape[0], *sizes)
    found = turned if node.bool_attr("return_sequences") else last_step(ctx, turned)
    return [found, h, c] if node.bool_attr("return_state") else [found]


def _over_inputs(
    ctx: KerasContext, node: KerasNode, x: Value, kernel: np.ndarray, bias: np.ndarray | None
) -> Value:  # fmt: skip
    """``[steps, batch, ...]``: all gates' convolutions of the inputs, in the order in which the steps are run."""
    shape = x.shape
    sizes = [d for d in (shape or ())[2:] if isinstance(d, int)]
    if shape is None or len(sizes) != rank_of(node.op) + 1 or len(shape) != len(sizes) + 2:
        raise node.unsupported(f"an input of shape {shape}", "save the model with the sizes of its images")
    folded = ctx.op("Reshape", x, ctx.const([-1, *sizes], DType.I32))
    folded.dtype, folded.shape = x.dtype, (f"{folded.name}.0", *sizes)
    y = convolved(ctx, node, folded, "Conv2D", kernel)
    first = node.channels_first()
    if bias is not None:
        y = binary(ctx, "ADD", y, ctx.const(bias.reshape(-1, *(1,) * rank_of(node.op)) if first else bias))
    heads = ctx.op("Shape", x, hasStart=True, start=0, hasEnd=True, end=2)
    apart = ctx.op("Reshape", y, ctx.op("Concat", heads, ctx.op("Shape", y, hasStart=True, start=1), axis=0))
    apart.dtype = x.dtype
    steps_first = ctx.op("Permute", apart, dims=[1, 0, *range(2, rank_of(node.op) + 3)])
    steps_first.dtype = x.dtype
    if not node.bool_attr("go_backwards"):
        return steps_first
    turned = ctx.op("Reverse", steps_first, ctx.const([0], DType.I32))
    turned.dtype = x.dtype
    return turned


def _run(
    ctx: KerasContext, node: KerasNode, given: Value, recurrent: np.ndarray, states: Sequence[Value]
) -> tuple[Value, Value, Value]:  # fmt: skip
    """All outputs ``[steps, batch, ...]`` and the last states."""
    axis = 1 if node.channels_first() else rank_of(node.op) + 1
    if not states:
        begin = ctx.op("GatherV2", given, ctx.const(0, DType.I32), ctx.const(0, DType.I32))
        begin.dtype = given.dtype
        quarter = ctx.emit("Slice", [begin], 4, axis=axis, sourceType="TORCH")[0]
        quarter.dtype = given.dtype
        zeros = ctx.tf("ZerosLike", quarter)
        zeros.dtype = given.dtype
        states = [zeros, zeros]
    if len(states) != 2:
        raise FormatError(f"{node.where}: {len(states)} first states, expected 2")
    steps = (node.input(0).shape or (None, None))[1]

    def step(now: Value, before: list[Value]) -> list[Value]:
        return _step(ctx, node, now, before[0], before[1], recurrent, axis)

    outs, (h, c) = over_steps(ctx, node.name, given, states, step, steps if isinstance(steps, int) else None)
    return outs, h, c


def _step(
    ctx: KerasContext, node: KerasNode, x: Value, h: Value, c: Value, recurrent: np.ndarray, axis: int
) -> list[Value]:  # fmt: skip
    """The next states."""
    plain = KerasNode(node.part, [], {})
    plain.config = {k: v for k, v in node.config.items() if k not in _ONCE} | {"padding": "same"}
    both = binary(ctx, "ADD", x, convolved(ctx, plain, h, "Conv2D", recurrent))
    gates = ctx.emit("Slice", [both], 4, axis=axis, sourceType="TORCH")
    for gate in gates:
        gate.dtype = x.dtype
    return lstm_step(ctx, node, gates, c)
