"""Control flow, variables and tables. Subgraphs see what they are handed; variables are the model's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.frontends.tflite import flex
from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import Shape


@tflite_op("CALL", stored=True)
def call(ctx: Context, node: TfliteNode) -> list[Value]:
    return ctx.inline(node.number("subgraph"), node.inputs)


@tflite_op("STABLEHLO_COMPOSITE", stored=True)
def composite(ctx: Context, node: TfliteNode) -> list[Value]:
    """An operation that is also there as a subgraph of others."""
    return ctx.inline(node.number("decomposition_subgraph_index"), node.inputs)


@tflite_op("IF", stored=True)
def if_(ctx: Context, node: TfliteNode) -> list[Value]:
    numbers = [node.number(f"{side}_subgraph_index") for side in ("then", "else")]
    return _branches(ctx, node, node.input(0), numbers, node.inputs[1:])


@tflite_op("STABLEHLO_CASE", stored=True)
def case(ctx: Context, node: TfliteNode) -> list[Value]:
    """The branch of a number; the last one for numbers outside."""
    return _case(ctx, node, node.ints("branch_subgraph_indices"), 0)


def _case(ctx: Context, node: TfliteNode, numbers: Sequence[int], first: int) -> list[Value]:
    if len(numbers) == 1:
        return ctx.inline(numbers[0], node.inputs[1:])
    index = node.input(0)
    chosen = ctx.binary("EQUAL", index, ctx.const_like(first, index))
    sides = [
        ("branch", lambda inner, rest=rest: _case(inner, node, rest, first + 1)) for rest in (numbers[:1], numbers[1:])
    ]
    return _chosen(ctx, node, chosen, sides)


def _branches(
    ctx: Context, node: TfliteNode, condition: Value, numbers: Sequence[int], given: Sequence[Value | None]
) -> list[Value]:
    sides = [
        (ctx.model.file.subgraphs[number].name, lambda inner, number=number: inner.inline(number, given))
        for number in numbers
    ]
    return _chosen(ctx, node, condition, sides)


def _chosen(
    ctx: Context, node: TfliteNode, condition: Value, sides: Sequence[tuple[str, Callable[[Context], list[Value]]]]
) -> list[Value]:
    """What one of two graphs gives; variables that any of them assigns are further results of both."""
    memory, made = ctx.model.memory, []
    start = memory.values()
    assigned: dict[str, None] = {}
    for name, make in sides:
        inner = ctx.nested(name)
        with memory.inside():
            values = make(inner)
        made.append((inner, values, memory.values()))
        assigned |= dict.fromkeys(memory.changed(start))
        memory.restore(start)
    for inner, values, after in made:
        kept = [after.get(n) or memory.current(n) for n in assigned]
        inner.graph.outputs = _own(inner, [*values, *kept])
    graphs, count = [inner.graph for inner, *_ in made], len(node.outputs)
    if any(len(values) != count for _, values, _ in made):
        raise node.malformed(f"its branches give {[len(values) for _, values, _ in made]} values for {count}")
    results = ctx.emit("If", [condition], count + len(assigned), then_graph=graphs[0], else_graph=graphs[1])
    for name, value in zip(assigned, results[count:], strict=True):
        memory.variable(name).current = value
    return results[:count]


def _own(inner: Context, values: Sequence[Value]) -> list[Value]:
    """Results that the graph itself makes: what is handed through is copied."""
    made = {v for n in inner.graph.nodes for v in n.outputs}
    out: list[Value] = []
    for value in values:
        out.append(value if value in made and value not in out else inner.op("Identity", value))
    return out


@tflite_op("WHILE", "STABLEHLO_WHILE", stored=True)
def while_(ctx: Context, node: TfliteNode) -> list[Value]:
    """The condition is computed before the first turn, and behind every turn's body."""
    condition, body = node.number("cond_subgraph_index"), node.number("body_subgraph_index")
    if any(flex.is_handle(v) for v in node.inputs):
        return flex.loop(ctx, node, condition, body)
    memory = ctx.model.memory
    inner = ctx.nested(ctx.model.file.subgraphs[body].name)
    described = ctx.model.file.subgraphs[body]
    carried = [i for i, v in enumerate(node.inputs) if v not in memory.handles]
    passed: list[Value] = [node.input(i) for i in range(len(node.inputs))]
    for i in carried:
        before = node.input(i)
        tensors = [described.tensors[side[i]] for side in (described.inputs, described.outputs) if i < len(side)]
        sizes = {t.sizes for t in tensors}
        fixed = len(sizes) == 1 and -1 not in tensors[0].sizes and before.shape == tensors[0].sizes
        name = ctx.unique(f"{before.name}/carried")
        rank = node.rank(i)
        shape: Shape = tensors[0].sizes if fixed else tuple(f"{name}.{k}" for k in range(rank))
        passed[i] = Value(name, before.dtype, shape)
    turn, going = Value(ctx.unique("turn"), DType.I64, ()), Value(ctx.unique("going"), DType.BOOL, ())
    start = _one(ctx, ctx.inline(condition, node.inputs)[0])

    def run(within: Context) -> tuple[list[Value], Value]:
        with memory.inside():
            made = within.inline(body, passed)
            if len(made) != len(passed):
                raise node.malformed(f"its body gives {len(made)} values for {len(passed)}")
            return made, _one(within, within.inline(condition, made)[0])

    assigned = _assigned(ctx, lambda: run(ctx.nested("trial")))
    first = [memory.current(n) for n in assigned]
    states = [Value(ctx.unique(f"{n}/carried"), v.dtype, v.shape) for n, v in zip(assigned, first, strict=True)]
    for name, value in zip(assigned, states, strict=True):
        memory.variable(name).current = value
    inner.graph.inputs = [turn, going, *(passed[i] for i in carried), *states]
    made, again = run(inner)
    inner.graph.outputs = _own(inner, [again, *(made[i] for i in carried), *(memory.current(n) for n in assigned)])
    operands = [None, start, *(node.input(i) for i in carried), *first]
    results = ctx.emit("Loop", operands, len(carried) + len(assigned), body=inner.graph)
    for name, value in zip(assigned, results[len(carried) :], strict=True):
        memory.variable(name).current = value
    found = dict(zip(carried, results, strict=False))
    return [found.get(i, node.input(i)) for i in range(len(node.inputs))]


