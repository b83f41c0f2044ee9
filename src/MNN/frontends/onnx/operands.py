"""What ONNX says of operands' shapes, where the operators behind would be more generous.

An operator that takes the first of several numbers, or broadcasts where ONNX does not, gives an answer to a question
that nobody asked. Only what is known while converting is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from MNN.errors import ShapeError
from MNN.frontends.onnx.node import OnnxNode
from MNN.ir.graph import Value
from MNN.ir.shape import Shape, static
from MNN.ops.inference.symbolic_shape_check import differ

Check = Callable[[OnnxNode, list[Shape | None]], str]
"""Says what is wrong with a node whose operands have these shapes; nothing when they are right."""


@dataclass(frozen=True)
class Operands:
    """What ONNX says of an operator's operands, by their positions, at whatever opset they came."""

    lists: tuple[int, ...] = ()
    """Those that are lists; a single number without an axis counts as a list of one."""
    singles: tuple[int, ...] = ()
    """Those that are one number, with or without an axis around it."""
    ranks: tuple[int, ...] = ()
    """How many axes the first ones have."""
    check: Check | None = None
    """What is asked of several together."""


_TOLD: dict[str, Operands] = {}
_NOTHING = Operands()


def tell(op: str, operands: Operands) -> None:
    """Notes the operands of an operator of ONNX's own domain. Raises ValueError when they are told twice."""
    if op in _TOLD:
        raise ValueError(f"the operands of ONNX operator {op} are told twice")
    _TOLD[op] = operands


def check_operands(node: OnnxNode, op: str, inputs: list[Value | None]) -> None:
    """Raises :class:`ShapeError` naming the node when an operand of the operator of ONNX's own domain has a shape that
    ONNX does not allow."""
    told = _TOLD.get(op, _NOTHING)
    shapes = [None if v is None else v.shape for v in inputs]
    for i, shape in enumerate(shapes):
        if shape is None:
            continue
        sizes, rank = static(shape), told.ranks[i] if i < len(told.ranks) else len(shape)
        name = f"input {i} {_shown(shape)}"
        if len(shape) != rank:
            raise ShapeError(f"{node.where}: {name} has {len(shape)} axes, expected {rank}")
        if i in told.lists and len(shape) > 1:
            raise ShapeError(f"{node.where}: {name} has {len(shape)} axes, expected a list of numbers")
        if i in told.singles and (len(shape) > 1 or (sizes is not None and sizes not in ((), (1,)))):
            raise ShapeError(f"{node.where}: {name} must be a single number")
    wrong = "" if told.check is None else told.check(node, shapes)
    if wrong:
        listed = ", ".join("-" if s is None else _shown(s) for s in shapes)
        raise ShapeError(f"{node.where}: {wrong} (its inputs: {listed})")


def _shown(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def one_per_channel(node: OnnxNode, shapes: list[Shape | None]) -> str:
    x = shapes[0]
    if x is None or len(x) < 2:
        return ""
    bad = any(s is not None and (not s or differ(s[0], x[1])) for s in shapes[1:])
    return f"it needs one number for each of {x[1]} channels" if bad else ""


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


def _angles(node: OnnxNode, shapes: list[Shape | None]) -> str:
    cosines, sines = shapes[1:3]
    if cosines is None or sines is None:
        return ""
    same = len(cosines) == len(sines) and not any(map(differ, cosines, sines))
    return "" if same else "the tables of cosines and sines differ in shape"


def fitting_pieces(node: OnnxNode, shapes: list[Shape | None]) -> str:
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


def axis_inside(node: OnnxNode, shapes: list[Shape | None]) -> str:
    x, axis = shapes[0], node.int_attr("axis", -1)
    if x is None or -len(x) <= axis < len(x):
        return ""
    return f"axis {axis} is outside of its input"


def scales_or_sizes(node: OnnxNode, shapes: list[Shape | None]) -> str:
    first = 2 if node.opset >= 11 else 1
    given = [s for s, v in zip(shapes[first:], node.inputs[first:], strict=True) if v is not None]
    return "" if any(s != (0,) for s in given) else "neither scales nor sizes are given"


# operators that have no entry: their bodies as functions are converted
tell("CenterCropPad", Operands(lists=(1,)))
tell("NegativeLogLikelihoodLoss", Operands(check=_losses))
tell("SoftmaxCrossEntropyLoss", Operands(check=_losses))
tell("RotaryEmbedding", Operands(check=_angles))
