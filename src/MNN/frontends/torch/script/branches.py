"""Branches that are taken as the data say: they become If.

Both branches are walked, each into a graph of its own. What either changes (names, attributes, lists and dictionaries,
tensors in place) is taken back, compared, and becomes a result of the If.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number, is_scalar
from MNN.frontends.torch.script.builtins import RaisedError
from MNN.frontends.torch.script.journal import NOTHING, Container, Unmerged, note_container, refill
from MNN.frontends.torch.script.outcomes import Outcome, Walker, walk_aside
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_DIFFERENT = Unmerged("of different kinds after two branches")


def if_(
    walker: Walker, condition: Number, then: Sequence[ast.stmt], other: Sequence[ast.stmt], scope: dict[str, Any]
) -> None:
    """An If. A branch that raises an exception is left out: what remains is what happens otherwise."""
    sides = [walk_aside(walker, body, scope) for body in (then, other)]
    if all(side.raises for side in sides):
        raise RaisedError(sides[0].raises)
    for side, body in zip(sides, (other, then), strict=True):
        if side.raises:  # the other one, as if it were plain
            walker.walk(body, scope)
            return
    merger = _Merger(walker.ctx, sides)
    a, b = sides
    before = dict(scope)
    for name in sorted(set(a.scope) | set(b.scope)):
        left, right = a.scope.get(name, NOTHING), b.scope.get(name, NOTHING)
        if left is before.get(name, NOTHING) and right is left:
            continue
        if left is NOTHING or right is NOTHING:
            continue  # a name within one branch
        scope[name] = merger.merge(left, right)
    for key, (owner, _) in {**a.attributes, **b.attributes}.items():
        kept = owner.state.get(key[1], NOTHING)
        left, right = (s.attributes.get(key, (owner, kept))[1] for s in sides)
        owner.state[key[1]] = merger.merge(left, right)
    for container, _ in {**a.containers, **b.containers}.values():
        merger.merge_container(container)
    for variable in {**a.tensors, **b.tensors}:
        merger.merge_tensor(variable)
    merger.emit(condition)


class _Merger:
    """Gathers what two branches leave; tensors and numbers that differ become results of the If."""

    def __init__(self, ctx: TorchBuilder, sides: Sequence[Outcome]) -> None:
        self._ctx = ctx
        self._sides = sides
        self._results: list[tuple[Variable | Number, Value, Value]] = []
        self._later: list[tuple[Variable, Variable]] = []
        self._known: dict[tuple[int, int], tuple[Any, Any, Any]] = {}
        """What two things became, and the things themselves, so that they last."""

    def merge(self, left: Any, right: Any) -> Any:
        """What it is after either branch."""
        if left is right:
            return left
        key = (id(left), id(right))
        if key not in self._known:
            self._known[key] = (self._merged(left, right), left, right)
        return self._known[key][0]

    def merge_container(self, container: Container) -> None:
        """A list or dictionary that was changed holds what it does after either branch."""
        left, right = (s.contents(container) for s in self._sides)
        contents = self._contents(left, right)
        note_container(self._ctx, container)
        if isinstance(container, dict):
            refill(container, {None: _DIFFERENT} if contents is None else dict(zip(left, contents, strict=True)))
        else:
            refill(container, [_DIFFERENT] if contents is None else contents)

    def merge_tensor(self, variable: Variable) -> None:
        """A tensor from outside that was written gets its new value once the If is there."""
        kept = variable.read(self._ctx)
        self._later.append((variable, self._either(*(s.tensors.get(variable, kept) for s in self._sides))))

    def _either(self, left: Value, right: Value) -> Variable:
        made = Variable(Value("", None, None))
        self._results.append((made, left, right))
        return made

    def _contents(self, left: Any, right: Any) -> list[Any] | None:
        """The elements of what two containers hold; None where they are not of one form."""
        if isinstance(left, dict):
            if list(left) != list(right):
                return None
            left, right = list(left.values()), list(right.values())
        return None if len(left) != len(right) else [self.merge(x, y) for x, y in zip(left, right, strict=True)]

    def _merged(self, left: Any, right: Any) -> Any:
        if isinstance(left, Variable) and isinstance(right, Variable):
            return self._either(*(s.read(v) for v, s in zip((left, right), self._sides, strict=True)))
        if is_scalar(left) and is_scalar(right):
            plain = not isinstance(left, Number) and not isinstance(right, Number)
            if plain and left == right and type(left) is type(right):
                return left
            dtype = self._ctx.common(left, right)
            dtype = dtype if dtype is DType.BOOL or not dtype.is_float else DType.F64
            number = Number(Value(self._ctx.unique("number"), dtype, ()))
            a, b = (s.ctx.scalar(v, dtype) for v, s in zip((left, right), self._sides, strict=True))
            self._results.append((number, a, b))
            return number
        if isinstance(left, (list, tuple, dict)) and type(left) is type(right):
            left, right = (s.contents(x) for x, s in zip((left, right), self._sides, strict=True))
            contents = self._contents(left, right)
            if contents is None:
                return _DIFFERENT
            if isinstance(left, dict):
                return dict(zip(left, contents, strict=True))
            return contents if isinstance(left, list) else tuple(contents)
        if not isinstance(left, (Variable, Number, list, dict)) and left == right:
            return left
        return _DIFFERENT

    def emit(self, condition: Number) -> None:
        """Appends the If."""
        if not self._results:
            return
        graphs = []
        for side, ends in zip(self._sides, ([r[1] for r in self._results], [r[2] for r in self._results]), strict=True):
            side.ctx.graph.outputs = [side.ctx.op("Identity", end) for end in ends]
            graphs.append(side.ctx.graph)
        made = self._ctx.emit("If", [condition.value], len(self._results), then_graph=graphs[0], else_graph=graphs[1])
        for (holder, _, _), out, a, b in zip(self._results, made, graphs[0].outputs, graphs[1].outputs, strict=True):
            describe(out, a, b)
            if isinstance(holder, Variable):
                holder.named(out)
            else:  # the number was promised under a name of its own
                node = self._ctx.graph.nodes[-1]
                node.outputs[node.outputs.index(out)] = holder.value
        for variable, merged in self._later:
            before = variable.read(self._ctx)
            self._ctx.note_written(variable, before)
            variable.restore(merged.read(self._ctx))


def describe(out: Value, a: Value, b: Value) -> None:
    """Type and shape of what comes from either of two values."""
    out.dtype = out.dtype or a.dtype or b.dtype
    if out.shape is None and a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        pairs = zip(a.shape, b.shape, strict=True)
        out.shape = tuple(x if x == y else f"{out.name}.{i}" for i, (x, y) in enumerate(pairs))
