"""Loops of both generations as the engine's own: what changes is carried, what stays is seen from inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.handles import Handle, ListHandle, Unseen
from MNN.frontends.tensorflow.lists import of_zeros_like, resized, settled, some_elements
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.shape import Shape, static

UNROLLED = 32
"""Loops of at most this many turns, known beforehand, are lowered in place."""
Evaluate = Callable[[Context, Sequence[Value]], "list[Value]"]


@dataclass
class Loop:
    """``condition`` and ``step`` convert what a file has for them into a context, given the loop's variables there."""

    where: str
    first: list[Value]
    condition: Evaluate
    step: Evaluate


def convert_loop(ctx: Context, loop: Loop) -> list[Value]:
    """Emits the loop and returns its variables after the last turn."""
    loop.first = [settled(ctx, v, loop.where) if isinstance(v, ListHandle) else v for v in loop.first]
    shapes = [v.shape for v in loop.first]
    tries = 2
    while tries:
        body = _Body(ctx, loop, shapes)
        if body.needed:  # each time fewer
            _give_elements(ctx, loop, body)
            continue
        if body.fixed:
            break
        shapes = body.shapes
        tries -= 1
    return body.emit()


def _give_elements(ctx: Context, loop: Loop, body: _Body) -> None:
    """Lists that the loop needs the elements of begin with zeros, of the shape and type of what it writes.

    Sizes that are known only at run time are those of what a turn writes that is converted before the loop; only its
    sizes are used, so that it is not computed where these follow from others.
    """
    before: list[Value] | None = None
    for i, like in body.needed.items():
        first = loop.first[i]
        assert isinstance(first, ListHandle)
        if like is None or static(like.shape and like.shape[1:]) is None or like.dtype is None:
            before = before or loop.step(ctx.child(), loop.first)
            result = before[i]
            found = some_elements(ctx, result) if isinstance(result, ListHandle) else None
            if found is None or found.shape is None:
                raise UnsupportedError(
                    f"{loop.where}: a list of elements of which nothing is known before the loop is not supported; "
                    "give the list an element shape"
                )
            like = found
        loop.first[i] = of_zeros_like(ctx, first, like)


