"""One call of an ATen operator, as a graph of its own, against torch's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.element_types import NAMES
from MNN.frontends.torch.numbers import Number
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.near import compare

Case = tuple[str, list[Any], dict[str, Any], Any]


class _Reader:
    def __init__(self, ctx: TorchBuilder, arrays: Sequence[np.ndarray]) -> None:
        self._ctx, self._arrays = ctx, arrays
        self.feeds: dict[str, np.ndarray] = {}

    def read(self, x: Any) -> Any:
        if isinstance(x, list):
            return [self.read(v) for v in x]
        if not isinstance(x, dict):
            return x
        if "dtype" in x:
            return NAMES[x["dtype"]]
        if "float" in x:
            return float(x["float"])
        array = self._arrays[x["tensor"]]
        value = Value(f"x{len(self.feeds)}", DType.of(array), array.shape)
        self._ctx.model.taken.add(value.name)
        self._ctx.graph.inputs.append(value)
        self.feeds[value.name] = array
        return Variable(value)


def _flat(x: Any) -> list[Any]:
    return [b for a in x for b in _flat(a)] if isinstance(x, (list, tuple)) else [x]


def difference(case: Case, arrays: Sequence[np.ndarray]) -> str:
    """What is wrong with our answer; empty when nothing is. Errors of the front end are raised."""
    name, args, kwargs, expected = case
    graph = Graph("case")
    ctx = TorchBuilder(ModelState(), graph)
    ctx.where = name
    reader = _Reader(ctx, arrays)
    library, operator = name.split(".")[:2]
    called = operator if library == "aten" else f"{library}.{operator}"
    results = _flat(call(ctx, called, reader.read(args), {k: reader.read(v) for k, v in kwargs.items()}))
    for i, result in enumerate(results):
        if result is None:  # one that is for training alone
            continue
        value = (
            result.read(ctx)
            if isinstance(result, Variable)
            else result.value
            if isinstance(result, Number)
            else ctx.const(np.asarray(result))
        )
        made = ctx.op("Identity", value)
        made.name = f"out{i}"
        graph.outputs.append(made)
    found = Session(graph, Config(precision="high")).run(reader.feeds)
    for i, want in enumerate(_flat(expected)[: len(results)]):
        if not isinstance(want, dict) or results[i] is None:
            continue
        wrong = compare(np.asarray(found[f"out{i}"]), arrays[want["tensor"]])
        if wrong:
            return f"result {i}: {wrong}"
    return ""
