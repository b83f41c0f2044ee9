"""Replaces computations on shapes by what is known of their result.

Sizes that are numbers become constants. Where only some are known, the operator that uses them says the rest in its own
way: Reshape copies a size with 0 and works one out with -1, a slice to the end of an axis needs no size at all.
"""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.passes.manager import Pass
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import WHOLE, Dims, Element, Symbols, dims_of


def run(graph: Graph) -> int:
    """Folds whole results first, then operands of Reshape, StridedSlice and BroadcastTo."""
    symbols = Symbols(graph.producers())
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        if _fold(rw, symbols, node):
            continue
        if node.op == "Reshape" and len(node.inputs) == 2:
            _reshape(rw, symbols, node)
        elif node.op == "StridedSlice" and node.attrs.get("fromType") == 1:
            _slice(rw, symbols, node)
    return rw.finish()


def _fold(rw: Rewriter, symbols: Symbols, node: Node) -> bool:
    """Makes the node's output constant when every element of it is a number."""
    out = node.outputs[0]
    if len(node.outputs) != 1 or out.dtype is None or out.is_const:
        return False
    found = symbols.array(out)
    if found is None or any(not isinstance(d, int) for d in found.reshape(-1)):
        return False
    data = np.array(found.tolist(), dtype=out.dtype.numpy).reshape(found.shape)
    rw.remove(node)
    out.data, out.shape = data, tuple(data.shape)
    return True


def _reshape(rw: Rewriter, symbols: Symbols, node: Node) -> None:
    """A constant target: sizes of the input at the same place are copied (0), one more may be worked out (-1)."""
    target, given = symbols.elements(node.inputs[1]), node.inputs[1]
    if target is None or given is None or given.is_const:
        return
    x = dims_of(node.inputs[0])
    wanted = [_as_copied(d, i, x) for i, d in enumerate(target)]
    if -1 not in wanted and wanted.count(None) == 1:
        wanted[wanted.index(None)] = -1
    if None in wanted:
        return
    rw.set_input(node, 1, rw.constant(f"{node.outputs[0].name}/shape", np.array(wanted, dtype=np.int64)))


def _as_copied(size: Element, place: int, x: Dims | None) -> int | None:
    if isinstance(size, int):
        return size
    return 0 if size is not None and x is not None and place < len(x) and x[place] == size else None


def _slice(rw: Rewriter, symbols: Symbols, node: Node) -> None:
    """A slice that ends where its axis ends is one to the end."""
    starts, axes, ends = _operand(symbols, node, 1), _operand(symbols, node, 3), _operand(symbols, node, 2)
    x, given = dims_of(node.inputs[0]), node.inputs[2]
    if given is None or given.is_const or ends is None or x is None or starts is None:
        return
    axes = list(range(len(ends))) if axes is None and len(node.inputs) < 4 else axes
    steps = _operand(symbols, node, 4) if len(node.inputs) > 4 else [1] * len(ends)
    if axes is None or steps is None or any(not isinstance(s, int) or s < 0 for s in steps):
        return
    wanted: list[int] = []
    for end, axis in zip(ends, axes, strict=True):
        if isinstance(end, int):
            wanted.append(end)
        elif end is not None and isinstance(axis, int) and -len(x) <= axis < len(x) and x[axis] == end:
            wanted.append(WHOLE)
        else:
            return
    dtype = np.int64 if given.dtype is None else given.dtype.numpy
    rw.set_input(node, 2, rw.constant(f"{node.outputs[0].name}/ends", np.array(wanted).astype(dtype)))


def _operand(symbols: Symbols, node: Node, index: int) -> Dims | None:
    value: Value | None = node.inputs[index] if index < len(node.inputs) else None
    return symbols.elements(value)


PASS = Pass("shape-folding", run, rank=15)