class _Body:
    """One conversion of a loop's body, for variables of ``shapes``; ``fixed`` says that it gives the same ones."""

    def __init__(self, ctx: Context, loop: Loop, shapes: Sequence[Shape | None]) -> None:
        self.ctx, self.loop = ctx, loop
        self.graph = Graph(ctx.unique(f"{ctx.stem()}/body"))
        inner = ctx.child(self.graph)
        self.turn = Value(ctx.unique(f"{ctx.stem()}/turn"), DType.I64, ())
        going = Value(ctx.unique(f"{ctx.stem()}/going"), DType.BOOL, ())
        self.params = [self._param(v, s) for v, s in zip(loop.first, shapes, strict=True)]
        # a first look, into a graph that is thrown away, at what the loop leaves as it is
        trial = loop.step(ctx.child(Graph("trial")), self.params)
        for param, result in zip(self.params, trial, strict=True):
            _open_growing(param, result)
        self.kept = [_same(p, t) for p, t in zip(self.params, trial, strict=True)]
        given = [f if k else p for f, p, k in zip(loop.first, self.params, self.kept, strict=True)]
        self.collected = [
            i for i, (p, k) in enumerate(zip(given, self.kept, strict=True))
            if not k and isinstance(p, ListHandle) and p.stacked is None
        ]  # fmt: skip
        results = loop.step(inner, given)
        (condition,) = loop.condition(inner, results)
        self.results = results
        self.needed = {i: self._elements(i) for i in self.collected if not self._regular(i)}
        """The lists whose elements have to be there before the loop, and what these are like."""
        if self.needed:
            return
        self.carried = [i for i, k in enumerate(self.kept) if not k and i not in self.collected]
        inputs = [_tensor(self.params[i], loop.where) for i in self.carried]
        outputs = [_tensor(results[i], loop.where) for i in self.carried]
        items = [self._written(results[i]) for i in self.collected]
        self.graph.inputs = [self.turn, going, *inputs]
        self.graph.outputs = [self._own(inner, v) for v in (condition, *outputs, *items)]
        self.shapes = [
            self.params[i].shape if self.kept[i] else _joined(self.params[i], results[i]) for i in range(len(results))
        ]
        self.fixed = all(
            self.kept[i] or isinstance(p, ListHandle) or p.shape == s
            for i, (p, s) in enumerate(zip(self.params, self.shapes, strict=True))
        )

    def _param(self, first: Value, shape: Shape | None) -> Value:
        name = self.ctx.unique(f"{self.ctx.stem()}/variable")
        if isinstance(first, ListHandle):
            stacked = first.stacked
            inner = None if stacked is None else Value(name, stacked.dtype, stacked.shape)
            return ListHandle(
                name, first.dtype, stacked=inner, count=first.count, element=first.element, growing=first.growing,
                unseen=Unseen() if inner is None else None,
            )  # fmt: skip
        if isinstance(first, Handle):
            return first
        return Value(name, first.dtype, shape)

    def _written(self, result: Value) -> Value:
        """The element that a list gets in each turn."""
        assert isinstance(result, ListHandle)
        assert result.written is not None
        return result.written

    def _regular(self, i: int) -> bool:
        """Whether a list gets an element in each turn, one behind the other, and nothing else happens to it."""
        param, result = self.params[i], self.results[i]
        assert isinstance(param, ListHandle)
        if not isinstance(result, ListHandle) or result.written is None or (param.unseen and param.unseen.needed):
            return False
        at = result.written_at
        counter = at is None or (at in self.params and self._counts(self.params.index(at), from_zero=True))
        return counter or self._overwritten(result)

    def _elements(self, i: int) -> Value | None:
        """Elements that a list is written, along axis 0, as far as they are known."""
        param, result = self.params[i], self.results[i]
        item = param.unseen.item if isinstance(param, ListHandle) and param.unseen else None
        if item is not None:
            return Value("", item.dtype, None if item.shape is None else (1, *item.shape))
        return some_elements(self.ctx.child(Graph("trial")), result) if isinstance(result, ListHandle) else None

    def _overwritten(self, result: ListHandle) -> bool:
        """Whether the list has one element, which each turn writes anew: in the end, what the last turn wrote."""
        only = result.count is not None and self.ctx.constant_ints(result.count) == [1]
        return only and result.written_at is not None and self.ctx.constant_ints(result.written_at) == [0]

    def _own(self, inner: Context, value: Value) -> Value:
        """Outputs of a body are made in it."""
        made = {v for node in self.graph.nodes for v in node.outputs}
        if value in made and value not in self.graph.outputs:
            return value
        shape = value.shape
        out = inner.op("Identity", value)
        out.shape = out.shape or shape
        return out

    def emit(self) -> list[Value]:
        ctx, loop = self.ctx, self.loop
        (going,) = loop.condition(ctx.child(), loop.first)
        turns = self._turns()
        first = [_tensor(loop.first[i], loop.where) for i in self.carried]
        short = turns is not None and turns <= UNROLLED
        most = None if turns is None else ctx.const(turns)
        outs = ctx.emit(
            "UnrolledLoop" if short else "Loop", [most, going, *first], len(first) + len(self.collected),
            body=self.graph,
        )  # fmt: skip
        results = list(loop.first)
        for i, out in zip([*self.carried, *self.collected], outs, strict=True):
            results[i] = self._after(loop.first[i], self.results[i], out, self.shapes[i])
        return results

    def _after(self, first: Value, inside: Value, out: Value, shape: Shape | None) -> Value:
        if not isinstance(first, ListHandle):
            out.dtype, out.shape = first.dtype or inside.dtype, shape
            return out
        if not isinstance(inside, ListHandle):
            return out  # what the turn gives could not be converted, and was noted
        item = inside.written or inside.stacked
        out.dtype = item.dtype if item is not None else first.dtype
        if inside.written is not None and self._overwritten(inside):
            bounds = (self.ctx.const([n]) for n in (-1, np.iinfo(np.int32).max, 0))
            out = self.ctx.op("StridedSlice", out, *bounds, fromType=1)
        elif inside.growing and item is not None and item.shape:
            out.shape = (f"{out.name}.0", *item.shape[1:])
        elif inside.written is not None and item is not None and item.shape is not None:
            turns = self._turns()
            out.shape = (turns if turns is not None else f"{out.name}.0", *item.shape)
        elif inside.stacked is not None and inside.stacked.shape:
            out.shape = (f"{out.name}.0", *inside.stacked.shape[1:]) if shape is None else shape
        after = ListHandle(
            out.name, out.dtype, stacked=out, count=first.count, element=first.element, growing=inside.growing
        )
        if inside.written is None or inside.written_at is None or self._overwritten(inside) or self._filled(first):
            return after
        assert first.count is not None
        return resized(self.ctx, after, first.count, self.loop.where)  # those behind the last turn's are zeros

    def _filled(self, first: ListHandle) -> bool:
        """Whether a list has no more elements than there are turns, as its count is what bounds these."""
        count = None if first.count is None else self.ctx.constant_ints(first.count)
        if first.count is None or count == [0]:
            return True
        turns = self._turns()
        if turns is not None and count is not None:
            return count[0] <= turns
        limits = self._limits()
        return bool(limits) and all(
            (high is first.count or (count is not None and self.ctx.constant_ints(high) == count))
            and self._counts(index, from_zero=True)
            for index, high in limits
        )

    def _limits(self) -> list[tuple[int, Value]]:
        """Where the condition is that variables are below numbers that stay, these; else nothing."""
        graph = Graph("condition")
        condition = self.loop.condition(self.ctx.child(graph), self.params)[0]
        made = {v: node for node in graph.nodes for v in node.outputs}
        found, waiting = [], [condition]
        while waiting:
            node = made.get(waiting.pop())
            kind = node.attrs.get("opType") if node is not None and node.op == "BinaryOp" else None
            if node is not None and kind in ("LOGICALAND", "MUL"):
                waiting += [v for v in node.inputs if v is not None]
                continue
            low, high = node.inputs if node is not None and kind == "LESS" else (None, None)
            if low is None or high is None or low not in self.params:
                return []
            if high in self.params and self.kept[self.params.index(high)]:
                high = self.loop.first[self.params.index(high)]
            found.append((self.params.index(low), high))
        return found

    def _turns(self) -> int | None:
        """How many turns the loop takes, where its condition is a number below a constant."""
        limits = self._limits()
        if len(limits) != 1:
            return None
        index, high = limits[0]
        start, end = self.ctx.constant_ints(self.loop.first[index]), self.ctx.constant_ints(high)
        if not start or not end or not self._counts(index):
            return None
        return max(end[0] - start[0], 0)

    def _counts(self, index: int, from_zero: bool = False) -> bool:
        """Whether a variable grows by one in each turn, and begins at zero."""
        if from_zero and self.ctx.constant_ints(self.loop.first[index]) != [0]:
            return False
        made = {v: node for node in self.graph.nodes for v in node.outputs}
        value: Value | None = self.results[index]
        node = made.get(value) if value is not None else None
        if node is None or node.op != "BinaryOp" or node.attrs.get("opType") != "ADD":
            return False
        others = [v for v in node.inputs if v is not self.params[index]]
        return len(others) == 1 and self.ctx.constant_ints(others[0]) == [1]


