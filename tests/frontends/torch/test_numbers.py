"""Functions of the bits of floats, slopes, scans and inverses of open sizes, and draws, against numpy; what is said of
operators that are not here."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.torch.absent import ABSENT, advice
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.complex.tensor import COMPLEX, Complex
from MNN.frontends.torch.registry import ATEN
from MNN.frontends.torch.script.load import _Program
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.runtime.config import Config
from MNN.runtime.session import Session

FLOATS = (np.float16, np.float32, np.float64)


def model(
    name: str, shapes: list[tuple[int | str, ...]], kinds: list[Any], *args: Any, reference: bool = True, **named: Any
) -> Callable[..., Any]:
    """An operator of tensors of these sizes; what it is called with gives its results."""
    graph = Graph("g")
    graph.inputs = [
        Value(f"x{i}", DType.of(np.zeros(0, k)), s) for i, (s, k) in enumerate(zip(shapes, kinds, strict=True))
    ]
    ctx = TorchBuilder(ModelState(), graph)
    found = call(ctx, name, [*map(Variable, graph.inputs), *args], named)
    listed = found if isinstance(found, list) else [found]
    graph.outputs = [ctx.op("Identity", v.read(ctx)) for v in listed]
    session = Session(graph, Config(reference=reference))

    def run(*given: np.ndarray) -> list[np.ndarray]:
        return list(session.run({f"x{i}": x for i, x in enumerate(given)}).values())

    return run


def floats(kind: Any, count: int, seed: int) -> np.ndarray:
    """Of all sizes, with those that are special among them."""
    rng, info = np.random.default_rng(seed), np.finfo(kind)
    with np.errstate(over="ignore"):
        drawn = (rng.standard_normal(count) * 2.0 ** rng.integers(info.minexp, info.maxexp, count)).astype(kind)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, info.max, -info.max, info.tiny, -info.tiny]
    drawn[: len(special)] = special
    return drawn


@pytest.mark.parametrize("kind", FLOATS)
def test_exponents_and_the_next_floats_are_those_of_numpy(kind: Any) -> None:
    x = floats(kind, 300, 1)
    fraction, exponent = model("frexp", [x.shape], [kind])(x)
    wanted = np.frexp(x)
    np.testing.assert_array_equal(fraction, wanted[0])
    np.testing.assert_array_equal(exponent, np.where(np.isfinite(x), wanted[1], 0))
    assert exponent.dtype == np.int32
    left, right = np.repeat(x, 14), np.tile(x[:14], 300)
    (found,) = model("nextafter", [left.shape] * 2, [kind] * 2)(left, right)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, np.nextafter(left, right))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_next_floats_of_those_that_processors_take_for_zero(kind: Any) -> None:
    tiny = np.finfo(kind).smallest_subnormal
    x = np.array([0.0, -0.0, tiny, -tiny, 2 * tiny, -2 * tiny, np.finfo(kind).tiny, 1, np.inf, np.nan], kind)
    left, right = np.repeat(x, x.size), np.tile(x, x.size)
    (found,) = model("nextafter", [left.shape] * 2, [kind] * 2, reference=False)(left, right)
    np.testing.assert_array_equal(found, np.nextafter(left, right))


@pytest.mark.parametrize("n", [0, 3])
def test_groups_of_an_empty_batch_too(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 4, 5)).astype(np.float32)
    found, mean, inverse = model("native_group_norm", [x.shape], [np.float32], None, None, n, 4, 5, 2, 1e-5)(x)
    rows = x.reshape(n, 2, 10)
    wanted = [rows.mean(2), 1 / np.sqrt(rows.var(2) + 1e-5)]
    np.testing.assert_allclose(mean, wanted[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(inverse, wanted[1], rtol=1e-4)
    rows = (rows - wanted[0][..., None]) * wanted[1][..., None]
    np.testing.assert_allclose(found, rows.reshape(x.shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_slopes_are_those_of_numpy(order: int) -> None:
    rng = np.random.default_rng(order)
    x, places = rng.standard_normal((4, 7, 5)), np.cumsum(rng.random(7) + 0.1)
    cases: list[tuple[list[Any], dict[str, Any], list[float], tuple[int, ...]]] = [
        ([], {}, [1.0], (0, 1, 2)),
        ([], {"spacing": 3, "dim": -1}, [3.0], (2,)),
        ([[2, 0]], {}, [1.0], (2, 0)),
        ([0.5, [1, 2]], {}, [0.5], (1, 2)),
        ([[0.5, 3.0]], {"dim": [0, 2]}, [0.5, 3.0], (0, 2)),
    ]
    for args, named, apart, axes in cases:
        found = model("gradient", [x.shape], [np.float64], *args, edge_order=order, **named)(x)
        wanted = np.gradient(x, *apart, axis=axes, edge_order=order)
        for a, b in zip(found, wanted if isinstance(wanted, (list, tuple)) else [wanted], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    graph = Graph("g")
    graph.inputs = [Value("x", DType.F64, x.shape), Value("at", DType.F64, (7,))]
    ctx = TorchBuilder(ModelState(), graph)
    value, at = map(Variable, graph.inputs)
    graph.outputs = [
        v.read(ctx) for v in call(ctx, "gradient", [value], {"spacing": [at], "dim": 1, "edge_order": order})
    ]
    (found,) = Session(graph, Config(reference=True)).run({"x": x, "at": places}).values()
    np.testing.assert_allclose(found, np.gradient(x, places, axis=1, edge_order=order), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_extremes_until_each_place_of_an_open_axis(kind: Any) -> None:
    for name, extreme in (("cummax", np.maximum), ("cummin", np.minimum)):
        run = model(name, [(2, "n")], [kind], 1)
        for n in (1, 2, 5, 300):
            x = np.random.default_rng(n).integers(0, 50, (2, n)).astype(kind)
            found, place = run(x)
            np.testing.assert_array_equal(found, extreme.accumulate(x, 1))
            np.testing.assert_array_equal(np.take_along_axis(x, place, 1), found)
            assert (place <= np.arange(n)).all()
        if name == "cummin":
            with pytest.raises(MNNError, match=r"axis 1 of \[2, 1048577\] is scanned in steps that reach over 1048576"):
                run(np.zeros((2, (1 << 20) + 1), kind))


def test_sums_of_exponentials_and_inverses_of_open_sizes() -> None:
    run, inverse = model("logcumsumexp", [("n",)], [np.float64], 0), model("pinverse", [("n", "m")], [np.float64])
    for n in (1, 3, 70):
        x = np.random.default_rng(n).standard_normal((n, 5))
        np.testing.assert_allclose(run(x[:, 0])[0], np.log(np.cumsum(np.exp(x[:, 0]))), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(inverse(x)[0], np.linalg.pinv(x), rtol=1e-8, atol=1e-10)


COUNT = 20_000
DRAWN: dict[str, tuple[list[Any], Callable[[np.ndarray], np.ndarray]]] = {
    "exponential_": ([2.5], lambda x: 1 - np.exp(-2.5 * x)),
    "geometric_": ([0.2], lambda x: 1 - 0.8 ** np.floor(x)),
    "cauchy_": ([1.0, 2.0], lambda x: np.arctan((x - 1) / 2) / np.pi + 0.5),
    "log_normal_": ([0.3, 0.7], lambda x: 0.5 + 0.5 * np.vectorize(math.erf)((np.log(x) - 0.3) / 0.7 / 2**0.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_draws_are_distributed_as_they_should(name: str) -> None:
    """The largest distance of shares from the distribution is below Kolmogorov's bound at 1e-6."""
    args, below = DRAWN[name]
    (found,) = model(name, [(COUNT,)], [np.float32], *args)(np.zeros(COUNT, np.float32))
    x = np.unique(found.astype(np.float64))
    shares = np.searchsorted(np.sort(found), x, "right") / COUNT
    assert np.isfinite(found).all()
    assert name == "cauchy_" or found.min() > 0
    assert np.abs(shares - below(x)).max() < 2.7 / COUNT**0.5


