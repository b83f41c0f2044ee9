"""Recurrent layers, variables and control flow: several runs, so that what is kept counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family

RUNS = 3


def _small(d: Draw, *shape: int) -> int:
    return d.g.const(d.array(shape, low=-0.6, high=0.6))


def _state(d: Draw, *shape: int) -> int:
    return d.g.tensor(shape, is_variable=True)


@family("RNN")
def rnn(d: Draw) -> Case:
    batch, inputs, units = d.int(1, 3), d.int(1, 5), d.int(1, 5)
    operands = [d.input([batch, inputs]), _small(d, units, inputs), _small(d, units, units), _small(d, units),
                _state(d, batch, units)]  # fmt: skip
    act = d.one(["NONE", "RELU", "RELU6", "TANH"])
    y = d.g.made("RNN", operands, [batch, units], "FLOAT32", "RNNOptions", fused_activation_function=act)
    return d.case(y, runs=RUNS)


def _sequence(d: Draw, inputs: int) -> tuple[int, int, bool, list[int]]:
    batch, steps, major = d.int(1, 3), d.one([1, 4, 40]), d.flag()
    return batch, steps, major, [steps, batch, inputs] if major else [batch, steps, inputs]


@family("UNIDIRECTIONAL_SEQUENCE_RNN")
def sequence_rnn(d: Draw) -> Case:
    inputs, units = d.int(1, 5), d.int(1, 5)
    batch, _, major, shape = _sequence(d, inputs)
    operands = [d.input(shape), _small(d, units, inputs), _small(d, units, units), _small(d, units),
                _state(d, batch, units)]  # fmt: skip
    y = d.g.made(
        "UNIDIRECTIONAL_SEQUENCE_RNN", operands, [*shape[:2], units], "FLOAT32", "SequenceRNNOptions",
        time_major=major, fused_activation_function=d.one(["RELU6", "TANH"]),
    )  # fmt: skip
    return d.case(y, runs=RUNS)


@family("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_rnn(d: Draw) -> Case:
    inputs, units, others = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    batch, _, major, shape = _sequence(d, inputs)
    operands = [d.input(shape)]
    for n in (units, others):
        operands += [_small(d, n, inputs), _small(d, n, n), _small(d, n), _state(d, batch, n)]
    operands += [-1, -1, -1]
    merged = d.flag()
    outs = [[*shape[:2], units + others]] if merged else [[*shape[:2], units], [*shape[:2], others]]
    made = [d.g.tensor(s) for s in outs]
    d.g.op(
        "BIDIRECTIONAL_SEQUENCE_RNN", operands, made, "BidirectionalSequenceRNNOptions", time_major=major,
        merge_outputs=merged, fused_activation_function="TANH",
    )  # fmt: skip
    return d.case(*made, runs=RUNS)


def _cell(d: Draw, inputs: int, units: int, outputs: int, projected: bool) -> list[int]:
    """Weights of one direction up to the projection."""
    coupled, holes = d.flag(), d.flag()
    first = [-1] if coupled else []
    four = first + [_small(d, units, inputs) for _ in range(4 - len(first))]
    four += first + [_small(d, units, outputs) for _ in range(4 - len(first))]
    four += (first + [_small(d, units) for _ in range(3 - len(first))]) if holes else [-1] * 3
    four += first + [_small(d, units) for _ in range(4 - len(first))]
    four += [_small(d, outputs, units), _small(d, outputs) if d.flag() else -1] if projected else [-1, -1]
    return four


def _clips(d: Draw) -> dict[str, Any]:
    return {
        "cell_clip": d.one([0.0, 0.0, 0.4]),
        "proj_clip": d.one([0.0, 0.0, 0.3]),
        "fused_activation_function": "TANH",
    }


@family("LSTM")
def lstm(d: Draw) -> Case:
    batch, inputs, units, projected = d.int(1, 3), d.int(1, 5), d.int(1, 5), d.flag()
    outputs = d.int(1, units) if projected else units
    operands = [d.input([batch, inputs]), *_cell(d, inputs, units, outputs, projected)]
    operands += [_state(d, batch, outputs), _state(d, batch, units)]
    y = d.g.made("LSTM", operands, [batch, outputs], "FLOAT32", "LSTMOptions", **_clips(d))
    return d.case(y, runs=RUNS)


@family("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(d: Draw) -> Case:
    inputs, units, projected = d.int(1, 5), d.int(1, 5), d.int(0, 2) == 0
    outputs = d.int(1, units) if projected else units
    batch, _, major, shape = _sequence(d, inputs)
    weights = _cell(d, inputs, units, outputs, projected)
    operands = [d.input(shape), *weights, _state(d, batch, outputs), _state(d, batch, units)]
    if d.int(0, 2) == 0:
        operands += [-1 if weights[0] < 0 else _small(d, units), *(_small(d, units) for _ in range(3))]
    y = d.g.made(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [*shape[:2], outputs], "FLOAT32", "UnidirectionalSequenceLSTMOptions",
        time_major=major, **_clips(d),
    )  # fmt: skip
    return d.case(y, runs=RUNS, tolerance=3e-5)


@family("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(d: Draw) -> Case:
    inputs, units = d.int(1, 5), d.int(1, 5)
    others = units
    batch, _, major, shape = _sequence(d, inputs)
    operands = [d.input(shape)]
    for n in (units, others):
        operands += _cell(d, inputs, n, n, False)
    operands += [_state(d, batch, n) for n in (units, units, others, others)]
    operands += [-1] * 9
    merged = major and d.flag()  # LiteRT joins those of batches that come first in another order
    outs = [[*shape[:2], units + others]] if merged else [[*shape[:2], units], [*shape[:2], others]]
    made = [d.g.tensor(s) for s in outs]
    d.g.op(
        "BIDIRECTIONAL_SEQUENCE_LSTM", operands, made, "BidirectionalSequenceLSTMOptions", time_major=major,
        merge_outputs=merged, **_clips(d),
    )  # fmt: skip
    return d.case(*made, runs=RUNS)


@family("SVDF")
def svdf(d: Draw) -> Case:
    batch, inputs, units, rank, memory = d.int(1, 3), d.int(1, 5), d.int(1, 4), d.int(1, 2), d.int(1, 5)
    filters = units * rank
    operands = [d.input([batch, inputs]), _small(d, filters, inputs), _small(d, filters, memory),
                _small(d, units) if d.flag() else -1, _state(d, batch, memory * filters)]  # fmt: skip
    y = d.g.made(
        "SVDF", operands, [batch, units], "FLOAT32", "SVDFOptions", rank=rank,
        fused_activation_function=d.one(["NONE", "RELU"]),
    )  # fmt: skip
    return d.case(y, runs=4)


@family("IF")
def if_(d: Draw) -> Case:
    shape = d.shape()
    x = d.input(shape)
    numbers = []
    for op in ("ADD", "MUL"):
        number, inner = d.model.subgraph(op)
        a = inner.input(shape)
        inner.outputs = [inner.made(op, [a, inner.const(d.array(shape))], shape, options=f"{op.title()}Options"), a]
        numbers.append(number)
    condition = d.fed(np.asarray(d.flag()))
    outs = [d.g.tensor(shape) for _ in range(2)]
    d.g.op("IF", [condition, x], outs, "IfOptions", then_subgraph_index=numbers[0], else_subgraph_index=numbers[1])
    return d.case(*outs)


@family("WHILE")
def while_(d: Draw) -> Case:
    """Sums while a counter is small."""
    shape, most = d.shape(), d.int(0, 5)
    first, condition = d.model.subgraph("condition")
    a, _ = condition.input([], "INT32"), condition.input(shape)
    condition.outputs = [condition.made("LESS", [a, condition.const(np.int32(most))], [], "BOOL")]
    second, body = d.model.subgraph("body")
    a, b = body.input([], "INT32"), body.input(shape)
    more = body.made("ADD", [a, body.const(np.int32(1))], [], "INT32", "AddOptions")
    body.outputs = [more, body.made("MUL", [b, body.const(d.array(shape))], shape, options="MulOptions")]
    outs = [d.g.tensor([], "INT32"), d.g.tensor(shape)]
    start = d.fed(np.asarray(d.int(0, 2), np.int32))
    d.g.op(
        "WHILE", [start, d.input(shape)], outs, "WhileOptions", cond_subgraph_index=first, body_subgraph_index=second
    )
    return d.case(*outs)


@family("STABLEHLO_COMPOSITE")
def composite(d: Draw) -> Case:
    shape = d.shape()
    number, inner = d.model.subgraph("inner")
    a = inner.input(shape)
    inner.outputs = [inner.made("EXP", [a], shape)]
    empty = np.frombuffer(bytes([0, 1, 0, 0, 2, 36, 1]), np.uint8)  # a FlexBuffer's map of nothing
    made = d.g.made(
        "STABLEHLO_COMPOSITE", [d.input(shape)], shape, "FLOAT32", "StableHLOCompositeOptions", name="odml.exp",
        decomposition_subgraph_index=number, composite_attributes=empty,
    )  # fmt: skip
    return d.case(made)


@family("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")
def variable(d: Draw, op: str) -> Case:
    """A running sum, from a first value that a subgraph gives."""
    shape = d.shape()
    first = d.array(shape) if d.flag() else np.zeros(shape, np.float32)
    options = {"container": "", "shared_name": "total"}
    number, start = d.model.subgraph("start")
    there = start.made("VAR_HANDLE", [], [1], "RESOURCE", "VarHandleOptions", **options)
    start.op("ASSIGN_VARIABLE", [there, start.const(first)], [])
    d.g.op("CALL_ONCE", [], [], "CallOnceOptions", init_subgraph_index=number)
    here = d.g.made("VAR_HANDLE", [], [1], "RESOURCE", "VarHandleOptions", **options)
    now = d.g.made("READ_VARIABLE", [here], shape)
    total = d.g.made("ADD", [now, d.input(shape)], shape, "FLOAT32", "AddOptions")
    d.g.op("ASSIGN_VARIABLE", [here, total], [])
    return d.case(d.g.made("NEG", [total], shape), runs=RUNS)
