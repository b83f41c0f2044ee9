"""Checks a model's structure before anything is made of it: names, order, arities and attribute types."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from MNN.errors import FormatError

_TENSOR_TEXT = [TensorProto.DESCRIPTOR.fields_by_name[name] for name in ("name", "external_data")]
MAX_DEPTH = 24
"""Deepest nesting of subgraphs; protobuf itself stops at about 100 messages."""


def verify_text(message: Message, where: str = "model") -> None:
    """Raises :class:`FormatError` for strings that are not UTF-8; protobuf hands those out as bytes."""
    fields = _TENSOR_TEXT if isinstance(message, TensorProto) else None  # listing its fields would copy the numbers
    for field, value in message.ListFields() if fields is None else [(f, getattr(message, f.name)) for f in fields]:
        many = isinstance(value, Iterable) and not isinstance(value, str | bytes | Message)
        if field.type == FieldDescriptor.TYPE_STRING:
            for text in value if many else (value,):
                if not isinstance(text, str):
                    raise FormatError(f"{where}: {field.full_name} is not UTF-8 text: {text[:80]!r}")
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if many else (value,):
                verify_text(inner, where)


def verify_graph(
    graph: GraphProto, initializers: Sequence[str] = (), outer: frozenset[str] = frozenset(), depth: int = 0
) -> None:
    """Checks a graph and its subgraphs; puts nodes into an order in which every tensor is made before it is used.

    ``initializers`` names constants that the graph's copy does not hold, ``outer`` what the graphs around it offer.

    Raises :class:`FormatError` for names that nothing makes, names made twice, cycles and missing outputs.
    """
    where = f"graph '{graph.name}'"
    if depth > MAX_DEPTH:
        raise FormatError(f"{where}: subgraphs are nested deeper than {MAX_DEPTH}")
    made: set[str] = set()
    for value in graph.input:
        if not value.name or value.name in made:
            raise FormatError(f"{where}: input '{value.name}' has no name or is listed twice")
        made.add(value.name)
    constants: set[str] = set()
    for name in (*initializers, *initializer_names(graph)):
        if not name or name in constants:
            raise FormatError(f"{where}: initializer '{name}' has no name or is listed twice")
        constants.add(name)
    made |= constants
    for node in graph.node:
        for name in node.output:
            if name and name in made:
                raise FormatError(f"{where}: tensor '{name}' is made twice, again by {label(node)}")
            if name:
                made.add(name)
    sort_nodes(graph, outer, {v.name for v in graph.input} | constants, made)
    visible = outer | made
    for node in graph.node:
        if not node.op_type:
            raise FormatError(f"{where}: a node making {list(node.output)} has no operator")
        seen: set[str] = set()
        for attribute in node.attribute:
            if not attribute.name or attribute.name in seen:
                raise FormatError(f"{label(node)}: attribute '{attribute.name}' has no name or is listed twice")
            seen.add(attribute.name)
            for sub in subgraphs(attribute):
                verify_graph(sub, (), visible, depth + 1)
    for value in graph.output:
        if value.name not in visible:
            raise FormatError(f"{where}: nothing makes output '{value.name}'")


def initializer_names(graph: GraphProto) -> list[str]:
    """Names of a graph's constants."""
    return [t.name for t in (*graph.initializer, *(s.values for s in graph.sparse_initializer))]


def label(node: NodeProto) -> str:
    """How a node is called in messages."""
    return f"{node.op_type} '{node.name or next(iter(node.output), '')}'"


def subgraphs(attribute: AttributeProto) -> list[GraphProto]:
    """Graphs held by an attribute."""
    if attribute.type == AttributeProto.GRAPH:
        return [attribute.g]
    return list(attribute.graphs) if attribute.type == AttributeProto.GRAPHS else []


def uses(node: NodeProto) -> set[str]:
    """Names a node needs from its graph: its inputs and what its subgraphs take from outside."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for sub in subgraphs(attribute):
            inside = {v.name for v in sub.input} | {t.name for t in sub.initializer}
            inside |= {s.values.name for s in sub.sparse_initializer}
            inner = {v.name for v in sub.output}
            for child in sub.node:
                inside.update(child.output)
                inner |= uses(child)
            names |= inner - inside
    return names


def sort_nodes(graph: GraphProto, outer: frozenset[str], given: set[str], made: set[str]) -> None:
    """Orders ``graph.node``; exporters mostly do, then nothing changes."""
    ready = set(given)
    needs = [uses(node) for node in graph.node]
    in_order = True
    for node, names in zip(graph.node, needs, strict=True):
        missing = [n for n in names if n not in made and n not in outer]
        if missing:
            raise FormatError(f"{label(node)}: nothing makes its input '{sorted(missing)[0]}'")
        in_order = in_order and all(n in ready or n not in made for n in names)
        ready.update(n for n in node.output if n)
    if in_order:
        return
    waiting = [{n for n in names if n in made and n not in given} for names in needs]
    users: dict[str, list[int]] = {}
    for i, names in enumerate(waiting):
        for name in names:
            users.setdefault(name, []).append(i)
    queue = deque(i for i, names in enumerate(waiting) if not names)
    order: list[int] = []
    while queue:
        i = queue.popleft()
        order.append(i)
        for name in graph.node[i].output:
            for user in users.pop(name, ()):
                waiting[user].discard(name)
                if not waiting[user]:
                    queue.append(user)
    if len(order) < len(needs):
        stuck = next(i for i, names in enumerate(waiting) if names)
        raise FormatError(f"graph '{graph.name}': {label(graph.node[stuck])} needs its own result (a cycle)")
    nodes = [NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
    del graph.node[:]
    graph.node.extend(nodes)


@lru_cache(maxsize=4096)
def schema_of(op: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """The ONNX schema of an operator at an opset; None for operators onnx does not define."""
    if not 0 < opset < 1 << 31:
        return None
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


def verify_node(node: NodeProto, opset: int) -> None:
    """Checks a node against the operator's schema, where onnx has one: counts of operands, attribute types."""
    schema = schema_of(node.op_type, node.domain if node.domain != "ai.onnx" else "", opset)
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            raise FormatError(f"{label(node)}: attribute '{attribute.name}' refers to a function that is not there")
    if schema is None:
        return
    for what, found, least, most in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= found <= most:
            raise FormatError(f"{label(node)}: {found} {what}, opset {opset} expects {least} to {most}")
    for i, formal in enumerate(schema.inputs):
        if formal.option == onnx.defs.OpSchema.FormalParameterOption.Single and not (
            i < len(node.input) and node.input[i]
        ):
            raise FormatError(f"{label(node)}: input {i} ({formal.name}) is missing")
    for attribute in node.attribute:
        known = schema.attributes.get(attribute.name)
        if known is not None and int(known.type.value) != attribute.type:
            raise FormatError(
                f"{label(node)}: attribute '{attribute.name}' has type number {attribute.type}, "
                f"opset {opset} expects {known.type.name}"
            )
    for name, known in schema.attributes.items():
        if known.required and all(a.name != name for a in node.attribute):
            raise FormatError(f"{label(node)}: attribute '{name}' is missing")
