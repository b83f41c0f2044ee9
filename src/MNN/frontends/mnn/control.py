"""If and While of a .mnn file: subgraphs with aliases by name, to If and Loop nodes.

An If hands its inputs to the tensors of both branches that bear the names listed for them; here branches use outer
values directly. A While without a condition graph is ONNX's Loop: inputs are the trip count, the condition and N
carried values, the body gives the condition, N values and K to be stacked.
"""

from __future__ import annotations

from MNN.errors import FormatError, UnsupportedError
from MNN.formatting import plural
from MNN.frontends.mnn import extras
from MNN.frontends.mnn.official.record import Subgraphs
from MNN.frontends.mnn.official.registry import official
from MNN.frontends.mnn.scope import GraphScope
from MNN.frontends.mnn.sorting import indexes
from MNN.ir.graph import Graph, Value
from MNN.schema.record import Record


def read(scope: GraphScope, op: Record, inputs: list[Value | None]) -> None:
    """Appends the node of an If or While."""
    if op.main is None or op.main.table_name != f"{op.type}Param":
        raise FormatError(f"{op.type} '{op.name}': its table is missing")
    if official(str(op.type)).subgraphs is Subgraphs.BRANCHES:
        _read_if(scope, op, inputs)
    elif op.main.cond_graph:
        raise UnsupportedError(f"While '{op.name}': a loop with a condition graph")
    else:
        _read_loop(scope, op, inputs)


def _names(vector: Record) -> list[str]:
    return vector.data or []


def _read_if(scope: GraphScope, op: Record, inputs: list[Value | None]) -> None:
    main, outputs = op.main, indexes(op, "outputIndexes")
    if not inputs or inputs[0] is None:
        raise FormatError(f"If '{op.name}': its condition is missing")
    given: dict[str, Value] = {}
    for names, value in zip(main.aliases_inputs or [], inputs, strict=False):
        if value is not None:
            given.update(dict.fromkeys(_names(names), value))
    branches: dict[str, object] = {}
    for branch, (attr, name) in enumerate((("then_graph", main.then_graph), ("else_graph", main.else_graph))):
        record = scope.reader.find(name or "")
        tensors = record.tensors or []
        bound = {i: given[tensors[i]] for i in indexes(record, "inputs") if tensors[i] in given}
        graph, _ = scope.reader.subgraph(name or "", bound, False)
        graph.outputs = _chosen(graph, record, main.aliases_outputs, branch, len(outputs), op)
        branches[attr] = graph
    scope.add(str(op.type), op.name or "", inputs[:1], outputs, branches)


def _chosen(
    graph: Graph, record: Record, aliases: list[Record] | None, branch: int, count: int, op: Record
) -> list[Value]:
    """A branch's outputs in the order of the operator's."""
    if aliases is None:
        if len(graph.outputs) < count:
            raise FormatError(
                f"If '{op.name}': branch '{record.name}' has {len(graph.outputs)} outputs, expected {count}"
            )
        return graph.outputs[:count]
    tensors = record.tensors or []
    by_name = {tensors[i]: v for i, v in zip(indexes(record, "outputs"), graph.outputs, strict=True)}
    wanted = [_names(pair)[branch] if branch < len(_names(pair)) else "" for pair in aliases]
    missing = [name for name in wanted if name not in by_name]
    if missing or len(wanted) != count:
        raise FormatError(
            f"If '{op.name}': branch '{record.name}' does not give {missing or wanted} for {plural(count, 'output')}"
        )
    return [by_name[name] for name in wanted]


def _read_loop(scope: GraphScope, op: Record, inputs: list[Value | None]) -> None:
    main, outputs = op.main, indexes(op, "outputIndexes")
    record = scope.reader.find(main.body_graph or "")
    body_inputs, body_outputs = indexes(record, "inputs"), indexes(record, "outputs")
    carried = len(inputs) - 2
    stacked = len(outputs) - carried
    where = f"While '{op.name}'"
    if carried < 0 or stacked < 0 or len(body_inputs) != len(inputs) or len(body_outputs) != 1 + len(outputs):
        raise FormatError(
            f"{where}: {len(inputs)} inputs and {len(outputs)} outputs do not fit a body with {len(body_inputs)} "
            f"inputs and {len(body_outputs)} outputs"
        )
    if any(v is None for v in inputs[2:]):
        raise FormatError(f"{where}: an initial value is missing")
    # what the body hands on unchanged is no state: it sees the outer value
    constant = [k for k in range(carried) if body_outputs[1 + k] == body_inputs[2 + k]]
    bound = {body_inputs[2 + k]: v for k in constant if (v := inputs[2 + k]) is not None}
    graph, _ = scope.reader.subgraph(main.body_graph or "", bound, True)
    kept = [k for k in range(carried) if k not in constant]
    graph.outputs = [graph.outputs[i] for i in (0, *(1 + k for k in kept), *range(1 + carried, len(body_outputs)))]
    for k in constant:
        value = inputs[2 + k]
        assert value is not None
        scope.values[outputs[k]] = value
    left = [outputs[k] for k in kept] + outputs[carried:]
    if left:
        note = scope.notes.nodes.get(scope.names[outputs[0]], {})
        kind = extras.written_for("While", {"op": note.get("op", "Loop")})
        absent = note.get("absent", [])
        first = [None if isinstance(absent, list) and i in absent else v for i, v in enumerate(inputs[:2])]
        scope.add(kind, op.name or "", [*first, *(inputs[2 + k] for k in kept)], left, {"body": graph})
