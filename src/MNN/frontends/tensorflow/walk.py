"""Bodies into graphs: nodes are converted when something needs them, so what no output depends on (training, saving) is
never looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from MNN.errors import FormatError
from MNN.frontends.tensorflow import control_v1
from MNN.frontends.tensorflow.bodies import Body, Ref
from MNN.frontends.tensorflow.complex_tensors import applied, is_complex
from MNN.frontends.tensorflow.context import INSIDE, Context, shown
from MNN.frontends.tensorflow.messages import Proto
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.refused import advice
from MNN.frontends.tensorflow.registry import table
from MNN.ir.graph import Value

MAX_DEPTH = 48
"""How deep functions may call functions."""
ASSIGNING = {
    "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
    "ResourceScatterUpdate", "ResourceScatterAdd", "ScatterUpdate", "ResourceStridedSliceAssign",
}  # fmt: skip
"""Operators that change a variable."""


def call(ctx: Context, name: str, args: Sequence[Value], where: str) -> list[Value]:
    """The results of a function of the file, whose nodes are put into ``ctx``."""
    calls = ctx.model.calls
    body = function(ctx, name, where)
    if name in calls or len(calls) >= MAX_DEPTH:
        chain = " -> ".join([*calls[-3:], name])
        raise FormatError(f"{where}: functions call each other without end, or too deep ({chain[:300]})")
    if len(args) != len(body.args):
        raise FormatError(f"{where}: function '{name}' takes {len(body.args)} values, {len(args)} are given")
    calls.append(name)
    scope = BodyScope(ctx, body, ctx.unique(f"{ctx.stem()}/{name}"[:200]) + INSIDE)
    for key, value in zip(body.args, args, strict=True):
        scope.put(Ref(key, 0), value)
    results = scope.values([body.known(text, name) for text in body.results])
    scope.run_effects(body.controlled)
    calls.pop()
    return results


def function(ctx: Context, name: str, where: str) -> Body:
    """A function of the file. Raises :class:`FormatError` where there is none of this name."""
    if name not in ctx.model.functions:
        raise FormatError(f"{where}: the file holds no function '{name[:200]}'")
    return ctx.model.functions[name]


class BodyScope:
    """A body whose nodes are being converted into a context, under names with ``prefix``."""

    def __init__(self, ctx: Context, body: Body, prefix: str = "") -> None:
        self.ctx, self.body, self.prefix = ctx, body, prefix

    def inside(self, ctx: Context) -> BodyScope:
        """The same body, for a context within this one."""
        return BodyScope(ctx, self.body, self.prefix)

    def put(self, ref: Ref, value: Value) -> None:
        """Gives an output a value without converting its node."""
        self.ctx.scope[self.prefix + ref.text] = value
        self.ctx.made.add(self.prefix + ref.node)

    def values(self, refs: Sequence[Ref]) -> list[Value]:
        """The values of outputs; their nodes are converted where that has not been done."""
        self._convert([ref.node for ref in refs])
        return [self._value(ref) for ref in refs]

    def _value(self, ref: Ref) -> Value:
        key = self.prefix + ref.text
        found = self.ctx.lookup(key)
        if found is None and self.prefix + ref.node in self.ctx.model.failed:
            found = self.ctx.scope[key] = Value(self.ctx.unique(shown(key)))
            self.ctx.model.doubtful.add(found)
        if found is None:
            raise FormatError(f"node '{ref.node}' of '{self.body.name}' has no output {ref.index}")
        return found

    def _convert(self, names: Sequence[str]) -> None:
        """Converts nodes and what they need, deepest first, without recursion."""
        stack, entered = list(names), set[str]()
        while stack:
            name = stack[-1]
            if self.ctx.is_made(self.prefix + name):
                stack.pop()
                continue
            node = self.body.nodes.get(name)
            if node is None:
                raise FormatError(f"'{self.body.name}': parameter '{name}' is given nothing")
            needed = [r.node for r in self._needs(node) if not self.ctx.is_made(self.prefix + r.node)]
            if needed:
                if name in entered:
                    raise FormatError(
                        f"node '{name}' of '{self.body.name}' needs its own result: the graph has a cycle"
                    )
                entered.add(name)
                stack += needed
                continue
            self._convert_node(node)
            stack.pop()

    def _needs(self, node: Proto) -> list[Ref]:
        data = control_v1.outside(self.body, node) if node.op in control_v1.JOINS else self.body.refs(node)
        return [*data, *(Ref(name, 0) for name in self._effects(self.body.controls(node)))]

    def _convert_node(self, proto: Proto) -> None:
        ctx, full = self.ctx, self.prefix + proto.name
        ctx.model.budget -= 1
        if ctx.model.budget < 0:
            raise FormatError(f"'{self.body.name}': its functions grow to more nodes than can be converted")
        ctx.made.add(full)
        given = ctx.model.placeholders.get(full)
        if given is not None:
            ctx.scope[full] = given
            return
        handler, functional = table.find(proto.op), proto.op in ctx.model.functions
        refs = self.body.refs(proto)
        special = proto.op in control_v1.JOINS
        name = shown(full)
        node = TfNode(proto, name, [] if special else [self._value(ref) for ref in refs])
        doubtful = any(value in ctx.model.doubtful for value in node.inputs)
        if doubtful and proto.op.startswith(("TensorList", "TensorArray")):
            ctx.model.failed.add(full)  # what would have been said of it follows from what has been said
            return
        if handler is None and not functional:
            ctx.model.failed.add(full)
            ctx.model.report.unknown_operator(name, proto.op, "", advice(proto.op))
            return
        ctx.walking = self

        def convert() -> Sequence[Value]:
            made: Value | Sequence[Value]
            if handler is not None:
                made = applied(ctx, node, handler) if is_complex(node) else handler(ctx, node)
                unread = node.unread()
                if unread:
                    raise node.unsupported(f"attribute '{unread[0]}'", "remove it or export the model another way")
            else:
                made = ctx.call(proto.op, node.inputs, node.where)
            made = [made] if isinstance(made, Value) else list(made)
            ctx.bind([full + (f":{i}" if i else "") for i in range(len(made))], made, node.where)
            if doubtful:
                ctx.model.doubtful.update(made)
            return []

        error = ctx.convert(name, node.where, [], convert)
        if error is not None:
            ctx.model.failed.add(full)
            if not doubtful:
                ctx.model.report.form(name, proto.op, error)

    def run_effects(self, names: Iterable[str]) -> None:
        """Converts what must have run, of the nodes ``names``, for what it does to variables."""
        self._convert(self._effects(names))

    def _effects(self, names: Iterable[str]) -> list[str]:
        """Among nodes that must run before another, those that read or change variables, where any are changed."""
        if not changes(self.ctx.model.functions, self.body):
            return []
        found, stack, seen = [], list(names), set[str]()
        while stack:
            name = stack.pop()
            node = self.body.nodes.get(name)
            if node is None or name in seen:
                continue
            seen.add(name)
            if node.op == "NoOp":
                stack += self.body.controls(node)
            elif node.op in ASSIGNING or node.op == "ReadVariableOp" or _calls_change(self.ctx.model.functions, node):
                found.append(name)
        return found


def changes(functions: Mapping[str, Body], body: Body, depth: int = 0) -> bool:
    """Whether a body, or what it calls, changes variables."""
    if body.changes is None:
        body.changes = False  # functions that call themselves are refused elsewhere
        body.changes = any(
            node.op in ASSIGNING or _calls_change(functions, node, depth) for node in body.nodes.values()
        )
    return body.changes


def _calls_change(functions: Mapping[str, Body], node: Proto, depth: int = 0) -> bool:
    names = [node.op, *(a.func.name for a in node.attr.values() if a.WhichOneof("value") == "func")]
    return depth < MAX_DEPTH and any(changes(functions, functions[n], depth + 1) for n in names if n in functions)
