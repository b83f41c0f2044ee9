"""Operators that the official engine lacks, each in a graph of its own with numbers to feed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import Shape


def _noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Sample:
    """One operator. ``operands``: arrays, constant where their position is in ``constant``, None where absent.
    ``open``: positions of inputs whose sizes are not told."""

    name: str
    op: str
    operands: tuple[Any, ...]
    attrs: dict[str, object] = field(default_factory=dict)
    outputs: tuple[tuple[DType, Shape | None], ...] = ((DType.F32, None),)
    constant: tuple[int, ...] = ()
    open: tuple[int, ...] = ()

    def make(self) -> tuple[Graph, dict[str, np.ndarray]]:
        """The graph and its feeds."""
        inputs: list[Value | None] = []
        feeds: dict[str, np.ndarray] = {}
        for i, array in enumerate(self.operands):
            if array is None:
                inputs.append(None)
                continue
            data = np.asarray(array)
            shape: Shape = tuple(f"d{i}_{k}" for k in range(data.ndim)) if i in self.open else data.shape
            inputs.append(Value(f"in{i}", DType.of(data), shape, data if i in self.constant else None))
            if i not in self.constant:
                feeds[f"in{i}"] = data
        outputs = [Value(f"out{i}", dtype, shape) for i, (dtype, shape) in enumerate(self.outputs)]
        node = Node(self.op, "node", inputs, list(outputs), dict(self.attrs))
        given = [v for v in inputs if v is not None and not v.is_const]
        return Graph("sample", given, outputs, [node]), feeds


def _layer(
    kind: str, direction: str = "forward", *, lengths: bool = False, states: bool = False, **attrs: Any
) -> Sample:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    both, steps, batch, width, hidden = 2 if direction == "bidirectional" else 1, 5, 2, 3, 4
    first = attrs.get("layout", 0)
    x = _noise(*((batch, steps) if first else (steps, batch)), width)
    state = _noise(*((batch, both) if first else (both, batch)), hidden) if states else None
    operands: list[Any] = [
        x, _noise(both, gates * hidden, width), _noise(both, gates * hidden, hidden), _noise(both, 2 * gates * hidden),
        np.array([5, 3], np.int32) if lengths else None, state,
    ]  # fmt: skip
    if kind == "LSTM":
        operands += [state, _noise(both, 3 * hidden) if attrs.pop("peepholes", False) else None]
    more = {"hidden_size": hidden, "direction": direction, **attrs}
    tags = [direction, *(k for k in attrs if k != "layout" or first), *(["lengths"] * lengths), *(["states"] * states)]
    return Sample(
        f"{kind}-{'-'.join(tags)}", f"Onnx{kind}", tuple(operands), more,
        ((DType.F32, None),) * (3 if kind == "LSTM" else 2), (1, 2, 3), (0,) if states else (),
    )  # fmt: skip


RECURRENT = [
    _layer("GRU"),
    _layer("GRU", linear_before_reset=1),
    _layer("GRU", "bidirectional", linear_before_reset=1, states=True),
    _layer("GRU", "reverse", lengths=True),
    _layer("GRU", layout=1, states=True, linear_before_reset=1),
    _layer("LSTM", "reverse"),
    _layer("LSTM", "bidirectional", lengths=True, states=True),
    _layer("LSTM", peepholes=True, input_forget=1),
    _layer("RNN", "reverse", activations=["Relu"]),
]

NORMS = [
    Sample("InstanceNorm", "InstanceNorm", (_noise(2, 3, 5), _noise(3), _noise(3)), {"epsilon": 1e-5}, constant=(1, 2)),
    Sample("InstanceNorm-computed", "InstanceNorm", (_noise(2, 3, 4, 5), _noise(3), _noise(3)), {"epsilon": 1e-5}),
    Sample("InstanceNorm-one", "InstanceNorm", (_noise(2, 1, 6), _noise(1), _noise(1)), constant=(1, 2)),
    Sample("GroupNorm", "GroupNorm", (_noise(2, 4, 3, 3), _noise(4), _noise(4)), {"group": 2}, constant=(1, 2)),
    Sample("LogSoftmax", "LogSoftmax", (_noise(2, 5),), {"axis": 1}),
]

_BYTES = np.random.default_rng(6).integers(0, 255, (2, 3, 8), np.uint8)
_SIGNED = np.random.default_rng(7).integers(-128, 127, (8, 4), np.int8)
_FILTER = np.random.default_rng(8).integers(-128, 127, (4, 3, 3, 3), np.int8)
_PIXELS = np.random.default_rng(9).integers(0, 255, (1, 3, 6, 6), np.uint8)
_STEP, _ZERO = np.float32(0.05), np.uint8(120)
_I32, _U8 = ((DType.I32, None),), ((DType.U8, None),)

QUANTIZED = [
    Sample("QuantizeLinear", "QuantizeLinear", (_noise(2, 3, 4) * 3, _STEP, _ZERO), {}, _U8, (1, 2)),
    Sample("DequantizeLinear", "DequantizeLinear", (_BYTES, _STEP, _ZERO), {}, constant=(1, 2)),
    Sample("DequantizeLinear-axis", "DequantizeLinear", (_SIGNED, abs(_noise(8)), None), {"axis": 0}, constant=(1,)),
    Sample(
        "DynamicQuantizeLinear", "DynamicQuantizeLinear", (_noise(3, 5),), {},
        ((DType.U8, None), (DType.F32, ()), (DType.U8, ())),
    ),
    Sample(
        "DynamicQuantizeLinear-samples", "DynamicQuantizeLinear", (_noise(2, 3, 4, 4),), {"per_sample": True},
        ((DType.U8, None), (DType.F32, (2, 1, 1, 1)), (DType.U8, (2, 1, 1, 1))),
    ),
    Sample("MatMulInteger", "MatMulInteger", (_BYTES, _SIGNED, _ZERO, np.int8(3)), {}, _I32, (1, 2, 3)),
    Sample(
        "QLinearMatMul", "QLinearMatMul",
        (_BYTES, _STEP, _ZERO, _SIGNED, abs(_noise(4)), np.zeros(4, np.int8), np.float32(2), _ZERO), {}, _U8,
        (1, 2, 3, 4, 5, 6, 7),
    ),
    Sample("ConvInteger", "ConvInteger", (_PIXELS, _FILTER, _ZERO), {"pads": [0, 0, 0, 0]}, _I32, (1, 2)),
    Sample(
        "ConvInteger-samples", "ConvInteger",
        (np.concatenate([_PIXELS, _PIXELS[:, ::-1]]), _FILTER, np.array([3, 200], np.uint8).reshape(2, 1, 1, 1)),
        {"pads": [1, 1, 0, 2], "strides": [2, 1]}, _I32, (1,),
    ),
    Sample(
        "QLinearConv", "QLinearConv",
        (_PIXELS, _STEP, _ZERO, _FILTER, abs(_noise(4)), np.zeros(4, np.int8), np.float32(9), _ZERO,
         np.array([5, -5, 100, 0], np.int32)),
        {"pads": [1, 1, 1, 1], "strides": [2, 2], "dilations": [1, 1]}, _U8, (1, 2, 3, 4, 5, 6, 7, 8),
    ),
    Sample(
        "QLinearConv-lines", "QLinearConv",
        (_PIXELS[:, :, 0], _STEP, _ZERO, _FILTER[:, :, 0], abs(_noise(4)), np.zeros(4, np.int8), np.float32(9), _ZERO,
         np.array([5, -5, 100, 0], np.int32)),
        {"pads": [0, 1], "strides": [2], "dilations": [1]}, _U8, (1, 2, 3, 4, 5, 6, 7, 8),
    ),
    Sample(
        "QLinearConv-volumes", "QLinearConv",
        (_PIXELS[:, :, None], _STEP, _ZERO, _FILTER[:, :, None], abs(_noise(4)), np.zeros(4, np.int8), np.float32(9),
         _ZERO),
        {"pads": [0, 1, 1, 0, 1, 0], "strides": [1, 2, 1], "dilations": [1, 1, 1]}, _U8, (1, 2, 3, 4, 5, 6, 7),
    ),
]  # fmt: skip

OTHERS = [
    Sample("Trilu", "Trilu", (_noise(2, 4, 5), np.array(1)), {"upper": True}, constant=(1,)),
    Sample("Trilu-lower", "Trilu", (_noise(4, 4),), {"upper": False}, open=(0,)),
    Sample("PadAxes", "PadAxes", (_noise(2, 3, 4), np.array([1, 2]), None, np.array([-2])), {}, constant=(1, 3)),
    Sample("PadAxes-computed", "PadAxes", (_noise(2, 3), np.array([1, 2]), None, np.array([1])), {}, constant=(3,)),
    Sample("LpNormalization", "LpNormalization", (_noise(2, 5),), {"axis": 1, "p": 2}),
    Sample("LpNormalization-1", "LpNormalization", (np.zeros((2, 5), np.float32),), {"axis": 0, "p": 1}),
    Sample("Hardmax", "Hardmax", (_noise(2, 5, 3),), {"axis": 1}),
    Sample("IsInf", "IsInf", (np.array([1, -np.inf, np.inf], np.float32),), {}, ((DType.BOOL, None),)),
    Sample("BitwiseNot", "BitwiseNot", (np.array([1, -5, 7], np.int32),), {}, _I32),
    Sample(
        "LayerNormalization", "LayerNormalization", (_noise(2, 3, 4), _noise(4), _noise(4)),
        {"axis": [-1], "epsilon": 1e-5}, ((DType.F32, None),) * 3, (1, 2),
    ),
    Sample("OnnxAttention", "OnnxAttention", (_noise(2, 3, 4, 8), _noise(2, 3, 5, 8), _noise(2, 3, 5, 6))),
    Sample(
        "OnnxAttention-flat", "OnnxAttention", (_noise(2, 4, 24), _noise(2, 5, 24), _noise(2, 5, 12)),
        {"q_num_heads": 3, "kv_num_heads": 3, "softcap": 2.0}, open=(),
    ),
    Sample(
        "OnnxAttention-causal", "OnnxAttention", (_noise(1, 2, 4, 8), _noise(1, 2, 4, 8), _noise(1, 2, 4, 8)),
        {"is_causal": True},
    ),
    Sample(
        "OnnxAttention-mask", "OnnxAttention",
        (_noise(1, 2, 2, 8), _noise(1, 2, 3, 8), _noise(1, 2, 3, 8), np.array([[True, False, True], [False] * 3])),
    ),
]  # fmt: skip

SAMPLES = [*RECURRENT, *NORMS, *QUANTIZED, *OTHERS]
