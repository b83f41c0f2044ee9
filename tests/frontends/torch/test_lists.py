"""Scripted programs with lists of an open length, results that may be None, and branches of two ranks, against torch.

``MNN_TORCH_SEED=50 MNN_TORCH_PROGRAMS=9 python -m pytest tests/frontends/torch/test_lists.py`` draws other ones.
"""

from __future__ import annotations

import ast
import math
import os
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import UnsupportedError
from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.torch import script
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.script.builtins import RaisedError, instance_of, is_instance, plain
from MNN.frontends.torch.script.load import Given
from MNN.frontends.torch.script.optional import Maybe
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.shape import Dim
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.peer import written

FIRST, COUNT = (int(os.environ.get(f"MNN_TORCH_{k}", given)) for k, given in (("SEED", "1"), ("PROGRAMS", "1")))
NAMES = (
    "GrowsByCount GrowsInBranch Masked Joined Chosen Greedy Beams Early Optionals TwoRanks Suppressed Numbers Replaced"
    " Edited Accumulated TakenApart Mathematics Packed Asked Tasks"
).split()
OPEN = ("Accumulated", "TakenApart", "Mathematics", "Packed")
"""Those whose number of rows is not known either."""


def _files(seed: int, name: str) -> tuple[Path, dict[str, np.ndarray]]:
    path = written("list_cases", str(seed)) / f"cases-{name}.pt"
    with np.load(path.with_suffix(".npz")) as file:
        return path, dict(file)


@pytest.mark.parametrize("reference", [True, False], ids=["reference", "kernels"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_lists(seed: int, name: str, reference: bool) -> None:
    path, arrays = _files(seed, name)
    rows: Dim = "rows" if name in OPEN else 3
    session = Session(script.load(path, {"x": Given((rows, 4))}), Config(precision="high", reference=reference))
    runs = sum(key.endswith("_in") for key in arrays)
    assert runs == 5
    for run in range(runs):
        found = list(session.run({"x": arrays[f"{run}_in"]}).values())
        wanted = [arrays[f"{run}_out_{i}"] for i in range(sum(k.startswith(f"{run}_out") for k in arrays))]
        assert [(a.shape, a.dtype) for a in found] == [(a.shape, a.dtype) for a in wanted]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Ragged", "items of one shape and type"),
        ("NoneOut", "give a tensor, such as an empty one, for None"),
        ("HeldIsWritten", "write to a copy"),
        ("ItemIsWritten", "write to a copy"),
        ("RuntimeKey", "key that is known only at run time"),
    ],
)
def test_what_is_refused(name: str, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        script.load(_files(FIRST, name)[0], {"x": Given((3, 4))})


@pytest.mark.parametrize(
    ("value", "kinds", "wanted"),
    [
        ([], "list", True),
        ([1], "List[int]", True),
        (1, "List[int]", False),
        ((1, 2.0), "Tuple[int, float]", True),
        ((1, "a"), "Tuple[int, float]", False),
        ({"a": 1}, "Dict[str, int]", True),
        ({"a": 1}, "Dict[str, str]", False),
        (None, "Optional[int]", True),
        (None, "List[int]", False),
        (3, "NoneType", False),
        (True, "int", False),
        (1.0, "(int, float)", True),
        ([1.0], "Union[Tensor, List[float]]", True),
    ],
)
def test_kinds_of_values(value: object, kinds: str, wanted: bool) -> None:
    assert is_instance(value, ast.parse(kinds, mode="eval").body) is wanted


def test_kinds_of_what_the_data_decide() -> None:
    """Numbers of the program, and what may be None."""
    ctx, number = TorchBuilder(ModelState(), Graph("g")), Number(Value("n", DType.I64, ()))
    there = Number(Value("there", DType.BOOL, ()))

    def kind(value: object, kinds: str) -> object:
        return instance_of(ctx, value, ast.parse(kinds, mode="eval").body)

    assert kind(number, "Optional[int]") is True
    assert kind(number, "float") is False
    assert kind(Maybe(there, 1.0), "Optional[float]") is True
    assert kind(Maybe(there, 1.0), "int") is False
    assert kind(Maybe(False, 1.0), "float") is False
    assert isinstance(kind(Maybe(there, 1.0), "float"), Number)
    assert isinstance(kind(Maybe(there, 1.0), "NoneType"), Number)


def test_functions_of_known_numbers_are_those_of_math() -> None:
    ctx, rng = TorchBuilder(ModelState(), Graph("g")), np.random.default_rng(4)
    unary = "acos asin atanh erf erfc expm1 log10 lgamma gamma degrees radians fabs modf frexp cosh isnan".split()
    for x, y in rng.uniform(0.01, 0.99, (20, 2)).tolist():
        for name in unary:
            assert plain(ctx, name, [x], {}) == getattr(math, name)(x)
        assert plain(ctx, "mathremainder", [7 * x, y], {}) == math.remainder(7 * x, y)
        assert plain(ctx, "divmod", [-9 * x, y], {}) == divmod(-9 * x, y)
        assert plain(ctx, "ldexp", [x, 5], {}) == math.ldexp(x, 5)
    assert plain(ctx, "factorial", [20], {}) == math.factorial(20)
    for name, args in (("factorial", [21]), ("factorial", [-1]), ("acos", [2.0]), ("__lshift__", [1, 64])):
        with pytest.raises(RaisedError):
            plain(ctx, name, args, {})


def test_numbers_that_follow_from_open_sizes() -> None:
    """The least of three, and powers, which are floats in TorchScript."""
    graph = Graph("g", [Value("x", DType.F32, ("n",))])
    ctx = TorchBuilder(ModelState(), graph)
    size = ctx.size(graph.inputs[0], 0)
    least, most = plain(ctx, "min", [[size, 5, 3]], {}), plain(ctx, "max", [[2, size, 4, size]], {})
    square, half = plain(ctx, "pow", [size, 2], {}), plain(ctx, "pow", [size, -1], {})
    assert isinstance(plain(ctx, "pow", [3, 2], {}), float)
    graph.outputs = [n.value for n in (least, most, square, half)]
    for n in (1, 4, 9):
        found = list(Session(graph, Config(reference=True)).run({"x": np.zeros(n, np.float32)}).values())
        assert [f.item() for f in found] == [min(n, 3), max(n, 4), float(n * n), 1 / n]
        assert [f.dtype for f in found] == [np.int64, np.int64, np.float64, np.float64]
