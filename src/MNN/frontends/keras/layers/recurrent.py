"""Recurrent layers as LSTM, GRU and RNN operators, with masks that may be anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.activations import named
from MNN.frontends.keras.node import KerasNode, tensors
from MNN.frontends.keras.part import CUDNN, Part, numbered
from MNN.frontends.keras.registry import Config, keras_layer
from MNN.frontends.keras.steps import cell_over_steps
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_ACTIVATIONS = {
    "sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "linear": "Affine", "softsign": "Softsign",
    "softplus": "Softplus", "elu": "Elu", "hard_sigmoid": "HardSigmoid",
}  # fmt: skip
_CELLS = ("LSTM", "GRU", "SimpleRNN")
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def cell_variables(config: Config) -> Sequence[str]:
    return ["kernel", "recurrent_kernel", *(["bias"] if config.get("use_bias", True) else [])]


def _own_cell(kind: str) -> Callable[[Config], Sequence[tuple[str, Config]]]:
    """Layers for cuDNN (``CuDNNLSTM``, ``CuDNNGRU``) have the usual functions and a bias for each of both kernels."""
    if not kind.startswith(CUDNN):
        return lambda config: [("cell", {"class_name": f"{kind}Cell", "config": config})]
    usual = {"use_bias": True, "reset_after": True, "activation": "tanh", "recurrent_activation": "sigmoid"}
    name = kind.removeprefix(CUDNN)
    return lambda config: [("cell", {"class_name": f"{name}Cell", "config": {**config, **usual, CUDNN: True}})]


@dataclass
class _Gates:
    """A cell's variables in ONNX's order of gates, and what the operator has to be told. ``w[1, G*H, I]``,
    ``r[1, G*H, H]``, ``b[1, 2*G*H]``."""

    op: str
    w: np.ndarray
    r: np.ndarray
    b: np.ndarray
    attrs: dict[str, Any]
    states: int


_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}


def _cell_kind(cell: Part) -> str:
    return cell.kind.removesuffix("Cell")


def _arrays(node: KerasNode, cell: Part) -> Arrays:
    """A cell's kernels ``[width, gates * hidden]`` and ``[hidden, gates * hidden]``, and its biases."""
    inner = KerasNode(cell, [], {})
    kernel, recurrent, bias = (inner.array(name) for name in ("kernel", "recurrent_kernel", "bias"))
    if kernel is None or recurrent is None or kernel.ndim != 2 or recurrent.ndim != 2:
        raise FormatError(f"{node.where}: its cell has no kernels")
    width = _GATES[_cell_kind(cell)] * recurrent.shape[0]
    if kernel.shape[1] != width or recurrent.shape[1] != width:
        raise FormatError(f"{node.where}: kernels of {list(kernel.shape)} and {list(recurrent.shape)}")
    return _of_cudnn(kernel, recurrent, bias) if cell.config.get(CUDNN) else (kernel, recurrent, bias)


def _of_cudnn(kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray | None) -> Arrays:
    """cuDNN's kernels as those of the layers of the same name have them: it holds each gate's kernel ``[hidden,
    width]``, whose numbers Keras gives the sizes ``[width, hidden]``; of an LSTM's two biases the sum counts."""
    width, hidden = kernel.shape[0], recurrent.shape[0]
    count = kernel.shape[1] // hidden
    gates = [np.ascontiguousarray(g).reshape(hidden, width).T for g in np.split(kernel, count, axis=1)]
    own = [g.T for g in np.split(recurrent, count, axis=1)]
    if bias is not None and count == _GATES["LSTM"]:
        bias = bias.reshape(2, -1).sum(0)
    return np.concatenate(gates, axis=1), np.concatenate(own, axis=1), bias


def _gates(ctx: KerasContext, cell: Part, names: Sequence[str], arrays: Arrays) -> _Gates:
    """Keras has the input, forget, cell and output gates of an LSTM in this order; ONNX i, o, f, c. Of a GRU both have
    z, r, h; ``reset_after`` is ONNX's ``linear_before_reset``."""
    kernel, recurrent, bias = arrays
    kind, hidden = _cell_kind(cell), recurrent.shape[0]
    count = _GATES[kind]
    order = [0, 3, 1, 2] if kind == "LSTM" else list(range(count))

    def arranged(array: np.ndarray) -> np.ndarray:
        parts = array.reshape(-1, count, hidden)[:, order]
        return np.ascontiguousarray(parts.reshape(-1, count * hidden).T)[None].astype(np.float32)

    both = np.zeros((2, count * hidden), np.float32)
    if bias is not None:
        given = bias.reshape(-1, count * hidden)
        both[: len(given)] = given
    reset_after = kind == "GRU" and bool(cell.config.get("reset_after", False))
    attrs: dict[str, Any] = {"hidden_size": hidden}
    if kind == "GRU":
        attrs["linear_before_reset"] = int(reset_after)
    attrs |= _activations(ctx, names)
    op = {"LSTM": "OnnxLSTM", "GRU": "OnnxGRU", "SimpleRNN": "OnnxRNN"}[kind]
    return _Gates(
        op,
        arranged(kernel),
        arranged(recurrent),
        arranged(both).transpose(0, 2, 1).reshape(1, -1),
        attrs,
        1 + (kind == "LSTM"),
    )


