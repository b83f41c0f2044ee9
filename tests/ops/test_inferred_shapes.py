"""Shape inference against the meaning: sizes that are inferred by name, with numbers put in for the names, are those
that lowering gives at these numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from MNN.errors import MNNError
from MNN.frontends.onnx import load
from MNN.ir.graph import Graph
from MNN.ir.symbolic import Size, evaluate, names
from MNN.passes.arranging import shape_propagation
from tests.onnx.cases import node_cases
from tests.random.case import Case
from tests.random.runner import case, family_names

CASES = 12
"""Random cases of a family."""


def named(model: ModelProto) -> tuple[ModelProto, dict[str, int]]:
    """The model with a name for every size above 1 of its inputs that are not integers, the same for equal sizes, and
    what the names stand for. What it says of other values is taken out."""
    out = ModelProto.FromString(model.SerializeToString())
    del out.graph.value_info[:]
    constants, sizes = {t.name for t in out.graph.initializer}, dict[str, int]()
    for value in out.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    for value in out.graph.input:
        kind = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or value.name in constants or not kind.HasField("shape"):
            continue
        if kind.elem_type in (TensorProto.INT64, TensorProto.INT32):
            continue  # numbers that shapes may depend on
        for dim in kind.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value > 1:
                sizes[f"n{dim.dim_value}"] = dim.dim_value
                dim.dim_param = f"n{dim.dim_value}"
    return out, sizes


def inferred(model: ModelProto) -> Graph | None:
    """The graph of a model with what is inferred of its shapes; None where it cannot be loaded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = load(model.SerializeToString())
    except MNNError:
        return None
    shape_propagation.run(graph)
    return graph


def untrue(model: ModelProto, expected: dict[str, tuple[int, ...]]) -> Iterator[str]:
    """Sizes that are inferred by names and are others in truth."""
    renamed, sizes = named(model)
    graph = inferred(renamed)
    if graph is None:
        return
    makers = {v: node for node in graph.nodes for v in node.outputs}
    for value in graph.outputs:
        wanted = expected.get(value.name)
        if value.shape is None or wanted is None:
            continue
        found = [_number(d, sizes) for d in value.shape]
        wrong = len(found) != len(wanted) or any(a not in (None, b) for a, b in zip(found, wanted, strict=True))
        if wrong:
            yield f"{makers[value].op if value in makers else 'input'} '{value.name}': {value.shape} is {wanted}"


def _number(size: Size, sizes: dict[str, int]) -> int | None:
    return evaluate(size, sizes) if size is not None and names(size) <= set(sizes) else None


def test_sizes_of_onnx_cases_by_name() -> None:
    found, tried = list[str](), 0
    for name, each in node_cases().items():
        outputs = [o.name for o in each.model.graph.output]
        for _, wanted in each.data_sets:
            tried += 1
            shapes = {n: np.shape(a) for n, a in zip(outputs, wanted, strict=False) if isinstance(a, np.ndarray)}
            found += [f"{name}: {said}" for said in untrue(each.model, shapes)]
    assert tried > 1800
    assert not found, f"{len(found)} sizes, such as {found[:20]}"


@pytest.mark.parametrize("family", family_names())
def test_sizes_of_random_operators_by_name(family: str) -> None:
    found = list[str]()
    for seed in range(CASES):
        made: Case = case(family, seed)
        graph = inferred(ModelProto.FromString(made.model()))
        if graph is not None:
            shapes = {v.name: tuple(v.shape) for v in graph.outputs if v.shape and all(type(d) is int for d in v.shape)}
            found += [f"{seed}: {said}" for said in untrue(ModelProto.FromString(made.model()), shapes)]
    assert not found, f"{len(found)} sizes, such as {found[:20]}"
