"""Operators of torch.export that run graphs: ``cond``, ``while_loop``, ``scan``, and wrappers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from MNN.errors import FormatError
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import values, variables
from MNN.frontends.torch.element_types import EXPORTED
from MNN.frontends.torch.exported.json_access import Record
from MNN.frontends.torch.numbers import Number
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value

if TYPE_CHECKING:
    from collections.abc import Sequence


class Scope(Protocol):
    """Who converts nodes."""

    ctx: TorchBuilder
    regions: int

    def inside(self, ctx: TorchBuilder) -> Scope: ...
    def define(self, name: str, what: Any) -> None: ...
    def nodes(self, graph: Record) -> None: ...
    def read(self, argument: Record) -> Any: ...
    def name_of(self, argument: Record) -> str: ...


def call(scope: Scope, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Raises :class:`UnsupportedError` for operators that are not known."""
    given = [*args, *kwargs.values()]
    if name == "cond":
        return _cond(scope, given)
    if name == "while_loop":
        return _while(scope, given)
    if name == "scan":
        return _scan(scope, given)
    graphs = [a for a in given if isinstance(a, Record)]
    if name in ("map_impl", "map"):
        return _map(scope, given)
    if name in ("wrap_with_set_grad_enabled", "wrap_with_autocast", "wrap", "checkpoint") and len(graphs) == 1:
        at = next(i for i, a in enumerate(given) if a is graphs[0])
        found = _inline(scope, graphs[0], given[at + 1 :])
        return _as_told(scope, graphs[0], found) if name == "wrap_with_autocast" else found
    raise scope.ctx.unsupported(f"the higher-order operator {name}")


def _inline(scope: Scope, graph: Record, operands: Sequence[Any]) -> Any:
    """The graph's results with these operands, in the graph around it; of one result, it alone: so files name it."""
    _bind(scope, graph, operands)
    scope.regions += 1
    scope.nodes(graph)
    scope.regions -= 1
    found = [scope.read(o) for o in graph.records("outputs")]
    return found[0] if len(found) == 1 else found


def _as_told(scope: Scope, graph: Record, found: Any) -> Any:
    """Results in the types that the file has for them: operators are computed in those of their operands."""
    if isinstance(found, list):
        rows = zip(found, graph.records("outputs"), strict=True)
        return [_as_told(scope, Record({**graph.data, "outputs": [o.data]}, graph.where), f) for f, o in rows]
    meta = graph.entries("tensor_values").get(scope.name_of(graph.records("outputs")[0]))
    dtype = None if meta is None else EXPORTED.get(meta.integer("dtype"))
    if not isinstance(found, Variable) or dtype is None or found.read(scope.ctx).dtype is dtype:
        return found
    return Variable(scope.ctx.cast(found.read(scope.ctx), dtype))


def _bind(scope: Scope, graph: Record, operands: Sequence[Any]) -> None:
    inputs = graph.records("inputs")
    if len(inputs) != len(operands):
        raise FormatError(f"{scope.ctx.where}: a graph of {len(inputs)} inputs gets {len(operands)}")
    for argument, operand in zip(inputs, operands, strict=True):
        scope.define(scope.name_of(argument), operand)


def _subgraph(
    scope: Scope, graph: Record, operands: Sequence[Any], inputs: Sequence[Value] = ()
) -> tuple[Graph, list[Value]]:
    """A graph of its own, which sees the values around it; its results are not outputs yet."""
    made = Graph(name="body", inputs=list(inputs))
    ctx = TorchBuilder(scope.ctx.model, made, scope.ctx)
    inner = scope.inside(ctx)
    _bind(inner, graph, operands)
    where = scope.ctx.where
    inner.nodes(graph)
    ctx.where = where
    found = []
    for argument in graph.records("outputs"):
        result = inner.read(argument)
        for one in result if isinstance(result, list) else [result]:
            value = (
                one.value
                if isinstance(one, Number)
                else one.read(ctx)
                if isinstance(one, Variable)
                else _known(ctx, one)
            )
            found.append(ctx.op("Identity", value))
    return made, found


def _known(ctx: TorchBuilder, x: Any) -> Value:
    if not isinstance(x, (bool, int, float)):
        raise ctx.unsupported("a result of a branch that is neither a tensor nor a number")
    return ctx.scalar(x, ctx.common(x))


