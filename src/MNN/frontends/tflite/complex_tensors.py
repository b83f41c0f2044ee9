"""Complex tensors of a file: pairs of numbers along one more axis, at the end.

Operators that arrange, add or sum are done to each part by itself with the handlers that real tensors have; those that
take pairs have handlers of their own (``operators/spectral.py``); what is left is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.frontends.common.complex_parts import Parts, paired, parted, product
from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.ir.graph import Value

Handler = Callable[[Context, TfliteNode], "Value | Sequence[Value]"]

_OF_PAIRS = {"REAL", "IMAG", "COMPLEX_ABS"}
_EACH = {
    "ADD", "ADD_N", "BROADCAST_TO", "CONCATENATION", "EXPAND_DIMS", "GATHER", "GATHER_ND", "NEG", "PACK", "PAD",
    "RESHAPE", "REVERSE_V2", "SELECT", "SELECT_V2", "SLICE", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "SUB",
    "SUM", "TILE", "TRANSPOSE", "UNPACK",
}  # fmt: skip
"""What is done to each part by itself."""


def takes_complex(node: TfliteNode) -> bool:
    """Whether a node has complex operands and does not take their pairs as they are."""
    return node.op not in _OF_PAIRS and any(map(_complex, range(len(node.inputs)), [node] * len(node.inputs)))


def _complex(index: int, node: TfliteNode) -> bool:
    tensor = node.tensors_in[index]
    return tensor is not None and tensor.type.startswith("COMPLEX") and node.inputs[index] is not None


def applied(ctx: Context, node: TfliteNode, handler: Handler) -> list[Value]:
    """The results of such a node. Raises :class:`UnsupportedError` where there is no meaning here."""
    given = [parted(ctx, node.input(i)) if _complex(i, node) else v for i, v in enumerate(node.inputs)]
    if node.op == "SHAPE":
        return _run(ctx, node, handler, [v.real if isinstance(v, Parts) else v for v in given])
    if node.op == "MUL" and all(isinstance(v, Parts) for v in given):
        found = [product(ctx, *(v for v in given if isinstance(v, Parts)))]
    elif node.op in _EACH:
        real = _run(ctx, node, handler, [v.real if isinstance(v, Parts) else v for v in given])
        imag = _run(ctx, node, handler, [v.imag if isinstance(v, Parts) else v for v in given])
        found = [Parts(*both) for both in zip(real, imag, strict=True)]
    else:
        raise node.unsupported("a complex tensor here")
    made = []
    for z, tensor in zip(found, node.tensors_out, strict=True):
        rank = ctx.rank(z.real)
        made.append(paired(ctx, z, len(tensor.sizes) if rank is None else rank))
    return made


def _run(ctx: Context, node: TfliteNode, handler: Handler, inputs: Sequence[Value | None]) -> list[Value]:
    part = TfliteNode(
        node.operation, node.name, inputs, node.outputs, node.tensors_in, node.tensors_out, node.variables
    )
    made = handler(ctx, part)
    return [made] if isinstance(made, Value) else list(made)
