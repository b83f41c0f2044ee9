"""Carries less through loops: what stays is seen from inside, lists are collected, views are taken afterwards.

Files for TensorFlow Lite hand a loop everything as carried values, and TensorFlow's lists are tensors of which every
turn writes one element: copied whole, every turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits
from MNN.ops.elementwise.identity import copied, copying
from MNN.passes.loops import FIRST, LOOPS, LoopView
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, ints, plain
from MNN.passes.removing.dead_code import run as remove_dead_code
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import Element, Symbols, dims_of


def run(graph: Graph) -> int:
    """Carried values that the loop need not carry are results of another kind."""
    rw, symbols = Rewriter(graph), Symbols(graph.producers())
    for node in [n for n in rw.nodes() if n.op in LOOPS]:
        loop: Node | None = node
        while loop is not None:
            loop = _lighter(rw, symbols, loop)
    return rw.finish()


def _lighter(rw: Rewriter, symbols: Symbols, loop: Node) -> Node | None:
    """The loop that carries one value less; None where all are needed."""
    body = loop.attrs.get("body")
    view = LoopView(rw, symbols, loop, body) if isinstance(body, Graph) else None
    if view is None or not view.fits():
        return None
    turns = view.turns()
    for i in range(len(view.carried)):
        for change in (_kept, _viewed, _collected):
            made = change(view, i, turns)
            if made is not None:
                return _without(view, i, made)
    return None


@dataclass
class _Instead:
    """What a carried value's result is made of: a copy of a value, a view of another result, or what is collected."""

    copied: Value | None = None
    view: Node | None = None
    of: int = 0
    collected: Value | None = None


def _kept(view: LoopView, i: int, turns: Element) -> _Instead | None:
    """A value that no turn changes."""
    param, first = view.carried[i], view.first(i)
    if view.following(i) is not param or first.dtype is not param.dtype:
        return None
    others = [v for k, v in enumerate(view.body.outputs) if k != 1 + i]
    return None if param in others else _Instead(copied=first)


def _viewed(view: LoopView, i: int, turns: Element) -> _Instead | None:
    """Another carried value in another shape, in the end; in the beginning too, or there is a turn for certain."""
    node = view.makers.get(view.following(i))
    if node is None or not traits(node).reshapes or _used(view, view.carried[i]):
        return None
    if any(v is None or not v.is_const for v in node.inputs[1:]) or node.inputs[0] is None:
        return None
    source = view.behind_copies(node.inputs[0])
    for k in range(len(view.carried)):
        if k != i and view.following(k) is source:
            before, same = plain(view.first(k)), plain(view.first(i))
            certain = isinstance(turns, int) and turns > 0
            if certain or (before is not None and same is not None and _same_numbers(before, same)):
                return _Instead(view=node, of=k)
    return None


