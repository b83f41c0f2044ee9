"""Which tensors of a file are packed (NC4HW4), and operators that read dimensions in another order than they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from MNN.frontends.mnn.formats import PACKED_OPERATORS
from MNN.frontends.mnn.order import indexes
from MNN.ir.graph import Node, Value
from MNN.schema.record import Record

if TYPE_CHECKING:
    from MNN.frontends.mnn.read import Scope


def conversion(x: Value, made: Value, name: str, source: str, dest: str) -> Node:
    """The node that turns ``x`` from one format's order of dimensions to another's; a Permute if the rank is known."""
    if x.shape is None:
        return Node("ConvertTensor", name, [x], [made], {"source": source, "dest": dest})
    rank = len(x.shape)
    if rank <= 2:
        order = list(range(rank))
    elif dest == "NHWC":
        order = [0, *range(2, rank), 1]
    else:
        order = [0, rank - 1, *range(1, rank - 1)]
    made.shape = tuple(x.shape[axis] for axis in order)
    return Node("Permute", name, [x], [made], {"dims": order})


def packed_outputs(scope: Scope, op: Record) -> bool:
    """Whether an operator's results are packed: as it demands, or as what it is given."""
    if op.type == "Input":
        return op.main is not None and op.main.table_name == "Input" and op.main.dformat == "NC4HW4"
    if op.type == "ConvertTensor":
        return bool(op.main.dest == "NC4HW4")
    if op.type in PACKED_OPERATORS:
        return True
    made = [i for i in indexes(op, "inputIndexes") if i >= 0 and not scope.values[i].is_const]
    return bool(made) and made[0] in scope.packed


def reads_channels_last(scope: Scope, op: Record, inputs: list[Value | None]) -> bool:
    """Whether the operator sees its packed input as NHWC (files from channels-last frameworks)."""
    index = indexes(op, "inputIndexes")
    if not index or index[0] not in scope.packed or inputs[0] is None:
        return False
    if op.type == "Reshape":
        return op.main is not None and op.main.table_name == "Reshape" and bool(op.main.dimType == "NHWC")
    return bool(op.type == "Shape" and op.defaultDimentionFormat == "NHWC")


def unpack_input(scope: Scope, op: Record, inputs: list[Value | None], attrs: dict[str, object]) -> None:
    """Puts the conversion to NHWC before such an operator, in place of its first input."""
    x = inputs[0]
    assert x is not None
    made = Value(scope.unique(f"{op.name}/nhwc"), x.dtype)
    scope.graph.nodes.append(conversion(x, made, made.name, "NC4HW4", "NHWC"))
    inputs[0] = made
    dims = attrs.get("dims")
    if op.type == "Reshape" and isinstance(dims, list) and len(inputs) < 2 and len(dims) > 2:
        attrs["dims"] = [dims[0], *dims[2:], dims[1]]  # a list in the table is in the packed order already


def pack_output(scope: Scope, node: Node, index: int) -> None:
    """Puts the conversion back to NC4HW4 behind the node whose result tensor ``index`` names."""
    out = node.outputs[0]
    name = out.name
    out.name = scope.unique(f"{name}/nhwc")
    packed = Value(name, out.dtype)
    scope.graph.nodes.append(conversion(out, packed, f"{node.name}/packed", "NHWC", "NC4HW4"))
    scope.values[index] = packed