def _named(ctx: KerasContext, node: KerasNode, cell: Part) -> list[str]:
    """The activations of a cell in ONNX's order; layers by their kinds."""
    keys = {"LSTM": ("recurrent_activation", "activation", "activation"), "GRU": ("recurrent_activation", "activation")}
    found = []
    for key in keys.get(_cell_kind(cell), ("activation",)):
        usual = "sigmoid" if key.startswith("recurrent") else "tanh"
        one = named(ctx, node, cell.config.get(key, usual))
        found.append(one if isinstance(one, str) else one.kind)
    return found


def _activations(ctx: KerasContext, names: Sequence[str]) -> dict[str, Any]:
    """Attributes as ONNX has them: alphas and betas for those that take them, in order."""
    alphas: list[float] = []
    betas: list[float] = []
    for name in names:
        if name == "linear":
            alphas.append(1.0)
            betas.append(0.0)
        elif name == "hard_sigmoid":
            alphas.append(0.2 if ctx.of_old else 1 / 6)
            betas.append(0.5)
        elif name == "elu":
            alphas.append(1.0)
    found: dict[str, Any] = {"activations": [_ACTIVATIONS[name] for name in names]}
    return found | ({"activation_alpha": alphas, "activation_beta": betas} if alphas else {})


@dataclass
class Run:
    """What a recurrent layer is given: ``x[batch, steps, width]``, a mask ``[batch, steps]`` or None, first states
    ``[batch, hidden]``."""

    x: Value
    mask: Value | None
    states: list[Value | None]


def run_cell(ctx: KerasContext, node: KerasNode, cell: Part, given: Run, backwards: bool) -> tuple[Value, list[Value]]:
    """The outputs of all steps ``[batch, steps, hidden]`` in the order in which they are made, and the last states.

    Steps that a mask leaves out change nothing, and give what the step before gave (zeros, if there is none): those
    that count are put first, as many of them as there are in each row are run, and each step takes its result.
    """
    arrays, names = _arrays(node, cell), _named(ctx, node, cell)
    x, mask = given.x, given.mask
    if backwards:
        x, mask = _reversed(ctx, x), None if mask is None else _reversed(ctx, mask)
    lengths: Value | None = None
    done: Value | None = None
    if mask is not None:
        counted = ctx.cast(mask, DType.I32)
        done = ctx.op("CumSum", counted, ctx.const(1, DType.I32), exclusive=False, reverse=False)
        done.dtype = DType.I32
        lengths = ctx.op("Reduction", counted, operation="SUM", dim=[1], keepDims=False)
        lengths.dtype = DType.I32
        x = _compacted(ctx, x, counted, done, lengths)
    if set(names) <= set(_ACTIVATIONS):
        y, states = _operator(ctx, _gates(ctx, cell, names, arrays), Run(x, lengths, given.states))
    else:
        inner = KerasNode(cell, [], {})
        inner.config = {"activation": "tanh", "recurrent_activation": "sigmoid", **inner.config}
        y, states = cell_over_steps(ctx, inner, x, given.states, arrays, lengths)
    out = ctx.op("Permute", y, dims=[1, 0, 2])
    out.dtype = x.dtype
    if done is not None:
        out = _spread(ctx, out, done)
    return out, states


def _operator(ctx: KerasContext, gates: _Gates, given: Run) -> tuple[Value, list[Value]]:
    """The outputs ``[steps, batch, hidden]`` of one operator, and the last states; the mask is the rows' lengths."""
    x = given.x
    first = [None if s is None else ctx.op("Unsqueeze", s, squeezeDims=[0]) for s in given.states]
    steps_first = ctx.op("Permute", x, dims=[1, 0, 2])
    steps_first.dtype = x.dtype
    numbers = (ctx.const(a.astype(np.float32)) for a in (gates.w, gates.r, gates.b))
    y, *last = ctx.emit(gates.op, [steps_first, *numbers, given.mask, *first], 1 + gates.states, **gates.attrs)
    y.dtype = x.dtype
    states = [ctx.op("Squeeze", s, squeezeDims=[0]) for s in last]
    for s in states:
        s.dtype = x.dtype
    return ctx.op("Squeeze", y, squeezeDims=[1]), states


