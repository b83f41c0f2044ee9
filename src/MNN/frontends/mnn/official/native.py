"""One node as the operator that the official engine has for it, or None when it has none with this meaning."""

from __future__ import annotations

from MNN.errors import FormatError
from MNN.frontends.mnn.official.plain import plain
from MNN.frontends.mnn.official.record import Written
from MNN.frontends.mnn.official.registry import official
from MNN.frontends.mnn.official.weights import vectors
from MNN.ir.graph import Node
from MNN.ops.core.base import operators
from MNN.schema.tables import enum


def native(node: Node, fp16: bool) -> Written | None:
    """The official operator for ``node``, or None."""
    known = operators().get(node.op)
    if known is None or not known.in_mnn or node.op not in enum("OpType").values:
        return None
    form = official(node.op)
    writer = form.write or (vectors if form.operands else plain)
    try:
        written = writer(node, fp16)
    except FormatError:  # a value that the table cannot hold
        return None
    if written is not None:
        while written.inputs and written.inputs[-1] is None:
            written.inputs.pop()
        if None in written.inputs:  # an operand left out between others crashes the official engine
            return None
    return written
