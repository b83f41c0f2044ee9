"""Removes nodes that compute what another one has computed, and constants that are there twice."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import operators
from MNN.passes.manager import Pass
from MNN.passes.patterns import of_this_package, plain
from MNN.passes.rewrite import Rewriter

PROBES = 16
"""Elements of a large constant that are looked at before all of them are."""


def run(graph: Graph) -> int:
    """Equal operators on equal operands become one; values that are graph outputs keep their names."""
    rw = Rewriter(graph)
    _merge_constants(rw)
    seen: dict[Hashable, Node] = {}
    for node in list(rw.nodes()):
        key = _key(node)
        if key is None:
            continue
        first = seen.setdefault(key, node)
        if first is node or any(rw.is_output(v) for v in node.outputs):
            continue
        rw.remove(node)
        for old, new in zip(node.outputs, first.outputs, strict=True):
            rw.redirect(old, new)
    return rw.finish()


def _key(node: Node) -> Hashable | None:
    """What two nodes have in common when one of them is enough; None for those that must stay."""
    op = operators().get(node.op)
    if op is None or op.draws or not of_this_package(op) or node.subgraphs():
        return None
    attrs = tuple(sorted((k, _frozen(v)) for k, v in node.attrs.items() if v is not None))
    return (node.op, tuple(id(v) for v in node.inputs), attrs, len(node.outputs))


def _frozen(value: object) -> Hashable:
    if isinstance(value, np.ndarray):
        return ("array", value.dtype, value.shape, value.tobytes())
    if isinstance(value, list | tuple):
        return tuple(_frozen(v) for v in value)
    return (type(value).__name__, repr(value))


def _merge_constants(rw: Rewriter) -> None:
    """Points every use of an equal constant to the first one. Constants that subgraphs hold stay."""
    groups: dict[Hashable, list[Value]] = {}
    for node in rw.nodes():
        for index, value in enumerate(node.inputs):
            data = plain(value)
            if value is None or data is None or data.dtype == object:
                continue
            group = groups.setdefault(_sample(data), [])
            same = next((v for v in group if v is value or _equal(v, data)), None)
            if same is None:
                group.append(value)
            elif same is not value:
                rw.set_input(node, index, same)


def _sample(data: np.ndarray) -> Hashable:
    flat = data.reshape(-1)
    step = max(1, flat.size // PROBES)
    return (data.dtype, data.shape, flat[::step][:PROBES].tobytes())


def _equal(value: Value, data: np.ndarray) -> bool:
    other = plain(value)
    if other is None or other.shape != data.shape or other.dtype != data.dtype:
        return False
    if other is data or (other.nbytes <= PROBES and other.tobytes() == data.tobytes()):
        return True
    # bit for bit: 0.0 is not -0.0, and NaN equals itself
    return bool(np.array_equal(_bits(other), _bits(data)))


def _bits(data: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


PASS = Pass("duplicate-removal", run, rank=12)