def _reversed(ctx: KerasContext, x: Value) -> Value:
    y = ctx.op("Reverse", x, ctx.const([1], DType.I32))
    y.dtype, y.shape = x.dtype, x.shape
    return y


def _compacted(ctx: KerasContext, x: Value, counted: Value, done: Value, lengths: Value) -> Value:
    """The steps that count first, in order, then the others."""
    steps = ctx.op("Shape", counted, hasStart=True, start=1, hasEnd=True, end=2)
    line = ctx.op("Range", ctx.const(0, DType.I32), ctx.op("Squeeze", steps, squeezeDims=[0]), ctx.const(1, DType.I32))
    line.dtype = DType.I32
    behind = binary(ctx, "ADD", ctx.op("Unsqueeze", lengths, squeezeDims=[1]), binary(ctx, "SUB", line, done))
    place = ctx.op("Select", ctx.cast(counted, DType.BOOL), binary(ctx, "SUB", done, 1), behind)
    place.dtype = DType.I32
    # where each step goes is a permutation; sorting the places gives which step comes to each
    which = ctx.emit("TopKV2", [place, ctx.op("Squeeze", steps, squeezeDims=[0])], 2, largest=False, sorted=True)[1]
    which.dtype = DType.I32
    return _taken(ctx, x, which)


def _taken(ctx: KerasContext, x: Value, steps: Value) -> Value:
    return ctx.tf_like("GatherV2", x, steps, ctx.const(1, DType.I32), batch_dims=1)


def _spread(ctx: KerasContext, out: Value, done: Value) -> Value:
    """The results of compacted steps where the steps were."""
    at = binary(ctx, "MAXIMUM", binary(ctx, "SUB", done, 1), 0)
    some = ctx.op("BinaryOp", done, ctx.const_like(0, done), opType="GREATER")
    taken = _taken(ctx, out, at)
    y = ctx.op("Select", ctx.op("Unsqueeze", some, squeezeDims=[2]), taken, ctx.const_like(0, out))
    y.dtype = out.dtype
    return y


# -- layers ------------------------------------------------------------------------------------------------------------


def given_to(ctx: KerasContext, node: KerasNode, states: int) -> Run:
    """What a call gives: states may follow the sequence in a list, or come by name."""
    inputs = node.inputs
    first = tensors(node.kwargs.get("initial_state"))
    x, extra = inputs[0], inputs[1:]
    mask = node.tensor_kwarg("mask")
    if mask is None and node.masks and (ctx.of_old or not (first or extra)):
        # Keras 3 hands the sequence's mask on by itself only where the sequence is the one argument
        mask = node.masks[0]
    listed: list[Value | None] = [*(first or extra)]
    if listed and len(listed) != states:
        raise FormatError(f"{node.where}: {len(listed)} first states, expected {states}")
    return Run(x, mask, listed or [None] * states)


def pass_mask(ctx: KerasContext, node: KerasNode, given: Run, out: Value) -> None:
    """All steps' outputs have the mask of the sequence, also where the layer was not handed it."""
    mask = given.mask or (node.masks[0] if node.masks else None)
    if mask is not None:
        ctx.masks[out] = mask


def state_count(cell: Part) -> int:
    if cell.kind == "StackedRNNCells":
        return sum(state_count(c) for c in cell.inside)
    return 2 if "LSTM" in cell.kind else 1


def run_layer(ctx: KerasContext, node: KerasNode, given: Run, backwards: bool) -> tuple[Value, list[Value]]:
    """All outputs and the last states of a layer, whose cell may be several one above the other."""
    if node.bool_attr("stateful"):
        return _from_run_to_run(ctx, node, given, backwards)
    return _layers(ctx, node, given, backwards)


