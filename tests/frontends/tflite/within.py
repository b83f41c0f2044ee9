"""Cases of operators put into the branches of an IF and the body of a WHILE:
``python -m tests.frontends.tflite.within [--cases N] [--only NAME]``."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from MNN.schema.record import Record
from tests.frontends.tflite.build import Graph
from tests.frontends.tflite.cases import FAMILIES, FORMS, Case, Draw
from tests.frontends.tflite.compare import difference
from tests.frontends.tflite.litert import Answer, Request, answers
from tests.frontends.trials import command, key_of, seed_of
from tests.zoo import ZooError

WAYS = ("IF", "WHILE")


def within(case: Case, way: str, seed: int) -> Case | None:
    """The case's graph within another one; None for what has several graphs, changes states or is drawn."""
    model, inner = case.model, case.model.graph
    rng = np.random.default_rng(seed)
    states = any(t.is_variable for t in inner.tensors) or any(
        code in ("VAR_HANDLE", "ASSIGN_VARIABLE", "CALL_ONCE") for code, *_ in model.codes
    )
    if len(model.graphs) > 1 or states or case.drawn or model.more:
        return None
    outer = Graph(model, "outer")
    model.graphs.insert(0, outer)
    given, made = ([inner.tensors[i] for i in numbers] for numbers in (inner.inputs, inner.outputs))
    inputs = [_like(outer, t) for t in given]
    if way == "IF":
        chosen = outer.tensor([], "BOOL")
        outer.inputs = [chosen, *inputs]
        outer.outputs = [_like(outer, t) for t in made]
        outer.op("IF", outer.inputs, outer.outputs, "IfOptions", then_subgraph_index=1, else_subgraph_index=2)
        _, other = model.subgraph("other")
        other.tensors, other.operators = inner.tensors, inner.operators
        other.inputs, other.outputs = inner.inputs, inner.outputs
        runs = [[np.asarray(bool(rng.integers(2))), *run] for run in case.runs]
        return dataclasses.replace(case, runs=runs)
    before = [outer.const(np.zeros(t.shape, _dtype(t)), **_quantised(t)) for t in made]
    outer.inputs = inputs
    count = outer.const(np.int32(0))
    carried = [count, *inputs, *before]
    after = [_like(outer, outer.tensors[i]) for i in carried]
    outer.op("WHILE", carried, after, "WhileOptions", cond_subgraph_index=2, body_subgraph_index=1)
    outer.outputs = after[1 + len(inputs) :]
    turn = inner.tensor([], "INT32")
    first = inner.inputs
    inner.inputs = [turn, *first, *(_like(inner, t) for t in made)]
    following = inner.made("ADD", [turn, inner.const(np.int32(1))], [], "INT32", "AddOptions")
    inner.outputs = [following, *first, *inner.outputs]
    _, condition = model.subgraph("condition")
    condition.inputs = [_like(condition, outer.tensors[i]) for i in carried]
    limit = condition.const(np.int32(rng.integers(1, 4)))
    condition.outputs = [condition.made("LESS", [condition.inputs[0], limit], [], "BOOL", "LessOptions")]
    return case


def _quantised(t: Record) -> dict[str, Any]:
    return {} if t.quantization is None else {"quantization": t.quantization}


def _like(graph: Graph, t: Record) -> int:
    """A new tensor of the same sizes, type and scale."""
    signature = t.shape_signature
    number = graph.tensor(list(t.shape), t.type, **_quantised(t))
    if signature is not None:
        graph.tensors[number].shape_signature = signature
    return number


def _dtype(t: Record) -> type | str:
    return "bool" if t.type == "BOOL" else t.type.lower()


def _answered(requests: dict[str, Request]) -> dict[str, Answer]:
    """What LiteRT gives; some models end its process."""
    try:
        return answers(requests)
    except ZooError as error:
        if len(requests) == 1:
            return dict.fromkeys(requests, Answer([], str(error)))
        keys = list(requests)
        parts = keys[: len(keys) // 2], keys[len(keys) // 2 :]
        return {k: a for part in parts for k, a in _answered({k: requests[k] for k in part}).items()}


def trial(names: list[str], seeds: range) -> dict[str, list[str]]:
    """What went wrong, by family; what LiteRT itself refuses begins with ``LiteRT``."""
    cases = {}
    for name in names:
        for seed in seeds:
            for way in WAYS:
                case = within((FAMILIES | FORMS)[name](Draw(seed_of(name, seed))), way, seed)
                if case is not None:
                    cases[name, way, seed] = case
    requests = {
        key_of(f"{way} {name}", seed): Request(c.model.finish(), c.runs, c.reference)
        for (name, way, seed), c in cases.items()
    }
    found = _answered(requests)
    wrong: dict[str, list[str]] = {n: [] for n in names}
    for (name, way, seed), case in cases.items():
        answer = found[key_of(f"{way} {name}", seed)]
        said = f"LiteRT: {answer.error}" if answer.error else difference(case, answer)
        if said:
            wrong[name].append(f"{way}, seed {seed}: {said}")
    return wrong


if __name__ == "__main__":
    command(FAMILIES | FORMS, trial, "LiteRT")
