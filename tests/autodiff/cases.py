"""What gradients are checked on: onnx's operator cases, those of ONNX Runtime's operators, and random ones.

Floats are in float64 and away from round numbers, where functions have kinks.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from MNN.errors import UnsupportedError
from MNN.frontends.onnx import load
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph
from tests.autodiff.checking import Checked, check, widened
from tests.onnx.cases import _plain, node_cases
from tests.onnx.test_contrib import CASES, model_of
from tests.random.case import Draw

FAMILIES = (
    "averages", "attending", "col2im", "convolution", "deformable", "global_pooling", "indexing", "maxima",
    "normalizing", "padding", "products", "recurrent", "reductions", "resizing", "sampling", "slicing", "transposed",
    "unpooling",
)  # fmt: skip
"""Random families of operators on floats."""

ROUNDED = ("fp16", "silu")
"""Cases that compute in narrower types on the way, whose difference quotients are rough, by what is in their names."""
WITHIN_ONE = ("Acos", "Asin", "Atanh")
"""Functions that have no result above one."""
UNCHECKED = {
    "com.microsoft.DynamicQuantizeLSTM": "its sums are of integers",
    "com.microsoft.DynamicQuantizeMatMul": "its sums are of integers",
    "com.microsoft.DequantizeLinear": "its scales are rounded to f32",
    "com.microsoft.MatMulNBits": "its weights are of f32",
    "BitCast": "the bits of a float are no function of its value",
    "FlexAttention": "its constants are of f32",
    "Bernoulli": "random",
    "Cast": "it rounds to f32, so that there are no difference quotients",
    "CastLike": "it rounds to f32, so that there are no difference quotients",
    "Compress": "its size depends on numbers",
    "DequantizeLinear": "its scales are rounded to f32",
    "LinearAttention": "it computes in f32",
    "Loop": "its number of turns depends on numbers",
    "Mod": "its case of floats has infinite operands",
    "QuantizeLinear": "its scales are rounded to f32",
    "TreeEnsemble": "a function of numpy, constant between thresholds",
    "Unique": "its size depends on numbers",
}
"""Operators that some case of does not count for, and why."""


class NoFloatsError(LookupError):
    """Nothing to differentiate."""


@dataclass
class Made:
    """A case: a model of one operator, and what it is fed."""

    operator: str
    name: str
    model: onnx.ModelProto
    feeds: dict[str, Any]


@functools.cache
def onnx_cases() -> dict[str, list[Made]]:
    """onnx's cases by operator, those of models that are written out left out."""
    found: dict[str, list[Made]] = {}
    for name, case in sorted(node_cases().items()):
        if "_expanded" in name or any(r in name for r in ROUNDED) or not case.data_sets:
            continue
        model = case.model
        given = {t.name for t in model.graph.initializer}
        names = [v.name for v in model.graph.input if v.name not in given]
        feeds = {n: _plain(x) for n, x in zip(names, case.data_sets[0][0], strict=True)}
        operator = model.graph.node[0].op_type if len(model.graph.node) == 1 else "several"
        found.setdefault(operator, []).append(Made(operator, name, model, feeds))
    return found


def contrib_cases() -> Iterator[Made]:
    """Those of ONNX Runtime's own operators."""
    for name, given in CASES.items():
        model, feeds = model_of(given)
        yield Made(f"com.microsoft.{given[0]}", name, model, dict(feeds))


def random_case(family: str, seed: int) -> Made:
    """One of a family of :mod:`tests.random`."""
    made = importlib.import_module(f"tests.random.families.{family}").case(Draw(family, seed))
    return Made(made.op, f"{family} {seed}", onnx.load_from_string(made.model()), dict(made.feeds()))


def random_cases(family: str, count: int) -> Iterator[Made]:
    for seed in range(count):
        yield random_case(family, seed)


def run(made: Made, directions: int = 4, second: bool = False) -> Checked:
    """Checks a case; numbers that an operator takes as settings are constants. Raises :class:`NoFloatsError`."""
    try:
        return _run(made, directions, second, settings=False)
    except UnsupportedError as error:
        if "as a setting" not in str(error):
            raise
        return _run(made, directions, second, settings=True)


def graph_of(made: Made, settings: bool = False, wide: bool = True) -> tuple[Graph, dict[str, Any]]:
    """A case's graph, floats (in float64 where ``wide``) being its only inputs, and what it is fed; with ``settings``
    the first of them alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = load(made.model.SerializeToString())
    if wide:
        widened(graph)
    rng = np.random.default_rng(1)
    feeds: dict[str, Any] = {}
    floats = 0
    for value in list(graph.inputs):
        if value.is_const:
            continue
        array = made.feeds[value.name]
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            floats += 1
            numbers = array.astype(np.float64)
            off = numbers.size > 1 or bool((numbers != np.round(numbers)).any())
            moved = numbers + off * (-0.03 if made.operator in WITHIN_ONE else 0.03) * rng.uniform(
                0.1, 1, numbers.shape
            )
            feeds[value.name] = moved.astype(np.float32).astype(np.float64 if wide else np.float32)
        else:
            feeds[value.name] = array
        if isinstance(array, np.ndarray) and (array.dtype.kind != "f" or (settings and floats > 1)):
            value.data = feeds.pop(value.name)
            value.dtype, value.shape = DType.of(value.data), value.data.shape
            graph.inputs.remove(value)
    return graph, feeds


def _run(made: Made, directions: int, second: bool, settings: bool) -> Checked:
    graph, feeds = graph_of(made, settings)
    try:
        return check(graph, feeds, directions=directions, second=second)
    except LookupError as error:
        raise NoFloatsError(made.name) from error