def _assigned(ctx: Context, run: Callable[[], object]) -> list[str]:
    """The variables that a turn of a loop assigns, found by converting one that nothing keeps."""
    memory = ctx.model.memory
    if not any(o.op == "ASSIGN_VARIABLE" for g in ctx.model.file.subgraphs for o in g.operations):
        return []
    values = memory.values()
    run()
    found = memory.changed(values)
    memory.restore(values)
    return found


def _one(ctx: Context, condition: Value) -> Value:
    """A condition as a scalar."""
    return condition if condition.shape == () else ctx.op("Reshape", condition, ctx.const([], DType.I64))


@tflite_op("CALL_ONCE")
def call_once(ctx: Context, node: TfliteNode) -> list[Value]:
    """A subgraph that runs before the first run: it gives variables their first values, and fills tables."""
    memory = ctx.model.memory
    if memory.starting or memory.branches:
        raise node.unsupported("a start within another, or within a branch")
    memory.starting = True
    try:
        ctx.inline(node.number("init_subgraph_index"), [])
    finally:
        memory.starting = False
    return []


# -- variables -------------------------------------------------------------------------------------------------------


def _handle(ctx: Context, name: str) -> Value:
    """A value that stands for a variable or a table."""
    made = ctx.const(np.zeros((), np.int32))
    ctx.model.memory.handles[made] = name
    return made


def _named(ctx: Context, node: TfliteNode) -> str:
    name = ctx.model.memory.handles.get(node.input(0))
    if name is None:
        raise node.malformed("its first operand is no variable and no table")
    return name


@tflite_op("VAR_HANDLE", stored=True)
def var_handle(ctx: Context, node: TfliteNode) -> Value:
    parts = [str(node.option(key) or "") for key in ("container", "shared_name")]
    return _handle(ctx, "/".join(p for p in parts if p) or node.name)


@tflite_op("READ_VARIABLE", stored=True)
def read_variable(ctx: Context, node: TfliteNode) -> Value:
    tensor = node.tensors_out[0]
    sizes = tuple(1 if d < 0 else d for d in tensor.sizes)
    return ctx.op("Identity", ctx.model.memory.read(_named(ctx, node), tensor.dtype, sizes))


@tflite_op("ASSIGN_VARIABLE", stored=True)
def assign_variable(ctx: Context, node: TfliteNode) -> list[Value]:
    if ctx.model.memory.starting and node.input(1).data is None:
        raise node.unsupported("a first value that is computed", "save the model with constants as first values")
    ctx.model.memory.assign(_named(ctx, node), node.input(1))
    return []


# -- tables ----------------------------------------------------------------------------------------------------------


@tflite_op("HASHTABLE", stored=True)
def hashtable(ctx: Context, node: TfliteNode) -> Value:
    return _handle(ctx, f"table {node.number('table_id')}")


@tflite_op("HASHTABLE_IMPORT", stored=True)
def hashtable_import(ctx: Context, node: TfliteNode) -> list[Value]:
    keys, values = (ctx.constant(node.input(i)) for i in (1, 2))
    if keys is None or values is None:
        raise node.unsupported("a table whose entries are computed")
    ctx.model.memory.tables.setdefault(_named(ctx, node), (keys.reshape(-1), values.reshape(-1)))
    return []


@tflite_op("HASHTABLE_FIND", stored=True)
def hashtable_find(ctx: Context, node: TfliteNode) -> Value:
    """Operands: the table, keys, the value where there is none."""
    table, other = ctx.model.memory.tables.get(_named(ctx, node)), ctx.constant(node.input(2))
    if table is None or other is None:
        raise node.unsupported("a table that is filled while the model runs")
    keys, values = table
    return ctx.op("LabelEncoder", node.input(1), keys=keys, values=values, default=other.reshape(-1)[:1])


@tflite_op("HASHTABLE_SIZE", stored=True)
def hashtable_size(ctx: Context, node: TfliteNode) -> Value:
    table = ctx.model.memory.tables.get(_named(ctx, node))
    return ctx.const(np.array([0 if table is None else table[0].size], np.int64))
