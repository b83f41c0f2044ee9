"""Replaces calls of functions by their bodies: functions kept in the model, and those of the ONNX standard.

Many standard operators are defined by a function; one that has no handler here is expanded when its inputs' types are
known, so it works all the same.
Nodes that come out of a body carry the opset the body was written for in their metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto

from MNN.errors import FormatError
from MNN.frontends.onnx.verify import label, schema_of, subgraphs

OPSET_KEY = "MNN.opset"
MAX_NODES = 200_000
"""Most nodes that expanding functions may lead to: nested calls can grow without bound."""

Key = tuple[str, str, str]


def function_key(function: FunctionProto) -> Key:
    return (function.domain, function.name, function.overload)


def node_opset(node: NodeProto, opsets: Mapping[str, int]) -> int:
    """The opset a node is written for: that of the function it came from, or of the model. 0 when neither names it."""
    for entry in node.metadata_props:
        if entry.key == OPSET_KEY:
            return int(entry.value)
    return opsets.get("" if node.domain == "ai.onnx" else node.domain, 0)


def clear_opset_marks(graph: GraphProto) -> None:
    """Removes marks that a file itself brings along."""
    for node in graph.node:
        for i in reversed(range(len(node.metadata_props))):
            if node.metadata_props[i].key == OPSET_KEY:
                del node.metadata_props[i]
        for attribute in node.attribute:
            for sub in subgraphs(attribute):
                clear_opset_marks(sub)


class Expander:
    """Expands function calls in place. ``unique`` makes tensor names that nothing else has."""

    def __init__(self, unique: Callable[[str], str]) -> None:
        self._unique = unique
        self._count = 0

    # -- functions of the model ---------------------------------------------------------------------------------------

    def expand_local(self, model: ModelProto) -> None:
        """Inlines every call of a model-local function. Raises :class:`FormatError` for recursive functions."""
        functions = {function_key(f): f for f in model.functions}
        if functions:
            sizes: dict[Key, int] = {}
            total = sum(self._size(node, functions, sizes, ()) for node in model.graph.node)
            if total > MAX_NODES:
                raise FormatError(f"expanding the model's functions leads to more than {MAX_NODES} nodes")
            self._local(model.graph, functions)

    def _size(
        self, node: NodeProto, functions: Mapping[Key, FunctionProto], sizes: dict[Key, int], active: tuple[Key, ...]
    ) -> int:
        """How many nodes a node expands to; every function is counted once."""
        key = (node.domain, node.op_type, node.overload)
        if key in active:
            raise FormatError(f"{label(node)}: function '{node.domain}.{node.op_type}' calls itself")
        if key not in functions:
            inner = [n for attribute in node.attribute for sub in subgraphs(attribute) for n in sub.node]
            return 1 + sum(self._size(n, functions, sizes, active) for n in inner)
        if key not in sizes:
            sizes[key] = sum(self._size(n, functions, sizes, (*active, key)) for n in functions[key].node)
        return sizes[key]

    def _local(self, graph: GraphProto, functions: Mapping[Key, FunctionProto]) -> None:
        nodes: list[NodeProto] = []
        for node in graph.node:
            nodes += self._local_node(node, functions)
        _set_nodes(graph, nodes)

    def _local_node(self, node: NodeProto, functions: Mapping[Key, FunctionProto]) -> Iterable[NodeProto]:
        key = (node.domain, node.op_type, node.overload)
        if key not in functions:
            for attribute in node.attribute:
                for sub in subgraphs(attribute):
                    self._local(sub, functions)
            return [node]
        body = self.body(node, functions[key])
        return [n for inner in body for n in self._local_node(inner, functions)]

    # -- one call -----------------------------------------------------------------------------------------------------

    def body(self, node: NodeProto, function: FunctionProto, opset: int = 0) -> list[NodeProto]:
        """The nodes that replace a call; tensors inside get new names, attributes are filled in."""
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise FormatError(
                f"{label(node)}: called with {len(node.input)} inputs and {len(node.output)} outputs, its function has "
                f"{len(function.input)} and {len(function.output)}"
            )
        stem = node.name or next(iter(node.output), node.op_type)
        names: dict[str, str] = {"": ""}
        for i, formal in enumerate(function.input):
            names[formal] = node.input[i] if i < len(node.input) else ""
        extra: list[NodeProto] = []
        for i, formal in enumerate(function.output):
            actual = node.output[i] if i < len(node.output) and node.output[i] else ""
            if formal in names:
                if actual:
                    extra.append(NodeProto(op_type="Identity", name=actual, input=[names[formal]], output=[actual]))
                    _mark(extra[-1], 13)
            else:
                names[formal] = actual or self._unique(f"{stem}/{formal}")
        attributes = {a.name: a for a in function.attribute_proto}
        attributes.update(_schema_defaults(node, opset))
        attributes.update({a.name: a for a in node.attribute})
        opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import}
        if opset and not opsets:
            opsets = {"": opset}
        self._count += len(function.node)
        if self._count > MAX_NODES:
            raise FormatError(f"{label(node)}: expanding functions leads to more than {MAX_NODES} nodes")
        body = [self._rename(inner, names, stem, attributes, opsets) for inner in function.node]
        return body + extra

    def _rename(
        self,
        node: NodeProto,
        names: dict[str, str],
        stem: str,
        attributes: Mapping[str, AttributeProto],
        opsets: Mapping[str, int],
    ) -> NodeProto:
        out = NodeProto()
        out.CopyFrom(node)
        out.name = f"{stem}/{node.name or node.op_type}"
        for i, name in enumerate(node.input):
            if name not in names:
                raise FormatError(f"{label(node)}: nothing in its function makes '{name}'")
            out.input[i] = names[name]
        for i, name in enumerate(node.output):
            if name and name not in names:
                names[name] = self._unique(f"{stem}/{name}")
            out.output[i] = names[name]
        del out.attribute[:]
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                given = attributes.get(attribute.ref_attr_name)
                if given is None:
                    continue
                copied = out.attribute.add()
                copied.CopyFrom(given)
                copied.name = attribute.name
                continue
            copied = out.attribute.add()
            copied.CopyFrom(attribute)
            for sub in subgraphs(copied):
                self._rename_graph(sub, dict(names), stem, attributes, opsets)
        _mark(out, opsets.get("" if node.domain == "ai.onnx" else node.domain, 0))
        return out

    def _rename_graph(
        self,
        graph: GraphProto,
        names: dict[str, str],
        stem: str,
        attributes: Mapping[str, AttributeProto],
        opsets: Mapping[str, int],
    ) -> None:
        for value in (*graph.input, *graph.initializer, *(s.values for s in graph.sparse_initializer)):
            names[value.name] = value.name = self._unique(f"{stem}/{value.name}")
        nodes = [self._rename(inner, names, stem, attributes, opsets) for inner in graph.node]
        _set_nodes(graph, nodes)
        del graph.value_info[:]
        for value in graph.output:
            value.name = names.get(value.name, value.name)


def standard_function(node: NodeProto, opset: int, types: Sequence[TypeProto | None]) -> FunctionProto | None:
    """The body of an operator that ONNX defines by a function; None when it has none (or none for these types).

    ``types`` are those of the inputs, None where unknown; an input that is left out has an empty type.
    """
    schema = schema_of(node.op_type, "" if node.domain == "ai.onnx" else node.domain, opset)
    if schema is None:
        return None
    fitting = [v for v in schema.function_opset_versions if v <= opset]
    if fitting:
        return FunctionProto.FromString(schema.get_function_with_opset_version(max(fitting)))
    fitting = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    known = [t for t in types if t is not None]
    if not fitting or len(known) != len(types):
        return None
    try:
        text = schema.get_context_dependent_function_with_opset_version(
            max(fitting), node.SerializeToString(), [t.SerializeToString() for t in known]
        )
    except (RuntimeError, ValueError) as error:
        raise FormatError(f"{label(node)}: its inputs do not fit the operator: {error}") from error
    return FunctionProto.FromString(text) if text else None


def _schema_defaults(node: NodeProto, opset: int) -> dict[str, AttributeProto]:
    schema = schema_of(node.op_type, "" if node.domain == "ai.onnx" else node.domain, opset) if opset else None
    if schema is None:
        return {}
    return {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}


def _mark(node: NodeProto, opset: int) -> None:
    if opset:
        entry = node.metadata_props.add()
        entry.key, entry.value = OPSET_KEY, str(opset)


def _set_nodes(graph: GraphProto, nodes: list[NodeProto]) -> None:
    copies = []
    for node in nodes:  # the list may hold the graph's own nodes, which clearing it would empty
        copy = NodeProto()
        copy.CopyFrom(node)
        copies.append(copy)
    del graph.node[:]
    graph.node.extend(copies)
