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
from MNN.frontends.torch.numbers import Int, Number, is_scalar
from MNN.frontends.torch.script.builtins import RaisedError
from MNN.frontends.torch.script.journal import NOTHING, Container, Unmerged, note_container, refill
from MNN.frontends.torch.script.open_lists import Run, as_run, form_of, packed
from MNN.frontends.torch.script.optional import UNINITIALIZED, Maybe, placeholder, unwrapped
from MNN.frontends.torch.script.outcomes import Outcome, Returned, Walker, walk_aside
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import Dim

_DIFFERENT = Unmerged("of different kinds after two branches")


def if_(
    walker: Walker, condition: Number, then: Sequence[ast.stmt], other: Sequence[ast.stmt], scope: dict[str, Any],
    rest: Sequence[ast.stmt] = (),
) -> bool:  # fmt: skip
    """An If. A branch that raises an exception is left out: what remains is what happens otherwise.

    Where a tensor has another rank after one branch than after the other, each branch goes on with ``rest``, the
    statements that follow: true is what says so. Raises :class:`Returned` where both leave the function.
    """
    sides = [walk_aside(walker, body, scope) for body in (then, other)]
    goes_on = bool(rest) and not any(side.raises for side in sides) and _of_two_ranks(sides, scope, condition)
    if goes_on:
        sides = [walk_aside(walker, [*body, *rest], scope, returning=True) for body in (then, other)]
    if all(side.raises for side in sides):
        raise RaisedError(sides[0].raises)
    for side, body in zip(sides, (other, then), strict=True):
        if side.raises:  # the other one, as if it were plain
            walker.walk([*body, *rest] if goes_on else body, scope)
            return goes_on
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
    result = None
    if goes_on and all(side.returns for side in sides):
        result = Returned(merger.merge(*(side.returns and side.returns.value for side in sides)))
    merger.emit(condition)
    if result is not None:
        raise result
    return goes_on


def _of_two_ranks(sides: Sequence[Outcome], scope: dict[str, Any], condition: Number) -> bool:
    """Whether a tensor that both branches leave has another rank after each, and both may have elements."""
    a, b = sides
    empty = None if condition.at_zero is None else 0 if condition.at_zero else 1
    for name in a.scope.keys() & b.scope.keys():
        left, right = a.scope[name], b.scope[name]
        if left is not right and isinstance(left, Variable) and isinstance(right, Variable):
            shapes = [a.read(left).shape, b.read(right).shape]
            if None in shapes or len(shapes[0] or ()) == len(shapes[1] or ()):
                continue
            if empty is None or not _may_be_empty(shapes[empty] or ()):
                return True
    return False


def _may_be_empty(shape: Sequence[Dim]) -> bool:
    return any(not isinstance(n, int) or n == 0 for n in shape)


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
        if len(left) != len(right) or [isinstance(v, Run) for v in left] != [isinstance(v, Run) for v in right]:
            return self._open_list(left, right) if isinstance(left, list) else None
        return [self.merge(x, y) for x, y in zip(left, right, strict=True)]

    def _open_list(self, left: list[Any], right: list[Any]) -> list[Any] | None:
        """A list that is longer after one branch than after the other."""
        pairs = list(zip((left, right), self._sides, strict=True))
        forms = [form_of(side.ctx, items, side.read) for items, side in pairs]
        form = forms[0] or forms[1]
        if form is None or any(f != form for f, (items, _) in zip(forms, pairs, strict=True) if items):
            return None
        a, b = (packed(side.ctx, items, form, side.read) for items, side in pairs)
        return [as_run(self._either(a, b), [*left, *right], form.numbers)]

    def _half(self, left: Any, right: Any) -> Any:
        """What only one of the branches has."""
        a, b = self._sides
        if left is UNINITIALIZED:
            return self.merge(placeholder(a.ctx, right, b.read), right)
        return self.merge(left, placeholder(b.ctx, left, a.read))

    def _maybe(self, left: Any, right: Any) -> Any:
        """What may be None after one of them."""
        there = [v.present if isinstance(v, Maybe) else v is not None for v in (left, right)]
        held = [UNINITIALIZED if v is None else unwrapped(v) for v in (left, right)]
        value = self.merge(*held)
        return value if isinstance(value, Unmerged) else Maybe(self.merge(*there), value)

    def _merged(self, left: Any, right: Any) -> Any:
        if UNINITIALIZED in (left, right):
            return self._half(left, right)
        if isinstance(left, Maybe) or isinstance(right, Maybe) or (left is None) != (right is None):
            return self._maybe(left, right)
        if isinstance(left, Variable) and isinstance(right, Variable):
            return self._either(*(s.read(v) for v, s in zip((left, right), self._sides, strict=True)))
        if isinstance(left, Run) and isinstance(right, Run) and left.numbers == right.numbers:
            return Run(self.merge(left.items, right.items), left.numbers)
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

    def _reconcile(self, condition: Number) -> None:
        """Results of two ranks, of which one has no elements by the condition, get the rank of the other."""
        if condition.at_zero is None:
            return
        empty = 0 if condition.at_zero else 1
        for i, (holder, *ends) in enumerate(self._results):
            shapes = [end.shape for end in ends]
            if None in shapes or len(shapes[0] or ()) == len(shapes[1] or ()):
                continue
            if not _may_be_empty(shapes[empty] or ()):
                continue
            ctx = self._sides[empty].ctx
            ctx.where = "If"
            like: list[Int] = [n if isinstance(n, int) else 0 for n in shapes[1 - empty] or ()]
            if like and 0 not in like:
                like[0] = 0
            ends[empty] = ctx.reshape(ends[empty], like)
            self._results[i] = (holder, ends[0], ends[1])

    def emit(self, condition: Number) -> None:
        """Appends the If."""
        if not self._results:
            return
        self._reconcile(condition)
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
