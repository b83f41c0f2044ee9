"""Recurrent layers, attention, control flow, lists, spectra."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.frontends.onnx_export.exporter import CODES, Exporter, exports
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.inference.infer import annotate


@exports("LSTM", "RNN")
def recurrent(e: Exporter, node: Node) -> list[str]:
    """The official form keeps the sum of both biases."""
    w, r, bias = e.required(node, 1), e.required(node, 2), e.numbers(e.value(node, 3))
    if e.value(node, 3) is not None and bias is None:
        raise e.unsupported(node, "bias that is not constant")
    both = "" if bias is None else e.const(np.concatenate([bias, np.zeros_like(bias)], axis=1), e.dtype(w))
    shape = r.shape or ()
    hidden = shape[-1] if shape and isinstance(shape[-1], int) else e.integer(node, "outputCount")
    twice = bool(w.shape) and w.shape is not None and w.shape[0] == 2
    operands = [e.input(node, 0), e.name(w), e.name(r), both, "", e.input(node, 4), e.input(node, 5)]
    direction = "bidirectional" if twice else "forward"
    return e.emit(node.op, operands, 3 if node.op == "LSTM" else 2, hidden_size=hidden, direction=direction)


_ACTIVATIONS = {
    name.lower(): name
    for name in (
        "Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
        "Softsign", "Softplus",
    )
}  # fmt: skip
"""What ONNX calls them; graphs may have them in any case."""


@exports("OnnxLSTM", "OnnxGRU", "OnnxRNN")
def onnx_recurrent(e: Exporter, node: Node) -> list[str]:
    kind = node.op.removeprefix("Onnx")
    given = e.attr(node, "activations")
    names = [_ACTIVATIONS.get(str(name).lower(), name) for name in given] if isinstance(given, list | tuple) else None
    attrs: dict[str, object] = {
        "direction": e.text(node, "direction"), "activations": names,
        "activation_alpha": e.attr(node, "activation_alpha"), "activation_beta": e.attr(node, "activation_beta"),
        "clip": e.number(node, "clip") or None, "hidden_size": e.integer(node, "hidden_size") or None,
        "layout": e.integer(node, "layout") or None,
    }  # fmt: skip
    if kind == "LSTM":
        attrs["input_forget"] = e.integer(node, "input_forget") or None
    if kind == "GRU":
        attrs["linear_before_reset"] = e.integer(node, "linear_before_reset") or None
    return e.emit(kind, [e.name(v) for v in node.inputs], 3 if kind == "LSTM" else 2, **attrs)


@exports("OnnxAttention")
def onnx_attention(e: Exporter, node: Node) -> list[str]:
    e.need(23)
    if e.integer(node, "left_window_size") != -1 or e.integer(node, "right_window_size") != -1:
        raise e.unsupported(node, "attention within a window in the opsets that runtimes have")
    if e.value(node, 6) is not None:
        e.need(24)
    return e.emit(
        "Attention", [e.name(v) for v in node.inputs], 4, is_causal=e.flag(node, "is_causal"),
        q_num_heads=e.integer(node, "q_num_heads") or None, kv_num_heads=e.integer(node, "kv_num_heads") or None,
        scale=e.number(node, "scale") or None, softcap=e.number(node, "softcap") or None,
        qk_matmul_output_mode=e.integer(node, "qk_matmul_output_mode"),
    )[: len(node.outputs)]  # fmt: skip


@exports("Attention")
def fused_attention(e: Exporter, node: Node) -> str:
    """``softmax(q k' * scale + mask) v`` with heads as the third axis; keys and values may have fewer of them."""
    if node.attrs.get("kv_cache") and len(node.inputs) > 4:
        raise e.unsupported(node, "attention with a cache of its own", "give the caches as inputs and outputs")
    q, k, v = (e.required(node, i) for i in range(3))
    if q.shape is None or k.shape is None or len(q.shape) != 4:
        raise e.unsupported(node, "attention over tensors of unknown shape")
    heads, groups, size = q.shape[2], k.shape[2], q.shape[3]
    if not all(isinstance(d, int) for d in (heads, groups, size)):
        raise e.unsupported(node, "attention with an unknown number of heads")
    parts = [e.op("Transpose", e.name(t), perm=[0, 2, 1, 3]) for t in (q, k, v)]
    times = int(heads) // int(groups)
    if times > 1:
        which = e.const(np.repeat(np.arange(int(groups)), times))
        parts[1:] = [e.op("Gather", p, which, axis=1) for p in parts[1:]]
    scale = e.number(node, "attnScale") or 1 / np.sqrt(int(size))
    scores = e.op("MatMul", parts[0], e.op("Transpose", parts[1], perm=[0, 1, 3, 2]))
    scores = e.op("Mul", scores, e.like(scale, q))
    mask = e.value(node, 3)
    if mask is not None:
        if mask.dtype is not q.dtype:
            raise e.unsupported(node, "mask of another type than the queries")
        scores = e.op("Add", scores, e.name(mask))
    out = e.op("Transpose", e.op("MatMul", e.op("Softmax", scores, axis=-1), parts[2]), perm=[0, 2, 1, 3])
    return e.op("Reshape", out, e.const([0, 0, -1]))


# -- control flow -----------------------------------------------------------------------------------------------------


def _body(e: Exporter, node: Node, key: str, given: Sequence[Value | None] = ()) -> object:
    """A subgraph; its parameters have the element types of what is ``given`` for them."""
    graph = node.attrs.get(key)
    assert isinstance(graph, Graph)
    for param, value in zip(graph.inputs, given, strict=False):
        if param.dtype is None and value is not None:
            param.dtype = value.dtype
    annotate(graph)
    return e.subgraph(graph)


@exports("If")
def branch(e: Exporter, node: Node) -> list[str]:
    yes, no = _body(e, node, "then_graph"), _body(e, node, "else_graph")
    return e.emit("If", [e.input(node, 0)], len(node.outputs), then_branch=yes, else_branch=no)


@exports("Loop", "UnrolledLoop")
def loop(e: Exporter, node: Node) -> list[str]:
    operands = [e.i64(node, 0) if e.value(node, 0) is not None else "", *(e.name(v) for v in node.inputs[1:])]
    given = [Value("turn", DType.I64), Value("going", DType.BOOL), *node.inputs[2:]]
    return e.emit("Loop", operands, len(node.outputs), body=_body(e, node, "body", given))


@exports("Scan", "UnrolledScan")
def scan(e: Exporter, node: Node) -> list[str]:
    return e.emit(
        "Scan", [e.name(v) for v in node.inputs], len(node.outputs), body=_body(e, node, "body", node.inputs),
        num_scan_inputs=e.integer(node, "numScanInputs"), scan_input_axes=e.list_of(node, "inputAxes") or None,
        scan_output_axes=e.list_of(node, "outputAxes") or None,
        scan_input_directions=e.list_of(node, "inputReverse") or None,
        scan_output_directions=e.list_of(node, "outputReverse") or None,
    )  # fmt: skip


# -- lists ------------------------------------------------------------------------------------------------------------

_LISTS = {"SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength", "SequenceConstruct"}


@exports(*_LISTS)
def lists(e: Exporter, node: Node) -> str:
    return e.op(node.op, *(e.name(v) for v in node.inputs))


@exports("SequenceEmpty")
def empty_list(e: Exporter, node: Node) -> str:
    return e.op("SequenceEmpty", dtype=CODES[e.type_attr(node, "dtype") or DType.F32])


@exports("ConcatFromSequence")
def concat_list(e: Exporter, node: Node) -> str:
    new = e.flag(node, "newAxis")
    return e.op("ConcatFromSequence", e.input(node, 0), axis=e.integer(node, "axis"), new_axis=new)


@exports("SplitToSequence")
def split_to_list(e: Exporter, node: Node) -> str:
    keep = e.flag(node, "keepDims")
    return e.op("SplitToSequence", e.input(node, 0), e.input(node, 1), axis=e.integer(node, "axis"), keepdims=keep)


# -- spectra ----------------------------------------------------------------------------------------------------------


@exports("DFT")
def dft(e: Exporter, node: Node) -> str:
    scalar = e.const(np.zeros(0, np.int64))
    if e.value(node, 1) is not None and e.ints(e.value(node, 1)) is None:
        return _of_computed_length(e, node)
    length = "" if e.value(node, 1) is None else e.op("Reshape", e.i64(node, 1), scalar)
    given = e.value(node, 2) is not None
    axis = e.op("Reshape", e.i64(node, 2), scalar) if given else e.const(e.integer(node, "axis"))
    flags = {key: e.flag(node, key) for key in ("inverse", "onesided")}
    return e.op("DFT", _bins(e, node, _pairs(e, node)), length, axis, **flags)


def _of_computed_length(e: Exporter, node: Node) -> str:
    """Where the length is computed, onnx (1.23) takes results for as long as signals, ONNX Runtime their memory, too:
    the signal is made as long first, half a spectrum whole."""
    axes = e.ints(e.value(node, 2)) if e.value(node, 2) is not None else [e.integer(node, "axis")]
    if not axes:
        raise e.unsupported(node, "a transform along an axis that is computed")
    inverse, onesided = e.flag(node, "inverse"), e.flag(node, "onesided")
    half, given, along = inverse and onesided, _pairs(e, node), e.const(axes)
    one, two = e.const([1]), e.const([2])
    length = e.op("Reshape", e.i64(node, 1), one)
    taken = e.op("Add", e.op("Div", length, two), one) if half else length
    longer = e.op("Pad", given, e.op("Concat", e.const([0]), taken, axis=0), "", along)
    signal = e.op("Slice", longer, e.const([0]), taken, along)
    scalar = e.const(axes[0])
    if not half:
        return e.op("DFT", signal, "", scalar, inverse=inverse, onesided=onesided)
    last = e.op("Div", e.op("Sub", length, one), two)
    mirrored = e.op("Slice", signal, last, e.const([0]), along, e.const([-1]))
    conjugate = e.op("Mul", mirrored, e.const([1, -1], e.dtype(e.value(node, 0))))
    whole = e.op("DFT", e.op("Concat", signal, conjugate, axis=axes[0]), "", scalar, inverse=1)
    return e.op("Slice", whole, e.const([0]), one, e.const([-1]))


def _pairs(e: Exporter, node: Node) -> str:
    """What is transformed; of the half that a real signal is made of, ONNX wants imaginary parts, even if all are 0."""
    x = e.required(node, 0)
    half = e.flag(node, "inverse") and e.flag(node, "onesided")
    if not half or x.shape is None or x.shape[-1] != 1:
        return e.name(x)
    return e.op("Pad", e.name(x), e.const([0, 1]), "", e.const([len(x.shape) - 1]))


def _bins(e: Exporter, node: Node, given: str) -> str:
    """What is transformed; of the half that a real signal is made of, as much as its length takes: ONNX Runtime (1.32)
    gives other numbers where there is more of it, or less."""
    x, length = e.value(node, 0), e.ints(e.value(node, 1))
    axes = e.ints(e.value(node, 2)) if e.value(node, 2) is not None else [e.integer(node, "axis")]
    if not (e.flag(node, "inverse") and e.flag(node, "onesided")) or x is None or not length or not axes:
        return given
    taken = length[0] // 2 + 1
    if x.shape is not None and x.shape[axes[0]] == taken:
        return given
    longer = e.op("Pad", given, e.const([0, taken]), "", e.const(axes))
    return e.op("Slice", longer, e.const([0]), e.const([taken]), e.const(axes))


@exports("Stft")
def stft(e: Exporter, node: Node) -> str:
    scalar = e.const(np.zeros(0, np.int64))
    step = e.op("Reshape", e.i64(node, 1), scalar)
    length = "" if e.value(node, 3) is None else e.op("Reshape", e.i64(node, 3), scalar)
    return e.op("STFT", e.input(node, 0), step, e.input(node, 2), length, onesided=e.flag(node, "abs"))


@exports("MelWeightMatrix")
def mel(e: Exporter, node: Node) -> str:
    to = e.type_attr(node, "dtype") or DType.F32
    return e.op("MelWeightMatrix", *(e.name(v) for v in node.inputs), output_datatype=CODES[to])
