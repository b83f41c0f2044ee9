"""Element types and sizes of all values, from those of the inputs on.

Other passes ask for ranks and sizes; a front end knows them only as far as its own inference goes, and folding shape
computations makes more of them known.
"""

from __future__ import annotations

from MNN.ir.graph import Graph, Value
from MNN.ops.core.base import traits
from MNN.ops.inference.infer import ShapeInference
from MNN.passes.manager import Pass
from MNN.passes.symbols import Dims, Symbols, dims_of, known_dim


def run(graph: Graph) -> int:
    """Refines ``dtype`` and ``shape`` of node outputs; what is known already is only made more definite."""
    shape_inference, symbols = ShapeInference(), Symbols(graph.producers())
    changes = 0
    for node in graph.nodes:
        first = traits(node).sizes_from
        if first is not None:  # exporters compute sizes in roundabout ways
            for value in node.inputs[first:]:
                found = symbols.elements(value) if value is not None and shape_inference.ints(value) is None else None
                if value is not None and found is not None:
                    shape_inference.numbers[value] = found
        for value, (dtype, sizes) in zip(node.outputs, shape_inference.infer(node), strict=False):
            if value.dtype is None and dtype is not None:
                value.dtype = dtype
                changes += 1
            if sizes is not None and refine(value, [known_dim(d) for d in sizes]):
                changes += 1
    return changes


def refine(value: Value, dims: Dims) -> bool:
    """Puts what was found into a value's shape: numbers before names, names before nothing. True when it changed."""
    before = dims_of(value)
    if before is None or len(before) != len(dims):
        before = [None] * len(dims)
    kept = value.shape if value.shape is not None and len(value.shape) == len(dims) else [None] * len(dims)
    shape: list[int | str] = []
    for i, (found, known, old) in enumerate(zip(dims, before, kept, strict=True)):
        best = found if found is not None and not (isinstance(known, int) and isinstance(found, str)) else known
        shape.append(best if best is not None else old if old is not None else f"{value.name}.{i}")
    if tuple(shape) == value.shape:
        return False
    value.shape = tuple(shape)
    return True


PASS = Pass("shape-propagation", run, rank=5)
