"""What ONNX says of operands' shapes, where the operators behind would be more generous.

An operator that takes the first of several numbers, or broadcasts where ONNX does not, gives an answer to a question
that nobody asked. Only what is known while converting is looked at.
"""

from __future__ import annotations

from collections.abc import Callable

from MNN.errors import ShapeError
from MNN.frontends.onnx.node import OnnxNode
from MNN.ir.graph import Value
from MNN.ir.shape import Shape, static
from MNN.ops.inference.symbolic_shape_check import differ

_VECTORS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,), "BatchNormalization": (1, 2, 3, 4), "CenterCropPad": (1,), "Col2Im": (1, 2), "Compress": (1,),
    "ConstantOfShape": (0,), "DeformConv": (3,), "Expand": (1,), "InstanceNormalization": (1, 2), "MaxUnpool": (2,),
    "Pad": (1,), "Reshape": (1,), "Resize": (1, 2, 3), "ReverseSequence": (1,), "Slice": (1, 2, 3, 4), "Split": (1,),
    "SplitToSequence": (1,), "Squeeze": (1,), "TensorScatter": (2,), "Tile": (1,), "Unsqueeze": (1,), "Upsample": (1,),
    **dict.fromkeys((f"Reduce{k}" for k in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()), (1,)),
}  # fmt: skip
"""Operands that are lists; a single number without an axis counts as a list of one."""
_SINGLES: dict[str, tuple[int, ...]] = {
    "CumProd": (1,), "CumSum": (1,), "DFT": (1, 2), "Dropout": (1, 2), "If": (0,), "Loop": (0, 1),
    "MelWeightMatrix": (0, 1, 2, 3, 4), "OneHot": (1,), "Range": (0, 1, 2), "SequenceAt": (1,), "SequenceErase": (1,),
    "SequenceInsert": (2,), "STFT": (1, 3), "TopK": (1,), "Trilu": (1,),
}  # fmt: skip
"""Operands that are one number, with or without an axis around it."""
_RANKS: dict[str, dict[int, int]] = {
    "Gemm": {0: 2, 1: 2}, "NonMaxSuppression": {0: 3, 1: 3},
    **{op: {0: 3, 1: 3, 2: 3} for op in ("LSTM", "GRU", "RNN")},
}  # fmt: skip
_RULES: dict[str, Callable[[OnnxNode, list[Shape | None]], str]] = {}


def check_operands(node: OnnxNode, op: str, inputs: list[Value | None]) -> None:
    """Raises :class:`ShapeError` naming the node when an operand of the operator of ONNX's own domain has a shape that
    ONNX does not allow."""
    shapes = [None if v is None else v.shape for v in inputs]
    for i, shape in enumerate(shapes):
        if shape is None:
            continue
        sizes, rank = static(shape), _RANKS.get(op, {}).get(i, len(shape))
        name = f"input {i} {_shown(shape)}"
        if len(shape) != rank:
            raise ShapeError(f"{node.where}: {name} has {len(shape)} axes, expected {rank}")
        if i in _VECTORS.get(op, ()) and len(shape) > 1:
            raise ShapeError(f"{node.where}: {name} has {len(shape)} axes, expected a list of numbers")
        if i in _SINGLES.get(op, ()) and (len(shape) > 1 or (sizes is not None and sizes not in ((), (1,)))):
            raise ShapeError(f"{node.where}: {name} must be a single number")
    wrong = _RULES[op](node, shapes) if op in _RULES else ""
    if wrong:
        listed = ", ".join("-" if s is None else _shown(s) for s in shapes)
        raise ShapeError(f"{node.where}: {wrong} (its inputs: {listed})")


def _shown(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _rule(*ops: str) -> Callable[[Callable[[OnnxNode, list[Shape | None]], str]], object]:
    def add(fn: Callable[[OnnxNode, list[Shape | None]], str]) -> object:
        _RULES.update(dict.fromkeys(ops, fn))
        return fn

    return add


@_rule("BatchNormalization", "InstanceNormalization")
def _channels(node: OnnxNode, shapes: list[Shape | None]) -> str:
    x = shapes[0]
    if x is None or len(x) < 2:
        return ""
    bad = any(s is not None and (not s or differ(s[0], x[1])) for s in shapes[1:])
    return f"it needs one number for each of {x[1]} channels" if bad else ""


@_rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _losses(node: OnnxNode, shapes: list[Shape | None]) -> str:
    x, target = shapes[:2]
    weight = shapes[2] if len(shapes) > 2 else None
    if x is None or len(x) < 2:
        return ""
    places = (x[0], *x[2:])
    if target is not None and (len(target) != len(places) or any(map(differ, target, places))):
        return f"the target must have the shape {_shown(places)}"
    if weight is not None and (len(weight) != 1 or differ(weight[0], x[1])):
        return f"it needs one weight for each of {x[1]} classes"
    return ""


@_rule("RotaryEmbedding")
def _angles(node: OnnxNode, shapes: list[Shape | None]) -> str:
    cosines, sines = shapes[1:3]
    if cosines is None or sines is None:
        return ""
    same = len(cosines) == len(sines) and not any(map(differ, cosines, sines))
    return "" if same else "the tables of cosines and sines differ in shape"


@_rule("Split")
def _pieces(node: OnnxNode, shapes: list[Shape | None]) -> str:
    """Before opset 18, pieces whose sizes are not given are equal."""
    x, given = shapes[0], shapes[1] if len(shapes) > 1 else None
    if given is not None and given and differ(given[0], len(node.outputs)):
        return f"it has {len(node.outputs)} outputs, and {given[0]} sizes"
    if x is None or len(shapes) > 1 or node.opset >= 18 or node.has("split"):
        return ""
    axis, count = node.int_attr("axis", 0), len(node.outputs)
    if not -len(x) <= axis < len(x):
        return f"axis {axis} is outside of its input"
    size = x[axis]
    return f"axis {axis} does not split into {count} equal pieces" if isinstance(size, int) and size % count else ""


@_rule("LayerNormalization", "RMSNormalization")
def _normalised(node: OnnxNode, shapes: list[Shape | None]) -> str:
    x, axis = shapes[0], node.int_attr("axis", -1)
    if x is None or -len(x) <= axis < len(x):
        return ""
    return f"axis {axis} is outside of its input"


@_rule("Resize")
def _resized(node: OnnxNode, shapes: list[Shape | None]) -> str:
    first = 2 if node.opset >= 11 else 1
    given = [s for s, v in zip(shapes[first:], node.inputs[first:], strict=True) if v is not None]
    return "" if any(s != (0,) for s in given) else "neither scales nor sizes are given"