def _same_numbers(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.size == b.size and a.tobytes() == b.tobytes()


def _collected(view: LoopView, i: int, turns: Element) -> _Instead | None:
    """A tensor with an element along axis 0 for every turn, which that turn writes. After no turn an element's sizes
    are not known, if they are open."""
    sizes, node = dims_of(view.first(i)), view.makers.get(view.following(i))
    if turns is None or node is None or not sizes or sizes[0] != turns or None in sizes:
        return None
    if not isinstance(turns, int) and any(isinstance(d, str) for d in sizes[1:]):
        return None
    written = _scattered(view, i, node) if node.op == "ScatterNd" else _joined(view, i, node)
    maker = None if written is None else view.makers.get(written)
    if written is None or maker is None or dims_of(written) != [1, *sizes[1:]]:
        return None
    if traits(maker).reshapes and maker.inputs[0] is not None:
        item = maker.inputs[0]
        if dims_of(item) == sizes[1:] and item.dtype is written.dtype:
            return _Instead(collected=item)
    return None


def _scattered(view: LoopView, i: int, node: Node) -> Value | None:
    """What ScatterNd puts at the turn's place, where that is all that asks for the list."""
    if len(node.inputs) != 4 or node.inputs[3] is not view.carried[i] or attribute(node, "reduction"):
        return None
    sizes = None if node.inputs[2] is None else view.makers.get(node.inputs[2])
    own = [node] if sizes is None or _used(view, sizes.outputs[0], node) else [node, sizes]  # the sizes of the list
    if _used(view, view.carried[i], *own) or not _counter(view, node.inputs[0], view.carried, [1, 1]):
        return None
    return node.inputs[1]


def _joined(view: LoopView, i: int, node: Node) -> Value | None:
    """What stands between the elements before the turn's place and those behind it."""
    param = view.carried[i]
    if node.op != "Concat" or len(node.inputs) != 3 or attribute(node, "axis") != 0:
        return None
    before, written, behind = node.inputs
    low, high = (None if v is None else view.makers.get(v) for v in (before, behind))
    if low is None or high is None or low.op != "SliceTf" or high.op != "SliceTf":
        return None
    if low.inputs[0] is not param or high.inputs[0] is not param or _used(view, param, low, high):
        return None
    starts, counts = ints(low.inputs[1]), ints(high.inputs[2])
    if starts is None or any(starts) or counts is None or any(n != -1 for n in counts):
        return None
    if not _place(view, low.inputs[2], view.carried, -1):
        return None
    nexts = [view.following(k) if view.counts(k) else param for k in range(len(view.carried))]
    return written if _place(view, high.inputs[1], nexts, 0) else None


def _place(view: LoopView, value: Value | None, counters: list[Value], rest: int) -> bool:
    """Whether a value is a counter as the first of several numbers, all others of which are ``rest``."""
    node = None if value is None else view.makers.get(value)
    if node is None or node.op != "Concat" or len(node.inputs) != 2 or attribute(node, "axis") != 0:
        return False
    others = ints(node.inputs[1])
    return others is not None and all(n == rest for n in others) and _counter(view, node.inputs[0], counters, [1])


def _counter(view: LoopView, value: Value | None, counters: list[Value], shape: list[int]) -> bool:
    """Whether a value is one of these, which count turns, in another shape."""
    node = None if value is None else view.makers.get(value)
    if node is None or not traits(node).reshapes or dims_of(node.outputs[0]) != shape:
        return False
    return any(node.inputs[0] is c and view.counts(k) for k, c in enumerate(counters))


def _used(view: LoopView, value: Value, *but: Node) -> bool:
    """Whether anything in the body asks for a value beside these nodes."""
    return value in view.body.outputs or any(u not in but for u in view.body.consumers().get(value, []))


def _without(view: LoopView, i: int, made: _Instead) -> Node:
    """Puts a loop in place of the loop that does not carry a value."""
    rw, loop, body, out = view.rw, view.loop, view.body, view.loop.outputs[i]
    if made.copied is not None:
        body.replace(view.carried[i], made.copied)
    del body.inputs[FIRST + i]
    del body.outputs[1 + i]
    outputs = [v for v in loop.outputs if v is not out]
    if made.collected is not None:
        body.outputs.append(_output(view, made.collected))
        outputs.append(out)
        out.shape = view.first(i).shape
    remove_dead_code(body)
    operands = [v for k, v in enumerate(loop.inputs) if k != FIRST + i]
    lighter = Node(loop.op, loop.name, operands, outputs, loop.attrs)
    rw.insert(lighter, loop)
    if made.copied is not None:
        rw.insert(copied(made.copied, out), loop)
    elif made.view is not None:
        operands = [loop.outputs[made.of], *made.view.inputs[1:]]
        rw.insert(Node(made.view.op, out.name, operands, [out], made.view.attrs), loop)
    rw.remove(loop)
    return lighter


def _output(view: LoopView, value: Value) -> Value:
    """A value of the body as one more result: a copy, if it is one already."""
    body = view.body
    if value not in body.outputs and value in view.makers:
        return value
    taken = {v.name for v in body.values()}
    name = next(n for k in range(len(taken) + 1) if (n := f"{value.name}/collected{k or ''}") not in taken)
    body.nodes.append(copying(value, name))
    return body.nodes[-1].outputs[0]


PASS = Pass("loop-values", run, rank=47)
