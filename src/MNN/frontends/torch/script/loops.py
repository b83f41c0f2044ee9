"""Loops whose number of turns the data say: they become Loop.

What the body changes is carried from turn to turn: names it assigns, lists and dictionaries it changes, as long as
these keep their form, and tensors it writes in place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from MNN.errors import UnsupportedError
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number, is_scalar
from MNN.frontends.torch.script.branches import describe
from MNN.frontends.torch.script.builtins import RaisedError
from MNN.frontends.torch.script.journal import Container, Unmerged, note_container, refill
from MNN.frontends.torch.script.open_lists import Form, Run, form_of, is_open, make_open
from MNN.frontends.torch.script.optional import UNINITIALIZED, Maybe, placeholder, unwrapped
from MNN.frontends.torch.script.outcomes import Outcome, Walker, reachable, walk_aside
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_ADVICE = "is not supported; give the input a fixed size"
MAX_OPEN_LISTS = 32
_LOST = Unmerged("assigned in a loop of an open number of turns, and neither tensor nor number before")


class _Grows(Exception):  # noqa: N818 - no error: the loop is begun again, with this list as one of an open length
    def __init__(self, container: list[Any], form: Form) -> None:
        self.container, self.form = container, form


class _Begins(Exception):  # noqa: N818 - the same for a name that is None, or nothing, before the first turn
    def __init__(self, name: str, after: Any, outcome: Outcome) -> None:
        self.name, self._after, self._outcome = name, after, outcome

    def start(self, ctx: TorchBuilder, before: Any) -> Any:
        """What it is before the loop, of the kind that it is after a turn."""
        if isinstance(before, Variable) or is_scalar(before):
            return Maybe(True, before)
        made = placeholder(ctx, unwrapped(self._after), self._outcome.read)
        return made if before is UNINITIALIZED and not isinstance(self._after, Maybe) else Maybe(False, made)


class _Carried:
    """What a loop carries: ``names``, and the ``containers`` and the ``tensors`` that its body changes in place."""

    def __init__(
        self, scope: dict[str, Any], names: list[str], containers: list[Container], tensors: list[Variable]
    ) -> None:
        self.scope, self.names, self.containers, self.tensors = scope, names, containers, tensors

    def starts(self) -> list[Any]:
        """The tensors and numbers in it before the loop."""
        return [*_leaves([self.scope[n] for n in self.names]), *_leaves(self.containers), *self.tensors]

    def results(self, outcome: Outcome) -> list[Any]:
        """Those at the end of a turn. Raises :class:`UnsupportedError` where their form has changed."""
        befores = [*(self.scope[n] for n in self.names), *self.containers]
        afters = [*(outcome.scope[n] for n in self.names), *(outcome.contents(c) for c in self.containers)]
        told = [*(f"'{n}'" for n in self.names), *("a list or dictionary" for _ in self.containers)]
        ends = []
        for before, after, what in zip(befores, afters, told, strict=True):
            end = _regathered(before, after, outcome)
            self._check(before, end, outcome, what)
            ends.append(end)
        return [*_leaves(ends, outcome), *(Variable(outcome.tensors.get(t, t.read(outcome.ctx))) for t in self.tensors)]

    def _check(self, before: Any, after: Any, outcome: Outcome, what: str) -> None:
        if not _same_form(before, after, outcome):
            if isinstance(before, list) and isinstance(after, list):
                held = outcome.contents(after)
                form = form_of(outcome.ctx, held, outcome.read)
                if form is not None and (not before or form_of(outcome.ctx, before) == form):
                    raise _Grows(before, form)
            raise UnsupportedError(f"a loop of an open number of turns that changes the form of {what} {_ADVICE}")

    def filled(self, leaves: Iterator[Any]) -> tuple[dict[str, Any], list[Container]]:
        """Names with these leaves, and what the containers hold with them."""
        names = {n: _rebuilt(self.scope[n], leaves) for n in self.names}
        return names, [_rebuilt(c, leaves) for c in self.containers]


def loop(
    walker: Walker, count: Number | None, going: bool | Number, body: Sequence[ast.stmt], scope: dict[str, Any],
    target: ast.expr | None = None, test: ast.expr | None = None,
) -> None:  # fmt: skip
    """A Loop. ``count``: its number of turns; ``going``: the condition before the first turn, ``test`` that after each.

    Raises :class:`UnsupportedError` for what cannot be carried: attributes, lists that grow by items of several shapes.
    """
    for _ in range(MAX_OPEN_LISTS):
        try:
            _loop(walker, count, going, body, scope, target, test)
            return
        except _Grows as grows:
            note_container(walker.ctx, grows.container)
            refill(grows.container, make_open(walker.ctx, grows.container, grows.form))
        except _Begins as begins:
            scope[begins.name] = begins.start(walker.ctx, scope[begins.name])
    raise UnsupportedError(f"a loop in which more than {MAX_OPEN_LISTS} lists grow is not supported")


def _loop(
    walker: Walker, count: Number | None, going: bool | Number, body: Sequence[ast.stmt], scope: dict[str, Any],
    target: ast.expr | None, test: ast.expr | None,
) -> None:  # fmt: skip
    assigned = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    known = [n for n in sorted(assigned) if n in scope]
    carried = _Carried(scope, [n for n in known if _is_plain(scope[n])], [], [])
    bare = [n for n in known if scope[n] is None or scope[n] is UNINITIALIZED]
    lost = [n for n in known if n not in carried.names and n not in bare]
    while True:
        turn = _Turn(walker, carried, lost, body, target, test)
        turn.check_begun(bare)
        still = turn.unmoved()
        if still:
            carried = _Carried(scope, [n for n in carried.names if n not in still], carried.containers, carried.tensors)
            continue
        more, written = turn.changed(), turn.written()
        if not more and not written:
            break
        carried = _Carried(scope, carried.names, [*carried.containers, *more], [*carried.tensors, *written])
    inside, starts = turn.outcome.ctx, turn.starts
    ends = turn.results()
    results = [_value(inside, r, turn.outcome, v.dtype) for r, v in zip(ends, starts, strict=True)]
    inside.graph.outputs = [inside.op("Identity", v) for v in (turn.goes_on(), *results)]
    ctx = walker.ctx
    first = going.value if isinstance(going, Number) else None
    made = ctx.emit("Loop", [None if count is None else count.value, first, *starts], len(starts), body=inside.graph)
    for out, start, result in zip(made, starts, inside.graph.outputs[1:], strict=True):
        describe(out, start, result)
    befores = carried.starts()
    leaves = [Variable(v) if isinstance(s, Variable) else Number(v) for v, s in zip(made, befores, strict=True)]
    names, contents = carried.filled(iter(leaves))
    for leaf, *sides in zip(leaves, befores, ends, strict=True):
        for side in sides:
            if isinstance(leaf, Variable) and isinstance(side, Variable):
                leaf.copied_like(side)
    scope.update(names)
    for container, held in zip(carried.containers, contents, strict=True):
        note_container(ctx, container)
        refill(container, held)
    for tensor, after in zip(carried.tensors, made[len(made) - len(carried.tensors) :], strict=True):
        ctx.note_written(tensor, tensor.read(ctx))
        tensor.restore(after)
    scope.update(dict.fromkeys(lost, _LOST))
    for name in turn.outcome.scope:
        if name not in scope:
            scope[name] = Unmerged("assigned only within a loop of an open number of turns")


class _Turn:
    """The body of a loop walked once, with what it carries as inputs of its graph."""

    def __init__(
        self, walker: Walker, carried: _Carried, lost: Sequence[str], body: Sequence[ast.stmt],
        target: ast.expr | None, test: ast.expr | None,
    ) -> None:  # fmt: skip
        ctx = walker.ctx
        self._carried, self._lost = carried, lost
        before = carried.starts()
        self.starts = [_value(ctx, leaf) for leaf in before]
        turn, again = Value(ctx.unique("turn"), DType.I64, ()), Value(ctx.unique("going"), DType.BOOL, ())
        grown = {
            id(run.items) for run in reachable([*carried.scope.values(), *carried.containers]) if isinstance(run, Run)
        }
        given = [_carried(ctx, v, id(leaf) in grown) for v, leaf in zip(self.starts, before, strict=True)]
        leaves = [Variable(v) if isinstance(s, Variable) else Number(v) for v, s in zip(given, before, strict=True)]
        self._leaves = {v for v in leaves if isinstance(v, Variable)}
        names, contents = carried.filled(iter(leaves))
        self._inner = {**carried.scope, **dict.fromkeys(lost, _LOST), **names}
        if isinstance(target, ast.Name):
            self._inner[target.id] = Number(turn)
        self._verdict: list[Any] = []

        def last(w: Walker, made: dict[str, Any]) -> None:
            self._verdict.append(True if test is None else w.as_truth(w.evaluate(test, made)))

        kept = [c.copy() for c in carried.containers]
        for container, held in zip(carried.containers, contents, strict=True):
            refill(container, held)
        outside = [v.read(ctx) for v in carried.tensors]
        for tensor, value in zip(carried.tensors, given[len(given) - len(outside) :], strict=True):
            tensor.restore(value)
        self.outcome = _walk_then(walker, body, self._inner, [turn, again, *given], last)
        for container, before_it in zip(carried.containers, kept, strict=True):
            refill(container, before_it)
        for tensor, value in zip(carried.tensors, outside, strict=True):
            tensor.restore(value)
        if self.outcome.raises:
            raise RaisedError(self.outcome.raises)
        if self.outcome.attributes:
            raise UnsupportedError("a loop of an open number of turns that writes to attributes is not supported")

    def check_begun(self, bare: Sequence[str]) -> None:
        """Names that are nothing before the loop, and that it gives a value; those that it may make None."""
        for name in bare:
            after = self.outcome.scope[name]
            if after is not self._carried.scope[name] and _is_plain(unwrapped(after)):
                raise _Begins(name, after, self.outcome)
        for name in self._carried.names:
            before, after = self._carried.scope[name], self.outcome.scope[name]
            if not isinstance(before, Maybe) and isinstance(after, Maybe):
                raise _Begins(name, after, self.outcome)

    def unmoved(self) -> set[str]:
        """Names that mean the same tensor after a turn as before it, for all that was written into it: ``x += y``.

        What they mean does not change from turn to turn; what it holds does.
        """
        scope = self.outcome.scope
        return {n for n in self._carried.names if isinstance(scope[n], Variable) and scope[n] is self._inner[n]}

    def written(self) -> list[Variable]:
        """Tensors from outside that the body wrote in place and that are not carried yet.

        Raises :class:`UnsupportedError` for those that a name or a list brings into the next turn too: what that will
        be is decided by the data.
        """
        carried = self._carried
        named = {v.root for v in carried.starts()[: -len(carried.tensors) or None] if isinstance(v, Variable)}
        named |= {v for v in self.outcome.tensors if v in self._leaves}
        if any(v in named for v in self.outcome.tensors):
            raise UnsupportedError(
                "a loop of an open number of turns that writes in place to a tensor that it assigns too is not "
                "supported; write x = x + y for x += y"
            )
        return [v for v in self.outcome.tensors if v not in carried.tensors]

    def changed(self) -> list[Container]:
        """Containers from outside that the body changed and that are not carried yet.

        Raises :class:`UnsupportedError` for other things that it changed.
        """
        inner, carried = self._inner, self._carried
        outside = {id(v) for v in reachable(carried.scope.values())}
        already = {id(c) for c in carried.containers}
        found = [
            c for key, (c, after) in self.outcome.containers.items()
            if key in outside and key not in already and _differ(c, after)
        ]  # fmt: skip
        names = [
            n for n, v in self.outcome.scope.items()
            if n in carried.scope and n not in carried.names and n not in self._lost and v is not inner.get(n)
        ]  # fmt: skip
        bad = names or [n for n, v in carried.scope.items() if any(v is c for c in found) and not _is_plain(v)]
        if bad or not all(_is_plain(c) for c in found):
            what = f"'{bad[0]}', which is" if bad else "a container that holds"
            raise UnsupportedError(
                f"a loop of an open number of turns that changes {what} neither a tensor nor a number {_ADVICE}"
            )
        return found

    def results(self) -> list[Any]:
        return self._carried.results(self.outcome)

    def goes_on(self) -> Value:
        return _value(self.outcome.ctx, self._verdict[0])


def _carried(ctx: TorchBuilder, start: Value, grows: bool) -> Value:
    name = ctx.unique("carried")
    shape = start.shape
    return Value(name, start.dtype, (f"{name}.0", *shape[1:]) if grows and shape else shape)


def _regathered(before: Any, after: Any, outcome: Outcome) -> Any:
    """A list of an open length that has grown, as one run again; what may be None, as it was before."""
    if isinstance(before, Maybe):
        if isinstance(after, Maybe):
            return after
        return Maybe(False, before.value) if after is None else Maybe(True, after)
    if is_open(before) and isinstance(after, list):
        held = outcome.contents(after)
        form = form_of(outcome.ctx, held, outcome.read)
        first = form_of(outcome.ctx, before)
        one = len(held) == 1 and isinstance(held[0], Run)
        if not one and first is not None and (form == first or not held):
            return make_open(outcome.ctx, held, first, outcome.read)
    return after


def _differ(before: Container, after: Container) -> bool:
    if len(before) != len(after) or (isinstance(before, dict) and list(before) != list(after)):
        return True
    pairs = zip(*(c.values() if isinstance(c, dict) else c for c in (before, after)), strict=True)
    return any(x is not y for x, y in pairs)


def _is_plain(thing: Any) -> bool:
    """Whether it is a tensor, a number, or made of nothing else."""
    if isinstance(thing, (list, tuple, dict)):
        return all(_is_plain(v) for v in (thing.values() if isinstance(thing, dict) else thing))
    if isinstance(thing, Maybe):
        return _is_plain(thing.value)
    return isinstance(thing, (Variable, Run)) or is_scalar(thing)


def _leaves(things: Any, outcome: Outcome | None = None) -> Iterator[Any]:
    """Tensors and numbers in it, in order; as they are at the end of an ``outcome``."""
    if isinstance(things, (list, tuple, dict)):
        held = things if outcome is None else outcome.contents(things)
        for thing in held.values() if isinstance(held, dict) else held:
            yield from _leaves(thing, outcome)
    elif isinstance(things, Run):
        yield things.items
    elif isinstance(things, Maybe):
        yield things.present
        yield from _leaves(things.value, outcome)
    else:
        yield things


def _rebuilt(thing: Any, leaves: Iterator[Any]) -> Any:
    """Something of the same form with other leaves."""
    if isinstance(thing, dict):
        return {k: _rebuilt(v, leaves) for k, v in thing.items()}
    if isinstance(thing, (list, tuple)):
        return type(thing)([_rebuilt(v, leaves) for v in thing])
    if isinstance(thing, Run):
        return Run(next(leaves), thing.numbers)
    if isinstance(thing, Maybe):
        return Maybe(next(leaves), _rebuilt(thing.value, leaves))
    return next(leaves)


def _same_form(before: Any, after: Any, outcome: Outcome) -> bool:
    if isinstance(before, (list, tuple, dict)):
        held = outcome.contents(after)
        if type(held) is not type(before) or len(held) != len(before):
            return False
        if isinstance(before, dict):
            return list(before) == list(held) and all(_same_form(v, held[k], outcome) for k, v in before.items())
        return all(_same_form(x, y, outcome) for x, y in zip(before, held, strict=True))
    if isinstance(before, Maybe):
        return isinstance(after, Maybe) and _same_form(before.value, after.value, outcome)
    kinds = (Variable, Run)
    return [isinstance(before, k) for k in kinds] == [isinstance(after, k) for k in kinds] and _is_plain(after)


def _walk_then(
    walker: Walker, body: Sequence[ast.stmt], scope: dict[str, Any], inputs: Sequence[Value],
    last: Callable[[Walker, dict[str, Any]], None],
) -> Outcome:  # fmt: skip
    """Like :func:`walk_aside`, with something more at the end of the branch."""

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

    return walk_aside(_Then(), body, scope, inputs)


def _value(ctx: TorchBuilder, x: Any, outcome: Outcome | None = None, dtype: DType | None = None) -> Value:
    if isinstance(x, Variable):
        return x.read(ctx) if outcome is None else outcome.read(x)
    if is_scalar(x):
        kind = dtype or (DType.F64 if ctx.common(x).is_float else ctx.common(x))
        return ctx.scalar(x, kind)
    raise UnsupportedError("a loop that carries something else than tensors and numbers is not supported")
