"""Complex tensors while a graph is read: two real ones beside each other (:class:`ComplexHandle`).

Operators that arrange, add or sum are done to each part by itself with the handlers that real tensors have; others have
handlers of their own here (``complex_op``); what is left is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.frontends.common.complex_parts import Parts, product, quotient
from MNN.frontends.common.expressions import binary, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.handles import ComplexHandle
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import Handler, tf_op
from MNN.frontends.tensorflow.types import COMPLEX
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_EACH = {
    "AccumulateNV2", "Add", "AddN", "AddV2", "BatchToSpaceND", "BroadcastTo", "Concat", "ConcatV2", "Cumsum",
    "EnsureShape", "ExpandDims", "Gather", "GatherNd", "GatherV2", "Identity", "IdentityN", "MatrixBandPart",
    "MatrixDiag", "MatrixDiagPart", "Mean", "Neg", "Pack", "Pad", "Reshape", "Reverse", "ReverseSequence", "ReverseV2",
    "Roll", "ScatterNd", "Select", "SelectV2", "Slice", "Snapshot", "SpaceToBatchND", "Split", "SplitV", "Squeeze",
    "StopGradient", "StridedSlice", "Sub", "Sum", "Tile", "Transpose", "Unpack", "UnsortedSegmentSum", "ZerosLike",
}  # fmt: skip
"""What is done to each part by itself."""
_OF_SHAPE = {"Shape", "Size", "Rank", "ShapeN"}
_PRODUCTS = {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"}
_HANDLERS: dict[str, Callable[[Context, TfNode, Parts], Value]] = {}
ADVICE = "write it with real numbers (tf.math.real, tf.math.imag)"


def complex_op(*ops: str) -> Callable[[Callable[[Context, TfNode, Parts], Value]], Callable[..., Value]]:
    """Enters a handler of operators whose first operand is complex; it is given its parts."""

    def add(handler: Callable[[Context, TfNode, Parts], Value]) -> Callable[..., Value]:
        def found(ctx: Context, node: TfNode) -> Value:
            first = node.any_input(0)
            return handler(ctx, node, first.parts if isinstance(first, ComplexHandle) else _of_real(ctx, first))

        for op in ops:
            _HANDLERS[op] = handler
        tf_op(*ops)(found)
        return found

    return add


def made(ctx: Context, parts: Parts) -> Value:
    """A complex tensor as a value."""
    return ComplexHandle(ctx.unique(f"{ctx.stem()}/complex"), parts=parts)


def is_complex(node: TfNode) -> bool:
    return any(isinstance(v, ComplexHandle) for v in node.inputs)


def applied(ctx: Context, node: TfNode, handler: Handler) -> Value | Sequence[Value]:
    """The results of a node with complex operands. Raises :class:`UnsupportedError` where there is no meaning here."""
    if node.op in _HANDLERS or (node.op == "Cast" and node.is_complex("DstT")):
        return handler(ctx, node)
    if node.op == "Cast":  # what is imaginary is left out
        first = node.any_input(0)
        return handler(ctx, _with(node, [first.parts.real if isinstance(first, ComplexHandle) else first]))
    if node.op in _OF_SHAPE:
        return handler(ctx, _with(node, [v.parts.real if isinstance(v, ComplexHandle) else v for v in node.inputs]))
    if node.op in _EACH:
        return _each(ctx, node, handler)
    if node.op in _PRODUCTS and len(node.inputs) == 2:
        return _multiplied(ctx, node, handler)
    if node.op in _ARITHMETIC:
        operands = [v.parts if isinstance(v, ComplexHandle) else _of_real(ctx, v) for v in node.inputs]
        return made(ctx, _ARITHMETIC[node.op](ctx, operands))
    if node.op in ("Conj", "ConjugateTranspose"):
        found = node.any_input(0)
        assert isinstance(found, ComplexHandle)
        parts = Parts(found.parts.real, unary(ctx, "NEG", found.parts.imag))
        if node.op == "Conj":
            return made(ctx, parts)
        return made(ctx, Parts(*(_only(handler(ctx, _with(node, [v, *node.inputs[1:]]))) for v in parts)))
    raise node.unsupported("a complex tensor here", ADVICE)


def _with(node: TfNode, inputs: Sequence[Value]) -> TfNode:
    """The node with other operands; what is read of its attributes counts for both."""
    out = TfNode(node.proto, node.name, inputs)
    out._read = node._read
    return out


def cast(ctx: Context, node: TfNode) -> Value:
    """A tensor as a complex one, or a complex one of another precision."""
    first, to = node.any_input(0), COMPLEX[node.proto.attr["DstT"].type]
    parts = first.parts if isinstance(first, ComplexHandle) else None
    sides = [first] if parts is None else list(parts)
    real, *rest = (v if v.dtype is to else ctx.op("Cast", v, dstT=data_type(to)) for v in sides)
    real.dtype = to
    return made(ctx, Parts(real, rest[0]) if rest else _of_real(ctx, real))


def _only(found: Value | Sequence[Value]) -> Value:
    return found if isinstance(found, Value) else found[0]


def _of_real(ctx: Context, x: Value) -> Parts:
    return Parts(x, binary(ctx, "MUL", x, 0))


def _each(ctx: Context, node: TfNode, handler: Handler) -> list[Value]:
    found = []
    for side in ("real", "imag"):
        part = handler(
            ctx, _with(node, [getattr(v.parts, side) if isinstance(v, ComplexHandle) else v for v in node.inputs])
        )
        found.append([part] if isinstance(part, Value) else list(part))
    return [made(ctx, Parts(a, b)) for a, b in zip(*found, strict=True)]


def _multiplied(ctx: Context, node: TfNode, handler: Handler) -> Value:
    """Products of matrices, where an adjoint operand is conjugated."""
    x, y = (v.parts if isinstance(v, ComplexHandle) else _of_real(ctx, v) for v in node.inputs)

    def times(a: Value, b: Value) -> Value:
        return _only(handler(ctx, _with(node, [a, b])))

    if node.op.startswith("Batch"):
        x, y = (
            Parts(v.real, unary(ctx, "NEG", v.imag)) if node.bool_attr(key, False) else v
            for v, key in ((x, "adj_x"), (y, "adj_y"))
        )
    real = binary(ctx, "SUB", times(x.real, y.real), times(x.imag, y.imag))
    return made(ctx, Parts(real, binary(ctx, "ADD", times(x.real, y.imag), times(x.imag, y.real))))


def _exponential(ctx: Context, z: Parts) -> Parts:
    size = unary(ctx, "EXP", z.real)
    return Parts(*(binary(ctx, "MUL", size, unary(ctx, kind, z.imag)) for kind in ("COS", "SIN")))


_ARITHMETIC: dict[str, Callable[[Context, list[Parts]], Parts]] = {
    "Mul": lambda ctx, v: product(ctx, v[0], v[1]),
    "RealDiv": lambda ctx, v: quotient(ctx, v[0], v[1]),
    "Div": lambda ctx, v: quotient(ctx, v[0], v[1]),
    "Square": lambda ctx, v: product(ctx, v[0], v[0]),
    "Exp": lambda ctx, v: _exponential(ctx, v[0]),
}


@tf_op("Conj")
def conjugate_of_real(ctx: Context, node: TfNode) -> Value:
    """Of what is real: itself."""
    return ctx.op("Identity", node.input(0))
