"""What cannot fit whatever the names among the sizes stand for: numbers that contradict each other.

Rules for :mod:`MNN.ops.inference.fitting`. They say nothing about sizes that are names or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.ir.graph import Node
from MNN.ir.symbolic import Size

Sizes = tuple[Size, ...]
Rule = Callable[[Node, "list[Sizes | None]"], bool]
_PAIRS: dict[str, Rule] = {}


def contradiction(node: Node) -> str:
    """What is wrong with the operands of a node, in words; empty where nothing is certain."""
    rule = _PAIRS.get(node.op)
    if rule is None:
        return ""
    shapes: list[Sizes | None] = [None if v is None or v.shape is None else tuple(v.shape) for v in node.inputs]
    try:
        fits = rule(node, shapes)
    except LookupError:  # operands are missing, which lowering says
        return ""
    if fits:
        return ""
    listed = " and ".join(
        f"'{v.name}' [{', '.join(map(str, s))}]"
        for v, s in zip(node.inputs, shapes, strict=True)
        if v is not None and s is not None
    )
    return f"{node.op} '{node.name}': {listed} do not fit together"


def _rule(*ops: str) -> Callable[[Rule], Rule]:
    def add(fn: Rule) -> Rule:
        _PAIRS.update(dict.fromkeys(ops, fn))
        return fn

    return add


def differ(a: Size, b: Size) -> bool:
    """Whether two sizes are certainly not the same."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def _broadcasts(shapes: Sequence[Sizes | None]) -> bool:
    known = [s for s in shapes if s is not None]
    rank = max((len(s) for s in known), default=0)
    for i in range(1, rank + 1):
        if len({s[-i] for s in known if len(s) >= i and isinstance(s[-i], int) and s[-i] != 1}) > 1:
            return False
    return True


@_rule("BinaryOp", "Remainder", "Select")
def _elementwise(node: Node, shapes: list[Sizes | None]) -> bool:
    return _broadcasts(shapes)


def _multiplies(a: Sizes | None, b: Sizes | None, turned: Sequence[bool] = (False, False)) -> bool:
    if a is None or b is None:
        return True
    if not a or not b:
        return False
    if turned[0] and len(a) > 1:
        a = (*a[:-2], a[-1], a[-2])
    if turned[1] and len(b) > 1:
        b = (*b[:-2], b[-1], b[-2])
    return not differ(a[-1], b[-2] if len(b) > 1 else b[-1]) and _broadcasts([a[:-2], b[:-2]])


@_rule("MatMul", "BatchMatMul", "MatMulInteger")
def _product(node: Node, shapes: list[Sizes | None]) -> bool:
    keys = ("adjX", "adjY") if node.op == "BatchMatMul" else ("transposeA", "transposeB")
    turned = [bool(node.attrs.get(k)) for k in keys]
    y, bias = shapes[1], shapes[2] if node.op == "MatMul" and len(shapes) > 2 else None
    if bias and y is not None and len(y) > 1 and not _broadcasts([bias[-1:], (y[-2] if turned[1] else y[-1],)]):
        return False
    return _multiplies(shapes[0], y, turned)


@_rule("QLinearMatMul")
def _quantized_product(node: Node, shapes: list[Sizes | None]) -> bool:
    return _multiplies(shapes[0], shapes[3])


@_rule("Convolution", "ConvolutionDepthwise", "Convolution3D", "ConvInteger", "QLinearConv")
def _convolution(node: Node, shapes: list[Sizes | None]) -> bool:
    x, w = shapes[0], shapes[3 if node.op == "QLinearConv" else 1]
    if x is None or w is None:
        return True
    group = node.attrs.get("group") or 1
    channels = w[0] if node.op == "ConvolutionDepthwise" else None
    if isinstance(w[1], int) and isinstance(group, int) and node.op != "ConvolutionDepthwise":
        channels = w[1] * group
    return len(x) == len(w) and not differ(x[1], channels)


@_rule("Deconvolution", "ConvTranspose3D")
def _transposed(node: Node, shapes: list[Sizes | None]) -> bool:
    x, w = shapes[0], shapes[1]
    return x is None or w is None or (len(x) == len(w) and not differ(x[1], w[0]))


@_rule("Concat")
def _joined(node: Node, shapes: list[Sizes | None]) -> bool:
    known = [s for s in shapes if s is not None]
    given = node.attrs.get("axis")
    axis = given if isinstance(given, int) else 0
    if len({len(s) for s in known}) > 1:
        return False
    if not known or not -len(known[0]) <= axis < len(known[0]):
        return not known
    return not any(differ(s[i], known[0][i]) for s in known for i in range(len(s)) if i != axis % len(known[0]))


@_rule("LayerNorm")
def _normalised(node: Node, shapes: list[Sizes | None]) -> bool:
    x, axes = shapes[0], node.attrs.get("axis")
    if x is None or not x or node.attrs.get("group", 1) != 1 or (isinstance(axes, (list, tuple)) and len(axes) > 1):
        return True
    return not any(s is not None and len(s) == 1 and s[0] != 1 and differ(s[0], x[-1]) for s in shapes[1:])