@pytest.mark.parametrize(("count", "again"), [(1, False), (4, False), (1, True), (6, True)])
def test_places_are_drawn_by_their_shares(count: int, again: bool) -> None:
    shares = np.array([0.1, 0, 0.4, 0.2, 0, 0.3, 0], np.float32)
    rows = np.tile(shares * 3, (5000, 1))
    (found,) = model("multinomial", [rows.shape], [np.float32], count, again)(rows)
    assert found.dtype == np.int64
    assert found.shape == (5000, count)
    assert (shares[found] > 0).all()
    assert again or all(len(set(row)) == count for row in found[:100].tolist())
    first = found if again else found[:, :1]
    counted = np.bincount(first.reshape(-1), minlength=7) / first.size
    assert np.abs(counted - shares).max() < 5 / first.size**0.5


def test_convolutions_of_two_orders_of_arguments() -> None:
    rng = np.random.default_rng(8)
    shapes: list[tuple[int | str, ...]] = [(2, 4, 11, 9), (6, 2, 3, 2), (6,)]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    kinds, stride, padding, dilation = [np.float32] * 3, [2, 1], [0, 3], [1, 2]
    (one,) = model("conv2d", shapes, kinds, stride, padding, dilation, 2)(*arrays)
    (other,) = model("mkldnn_convolution", shapes, kinds, padding, stride, dilation, 2)(*arrays)
    np.testing.assert_array_equal(one, other)


def test_what_to_do_is_said_of_operators_that_are_absent() -> None:
    assert not [n for n in ABSENT if ATEN.find(n) or COMPLEX.find(n)]
    assert "linalg_eigh" in advice("linalg_eig", "")
    assert "evaluation" in advice("convolution_backward", "")
    assert advice("surely_unknown", "otherwise") == "otherwise"


def test_a_complex_output_is_named() -> None:
    ctx = TorchBuilder(ModelState(), Graph("g"))
    found = Complex(Variable(Value("y", DType.F32, (3, 2))))
    program = SimpleNamespace(ctx=ctx, _outputs=lambda *a: _Program._outputs(program, *a))  # type: ignore[arg-type]
    with pytest.raises(MNNError, match=r"output 'output\.1': a complex tensor"):
        _Program._outputs(program, [1, found], "output")  # type: ignore[arg-type]


def test_the_largest_number_is_counted_whatever_its_edges_round_to() -> None:
    """``low + (high - low)`` may be less than ``high``."""
    weights = np.random.default_rng(1).standard_normal(25).astype(np.float32)
    given = Variable(Value("weights", DType.F32, (25,), weights))
    run = model("histogram", [(25,)], [np.float32], 4, weight=given, density=True)
    apart = 0
    for seed in range(30):
        x = np.random.default_rng(seed).uniform(-9, 9, 25).astype(np.float32)
        low, high = x.min(), x.max()
        apart += low + (high - low) != high
        wanted, edges = np.histogram(x, 4, weights=weights, density=True)
        found, places = run(x)
        np.testing.assert_allclose(places, edges, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found, wanted, rtol=1e-3)
    assert apart > 3


@pytest.mark.parametrize("order", ["fro", "nuc", 1, 2, np.inf])
def test_norms_of_empty_matrices_are_zero(order: Any) -> None:
    for shape in ((5, 0), (0, 5), (0, 0)):
        (found,) = model("linalg_matrix_norm", [shape], [np.float32], order)(np.zeros(shape, np.float32))
        np.testing.assert_array_equal(found, 0)