def _cond(scope: Scope, given: list[Any]) -> Any:
    condition, then, other, operands = given[:4]
    if isinstance(condition, bool):
        return _inline(scope, then if condition else other, operands)
    chosen = condition.value if isinstance(condition, Number) else values(scope.ctx, condition)
    graphs = []
    for branch in (then, other):
        graph, results = _subgraph(scope, branch, operands)
        graph.outputs = results
        graphs.append(graph)
    made = scope.ctx.emit("If", [chosen], len(graphs[0].outputs), then_graph=graphs[0], else_graph=graphs[1])
    for out, a, b in zip(made, graphs[0].outputs, graphs[1].outputs, strict=True):
        out.dtype = out.dtype or a.dtype
        if out.shape is None and a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
            out.shape = tuple(
                x if x == y else f"{out.name}.{i}" for i, (x, y) in enumerate(zip(a.shape, b.shape, strict=True))
            )
    return variables(made)


def _as_values(scope: Scope, carried: Sequence[Any]) -> list[Value]:
    out = []
    for one in carried:
        value = values(scope.ctx, one)
        out.append(
            value.value
            if isinstance(value, Number)
            else value
            if isinstance(value, Value)
            else _known(scope.ctx, value)
        )
    return out


def _inner(scope: Scope, like: Sequence[Value], stem: str) -> list[Value]:
    return [Value(scope.ctx.unique(f"{stem}.{i}"), v.dtype, v.shape) for i, v in enumerate(like)]


def _again(like: Sequence[Any], inner: Sequence[Value]) -> list[Any]:
    """Numbers stay numbers within the body."""
    return [
        Number(v) if isinstance(o, (Number, bool, int, float)) else Variable(v)
        for o, v in zip(like, inner, strict=True)
    ]


def _while(scope: Scope, given: list[Any]) -> Any:
    """``while cond(*carried): carried = body(*carried)``: the condition is computed before, and at each turn's end."""
    condition, body, carried, additional = (*given, [])[:4]
    starts = _as_values(scope, carried)
    first = _evaluated(scope, condition, [*carried, *additional])
    turn, going = Value(scope.ctx.unique("turn"), DType.I64, ()), Value(scope.ctx.unique("going"), DType.BOOL, ())
    inner = _inner(scope, starts, "carried")
    graph, results = _subgraph(scope, body, [*_again(carried, inner), *additional], [turn, going, *inner])
    ctx = TorchBuilder(scope.ctx.model, graph, scope.ctx)
    ctx.where = scope.ctx.where
    again = scope.inside(ctx)
    _bind(again, condition, [*_again(carried, results), *additional])
    again.nodes(condition)
    verdict = again.read(condition.records("outputs")[0])
    goes_on = (
        verdict.value
        if isinstance(verdict, Number)
        else verdict.read(ctx)
        if isinstance(verdict, Variable)
        else _known(ctx, verdict)
    )
    graph.outputs = [ctx.op("Identity", goes_on), *results]
    made = scope.ctx.emit("Loop", [None, first, *starts], len(starts), body=graph)
    for out, start in zip(made, starts, strict=True):
        out.dtype, out.shape = out.dtype or start.dtype, out.shape or start.shape
    return _again(carried, made)


def _evaluated(scope: Scope, condition: Record, operands: Sequence[Any]) -> Value:
    inner = scope.inside(scope.ctx)
    found = _inline(inner, condition, operands)
    return (
        found.value
        if isinstance(found, Number)
        else found.read(scope.ctx)
        if isinstance(found, Variable)
        else _known(scope.ctx, found)
    )


def _map(scope: Scope, given: list[Any]) -> Any:
    """``f(*slices, *others)`` for slices along axis 0."""
    function, xs, others = (*given, [])[:3]
    return _scan(scope, [function, [], xs, others])


def _scan(scope: Scope, given: list[Any]) -> Any:
    """``combine(*carry, *slices) -> (*carry, *outputs)`` along axis 0."""
    combine, init, xs, additional = (*given, [])[:4]
    starts, lines = _as_values(scope, init), _as_values(scope, xs)
    carried = _inner(scope, starts, "carried")
    slices = [
        Value(scope.ctx.unique(f"slice.{i}"), v.dtype, None if v.shape is None else v.shape[1:])
        for i, v in enumerate(lines)
    ]
    operands = [*(Variable(v) for v in (*carried, *slices)), *additional]
    graph, results = _subgraph(scope, combine, operands, [*carried, *slices])
    graph.outputs = results
    made = scope.ctx.emit("Scan", [*starts, *lines], len(results), body=graph, numScanInputs=len(lines))
    for out, result in zip(made, results, strict=True):
        out.dtype = out.dtype or result.dtype
    return variables(made)
