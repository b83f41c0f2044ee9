"""Moves elementwise operators in front of a Squeeze.

One-dimensional convolutions are planar ones between Unsqueeze and Squeeze. With nothing between the Squeeze of one and
the Unsqueeze of the next, the two cancel, and activations and scales come to stand behind the convolution itself.
"""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import Shape
from MNN.ops.core.base import traits
from MNN.passes.manager import Pass
from MNN.passes.patterns import binary, plain, rank, with_constant
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import axes_of


def run(graph: Graph) -> int:
    """``f(squeeze(x))`` becomes ``squeeze(f(x))`` for f of one operand, or of a second one that is constant."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        plan = _plan(rw, node)
        if plan is not None:
            _move(rw, node, *plan)
    return rw.finish()


def _plan(rw: Rewriter, node: Node) -> tuple[Node, Value, list[Value | None]] | None:
    """The Squeeze in front, what it squeezes, and the operands of the moved operator."""
    constant: Value | None = None
    if traits(node).elementwise and len(node.inputs) == 1 and len(node.outputs) == 1:
        x = node.inputs[0]
    elif binary(node, "ADD", "SUB", "MUL", "DIV", "REALDIV", "MAXIMUM", "MINIMUM"):
        parts = with_constant(node)
        if parts is None:
            return None
        x, constant, _ = parts
    else:
        return None
    squeeze = rw.made_by(x, "Squeeze")
    if squeeze is None or x is None or squeeze.inputs[0] is None or not rw.used_once(x):
        return None
    source = squeeze.inputs[0]
    if constant is None:
        return squeeze, source, [source]
    wider = _widened(constant, squeeze, source)
    if wider is None:
        return None
    made = constant if wider is constant.data else rw.constant(f"{node.outputs[0].name}/constant", wider)
    return squeeze, source, [source if v is x else made for v in node.inputs]


def _widened(constant: Value, squeeze: Node, source: Value) -> np.ndarray | None:
    """The constant with axes of size 1 where the squeezed ones are; None when that cannot be told."""
    data, axes, found = plain(constant), axes_of(squeeze), rank(source)
    if data is None or not axes or found is None:
        return None
    if data.ndim == 0:
        return data
    places = sorted(a + found if a < 0 else a for a in axes)
    kept = [a for a in range(found) if a not in places]
    if data.ndim > len(kept):
        return None
    # the constant's axes are the last ones that are kept
    own = dict(zip(kept[len(kept) - data.ndim :], data.shape, strict=True))
    return data.reshape([own.get(a, 1) for a in range(found - _depth(kept, data.ndim, found), found)])


def _depth(kept: list[int], count: int, found: int) -> int:
    """How many of the last axes the first of a constant's ``count`` axes reaches back."""
    return found - kept[len(kept) - count]


def _move(rw: Rewriter, node: Node, squeeze: Node, source: Value, operands: list[Value | None]) -> None:
    out = node.outputs[0]
    inner = Value(rw.unique(f"{out.name}/whole"), out.dtype, _whole(squeeze, source, out))
    after = Node("Squeeze", squeeze.name, [inner], [out], dict(squeeze.attrs))
    if len(squeeze.inputs) > 1:
        after.inputs.append(squeeze.inputs[1])
    rw.insert(Node(node.op, node.name, operands, [inner], dict(node.attrs)), before=node)
    rw.swap(node, after)
    rw.remove(squeeze)


def _whole(squeeze: Node, source: Value, out: Value) -> Shape | None:
    """The shape of a result before it is squeezed: a constant may make more of axes of size 1 that are kept."""
    axes = axes_of(squeeze)
    if source.shape is None or out.shape is None or not axes:
        return None
    places = {a % len(source.shape) for a in axes}
    kept = iter(out.shape)
    return tuple(d if a in places else next(kept, d) for a, d in enumerate(source.shape))


PASS = Pass("view-sinking", run, rank=28)
