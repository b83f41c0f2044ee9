"""The formats of a file's tensors, and operators that read dimensions in another order than they lie."""

from __future__ import annotations

from MNN.frontends.mnn.official.registry import official, packs_first
from MNN.frontends.mnn.scope import GraphScope
from MNN.frontends.mnn.sorting import indexes
from MNN.ir.graph import Node, Value
from MNN.ops.arranging.layout import order_of
from MNN.schema.record import Record


def conversion(x: Value, made: Value, name: str, source: str, dest: str) -> Node:
    """The node that turns ``x`` from one format's order of dimensions to another's; a Permute if the rank is known."""
    if x.shape is None:
        return written_conversion(x, made, name, source, dest)
    order = order_of(source, dest, len(x.shape))
    made.shape = tuple(x.shape[axis] for axis in order)
    return Node("Permute", name, [x], [made], {"dims": order})


def written_conversion(x: Value, made: Value, name: str, source: str, dest: str) -> Node:
    """The same as the file has it."""
    return Node("ConvertTensor", name, [x], [made], {"source": source, "dest": dest})


def format_of(scope: GraphScope, op: Record) -> str:
    """The format of an operator's results: as the file says, as the operator demands, or as what it is given."""
    if op.type == "Input":
        return str(op.main.dformat) if op.main is not None and op.main.table_name == "Input" else "NCHW"
    if op.type in ("Const", "TrainableParam"):
        return "NCHW"
    if op.type == "ConvertTensor":
        return str(op.main.dest)
    if packs_first(str(op.type)):
        return "NHWC" if around(scope, op) else "NC4HW4"
    made = [i for i in indexes(op, "inputIndexes") if i >= 0 and not scope.values[i].is_const]
    return scope.formats.get(made[0], "NCHW") if made else "NCHW"


def around(scope: GraphScope, op: Record) -> bool:
    """Whether an operator that works on packed tensors is given NHWC: then it is converted, and so is the result."""
    index = indexes(op, "inputIndexes")
    return packs_first(str(op.type)) and bool(index) and scope.formats.get(index[0]) == "NHWC"


def reads_channels_last(scope: GraphScope, op: Record, inputs: list[Value | None]) -> bool:
    """Whether the operator sees its packed input as NHWC (files from channels-last frameworks)."""
    index = indexes(op, "inputIndexes")
    if not index or scope.formats.get(index[0]) != "NC4HW4" or inputs[0] is None:
        return False
    reads_nhwc = official(str(op.type)).reads_nhwc
    return reads_nhwc is not None and reads_nhwc(op)


def pack_input(scope: GraphScope, op: Record, inputs: list[Value | None]) -> None:
    """Puts the conversion from NHWC before an operator, in place of its first input."""
    x = inputs[0]
    assert x is not None
    made = Value(scope.unique(f"{op.name}/nchw"), x.dtype)
    scope.graph.nodes.append(conversion(x, made, made.name, "NHWC", "NC4HW4"))
    inputs[0] = made


def unpack_input(scope: GraphScope, op: Record, inputs: list[Value | None], attrs: dict[str, object]) -> None:
    """Puts the conversion to NHWC before such an operator, in place of its first input."""
    x = inputs[0]
    assert x is not None
    made = Value(scope.unique(f"{op.name}/nhwc"), x.dtype)
    scope.graph.nodes.append(conversion(x, made, made.name, "NC4HW4", "NHWC"))
    inputs[0] = made
    dims = attrs.get("dims")
    if isinstance(dims, list) and len(inputs) < 2 and len(dims) > 2:
        attrs["dims"] = [dims[0], *dims[2:], dims[1]]  # a list in the table is in the packed order already


def convert_output(scope: GraphScope, node: Node, index: int, source: str, dest: str) -> None:
    """Puts a conversion behind the node whose result tensor ``index`` names; it takes the name."""
    out = node.outputs[0]
    name = out.name
    out.name = scope.unique(f"{name}/{source.lower()}")
    made = Value(name, out.dtype)
    scope.graph.nodes.append(conversion(out, made, f"{node.name}/{dest.lower()}", source, dest))
    scope.values[index] = made
