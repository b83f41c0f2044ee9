"""Branches and loops whose course is known only when the model runs: they become If and Loop.

Both branches are walked, each into a graph of its own. What either assigns, to names, to attributes or in place to
tensors, is taken back, compared, and becomes a result of the If.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from MNN.errors import UnsupportedError
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number, is_scalar
from MNN.frontends.torch.script.builtins import RaisedError
from MNN.frontends.torch.unpickle import ScriptObject
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOTHING = object()


class Walker(Protocol):
    """Who walks statements."""

    ctx: TorchBuilder

    def walk(self, body: Sequence[ast.stmt], scope: dict[str, Any]) -> None: ...
    def evaluate(self, node: ast.expr, scope: dict[str, Any]) -> Any: ...
    def as_truth(self, found: Any) -> Any: ...


@dataclass(frozen=True)
class Unmerged:
    """What a name is after branches that leave it different things."""

    reason: str


@dataclass
class Journal:
    """What a branch changes outside of itself, with what was there before."""

    attributes: dict[tuple[int, str], tuple[ScriptObject, Any]] = field(default_factory=dict)


_Key = tuple[int, str]


def note(ctx: TorchBuilder, owner: ScriptObject, name: str) -> None:
    """Tells the branch being walked that an attribute is about to be set."""
    journal = ctx.journal
    if isinstance(journal, Journal):
        before = owner.state.get(name, _NOTHING) if isinstance(owner.state, dict) else _NOTHING
        journal.attributes.setdefault((id(owner), name), (owner, before))


@dataclass
class _Outcome:
    """A branch walked: its graph, and what it left. ``raises``: it ends in an exception."""

    ctx: TorchBuilder
    scope: dict[str, Any]
    attributes: dict[_Key, tuple[ScriptObject, Any]]
    tensors: dict[Variable, Value]
    raises: str = ""


def _walk(walker: Walker, body: Sequence[ast.stmt], scope: dict[str, Any], inputs: Iterable[Value] = ()) -> _Outcome:
    """Walks a branch, and takes back what it changed."""
    outer = walker.ctx
    ctx = TorchBuilder(outer.model, Graph(name="body", inputs=list(inputs)), outer)
    ctx.where, ctx.journal, ctx.written = outer.where, Journal(), {}
    lists = {id(v): (v, list(v)) for v in scope.values() if isinstance(v, list)}
    made = _Outcome(ctx, dict(scope), {}, {})
    walker.ctx = ctx
    try:
        walker.walk(body, made.scope)
    except RaisedError as error:
        made.raises = str(error) or "an exception"
    finally:
        walker.ctx = outer
    for held, before in lists.values():
        if len(held) != len(before) or any(a is not b for a, b in zip(held, before, strict=True)):
            changed = list(held)
            held[:] = before
            made.scope.update({n: changed for n, v in made.scope.items() if v is held})
    assert isinstance(ctx.journal, Journal)
    for key, (owner, before) in ctx.journal.attributes.items():
        made.attributes[key] = (owner, owner.state.get(key[1], _NOTHING))
        if before is _NOTHING:
            owner.state.pop(key[1], None)
        else:
            owner.state[key[1]] = before
        note(outer, owner, key[1])
    for variable, value in ctx.written.items():
        assert isinstance(variable, Variable)
        made.tensors[variable] = variable.read(ctx)
        variable.restore(value)
        outer.note_written(variable, value)
    return made


def if_(
    walker: Walker, condition: Number, then: Sequence[ast.stmt], other: Sequence[ast.stmt], scope: dict[str, Any]
) -> None:
    """An If. A branch that raises an exception is left out: what remains is what happens otherwise."""
    sides = [_walk(walker, body, scope) for body in (then, other)]
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
        left, right = a.scope.get(name, _NOTHING), b.scope.get(name, _NOTHING)
        if left is before.get(name, _NOTHING) and right is left:
            continue
        if left is _NOTHING or right is _NOTHING:
            continue  # a name within one branch
        scope[name] = merger.merge(left, right)
    for key in {**a.attributes, **b.attributes}:
        owner = {**a.attributes, **b.attributes}[key][0]
        kept = owner.state.get(key[1], _NOTHING)
        left, right = (s.attributes.get(key, (owner, kept))[1] for s in sides)
        owner.state[key[1]] = merger.merge(left, right)
    for variable in {**a.tensors, **b.tensors}:
        kept_value = variable.read(walker.ctx)
        merged = merger.merge(*(Variable(s.tensors.get(variable, kept_value)) for s in sides))
        merger.later.append((variable, merged))
    merger.emit(condition)


class _Merger:
    """Gathers what two branches leave; tensors and numbers that differ become results of the If."""

    def __init__(self, ctx: TorchBuilder, sides: Sequence[_Outcome]) -> None:
        self._ctx = ctx
        self._sides = sides
        self._results: list[tuple[Any, Value, Value]] = []
        self.later: list[tuple[Variable, Any]] = []
        self._known: dict[tuple[int, int], Any] = {}

    def merge(self, left: Any, right: Any) -> Any:
        """What it is after either branch."""
        if left is right:
            return left
        key = (id(left), id(right))
        if key not in self._known:
            self._known[key] = self._merged(left, right)
        return self._known[key]

    def _merged(self, left: Any, right: Any) -> Any:
        if isinstance(left, Variable) and isinstance(right, Variable):
            made = Variable(Value("", None, None))
            values = [v.read(s.ctx) for v, s in zip((left, right), self._sides, strict=True)]
            self._results.append((made, values[0], values[1]))
            return made
        if is_scalar(left) and is_scalar(right):
            if (
                not isinstance(left, Number)
                and not isinstance(right, Number)
                and left == right
                and type(left) is type(right)
            ):
                return left
            dtype = self._ctx.common(left, right)
            dtype = dtype if dtype is DType.BOOL or not dtype.is_float else DType.F64
            made_number = Number(Value(self._ctx.unique("number"), dtype, ()))
            numbers = [s.ctx.scalar(v, dtype) for v, s in zip((left, right), self._sides, strict=True)]
            self._results.append((made_number, numbers[0], numbers[1]))
            return made_number
        if isinstance(left, (list, tuple)) and type(left) is type(right) and len(left) == len(right):
            merged = [self.merge(a, b) for a, b in zip(left, right, strict=True)]
            return merged if isinstance(left, list) else tuple(merged)
        if not isinstance(left, (Variable, Number, list, dict)) and left == right:
            return left
        return Unmerged("of different kinds after two branches")

    def emit(self, condition: Number) -> None:
        """Appends the If."""
        if not self._results and not self.later:
            return
        graphs = []
        for i, side in enumerate(self._sides):
            side.ctx.graph.outputs = [side.ctx.op("Identity", r[1 + i]) for r in self._results]
            graphs.append(side.ctx.graph)
        made = self._ctx.emit("If", [condition.value], len(self._results), then_graph=graphs[0], else_graph=graphs[1])
        for (holder, _, _), out, a, b in zip(self._results, made, graphs[0].outputs, graphs[1].outputs, strict=True):
            _describe(out, a, b)
            if isinstance(holder, Variable):
                holder.named(out)
            else:  # the number was promised under a name of its own
                node = self._ctx.graph.nodes[-1]
                node.outputs[node.outputs.index(out)] = holder.value
        for variable, merged in self.later:
            before = variable.read(self._ctx)
            self._ctx.note_written(variable, before)
            variable.restore(merged.read(self._ctx))


def _describe(out: Value, a: Value, b: Value) -> None:
    """Type and shape of what comes from either of two values."""
    out.dtype = out.dtype or a.dtype or b.dtype
    if out.shape is None and a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        pairs = zip(a.shape, b.shape, strict=True)
        out.shape = tuple(x if x == y else f"{out.name}.{i}" for i, (x, y) in enumerate(pairs))


def loop(
    walker: Walker, count: Number | None, going: bool | Number, body: Sequence[ast.stmt], scope: dict[str, Any],
    target: ast.expr | None = None, test: ast.expr | None = None,
) -> None:  # fmt: skip
    """A Loop. ``count``: its number of turns; ``going``: the condition before the first turn, ``test`` that after each.

    Names that the body assigns are carried from turn to turn; they must be tensors or numbers.
    """
    ctx = walker.ctx
    assigned = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names = [n for n in sorted(assigned) if n in scope and (isinstance(scope[n], Variable) or is_scalar(scope[n]))]
    starts = [_value(ctx, scope[n]) for n in names]
    turn, again = Value(ctx.unique("turn"), DType.I64, ()), Value(ctx.unique("going"), DType.BOOL, ())
    carried = [Value(ctx.unique(f"{n}.carried"), v.dtype, v.shape) for n, v in zip(names, starts, strict=True)]
    inner = dict(scope)
    for name, value in zip(names, carried, strict=True):
        inner[name] = Variable(value) if isinstance(scope[name], Variable) else Number(value)
    if isinstance(target, ast.Name):
        inner[target.id] = Number(turn)
    verdict: list[Any] = []

    def last(w: Walker, made: dict[str, Any]) -> None:
        verdict.append(True if test is None else w.as_truth(w.evaluate(test, made)))

    outcome = _walk_then(walker, body, inner, [turn, again, *carried], last)
    if outcome.raises:
        raise RaisedError(outcome.raises)
    if outcome.attributes or outcome.tensors:
        raise UnsupportedError(
            "a loop of an open number of turns that writes to attributes, or in place, is not supported"
        )
    changed = [n for n, v in outcome.scope.items() if n in scope and n not in names and v is not inner.get(n)]
    if changed:
        raise UnsupportedError(
            f"a loop of an open number of turns that changes '{changed[0]}', which is neither a tensor nor a number, "
            "is not supported; give the input a fixed size"
        )
    inside = outcome.ctx
    goes_on = _value(inside, verdict[0])
    results = [_value(inside, outcome.scope[n], v.dtype) for n, v in zip(names, starts, strict=True)]
    inside.graph.outputs = [inside.op("Identity", v) for v in (goes_on, *results)]
    first = going.value if isinstance(going, Number) else None
    made = ctx.emit("Loop", [None if count is None else count.value, first, *starts], len(names), body=inside.graph)
    for name, out, start, result in zip(names, made, starts, inside.graph.outputs[1:], strict=True):
        _describe(out, start, result)
        scope[name] = Variable(out) if isinstance(scope[name], Variable) else Number(out)
    for name in outcome.scope:
        if name not in scope:
            scope[name] = Unmerged("assigned only within a loop of an open number of turns")


def _walk_then(
    walker: Walker, body: Sequence[ast.stmt], scope: dict[str, Any], inputs: Sequence[Value],
    last: Callable[[Walker, dict[str, Any]], None],
) -> _Outcome:  # fmt: skip
    """Like :func:`_walk`, with something more at the end of the branch."""

    class _Then:
        """Walks the body, then what comes last, in the branch's own graph."""

        def __init__(self) -> None:
            self.ctx = walker.ctx

        def walk(self, statements: Sequence[ast.stmt], made: dict[str, Any]) -> None:
            before, walker.ctx = walker.ctx, self.ctx
            try:
                walker.walk(statements, made)
                last(walker, made)
            finally:
                walker.ctx = before

        def evaluate(self, node: ast.expr, made: dict[str, Any]) -> Any:
            return walker.evaluate(node, made)

        def as_truth(self, found: Any) -> Any:
            return walker.as_truth(found)

    return _walk(_Then(), body, scope, inputs)


def _value(ctx: TorchBuilder, x: Any, dtype: DType | None = None) -> Value:
    if isinstance(x, Variable):
        return x.read(ctx)
    if is_scalar(x):
        kind = dtype or (DType.F64 if ctx.common(x).is_float else ctx.common(x))
        return ctx.scalar(x, kind)
    raise UnsupportedError("a loop that carries something else than tensors and numbers is not supported")
