"""Model files as expressions, and expressions as model files."""

from __future__ import annotations

import os
from collections.abc import Sequence

from MNN.errors import MNNError, UnsupportedError
from MNN.expr.node import Expr, Ref, Slopes, in_order
from MNN.expr.types import NCHW, data_format, storable
from MNN.expr.var import Var
from MNN.frontends import kind_of, load_graph
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value


def load_as_dict(file_name: str | os.PathLike[str] | bytes) -> dict[str, Var]:
    """The tensors of a model by name, in the order of names: inputs as placeholders (open sizes are 1), the rest as
    expressions of those. Of a .mnn file they are the results of its operators, conversions of formats and constants
    included; weights that an operator holds are no tensors of the file.

    Raises :class:`MNNError` for models with control flow, whose branches are no expressions."""
    return dict(sorted(_tensors(file_name).items()))


def load_as_list(file_name: str | os.PathLike[str] | bytes) -> list[Var]:
    """The same, in the order of the file."""
    return list(_tensors(file_name).values())


def _tensors(file_name: str | os.PathLike[str] | bytes) -> dict[str, Var]:
    if kind_of(file_name) != "mnn":
        return {value.name: var for value, var in vars_of(load_graph(file_name)).items()}
    from MNN.frontends.mnn import load_tensors

    graph, tensors = load_tensors(file_name)
    made = vars_of(graph)
    return {name: made[v] if v in made else _constant(v) for name, v in tensors.items()}


def vars_of(graph: Graph) -> dict[Value, Var]:
    """The Vars of a graph's values, in the order of computation: inputs as placeholders, whose open sizes are 1."""
    noted = graph.meta.get("formats")
    layouts = noted if isinstance(noted, dict) else {}
    made: dict[Value, Var] = {}
    for value in graph.inputs:
        if not value.is_const:
            dims = tuple(d if isinstance(d, int) else 1 for d in value.shape or ())
            expr = Expr.leaf("Input", storable(value.dtype or DType.F32), dims, None)
            made[value] = _named(Var(expr, 0, data_format[layouts.get(value.name, "NCHW")]), value.name)
    for node in graph.nodes:
        if any(node.subgraphs()):
            raise UnsupportedError(f"{node.op} '{node.name}' has branches; load the model with MNN.nn instead")
        operands = [
            None if v is None else made.setdefault(v, _constant(v)) if v.is_const else made[v] for v in node.inputs
        ]
        expr = _expression(node, [None if v is None else (v._expr, v._index) for v in operands])
        for i, value in enumerate(node.outputs):
            made[value] = Var(expr, i, data_format[layouts.get(value.name, "NCHW")])
        expr.name = node.outputs[0].name
    fixed = graph.meta.get("fixed")
    for value, var in made.items():
        if value.is_const and isinstance(fixed, list) and value.name in fixed:
            var._expr.fixed = True
    return made


def _expression(node: Node, operands: list[Ref | None]) -> Expr:
    if node.op == Slopes.OPERATOR:
        number, *tensors = (r for r in operands if r is not None)
        return Slopes(number, tensors)
    expr = Expr(node.op, operands, dict(node.attrs))
    expr.outputs = len(node.outputs)
    return expr


def get_inputs_and_outputs(variables: dict[str, Var]) -> tuple[dict[str, Var], dict[str, Var]]:
    """Of named tensors, the placeholders, and those that no other one uses."""
    used = {(id(r[0]), r[1]) for v in variables.values() for r in v._expr.inputs if r is not None}
    inputs = {n: v for n, v in variables.items() if v.op_type == "Input"}
    outputs = {
        n: v
        for n, v in variables.items()
        if v.op_type not in ("Input", "Const", "Trainable") and (id(v._expr), v._index) not in used
    }
    return inputs, outputs


def _named(var: Var, name: str) -> Var:
    var.name = name
    return var


def _constant(value: Value) -> Var:
    array = value.array()
    kind = storable(DType.of(array))
    return _named(Var(Expr.leaf("Const", kind, array.shape, array.astype(kind.numpy, copy=False)), 0, NCHW), value.name)


def save(variables: Sequence[Var] | Var, file_name: str | os.PathLike[str]) -> None:
    """Writes the expressions of Vars as a .mnn file, whole or not at all: placeholders become its inputs, the Vars its
    outputs. Constants alone are saved as their numbers. Raises :class:`MNNError` for what has no form in a file."""
    from MNN.frontends.mnn.write import write_mnn

    wanted = [variables] if isinstance(variables, Var) else list(variables)
    if not wanted or not all(isinstance(v, Var) for v in wanted):
        raise MNNError("save() takes Vars to be the outputs of the model")
    write_mnn(graph_of(wanted), file_name)


def graph_of(wanted: Sequence[Var]) -> Graph:
    """The graph of operators that computes Vars."""
    return graph_and_values(wanted)[0]


def graph_and_values(wanted: Sequence[Var]) -> tuple[Graph, dict[tuple[int, int], Value]]:
    """The same, with its values by expression and output."""
    from MNN.ops.elementwise.identity import copying  # operators are not needed where Vars are only given to a model

    exprs = in_order(v._expr for v in wanted)
    taken: set[str] = set()
    values: dict[tuple[int, int], Value] = {}
    graph = Graph("expression", meta={"source": "MNN"})
    for expr in exprs:
        types = expr.types()
        for i, (kind, shape) in enumerate(types):
            name = _unique(taken, expr.name if i == 0 else f"{expr.name}:{i}" if expr.name else "", expr.op)
            constant = expr.op in ("Const", "Trainable")
            values[id(expr), i] = Value(name, kind, shape, expr.results()[0] if constant else None)
        made = [values[id(expr), i] for i in range(len(types))]
        if expr.op == "Input":
            graph.inputs += made
        elif not expr.is_leaf:
            inputs = [None if r is None else values[id(r[0]), r[1]] for r in expr.inputs]
            graph.nodes.append(Node(expr.op, made[0].name, list(inputs), made, dict(expr.attrs)))
    _hold(graph, taken)
    numbers_alone = all(expr.op in ("Const", "Trainable") for expr in exprs)
    for var in wanted:
        value = values[id(var._expr), var._index]
        if (value.is_const and not numbers_alone) or value in graph.inputs or value in graph.outputs:
            graph.nodes.append(copying(value, _unique(taken, value.name, "output")))
            value = graph.nodes[-1].outputs[0]
        graph.outputs.append(value)
    return graph, values


def _hold(graph: Graph, taken: set[str]) -> None:
    """Constants of which there are gradients are operands of all that uses them, not known numbers."""
    wanted = {v for n in graph.nodes if n.op == Slopes.OPERATOR for v in n.inputs[1:] if v is not None and v.is_const}
    if not wanted:
        return
    from MNN.ops.training.gradients import holding

    held = {v: holding(v, _unique(taken, f"{v.name}:held", "")) for v in wanted}
    for node in graph.nodes:
        node.inputs = [held[v].outputs[0] if v in held else v for v in node.inputs]
    graph.nodes[:0] = held.values()


def _unique(taken: set[str], name: str, stem: str) -> str:
    found, count = name or stem, 1
    while found in taken:
        count += 1
        found = f"{name or stem}_{count}"
    taken.add(found)
    return found


__all__ = ["get_inputs_and_outputs", "graph_of", "load_as_dict", "load_as_list", "save", "vars_of"]
