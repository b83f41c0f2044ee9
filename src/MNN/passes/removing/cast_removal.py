"""Removes conversions that change nothing, and the first of two when it loses nothing."""

from __future__ import annotations

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node
from MNN.ops.core.datatypes import data_type, from_data_type
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute
from MNN.passes.rewrite import Rewriter

_BITS = {DType.F16: 11, DType.BF16: 8, DType.F32: 24, DType.F64: 53}
"""Bits of a float's significand: it holds all integers below two to that power."""
_OF_NARROW = {
    **dict.fromkeys((DType.I4, DType.I2), (DType.I8, DType.I16, DType.I32, DType.I64, DType.F32, DType.F64)),
    **dict.fromkeys((DType.U4, DType.U2), tuple(d for d in DType if d.is_int or d in (DType.F32, DType.F64))),
}
"""Types that hold all numbers of an integer of 4 or 2 bits. Those of other narrow types are in the large floats."""
_EXPONENT = {DType.F16: 5, DType.BF16: 8, DType.F32: 8, DType.F64: 11}
"""Bits of its exponent."""


def run(graph: Graph) -> int:
    """``Cast`` to the type its operand has, and ``Cast(Cast(x))`` where the inner one only widens."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        if node.op != "Cast" or node.inputs[0] is None:
            continue
        target, x = _target(node), node.inputs[0]
        if x.dtype is not None and x.dtype is target:
            rw.bypass(node, x)
            continue
        inner = rw.made_by(x, "Cast")
        source = inner.inputs[0] if inner is not None else None
        if source is None or source.dtype is None or target is DType.STR:  # text tells types apart: 1, 1.0, True
            continue
        if not _widens(source.dtype, _target(inner)):
            continue
        rw.set_input(node, 0, source)
        if "srcT" in node.attrs:
            node.attrs["srcT"] = data_type(source.dtype)
    return rw.finish()


def _target(node: Node | None) -> DType:
    assert node is not None
    return from_data_type(str(attribute(node, "dstT")), f"{node.op} '{node.name}'")


def _widens(narrow: DType, wide: DType) -> bool:
    """Whether every number of ``narrow`` is one of ``wide``."""
    if narrow is wide:
        return True
    if DType.STR in (narrow, wide) or wide is DType.BOOL or wide.is_narrow:
        return False
    if narrow is DType.BOOL:
        return True
    if narrow.is_narrow:
        return wide in _OF_NARROW.get(narrow, (DType.F32, DType.F64))
    if narrow.is_float:
        return wide.is_float and _BITS[wide] >= _BITS[narrow] and _EXPONENT[wide] >= _EXPONENT[narrow]
    digits = narrow.size * 8 - narrow.is_signed
    if wide.is_float:
        return _BITS[wide] >= digits
    return wide.size * 8 - wide.is_signed >= digits and (wide.is_signed or not narrow.is_signed)


PASS = Pass("cast-removal", run, rank=20)
