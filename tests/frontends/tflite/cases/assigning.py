"""Variables that branches and bodies of loops assign."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.build import Graph
from tests.frontends.tflite.cases.draw import Case, Draw, form

_RUNS = 4
_NAMES = ("first", "second")


def _handle(g: Graph, name: str) -> int:
    return g.made("VAR_HANDLE", [], [1], "RESOURCE", "VarHandleOptions", container="", shared_name=name)


def _changed(d: Draw, g: Graph, x: int, shape: list[int]) -> None:
    """None, one or both of the variables become something else; what is read is what was assigned before."""
    for name in _NAMES:
        for _ in range(d.int(0, 2)):
            handle = _handle(g, name)
            if d.int(0, 3) == 0:
                g.op("ASSIGN_VARIABLE", [handle, d.one([x, g.const(d.array(shape))])], [])
                continue
            op, other = d.one(["ADD", "MUL", "SUB"]), d.one([x, g.const(d.array(shape))])
            now = g.made("READ_VARIABLE", [_handle(g, d.one(_NAMES))], shape)
            g.op("ASSIGN_VARIABLE", [handle, g.made(op, [now, other], shape, options=f"{op.title()}Options")], [])


def _branch(d: Draw, g: Graph, shape: list[int], deep: bool) -> None:
    """A graph of a condition and numbers that gives the latter, or what a variable is then."""
    condition, x = g.input([], "BOOL"), g.input(shape)
    _changed(d, g, x, shape)
    if deep:
        _if(d, g, condition, x, shape, False)
        _changed(d, g, x, shape)
    g.outputs = [g.made("NEG", [d.one([x, g.made("READ_VARIABLE", [_handle(g, d.one(_NAMES))], shape)])], shape)]


def _if(d: Draw, g: Graph, condition: int, x: int, shape: list[int], deep: bool) -> int:
    numbers = []
    for side in ("then", "else"):
        number, inner = d.model.subgraph(f"{side} {len(d.model.graphs)}")
        _branch(d, inner, shape, deep and d.flag())
        numbers.append(number)
    made = g.tensor(shape)
    g.op("IF", [condition, condition, x], [made], "IfOptions", then_subgraph_index=numbers[0],
         else_subgraph_index=numbers[1])  # fmt: skip
    return made


def _while(d: Draw, g: Graph, condition: int, x: int, shape: list[int]) -> int:
    """Turns that change variables, in a branch or not."""
    least, check = d.model.subgraph(f"check {len(d.model.graphs)}")
    turn, *_ = check.input([], "INT32"), check.input([], "BOOL"), check.input(shape)
    check.outputs = [check.made("LESS", [turn, check.const(np.int32(d.int(0, 3)))], [], "BOOL", "LessOptions")]
    number, body = d.model.subgraph(f"body {len(d.model.graphs)}")
    turn, chosen, given = body.input([], "INT32"), body.input([], "BOOL"), body.input(shape)
    following = body.made("ADD", [turn, body.const(np.int32(1))], [], "INT32", "AddOptions")
    _changed(d, body, given, shape)
    made = _if(d, body, chosen, given, shape, False) if d.flag() else body.made("NEG", [given], shape)
    body.outputs = [following, chosen, made]
    after = [g.tensor([], "INT32"), g.tensor([], "BOOL"), g.tensor(shape)]
    g.op("WHILE", [g.const(np.int32(0)), condition, x], after, "WhileOptions", cond_subgraph_index=least,
         body_subgraph_index=number)  # fmt: skip
    return after[2]


@form("variables in control flow")
def assigned(d: Draw) -> Case:
    """Two variables through branches, branches in these, loops, and branches in loops; with first values or zeros."""
    shape, g = d.shape(1, 2), d.g
    number, start = d.model.subgraph("start")
    for name in _NAMES:
        first = d.array(shape) if d.flag() else np.zeros(shape, np.float32)
        start.op("ASSIGN_VARIABLE", [_handle(start, name), start.const(first)], [])
    g.op("CALL_ONCE", [], [], "CallOnceOptions", init_subgraph_index=number)
    condition, x = d.fed(np.asarray(True)), d.input(shape)
    outputs = []
    for _ in range(d.int(1, 3)):
        outputs.append(_if(d, g, condition, x, shape, True) if d.flag() else _while(d, g, condition, x, shape))
    outputs += [g.made("READ_VARIABLE", [_handle(g, name)], shape) for name in _NAMES]
    case = d.case(*outputs, runs=_RUNS)
    for run in case.runs:
        run[0] = np.asarray(d.flag())
    return case
