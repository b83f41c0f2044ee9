"""Control flow: calls of functions, branches and loops, of both generations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.errors import FormatError
from MNN.frontends.tensorflow import control_v1
from MNN.frontends.tensorflow.bodies import Ref
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.handles import Handle
from MNN.frontends.tensorflow.loops import Loop, convert_loop
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.frontends.tensorflow.walk import BodyScope
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value

Make = Callable[[Context], "list[Value]"]
"""Converts one branch into a context."""


@tf_op("PartitionedCall", "StatefulPartitionedCall")
def partitioned_call(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("config", "config_proto", "executor_type")
    return ctx.call(node.function_attr("f"), node.inputs, node.where)


@tf_op("If", "StatelessIf")
def branch(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("output_shapes")
    yes, no = node.function_attr("then_branch"), node.function_attr("else_branch")
    args = node.inputs[1:]
    return _chosen(
        ctx, node, node.input(0), lambda c: c.call(yes, args, node.where), lambda c: c.call(no, args, node.where)
    )


@tf_op("Case", "StatelessCase")
def case(ctx: Context, node: TfNode) -> list[Value]:
    """A number outside takes the last branch."""
    node.ignore("output_shapes")
    names, args = node.functions_attr("branches"), node.inputs[1:]
    if not names:
        raise FormatError(f"{node.where}: it has no branches")
    if len(names) > control_v1.MAX_BRANCHES:
        raise node.unsupported(f"{len(names)} branches", f"use {control_v1.MAX_BRANCHES} at most")

    def called(name: str) -> Make:
        return lambda c: c.call(name, args, node.where)

    return _among(ctx, node, node.input(0), [called(name) for name in names])


def _among(ctx: Context, node: TfNode, index: Value, branches: Sequence[Make]) -> list[Value]:
    """The branch of a number; one outside takes the last."""

    def from_(first: int, c: Context) -> list[Value]:
        if first == len(branches) - 1:
            return branches[first](c)
        here = c.op("BinaryOp", index, c.const(first, DType.I32), opType="EQUAL")
        return _chosen(c, node, here, branches[first], lambda d: from_(first + 1, d))

    return from_(0, ctx)


def _chosen(
    ctx: Context, node: TfNode, condition: Value, yes: Make, no: Make
) -> list[Value]:  # fmt: skip
    """Both branches as graphs; only one where the condition is known."""
    known = ctx.constant(condition)
    if known is not None and known.size == 1:
        return (yes if known.reshape(-1)[0] else no)(ctx)
    if condition.dtype is not DType.BOOL:
        zero = ctx.const_like(0, condition)
        condition = ctx.op("BinaryOp", condition, zero, opType="NOTEQUAL")
    graphs = [_graph(ctx, node, make) for make in (yes, no)]
    if len(graphs[0].outputs) != len(graphs[1].outputs):
        raise FormatError(f"{node.where}: its branches give {[len(g.outputs) for g in graphs]} values")
    return ctx.emit("If", [condition], len(graphs[0].outputs), then_graph=graphs[0], else_graph=graphs[1])


def _graph(ctx: Context, node: TfNode, make: Make) -> Graph:
    graph = Graph(ctx.unique(f"{ctx.stem()}/branch"))
    inner = ctx.child(graph)
    for value in make(inner):
        if isinstance(value, Handle):
            raise node.unsupported(f"{value.what} as the result of a branch", "let branches give tensors")
        graph.outputs.append(inner.op("Identity", value))
    return graph


@tf_op("While", "StatelessWhile")
def loop(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("output_shapes", "parallel_iterations")
    condition, body = node.function_attr("cond"), node.function_attr("body")
    found = Loop(
        node.where, list(node.inputs),
        lambda c, values: c.call(condition, values, node.where)[:1],
        lambda c, values: c.call(body, values, node.where),
    )  # fmt: skip
    return convert_loop(ctx, found)


# -- TensorFlow 1 -----------------------------------------------------------------------------------------------------


@tf_op("Enter", "RefEnter", "NextIteration", "RefNextIteration")
def passed(ctx: Context, node: TfNode) -> Value:
    node.ignore("frame_name", "is_constant", "parallel_iterations")
    return node.any_input(0)


@tf_op("Switch", "RefSwitch", "_SwitchN")
def switch(ctx: Context, node: TfNode) -> list[Value]:
    outs = node.int_attr("num_outs") if node.op == "_SwitchN" else 2
    if not 0 < outs <= control_v1.MAX_BRANCHES:
        raise node.unsupported(f"{outs} branches", f"use {control_v1.MAX_BRANCHES} at most")
    return [node.any_input(0)] * outs


def _scope(ctx: Context) -> BodyScope:
    scope = ctx.walking
    assert isinstance(scope, BodyScope)
    return scope


@tf_op("Merge", "RefMerge")
def merge(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("N")
    scope = _scope(ctx)
    found = control_v1.choice(scope.body, node.proto)
    (predicate,) = scope.values([found.predicate])

    refs = scope.body.refs(node.proto)

    def side(number: int) -> Make:
        return lambda c: [*scope.inside(c).values([refs[number]]), c.const(number, DType.I32)]

    branches = [side(number) for number in found.branches]
    if predicate.dtype is DType.BOOL:
        return _chosen(ctx, node, predicate, branches[1], branches[0])
    return _among(ctx, node, predicate, branches)


@tf_op("Exit", "RefExit")
def leave(ctx: Context, node: TfNode) -> Value:
    """A loop has an Exit for each variable that is used behind it; the loop is converted with the first of them."""
    scope = _scope(ctx)
    switched = scope.body.refs(node.proto)[0].node
    key = f"{scope.prefix}{switched}/after"
    found = ctx.lookup(key)
    if found is not None:
        return found
    frame = control_v1.frame(scope.body, node.proto)
    first = scope.values([v.first for v in frame.variables])

    def bound(c: Context, values: Sequence[Value], inside: bool) -> BodyScope:
        inner = scope.inside(c)
        for variable, value in zip(frame.variables, values, strict=True):
            inner.put(Ref(variable.merge, 0), value)
            if inside:
                inner.put(Ref(variable.switch, 1), value)
        return inner

    after = convert_loop(
        ctx,
        Loop(
            node.where,
            first,
            lambda c, values: bound(c.child(), values, False).values([frame.condition]),
            lambda c, values: bound(c.child(), values, True).values([v.next for v in frame.variables]),
        ),
    )
    for variable, value in zip(frame.variables, after, strict=True):
        ctx.scope[f"{scope.prefix}{variable.switch}/after"] = value
    return ctx.scope[key]
