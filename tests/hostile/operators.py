"""Single operators with one number that makes no sense: axes, sizes, counts, strides and shapes out of all bounds.

Every integer among the attributes and constant operands of each operator below is replaced in turn by each of
:data:`NUMBERS`, lists also by shorter and longer ones. The files are well formed: only the operators can tell.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper

NUMBERS = (0, -1, 3, -7, 1000, 2**31, 10**9, -(2**31), 2**62, -(2**63))
_KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL, "u": TensorProto.UINT8}
Ints = list[int] | list[float]


@dataclass
class Case:
    """An operator on inputs given by shapes (``f`` floats, ``i`` small integers, ``b`` booleans) and constant lists."""

    op: str
    inputs: tuple[str | Ints | float | None, ...]
    attributes: dict[str, object] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 18

    def model(self) -> bytes:
        infos, constants, names = [], [], []
        for i, given in enumerate(self.inputs):
            names.append("" if given is None else f"x{i}")
            if isinstance(given, str):
                shape = [int(d) for d in given[1:].split("x") if d]
                infos.append(helper.make_tensor_value_info(names[-1], _KINDS[given[0]], shape))
            elif given is not None:
                dtype = np.int64 if np.asarray(given).dtype.kind == "i" else np.float32
                constants.append(numpy_helper.from_array(np.asarray(given, dtype), names[-1]))
        outputs = [f"y{i}" for i in range(self.outputs)]
        graph = helper.make_graph(
            [helper.make_node(self.op, names, outputs, name="node", **self.attributes)],
            "net",
            infos,
            [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
            constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        return made.SerializeToString()

    def lies(self) -> Iterator[Case]:
        """The operator with one number changed."""
        for i, given in enumerate(self.inputs):
            if isinstance(given, (list, int)):
                for changed in _changed(given):
                    yield Case(
                        self.op,
                        (*self.inputs[:i], changed, *self.inputs[i + 1 :]),
                        self.attributes,
                        self.outputs,
                        self.opset,
                    )
        for key, value in self.attributes.items():
            if isinstance(value, (list, int)):
                for changed in _changed(value):
                    yield Case(self.op, self.inputs, {**self.attributes, key: changed}, self.outputs, self.opset)


def _changed(value: Ints | int) -> Iterator[Ints | int]:
    if isinstance(value, int):
        yield from NUMBERS
        return
    for i in range(len(value)):
        for number in NUMBERS:
            yield [*value[:i], number, *value[i + 1 :]]
    yield from ([*value, 1], value[:-1], [2**31] * len(value), [-1] * len(value))


_GRU_BODY = helper.make_graph(
    [
        helper.make_node("Identity", ["going"], ["still"]),
        helper.make_node("Add", ["state", "state"], ["next"]),
        helper.make_node("Identity", ["state"], ["seen"]),
    ],
    "turn",
    [
        helper.make_tensor_value_info("turn", TensorProto.INT64, []),
        helper.make_tensor_value_info("going", TensorProto.BOOL, []),
        helper.make_tensor_value_info("state", TensorProto.FLOAT, [2]),
    ],
    [
        helper.make_tensor_value_info("still", TensorProto.BOOL, []),
        helper.make_tensor_value_info("next", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("seen", TensorProto.FLOAT, [2]),
    ],
)
_SCAN_BODY = helper.make_graph(
    [helper.make_node("Add", ["sum", "row"], ["next"]), helper.make_node("Neg", ["row"], ["seen"])],
    "step",
    [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("sum", "row")],
    [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("next", "seen")],
)

_WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
CASES = [
    Case("Conv", ("f1x4x8x8", "f4x2x3x3"), {**_WINDOW, "dilations": [1, 1], "group": 2}),
    Case("Conv", ("f1x4x8", "f4x4x3", "f4"), {"pads": [1, 1], "strides": [1], "dilations": [2], "group": 1}),
    Case("ConvTranspose", ("f1x4x5x5", "f4x2x3x3"), {**_WINDOW, "output_padding": [1, 1], "group": 2}),
    Case("ConvTranspose", ("f1x4x5x5", "f4x2x3x3"), {"output_shape": [11, 11], "strides": [2, 2]}),
    Case("DeformConv", ("f1x2x5x5", "f2x2x3x3", "f1x18x3x3"), {"group": 1, "offset_group": 1}, opset=19),
    Case("MaxPool", ("f1x2x8x8",), {**_WINDOW, "dilations": [1, 1], "ceil_mode": 1}, outputs=2),
    Case("AveragePool", ("f1x2x8x8",), {**_WINDOW, "ceil_mode": 1, "count_include_pad": 1}),
    Case("LpPool", ("f1x2x8x8",), {**_WINDOW, "p": 2}),
    Case("MaxUnpool", ("f1x1x2x2", "i1x1x2x2", [1, 1, 4, 4]), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("MaxRoiPool", ("f1x1x6x6", "f2x5"), {"pooled_shape": [2, 2]}),
    Case("RoiAlign", ("f1x1x6x6", "f2x4", [0, 0]), {"output_height": 2, "output_width": 2, "sampling_ratio": 2}),
    Case("Pad", ("f2x3", [0, 1, 2, 1], 1.0)),
    Case("Pad", ("f2x3", [0, 1, 1, 1], 1.0, [0, 1]), {"mode": "reflect"}),
    Case("Pad", ("f2x3", [0, 1, 1, 1]), {"mode": "edge"}),
    Case("CenterCropPad", ("f4x5", [2, 8]), {"axes": [0, 1]}),
    Case("Resize", ("f1x2x4x4", None, None, [1, 2, 8, 8]), {"mode": "linear"}),
    Case("Resize", ("f1x2x4x4", None, None, [8, 8]), {"mode": "nearest", "axes": [2, 3]}),
    Case("Resize", ("f1x2x4x4", None, None, [1, 2, 8, 8]), {"mode": "cubic", "antialias": 1}),
    Case("GridSample", ("f1x1x4x4", "f1x3x3x2"), {"align_corners": 1}, opset=16),
    Case("AffineGrid", ("f1x2x3", [1, 1, 4, 4]), {"align_corners": 1}, opset=20),
    Case("Upsample", ("f1x1x2x2", [1.0, 1.0, 2.0, 2.0]), {}, opset=9),
    Case("DepthToSpace", ("f1x8x2x2",), {"blocksize": 2}),
    Case("SpaceToDepth", ("f1x2x4x4",), {"blocksize": 2}),
    Case("Col2Im", ("f1x5x5", [5, 5], [1, 5]), {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1]}),
    Case("Expand", ("f3x1", [2, 3, 4])),
    Case("ConstantOfShape", ([2, 3, 4],)),
    Case("Range", (0, 5, 1)),
    Case("Tile", ("f2x3", [2, 2])),
    Case("Reshape", ("f2x6", [-1, 4]), {"allowzero": 0}),
    Case("Reshape", ("f2x6", [3, 4]), {"allowzero": 1}),
    Case("Flatten", ("f2x3x4",), {"axis": 1}),
    Case("Transpose", ("f2x3x4",), {"perm": [2, 0, 1]}),
    Case("Squeeze", ("f2x1x4", [1])),
    Case("Unsqueeze", ("f2x4", [0, 3])),
    Case("Concat", ("f2x3", "f2x3"), {"axis": 1}),
    Case("Split", ("f2x6", [2, 4]), {"axis": 1}, outputs=2),
    Case("Split", ("f2x6",), {"axis": 1, "num_outputs": 2}, outputs=2),
    Case("Slice", ("f6x6", [1, 0], [5, 6], [0, 1], [2, -1])),
    Case("Shape", ("f2x3x4",), {"start": 1, "end": 2}),
    Case("Gather", ("f5x4", [0, -2]), {"axis": 1}),
    Case("Gather", ("f9x9", "i2x2"), {"axis": 0}),
    Case("GatherElements", ("f9x9", "i2x2"), {"axis": 0}),
    Case("GatherND", ("f9x9", "i2x2"), {"batch_dims": 0}),
    Case("ScatterElements", ("f9x9", "i2x2", "f2x2"), {"axis": 0}),
    Case("ScatterND", ("f9x9", "i2x2", "f2"), {}),
    Case("OneHot", ("i3", 4, "f2"), {"axis": -1}),
    Case("TopK", ("f3x8", [3]), {"axis": 1, "largest": 1, "sorted": 1}, outputs=2),
    Case("ReduceSum", ("f2x3x4", [1, 2]), {"keepdims": 1}),
    Case("ReduceMean", ("f2x3x4", [1]), {"keepdims": 0, "noop_with_empty_axes": 1}),
    Case("ReduceLogSumExp", ("f2x3x4", [0, -1])),
    Case("ArgMax", ("f2x3x4",), {"axis": 1, "keepdims": 1, "select_last_index": 1}),
    Case("Softmax", ("f2x3x4",), {"axis": 1}),
    Case("Softmax", ("f2x3x4",), {"axis": 1}, opset=11),
    Case("Hardmax", ("f2x3x4",), {"axis": 1}),
    Case("CumSum", ("f2x3x4", 1), {"exclusive": 1, "reverse": 1}),
    Case("Trilu", ("f4x4", 1), {"upper": 1}),
    Case("EyeLike", ("f4x4",), {"k": 1, "dtype": 1}),
    Case("ReverseSequence", ("f4x3", [1, 2, 3]), {"batch_axis": 1, "time_axis": 0}),
    Case("Compress", ("f3x4", "b3"), {"axis": 0}),
    Case("Unique", ("f3x4",), {"axis": 1, "sorted": 1}, outputs=4),
    Case("LRN", ("f1x4x3x3",), {"size": 3}),
    Case("LayerNormalization", ("f2x3x4", "f4", "f4"), {"axis": -1, "stash_type": 1}),
    Case("GroupNormalization", ("f2x4x3", "f4", "f4"), {"num_groups": 2}, opset=21),
    Case("InstanceNormalization", ("f2x4x3", "f4", "f4")),
    Case("BatchNormalization", ("f2x4x3", "f4", "f4", "f4", "f4"), {"training_mode": 0}),
    Case("LpNormalization", ("f2x4x3",), {"axis": 1, "p": 2}),
    Case("MeanVarianceNormalization", ("f2x4x3",), {"axes": [0, 2]}),
    Case("QuantizeLinear", ("f2x4", "f4", "u4"), {"axis": 1}),
    Case("DequantizeLinear", ("u2x4", "f4", "u4"), {"axis": 1}),
    Case("DequantizeLinear", ("u2x4", "f2x2", "u2x2"), {"axis": 1, "block_size": 2}, opset=21),
    Case("LSTM", ("f3x2x4", "f1x20x4", "f1x20x5"), {"hidden_size": 5, "layout": 0, "input_forget": 0}, outputs=3),
    Case("GRU", ("f3x2x4", "f1x15x4", "f1x15x5"), {"hidden_size": 5, "linear_before_reset": 1}, outputs=2),
    Case("RNN", ("f3x2x4", "f1x5x4", "f1x5x5", "f1x10", [3, 2]), {"hidden_size": 5}, outputs=2),
    Case("DFT", ("f1x8x1", 8), {"axis": 1, "onesided": 1, "inverse": 0}),
    Case("STFT", ("f1x32x1", 4, None, 8), {"onesided": 1}),
    Case("HannWindow", (8,), {"periodic": 1, "output_datatype": 1}),
    Case("MelWeightMatrix", (4, 16, 8000, 0.0, 4000.0), {"output_datatype": 1}),
    Case("RandomNormal", (), {"shape": [2, 3], "dtype": 1}),
    Case("RandomUniform", (), {"shape": [2, 3], "dtype": 1}),
    Case("Multinomial", ("f2x4",), {"sample_size": 3, "dtype": 6}),
    Case("NonMaxSuppression", ("f1x4x4", "f1x1x4", 2), {"center_point_box": 0}),
    Case("Cast", ("f3",), {"to": 7}),
    Case("BitShift", ("u3", "u3"), {"direction": "LEFT"}),
    Case("Mod", ("i3", [0, 2, -3]), {"fmod": 0}),
    Case("Div", ("i3", [0, 2, -3])),
    Case("Pow", ("i3", [0, 2, -3])),
    Case("MatMul", ("f2x3x4", "f2x4x3")),
    Case("Gemm", ("f3x4", "f4x5", "f5"), {"transA": 0, "transB": 0}),
    Case("SplitToSequence", ("f6x2", [2, 4]), {"axis": 0, "keepdims": 1}),
    Case("NegativeLogLikelihoodLoss", ("f3x9", "i3"), {"ignore_index": 1}),
    Case("Loop", (40, None, "f2"), {"body": _GRU_BODY}, outputs=2),
    Case("Loop", (5, None, "f2"), {"body": _GRU_BODY}, outputs=2),
    Case(
        "Scan",
        ("f4", "f6x4"),
        {
            "body": _SCAN_BODY,
            "num_scan_inputs": 1,
            "scan_input_axes": [0],
            "scan_output_axes": [0],
            "scan_input_directions": [0],
            "scan_output_directions": [1],
        },
        outputs=2,
    ),
]


@functools.cache
def files() -> list[tuple[str, bytes]]:
    """Every case as a name and a file: the operators as they should be (``Conv:0``), then the lies."""
    made = []
    for case in CASES:
        variants = [case, *case.lies()]
        made += [(f"{case.op}:{i} {_text(v)}", v.model()) for i, v in enumerate(variants) if _writable(v)]
    return made


def _text(case: Case) -> str:
    simple = {k: v for k, v in case.attributes.items() if isinstance(v, (int, list, str))}
    return f"{case.inputs} {simple}"


def _writable(case: Case) -> bool:
    """protobuf refuses integers beyond 64 bits, and empty lists have no type."""
    return all(v != [] for v in case.attributes.values())