def _from_run_to_run(ctx: KerasContext, node: KerasNode, given: Run, backwards: bool) -> tuple[Value, list[Value]]:
    """A ``stateful`` layer goes on where the last run of the model ended."""
    batch = given.x.shape[0] if given.x.shape else None
    if not isinstance(batch, int) or any(s is not None for s in given.states):
        raise node.unsupported(
            "a stateful layer of an open batch size, or one with states of its own",
            "give its input layer a batch_size, and no initial_state",
        )
    memory, kind = ctx.model.memory, given.x.dtype or DType.F32
    names = [f"{node.name}/state{i}" for i in range(len(given.states))]
    sizes = _state_sizes(node, node.part.child("cell"))
    before: list[Value | None] = [
        memory.read(name, kind, (batch, size)) for name, size in zip(names, sizes, strict=True)
    ]
    out, after = _layers(ctx, node, Run(given.x, given.mask, before), backwards)
    for name, size, value in zip(names, sizes, after, strict=True):
        value.dtype, value.shape = kind, (batch, size)
        memory.assign(name, value)
    return out, after


def _state_sizes(node: KerasNode, cell: Part) -> list[int]:
    if cell.kind == "StackedRNNCells":
        return [size for inner in cell.inside for size in _state_sizes(node, inner)]
    return [KerasNode(cell, [], {}).int_attr("units")] * state_count(cell)


def _layers(ctx: KerasContext, node: KerasNode, given: Run, backwards: bool) -> tuple[Value, list[Value]]:
    cell = node.part.child("cell")
    cells = cell.inside if cell.kind == "StackedRNNCells" else [cell]
    states, x, last = list(given.states), given.x, []
    for i, one in enumerate(cells):
        if one.kind.removesuffix("Cell") not in _CELLS:
            raise node.unsupported(f"the cell {one.kind}", "use LSTM, GRU or SimpleRNN cells")
        count = state_count(one)
        own, states = states[:count], states[count:]
        x, after = run_cell(ctx, node, one, Run(x, given.mask, own), backwards and i == 0)
        if backwards and i == 0 and given.mask is not None:
            given = Run(given.x, _reversed(ctx, given.mask), given.states)
        last += after
    if given.mask is not None and node.bool_attr("zero_output_for_mask"):
        x = ctx.op("Select", ctx.op("Unsqueeze", given.mask, squeezeDims=[2]), x, ctx.const_like(0, x))
    return x, last


def last_step(ctx: KerasContext, x: Value) -> Value:
    bounds = (ctx.const(np.asarray(v, np.int64)) for v in ([-1], [np.iinfo(np.int32).max], [1], [1]))
    y = ctx.op("Squeeze", ctx.op("StridedSlice", x, *bounds, fromType=1), squeezeDims=[1])
    y.dtype = x.dtype
    return y


def _layer(ctx: KerasContext, node: KerasNode) -> list[Value]:
    """LSTM, GRU, SimpleRNN, and RNN with cells of these kinds."""
    first = node.bool_attr("time_major")
    given = given_to(ctx, node, state_count(node.part.child("cell")))
    mask = _turned(ctx, given.mask, 2) if first and given.mask is not None else given.mask
    run = Run(_turned(ctx, given.x), mask, given.states) if first else given
    out, states = run_layer(ctx, node, run, node.bool_attr("go_backwards"))
    if node.bool_attr("return_sequences"):
        found = _turned(ctx, out) if first else out
    else:
        found = _last_output(ctx, node, run, out, states)
    if node.bool_attr("return_sequences"):
        pass_mask(ctx, node, given, found)
    return [found, *states] if node.bool_attr("return_state") else [found]


def _turned(ctx: KerasContext, x: Value, rank: int = 3) -> Value:
    """Steps and samples change places (``time_major`` of Keras 2)."""
    made = ctx.op("Permute", x, dims=[1, 0, 2][:rank])
    made.dtype = x.dtype
    return made


def _last_output(ctx: KerasContext, node: KerasNode, given: Run, out: Value, states: list[Value]) -> Value:
    """The hidden state of the last cell; with a mask the last output, which is zeros where nothing counts."""
    if given.mask is not None:
        return last_step(ctx, out)
    return states[-state_count((node.part.child("cell").inside or [node.part.child("cell")])[-1])]


@keras_layer("LSTMCell", "GRUCell", "SimpleRNNCell", variables=cell_variables)
def lone_cell(ctx: KerasContext, node: KerasNode) -> Value:
    raise node.unsupported("a cell by itself", "put it into an RNN layer")


@keras_layer("StackedRNNCells", parts=lambda config: numbered(config["cells"], "cells"))
def stacked(ctx: KerasContext, node: KerasNode) -> Value:
    raise node.unsupported("cells by themselves", "put them into an RNN layer")


for _kind in (*_CELLS, "CuDNNLSTM", "CuDNNGRU"):
    keras_layer(_kind, parts=_own_cell(_kind))(_layer)
keras_layer("RNN", parts=lambda config: [("cell", config["cell"])])(_layer)
