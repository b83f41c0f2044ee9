"""Operators in a row that only order axes, put in and take out axes of size 1 become as few of them as that takes.

Formats that keep channels last and have convolutions of one dimension by way of two write many of these; what is
left is what a format that keeps channels first has. Elementwise operators within a row move in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import Shape
from MNN.ops.core.base import traits
from MNN.passes.arranging.permute_merging import order_of
from MNN.passes.manager import Pass
from MNN.passes.patterns import binary, plain, rank, with_constant
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import axes_of

Axes = list[int | None]
"""For each axis of a result the axis of the source that it is; None for one of size 1 that was put in."""


def run(graph: Graph) -> int:
    """``Squeeze(Permute(x))`` that moves nothing but axes of size 1 becomes a Squeeze, for example."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        _merge(rw, node)
    return rw.finish()


def _merge(rw: Rewriter, node: Node) -> None:
    axes = _axes(node)
    source = None if axes is None else node.inputs[0]
    if axes is None or source is None:
        return
    if any(_axes(user) is not None for user in rw.users(node.outputs[0])) and rw.used_once(node.outputs[0]):
        return  # the last one of a row takes the others
    chain, functions = [node], list[Node]()
    while True:
        above, start = _through(rw, source)
        maker = rw.maker(start)
        inner = None if maker is None or not rw.used_once(start) else _axes(maker)
        if maker is None or inner is None or maker.inputs[0] is None:
            break
        axes = [None if a is None else inner[a] for a in axes]
        chain.append(maker)
        functions += above
        source = maker.inputs[0]
    if len(chain) < 2 or not source.shape:
        return
    ways = (_moving(axes, source.shape), _apart(axes, source.shape), _moving(_taken(axes, source.shape), source.shape))
    steps = min(ways, key=lambda s: s.count)
    target = _target(axes, source.shape) if steps.count > 1 else None
    if target is not None:
        shape = rw.constant(f"{node.outputs[0].name}/shape", np.asarray(target, np.int64))
        start = _applied(rw, functions, source, before=node)
        rw.swap(node, Node("Reshape", node.name, [start, shape], [node.outputs[0]]))
    elif steps.count < len(chain):
        _write(rw, chain, _applied(rw, functions, source, before=node), steps)


def _through(rw: Rewriter, value: Value) -> tuple[list[Node], Value]:
    """The elementwise operators in a row that end in a value, the last one first, and what the first is applied to."""
    functions: list[Node] = []
    while True:
        maker = rw.maker(value)
        x = None if maker is None else _varying(maker)
        if maker is None or x is None or not rw.used_once(value):
            return functions, value
        functions.append(maker)
        value = x


def _varying(node: Node) -> Value | None:
    """The operand of an elementwise operator whose other one, if there is one, is a single number."""
    if len(node.inputs) == 1:
        return node.inputs[0] if traits(node).elementwise else None
    if not binary(node, "ADD", "SUB", "MUL", "DIV", "REALDIV", "MAXIMUM", "MINIMUM"):
        return None
    parts = with_constant(node)
    data = None if parts is None else plain(parts[1])
    x = None if parts is None else parts[0]
    return x if x is not None and data is not None and data.size == 1 and data.ndim <= 1 and rank(x) else None


def _applied(rw: Rewriter, functions: Sequence[Node], source: Value, before: Node) -> Value:
    """The functions of a row applied to what the row begins with."""
    for function in reversed(functions):
        old, x = function.outputs[0], _varying(function)
        made = Value(rw.unique(f"{old.name}/before"), old.dtype, source.shape)
        operands = [source if v is x else v for v in function.inputs]
        rw.insert(Node(function.op, function.name, operands, [made], dict(function.attrs)), before)
        source = made
    return source


def _axes(node: Node) -> Axes | None:
    """What a node does to axes; None where it is none of these operators, or its shapes are not known."""
    x, out = node.inputs[0] if node.inputs else None, node.outputs[0] if node.outputs else None
    count = None if x is None else rank(x)
    if x is None or out is None or count is None or x.is_const:
        return None
    if node.op == "Permute":
        order = order_of(node)
        return None if order is None or len(order) != count else list(order)
    if node.op in ("Squeeze", "Unsqueeze"):
        given = axes_of(node)
        total = count + len(given or ()) if node.op == "Unsqueeze" else count
        if not given or any(not -total <= a < total for a in given) or len({a % total for a in given}) < len(given):
            return None
        marked = {a % total for a in given}
        if node.op == "Squeeze":
            return [a for a in range(count) if a not in marked]
        left = iter(range(count))
        return [None if a in marked else next(left) for a in range(total)]
    return _between(x.shape, out.shape) if node.op == "Reshape" else None


