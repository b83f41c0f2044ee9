"""Loops of both generations as the engine's own: what changes is carried, what stays is seen from inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.handles import Handle, ListHandle
from MNN.frontends.tensorflow.lists import settled
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.shape import Shape

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
    for _ in range(2):
        body = _Body(ctx, loop, shapes)
        if body.fixed:
            break
        shapes = body.shapes
    return body.emit()


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
        self.carried = [i for i, k in enumerate(self.kept) if not k and i not in self.collected]
        inputs = [_tensor(self.params[i], loop.where) for i in self.carried]
        outputs = [_tensor(results[i], loop.where) for i in self.carried]
        self.results = results
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
                unseen=inner is None,
            )  # fmt: skip
        if isinstance(first, Handle):
            return first
        return Value(name, first.dtype, shape)

    def _written(self, result: Value) -> Value:
        """The element that a list gets in each turn, where it gets one and nothing else."""
        at = result.written_at if isinstance(result, ListHandle) else None
        counter = at is None or (at in self.params and self._counts(self.params.index(at), from_zero=True))
        counter = counter or (isinstance(result, ListHandle) and self._overwritten(result))
        if not isinstance(result, ListHandle) or result.written is None or not counter:
            raise UnsupportedError(
                f"{self.loop.where}: a list of elements of unknown shape, which is not written once a turn, in "
                "order, is not supported; give the list an element shape"
            )
        return result.written

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
        return ListHandle(
            out.name, out.dtype, stacked=out, count=first.count, element=first.element, growing=inside.growing
        )

    def _turns(self) -> int | None:
        """How many turns the loop takes, where its condition is a number below a constant."""
        graph = Graph("condition")
        condition = self.loop.condition(self.ctx.child(graph), self.params)[0]
        made = {v: node for node in graph.nodes for v in node.outputs}
        node = made.get(condition)
        if node is None or node.op != "BinaryOp" or node.attrs.get("opType") != "LESS":
            return None
        low, high = node.inputs
        if low not in self.params or high is None:
            return None
        index = self.params.index(low)
        if high in self.params and self.kept[self.params.index(high)]:
            high = self.loop.first[self.params.index(high)]
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
    if not isinstance(param, ListHandle) or not isinstance(result, ListHandle) or not result.growing:
        return
    if param.stacked is not None and param.stacked.shape:
        param.growing = True
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
