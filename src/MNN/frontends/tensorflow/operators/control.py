"""Control flow: calls of functions, branches and loops, of both generations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from MNN.errors import FormatError
from MNN.frontends.tensorflow import control_v1, lists
from MNN.frontends.tensorflow.bodies import Ref
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.handles import Handle, ListHandle
from MNN.frontends.tensorflow.loops import Loop, convert_loop
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.frontends.tensorflow.walk import BodyScope
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.shape import Shape, static

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
    graphs = [Graph(ctx.unique(f"{ctx.stem()}/branch")) for _ in range(2)]
    inner = [ctx.child(graph) for graph in graphs]
    results = [make(c) for make, c in zip((yes, no), inner, strict=True)]
    if len(results[0]) != len(results[1]):
        raise FormatError(f"{node.where}: its branches give {[len(r) for r in results]} values")
    outside = cache(lambda side: (yes, no)[side](ctx.child()))
    joined = [
        _joined(inner, node, pair, partial(_of_side, outside, i)) for i, pair in enumerate(zip(*results, strict=True))
    ]
    chosen = iter(ctx.emit("If", [condition], len(graphs[0].outputs), then_graph=graphs[0], else_graph=graphs[1]))
    return [finish(next(chosen)) if isinstance(finish, _OfTensor) else finish for finish in joined]


def _of_side(outside: Callable[[int], list[Value]], place: int, side: int) -> Value:
    return outside(side)[place]


@dataclass(frozen=True)
class _OfTensor:
    """A result of branches made of the tensor that both give: itself, or the list of its elements."""

    whole: ListHandle | None = None

    def __call__(self, tensor: Value) -> Value:
        if self.whole is None:
            return tensor
        tensor.dtype, shape = self.whole.dtype, self.whole.shape
        tensor.shape = shape and tuple(f"{tensor.name}.{i}" if d == "" else d for i, d in enumerate(shape))
        return replace(self.whole, name=tensor.name, dtype=tensor.dtype, shape=None, stacked=tensor, items=None)


def _joined(
    inner: Sequence[Context], node: TfNode, pair: tuple[Value, Value], outside: Callable[[int], Value]
) -> _OfTensor | Handle:
    """Adds what two branches give for a result to their graphs; ``outside`` converts one around these."""
    first, second = pair
    if first is second and isinstance(first, Handle):
        return first
    if isinstance(first, ListHandle) and isinstance(second, ListHandle):
        return _joined_lists(inner, node, (first, second), outside)
    for ctx, value in zip(inner, pair, strict=True):
        if isinstance(value, Handle):
            raise node.unsupported(f"{value.what} as the result of a branch", "let branches give tensors")
        ctx.graph.outputs.append(ctx.op("Identity", value))
    return _OfTensor()


def _joined_lists(
    inner: Sequence[Context], node: TfNode, pair: tuple[ListHandle, ListHandle], outside: Callable[[int], Value]
) -> _OfTensor | Handle:
    for value in pair:
        if value.unseen is not None and value.stacked is None:
            value.unseen.needed = True
            return value
    some = [lists.some_elements(c, v) for c, v in zip(inner, pair, strict=True)]
    wholes = []
    for side, c in enumerate(inner):
        whole = pair[side]
        if some[side] is None:
            whole = lists.of_zeros_like(c, whole, _like(node, some[1 - side], c, partial(outside, 1 - side)))
        wholes.append(c.op("Identity", lists.stack(c, whole, node.where)))
        c.graph.outputs.append(wholes[-1])
    shapes = [w.shape for w in wholes]
    shape: Shape | None = None
    if shapes[0] is not None and shapes[1] is not None and len(shapes[0]) == len(shapes[1]):
        shape = tuple(a if a == b else "" for a, b in zip(*shapes, strict=True))
    growing = pair[0].growing or pair[1].growing
    return _OfTensor(replace(pair[0], dtype=wholes[0].dtype, shape=shape, growing=growing, written=None))


def _like(node: TfNode, some: Value | None, ctx: Context, outside: Callable[[], Value]) -> Value:
    """What elements are like that the other branch writes: of them only the type and the sizes are used."""
    if some is not None and static(some.shape and some.shape[1:]) is None:
        found = outside()  # what is made in one branch is not seen in the other
        some = lists.some_elements(ctx, found) if isinstance(found, ListHandle) else None
    if some is None or some.shape is None:
        raise node.unsupported(
            "a list of tensors of which nothing is known as the result of a branch", "give the list an element shape"
        )
    return some


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
