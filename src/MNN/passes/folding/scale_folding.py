"""Products and sums with constants per channel go into the weights of the convolution or matrix product before them."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Value
from MNN.passes.folding import affine
from MNN.passes.manager import Pass
from MNN.passes.patterns import binary, with_constant
from MNN.passes.rewrite import Rewriter


def run(graph: Graph) -> int:
    """``conv(x) * c``, ``/ c``, ``+ c``, ``- c`` and ``c - conv(x)`` for constants of one number per output channel."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        if not binary(node, "MUL", "DIV", "REALDIV", "ADD", "SUB"):
            continue
        found = with_constant(node)
        if found is None:
            continue
        x, constant, first = found
        target = affine.linear(rw, x)
        if target is None or not _same_type(constant, target.node.inputs[1]):
            continue
        numbers = affine.per_channel(constant, target)
        factors = None if numbers is None else _factors(str(node.attrs.get("opType", "ADD")), numbers, first)
        if factors is not None:
            affine.fold(rw, node, x, *factors)
    return rw.finish()


def _same_type(constant: Value, weight: Value | None) -> bool:
    return weight is not None and constant.dtype is weight.dtype


Factors = tuple[np.ndarray | None, np.ndarray | None]


def _factors(kind: str, numbers: np.ndarray, first: bool) -> Factors | None:
    """Scale and shift that say the same; None when there are none."""
    if kind == "ADD":
        return None, numbers
    if kind == "SUB":
        return (np.full_like(numbers, -1.0), numbers) if first else (None, -numbers)
    if kind == "MUL":
        return numbers, None
    if first or not bool(np.all(numbers)):
        return None
    return 1.0 / numbers, None


PASS = Pass("scale-folding", run, rank=32)
