"""Chains of elementwise functions of constants: one loop when they are read, with the numbers that numpy has."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mnp
from MNN.errors import MNNError
from MNN.expr.arrays import few, places
from MNN.expr.fused import loops
from MNN.expr.fused.settings import SETTINGS

Array = np.ndarray[Any, Any]
EXACT = ("abs", "negative", "square", "floor", "ceil", "sign")
ROUNDED = ("sin", "cos", "exp", "tanh", "sqrt", "arctan")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
COMPARISONS = ("greater", "less_equal", "equal")
Case = tuple[Any, Array, bool]
"""A Var, the numbers that numpy has, and whether every number has to be the same."""


@pytest.fixture(autouse=True, scope="module")
def by_python() -> Iterator[None]:
    """Generated code has programs of its own for few numbers, which ``test_programs`` is about."""
    places.settle()
    places.tell({entry: usual for usual, entry in places.ENTRIES.items()})
    yield
    places.tell(places.ENTRIES)


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are what is tested, also where numpy would be asked at once."""
    monkeypatch.setattr(few, "FEW", -1)
    monkeypatch.setattr(few, "ALONE", -1)
    monkeypatch.setattr(few, "CHAINED", -1)
    monkeypatch.setattr(few, "MANY", -1)


@pytest.fixture(params=["interpreted", "compiled", "shared"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How loops run: all of them in each of the ways."""
    loops.loop_of.cache_clear()
    monkeypatch.setattr(loops, "COMPILE_AFTER", np.inf if request.param == "interpreted" else 0.0)
    monkeypatch.setattr(SETTINGS, "loop_threads", 2 if request.param == "shared" else 1)
    if request.param == "shared":
        from MNN.expr.fused import kernels

        monkeypatch.setattr(kernels, "SHARED", 0)
        monkeypatch.setattr(kernels, "CHUNK", 64)
    return str(request.param)


def leaf(draw: np.random.Generator, shape: tuple[int, ...]) -> Case:
    """One that broadcasts to a shape, of any element type and order of axes."""
    own = shape
    if draw.random() < 0.5:
        own = tuple(n if draw.random() < 0.75 else 1 for n in shape)[draw.integers(len(shape) + 1) :]
    kind = (np.float32, np.float32, np.int32, np.uint8)[draw.integers(4)]
    array = np.asarray((draw.normal(size=own) * 3).round(2) if kind is not np.uint8 else draw.integers(0, 9, own), kind)
    if draw.random() < 0.3 and array.ndim > 1:
        return mnp.transpose(mnp.array(np.ascontiguousarray(array.T))), array, True
    return mnp.array(array), array, True


def floats(array: Array) -> Array:
    return array.astype(np.float32, copy=False)


def unary(draw: np.random.Generator, case: Case) -> Case:
    x, a, exact = case
    name = str(draw.choice(EXACT if exact and draw.random() < 0.5 else ROUNDED))
    if name in ("sqrt", "exp"):
        x, a = (mnp.abs(x), np.abs(a)) if name == "sqrt" else (mnp.minimum(x, 4), np.minimum(a, a.dtype.type(4)))
        a = a.astype(np.int32) if name == "exp" and a.dtype == np.uint8 else a
    keeps = name in ("abs", "negative", "sign")
    a = (a.astype(np.int32) if name == "negative" and a.dtype == np.uint8 else a) if keeps else floats(a)
    return getattr(mnp, name)(x), np.asarray(getattr(np, name)(a)), exact and name in EXACT


def binary(draw: np.random.Generator, one: Case, other: Case) -> Case:
    (x, a, exact), (y, b, same) = one, other
    if "f" in a.dtype.kind + b.dtype.kind:
        a, b = floats(a), floats(b)
    if exact and same and draw.random() < 0.3:
        name = str(draw.choice(COMPARISONS))
        return getattr(mnp, name)(x, y), np.asarray(getattr(np, name)(a, b)).astype(np.int32), True
    name = str(draw.choice(BINARY))
    return getattr(mnp, name)(x, y), np.asarray(getattr(np, name)(a, b)), exact and same


def cases(draw: np.random.Generator) -> list[Case]:
    """Vars that are computed from each other."""
    shape = tuple(int(n) for n in draw.integers(1, 40, draw.integers(0, 4)))
    if draw.random() < 0.1 and shape:
        shape = (0, *shape[1:])
    found = [leaf(draw, shape) for _ in range(draw.integers(1, 4))]
    for _ in range(draw.integers(1, 14)):
        one, other = (found[draw.integers(len(found))] for _ in "ab")
        kind = draw.random()
        if kind < 0.25:
            number = np.float32(round(draw.normal(), 2))
            made: Case = one[0] * float(number) + 0.5, floats(one[1]) * number + np.float32(0.5), one[2]
        else:
            made = unary(draw, one) if kind < 0.6 else binary(draw, one, other)
        if np.abs(made[1].astype(np.float64)).max(initial=0) < 1e3:
            found.append(made)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_random_chains(seed: int, way: str) -> None:
    draw = np.random.default_rng([seed, 29])
    made = cases(draw)
    for i in draw.permutation(len(made))[:4]:
        x, wanted, exact = made[i]
        found = x.read()
        assert found.shape == wanted.shape == tuple(x.shape)
        assert found.dtype == wanted.dtype
        if exact:
            np.testing.assert_array_equal(found, wanted)
        else:
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


def test_a_chain_is_one_loop(way: str) -> None:
    x = mnp.array(np.linspace(-2, 2, 1000, dtype=np.float32))
    before = loops.loop_of.cache_info().misses
    y = mnp.tanh(mnp.abs(mnp.exp(mnp.sin(x * 0.5 + 1.0)) - 0.3)) * 2.0
    assert loops.loop_of.cache_info().misses == before  # nothing has been computed
    y.read()
    (mnp.tanh(mnp.abs(mnp.exp(mnp.sin(x * 2.5 + 3.0)) - 7.0)) * 0.1).read()  # other numbers: the same loop
    assert loops.loop_of.cache_info().misses == before + 1


def test_numbers_are_those_of_when_it_was_said(way: str) -> None:
    array = np.arange(5, dtype=np.float32)
    constant = mnp.array([1.0, 2.0, 3.0, 4.0, 5.0])
    borrowed, kept = constant + array, constant * 2.0
    array[:] = 100
    constant.write([9.0] * 5)
    np.testing.assert_array_equal(borrowed.read(), [1, 3, 5, 7, 9])
    np.testing.assert_array_equal(kept.read(), [2, 4, 6, 8, 10])
    mine = kept.read()
    mine[:] = 0  # a copy, the first as well as the second
    np.testing.assert_array_equal(kept.read(), [2, 4, 6, 8, 10])
    changed = constant * 3.0
    changed[1] = -1.0
    np.testing.assert_array_equal(changed.read(), [27, -1, 27, 27, 27])
    fixed = constant * 3.0
    fixed.fix_as_trainable()
    assert fixed.op_type == "Trainable"
    np.testing.assert_array_equal((fixed + 1.0).read(), [28] * 5)


def test_what_is_used_often_is_computed_twice_at_most(way: str) -> None:
    x = mnp.array(np.full(10, 2.0, np.float32))
    shared = mnp.exp(x)
    for n in range(6):
        np.testing.assert_allclose((shared * float(n + 1)).read(), np.full(10, np.exp(2.0) * (n + 1)), rtol=1e-6)
    assert shared._expr._deferred is not None
    assert shared._expr._deferred.array is not None  # the second loop has stored it
    total = x
    for _ in range(200):
        total = total * 0.5 + x
    assert total._expr._deferred is not None
    assert total._expr._deferred.functions <= 32
    np.testing.assert_allclose(total.read(), np.full(10, 4.0), rtol=1e-6)


def test_sizes_that_do_not_fit_are_told_at_once() -> None:
    with pytest.raises(MNNError, match=r"3.*4|4.*3"):
        mnp.array([1.0, 2.0, 3.0]) + mnp.array([1.0, 2.0, 3.0, 4.0])


def test_loops_run_in_many_threads(way: str) -> None:
    x = mnp.array(np.linspace(0, 1, 3000, dtype=np.float32))
    wanted = np.sqrt(np.linspace(0, 1, 3000, dtype=np.float32) + 1)

    def run(number: int) -> bool:
        return all(np.allclose(mnp.sqrt(x + 1.0).read(), wanted) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


@pytest.mark.parametrize("seed", range(8))
def test_primitives_that_are_kept_serve_operands_alike_only(seed: int) -> None:
    draw = np.random.default_rng([seed, 7])
    shapes = [tuple(int(n) for n in draw.integers(1, 4, 3)) for _ in range(2)]
    for _ in range(40):  # sizes, axes and places come again, in other company
        a = draw.normal(size=shapes[draw.integers(2)]).astype((np.float32, np.int32)[draw.integers(2)])
        x, axis = mnp.array(a), int(draw.integers(-3, 3))
        places = draw.integers(0, a.shape[axis], (2, 30)[draw.integers(2)])
        for found, wanted in (
            (mnp.sum(x, axis=axis), a.sum(axis)),
            (mnp.max(x, axis=axis, keepdims=True), a.max(axis, keepdims=True)),
            (mnp.sort(x, axis=axis), np.sort(a, axis)),
            (mnp.flip(x, axis), np.flip(a, axis)),
            (mnp.take(x, places, axis=axis), np.take(a, places, axis)),
            (mnp.concatenate([x, x], axis=axis), np.concatenate([a, a], axis)),
            (mnp.transpose(x, [2, 0, 1]), a.transpose(2, 0, 1)),
            (mnp.reshape(x, [a.size, -1]), a.reshape(a.size, -1)),
        ):
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(MNNError):
        mnp.reshape(mnp.array(np.zeros(shapes[0])), [1000])
    drawn = [F.randomuniform([4]).read() for _ in range(3)]
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.parametrize("seed", range(12))
def test_reductions(seed: int, way: str) -> None:
    """Over any axes of any sizes: rows, columns, and what is neither."""
    draw = np.random.default_rng([seed, 41])
    for _ in range(6):
        shape = tuple(int(n) for n in draw.integers(1, 9, draw.integers(1, 5)))
        wide = draw.integers(len(shape))
        shape = tuple(int(draw.integers(1, 300)) if i == wide else n for i, n in enumerate(shape))
        kind = (np.float32, np.int32, np.float64, np.int64)[draw.integers(4)]
        array = (draw.normal(size=shape) * 9).astype(np.float32).astype(kind)  # doubles are given as floats
        if kind is np.float32 and draw.random() < 0.3:
            array.reshape(-1)[draw.integers(array.size)] = (np.nan, np.inf)[draw.integers(2)]
        x = mnp.array(array, dtype=kind)
        axes = tuple(int(a) for a in np.flatnonzero(draw.random(len(shape)) < 0.5)) or None
        keep = bool(draw.integers(2))
        for name in ("sum", "max", "min", "prod"):
            given = (array * 0.01).astype(np.float32).astype(kind) if name == "prod" else array
            found = getattr(mnp, name)(mnp.array(given, dtype=kind) if name == "prod" else x, axis=axes, keepdims=keep)
            with np.errstate(all="ignore"):
                extra = {} if name in ("max", "min") else {"dtype": kind}
                wanted = getattr(np, name)(given, axis=axes, keepdims=keep, **extra)
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-3 if kind is np.float32 else 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_reductions_of_chains(seed: int, way: str) -> None:
    """In one loop with what they reduce, which others may use too; of few whole numbers as of many."""
    draw = np.random.default_rng([seed, 43])
    for _ in range(12):
        shape = tuple(int(n) for n in draw.integers(1, 9, draw.integers(1, 4)))
        shape = (shape[0] * int(draw.choice([1, 40])), *shape[1:])
        array = draw.integers(-3, 4, shape).astype((np.int32, np.float32)[draw.integers(2)])
        x = mnp.array(array)
        axes = tuple(int(a) for a in np.flatnonzero(draw.random(len(shape)) < 0.6)) or None
        chain, wanted = mnp.abs(x - 1) * 2, np.abs(array - 1) * 2
        if draw.random() < 0.3:
            chain.read()
        for name in draw.choice(["sum", "max", "min"], 2):
            np.testing.assert_array_equal(np.asarray(getattr(mnp, name)(chain, axis=axes)), getattr(wanted, name)(axes))
        np.testing.assert_array_equal(np.asarray(chain), wanted)
        np.testing.assert_array_equal(np.asarray(mnp.count_nonzero(x, axis=axes)), np.count_nonzero(array, axes))
        mean = np.asarray(mnp.mean(chain * 0.5, axis=axes))
        np.testing.assert_allclose(mean, (wanted * 0.5).mean(axes), rtol=1e-6)


def test_sums_of_many_numbers_are_exact(way: str) -> None:
    """Sums of parts are added up: the error does not grow with the number of elements."""
    array = np.random.default_rng(5).random(3_000_001, dtype=np.float32)
    exact = array.astype(np.float64).sum()
    assert abs(mnp.sum(mnp.array(array)) / exact - 1) < 3e-7
    rows = array[:3_000_000].reshape(2, -1)
    np.testing.assert_allclose(np.asarray(mnp.sum(mnp.array(rows), axis=1)), rows.sum(1, np.float64), rtol=3e-7)
    np.testing.assert_allclose(np.asarray(mnp.max(mnp.array(rows), axis=1)), rows.max(1))


def test_what_moves_a_users_array_has_its_own_numbers() -> None:
    array = np.arange(6, dtype=np.float32)
    moved = [F.reshape(array, [2, 3]), F.transpose(array.reshape(2, 3)), F.squeeze(array), F.unsqueeze(array, [0])]
    wanted = [v.read() for v in moved]
    array[:] = 9
    for found, numbers in zip(moved, wanted, strict=True):
        np.testing.assert_array_equal(found.read(), numbers)