def _open_growing(param: Value, result: Value) -> None:
    """A list that is written behind its end has another length in each turn."""
    if not isinstance(param, ListHandle) or not isinstance(result, ListHandle):
        return
    if param.stacked is not None and param.stacked.shape:
        after = result.stacked.shape if result.stacked is not None else None
        if not result.growing and (not after or after[0] == param.stacked.shape[0]):
            return
        param.growing = result.growing
        param.stacked.shape = (f"{param.stacked.name}.0", *param.stacked.shape[1:])


def _same(param: Value, result: Value) -> bool:
    if isinstance(param, ListHandle) and isinstance(result, ListHandle):
        return result is param or (param.stacked is not None and result.stacked is param.stacked)
    return result is param


def _tensor(value: Value, where: str) -> Value:
    if isinstance(value, ListHandle):
        if value.stacked is None:
            raise FormatError(f"{where}: it carries a list whose elements have no known shape")
        return value.stacked
    if isinstance(value, Handle):
        raise FormatError(f"{where}: it changes which {value.what.removeprefix('a ')} it uses")
    return value


def _joined(param: Value, result: Value) -> Shape | None:
    """The shape of a variable in all turns: sizes that differ are open."""
    a, b = param.shape, result.shape
    if isinstance(param, ListHandle):
        return None
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(d if d == e else f"{param.name}.{i}" for i, (d, e) in enumerate(zip(a, b, strict=True)))