def _between(x: Shape | None, out: Shape | None) -> Axes | None:
    """Of a Reshape between shapes that differ in axes of size 1 alone."""
    if x is None or out is None:
        return None
    kept = [a for a, d in enumerate(x) if d != 1]
    if [x[a] for a in kept] != [d for d in out if d != 1] or 0 in x:
        return None
    left = iter(kept)
    return [None if d == 1 else next(left) for d in out]


@dataclass(frozen=True)
class _Steps:
    """Axes of the source to take out, the order of those that stay, places of the result where axes are put in."""

    out: list[int]
    order: list[int]
    put: list[int]

    @property
    def moves(self) -> bool:
        return self.order != sorted(self.order)

    @property
    def count(self) -> int:
        return bool(self.out) + self.moves + bool(self.put)


def _moving(axes: Axes, x: Shape) -> _Steps:
    """Every axis goes where it is said to go."""
    kept = [a for a in axes if a is not None]
    stay = sorted(kept)
    return _Steps(
        [a for a in range(len(x)) if a not in kept],
        [stay.index(a) for a in kept],
        [i for i, a in enumerate(axes) if a is None],
    )


def _apart(axes: Axes, x: Shape) -> _Steps:
    """One axis of size 1 is as good as another: where the others keep their order, none is moved."""
    wide: Axes = [None if a is None or x[a] == 1 else a for a in axes]
    kept = [a for a in wide if a is not None]
    if kept != sorted(kept):
        return _moving(wide, x)
    out, put = [], []
    at = start = 0
    for stop, end in zip([*kept, len(x)], [*(wide.index(a) for a in kept), len(wide)], strict=True):
        have, want = list(range(at, stop)), list(range(start, end))
        shared = min(len(have), len(want))
        out += have[shared:]
        put += want[shared:]
        at, start = stop + 1, end + 1
    return _Steps(out, list(range(len(x) - len(out))), put)


def _taken(axes: Axes, x: Shape) -> Axes:
    """Axes of size 1 that are put in are those that are taken out, moved there."""
    spare = iter([a for a, d in enumerate(x) if d == 1 and a not in axes])
    return [next(spare, None) if a is None else a for a in axes]


def _target(axes: Axes, x: Shape) -> list[int] | None:
    """The shape as Reshape takes it, where nothing but axes of size 1 moves; None elsewhere, and where an open size is
    not where it was."""
    kept = [a for a in axes if a is not None and x[a] != 1]
    if kept != sorted(kept):
        return None
    target: list[int] = []
    for i, a in enumerate(axes):
        size = 1 if a is None else x[a]
        if a != i and not (isinstance(size, int) and size > 0):
            return None
        target.append(size if isinstance(size, int) else 0)
    return target


def _write(rw: Rewriter, chain: Sequence[Node], source: Value, steps: _Steps) -> None:
    last, value, shape = chain[0], source, list(source.shape or ())
    made: list[tuple[str, dict[str, object], list[int | str]]] = []
    if steps.out:
        shape = [d for a, d in enumerate(shape) if a not in steps.out]
        made.append(("Squeeze", {"squeezeDims": steps.out}, shape))
    if steps.moves:
        shape = [shape[a] for a in steps.order]
        made.append(("Permute", {"dims": steps.order}, shape))
    if steps.put:
        made.append(("Unsqueeze", {"squeezeDims": steps.put}, []))
    if not made:
        rw.bypass(last, source)
        return
    final = last.outputs[0]
    for i, (op, attrs, sizes) in enumerate(made):
        name = last.name if i == len(made) - 1 else f"{last.name}/{op}"
        if i == len(made) - 1:
            rw.swap(last, Node(op, name, [value], [final], attrs))
        else:
            between = Value(rw.unique(f"{final.name}/{op}"), source.dtype, tuple(sizes))
            rw.insert(Node(op, name, [value], [between], attrs), last)
            value = between


PASS = Pass("axis-merging", run, rank=29)
"""After the others on such operators: permutations that cancel across elementwise ones have gone by then."""
