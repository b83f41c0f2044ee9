"""Writes operators whose tables the official engine takes, and does not honour in full or means otherwise."""

from __future__ import annotations

from MNN.frontends.mnn.official.plain import plain
from MNN.frontends.mnn.official.record import Written
from MNN.ir.graph import Node
from MNN.schema.record import Record


def scatter(node: Node, fp16: bool) -> Written | None:
    """A reduction is named by a binary operation; -1 stands for none."""
    kind = node.attrs.get("opType", "NONE")
    if kind in ("MINIMUM", "MAXIMUM"):  # taken, and not honoured there
        return None
    attrs = {**node.attrs, "opType": -1 if kind == "NONE" else kind}
    return plain(Node(node.op, node.name, node.inputs, node.outputs, attrs), fp16)


def scattered(attrs: dict[str, object]) -> None:
    """The reduction as a table has it, back in our words."""
    if not isinstance(attrs.setdefault("opType", "ADD"), str):
        attrs["opType"] = "NONE"


def where(node: Node, fp16: bool) -> Written | None:
    """An empty Extra table asks for as many rows as there are hits, not as there are elements."""
    written = plain(node, fp16)
    if written is not None:
        written.record.main = Record("Extra")
    return written


def pooling(node: Node, fp16: bool) -> Written | None:
    """A last window that begins in the padding counts there and not here."""
    x, attrs = node.inputs[0] if node.inputs else None, node.attrs
    pads = attrs.get("pads")
    known = x is not None and x.shape is not None and len(x.shape) == 4 and not attrs.get("isGlobal")
    if known and attrs.get("ceilModel", True) and isinstance(pads, (list, tuple)) and len(pads) == 4:
        assert x is not None
        assert x.shape is not None
        for axis, letter in ((0, "Y"), (1, "X")):
            size, kernel, stride = x.shape[2 + axis], attrs.get(f"kernel{letter}"), attrs.get(f"stride{letter}")
            begin, end = int(pads[axis]), int(pads[axis + 2])
            if not (isinstance(size, int) and isinstance(kernel, int) and isinstance(stride, int) and stride > 0):
                continue
            if -(-(size + begin + end - kernel) // stride) * stride >= size + begin:
                return None
    return plain(node, fp16)


def grid_sample(node: Node, fp16: bool) -> Written | None:
    """Reflection is taken, and not honoured there."""
    return None if node.attrs.get("paddingMode") == "REFLECTION" else plain(node, fp16)


def roi_align(node: Node, fp16: bool) -> Written | None:
    """The maximum is taken over other points there."""
    return None if node.attrs.get("poolType") == "MAXPOOL" else plain(node, fp16)


def nothing(node: Node, fp16: bool) -> None:
    """Operators that crash the official engine, give another sign, or mean something else in files written here."""
    return None
