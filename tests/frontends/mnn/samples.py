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

SAMPLES = [*RECURRENT, *NORMS]
