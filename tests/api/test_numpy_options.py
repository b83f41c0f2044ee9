"""numpy's options in ``MNN.numpy``: what a function takes it uses, or refuses with a sentence."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import MNN.numpy as mp
from MNN import MNNError
from MNN.expr import Var, placeholder
from tests.api.numpy_calls import Given
from tests.api.test_numpy_functions import same

Call = Callable[..., Any]
KINDS = (np.float32, np.float64, np.int32, np.int64, np.uint8)


def _functions(option: str) -> list[str]:
    """The functions that take an option, each under its own name; elementwise ones have a file of their own."""
    found = [f for name in mp.__all__ if inspect.isfunction(f := getattr(mp, name))]
    functions = [f for f in found if not hasattr(f, "__wrapped__") or f.__module__ == mp.__name__]
    return sorted({f.__name__ for f in functions if option in inspect.signature(f).parameters})


_MORE = {"percentile": (30.0,), "quantile": (0.3,), "nanpercentile": ([20.0, 70.5],), "nanquantile": (0.6,)}
_SPECIAL: dict[str, Call] = {
    "choose": lambda m, g, **o: m.choose(g.ints(4, low=0, high=2), [g.floats(4), g.floats(4)], **o),
    "compress": lambda m, g, **o: m.compress([1, 0, 1] if m is mp else [True, False, True], g.floats(3, 2), axis=0,
                                             **o),
    "clip": lambda m, g, **o: m.clip(g.floats(3, 4), -1.0, g.pick(1.0, None), **o),
    "concatenate": lambda m, g, **o: m.concatenate([g.floats(2, 3), g.floats(1, 3)], axis=0, **o),
    "dot": lambda m, g, **o: m.dot(g.floats(2, 3), g.floats(3, 4), **o),
    "matmul": lambda m, g, **o: m.matmul(g.floats(2, 3, 4), g.floats(4, 2), **o),
    "outer": lambda m, g, **o: m.outer(g.floats(2, 3), g.floats(4), **o),
    "round": lambda m, g, **o: m.round(g.floats(3, 4), g.pick(1, 2), **o),
    "stack": lambda m, g, **o: m.stack([g.floats(2, 3), g.floats(2, 3)], axis=g.pick(0, 1, -1), **o),
    "take": lambda m, g, **o: m.take(g.floats(5, 2), g.ints(3, low=0, high=5), axis=0, **o),
}  # fmt: skip


def _call(name: str, m: Any, seed: int, **options: Any) -> Any:
    g = Given(seed, mp.array if m is mp else lambda a: a)
    if name in _SPECIAL:
        return _SPECIAL[name](m, g, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of numpy, about rows without numbers
        x = g.holed(3, 4, 2) if name.startswith("nan") else g.floats(3, 4, 2)
        axis = 0 if name.startswith("nan") else g.pick(None, 0, 1, -1)
        return getattr(m, name)(x, *_MORE.get(name, ()), axis=axis, **options)


@pytest.mark.parametrize("name", _functions("out"))
@pytest.mark.parametrize("seed", range(3))
def test_results_are_written_where_asked(name: str, seed: int) -> None:
    wanted = np.asarray(_call(name, np, seed))
    whole = wanted.dtype.kind != "f"
    out = mp.full(wanted.shape, 7, dtype=mp.int32 if whole else mp.float32)
    found = _call(name, mp, seed, out=out)
    assert found is out
    same(out, wanted)
    for wrong in (mp.ones((*wanted.shape, 2), mp.float64), np.zeros(wanted.shape), 3):
        with pytest.raises(MNNError, match="out "):
            _call(name, mp, seed, out=wrong)
    if not whole:
        with pytest.raises(MNNError, match=r"out holds int32|become i32"):
            _call(name, mp, seed, out=mp.zeros(wanted.shape, mp.int32))


def test_every_method_that_takes_out_writes_there() -> None:
    array = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    for name in ("sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "argmax", "argmin"):
        kind = mp.int32 if name[:3] in ("all", "any", "arg") else mp.float32
        out = mp.zeros(4, kind)
        assert getattr(mp.array(array), name)(axis=0, out=out) is out
        same(out, getattr(array, name)(axis=0))
    out = mp.zeros((3, 4), mp.float32)
    assert mp.array(array).round(1, out) is out
    same(out, array.round(1))


_REDUCING: dict[str, tuple[str, ...]] = {
    "sum": ("dtype", "initial", "where"), "prod": ("dtype", "initial", "where"), "max": ("initial", "where"),
    "min": ("initial", "where"), "mean": ("where",), "var": ("where", "ddof", "mean"),
    "std": ("where", "ddof", "mean"), "all": ("where",), "any": ("where",),
}  # fmt: skip
_REDUCING |= {
    f"nan{name}": tuple(o for o in options if o != "mean")
    for name, options in _REDUCING.items()
    if name not in ("all", "any")
}


def _options(name: str, rng: np.random.Generator, x: np.ndarray, axis: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"keepdims": bool(rng.integers(2))}
    for option in _REDUCING[name]:
        if rng.integers(2):
            given[option] = {
                "dtype": np.float64 if name.endswith("sum") else np.float32, "ddof": 1,
                "initial": int(rng.integers(1, 4)),
                "where": rng.random(x.shape if rng.integers(2) else x.shape[-1:]) < 0.8,
                "mean": x.mean(axis, keepdims=True),
            }[option]  # fmt: skip
    if name[-3:] in ("max", "min") and "where" in given:
        given.setdefault("initial", 2)
    return given


def _reduced(name: str, x: np.ndarray, axis: Any, options: dict[str, Any]) -> Any:
    """What numpy gives; numpy 1 takes no ``mean``."""
    if "mean" not in options or hasattr(np, "trapezoid"):
        return getattr(np, name)(x, axis=axis, **options)
    taken = {"axis": axis, "where": np.broadcast_to(options.get("where", True), x.shape)}
    taken["keepdims"] = options["keepdims"]
    count = np.sum(np.ones(x.shape), **taken) - options.get("ddof", 0)
    variance = np.sum((x.astype(np.float64) - options["mean"]) ** 2, **taken) / np.maximum(count, 0)
    return variance if name == "var" else np.sqrt(variance)


@pytest.mark.parametrize("name", _REDUCING)
@pytest.mark.parametrize("lazy", [False, True])
def test_reductions_of_some_elements(name: str, lazy: bool) -> None:
    for seed in range(12):
        rng = np.random.default_rng([seed, *map(ord, name)])
        kind = np.float32 if lazy else KINDS[seed % len(KINDS)]
        x = rng.integers(0, 5, (3, 4, 5)).astype(kind)
        if name.startswith("nan") and np.dtype(kind).kind == "f":
            x[rng.random(x.shape) < 0.3] = np.nan
        axis = [None, 0, 1, -1, (0, 2)][rng.integers(5)]
        options = _options(name, rng, x, axis)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            wanted = _reduced(name, x, axis, options)
        v = placeholder(list(x.shape)) if lazy else mp.array(x).astype(kind)
        ours = {k: mp.array(o) if isinstance(o, np.ndarray) else o for k, o in options.items()}
        found = getattr(mp, name)(v, axis=axis, **ours)
        if lazy:
            v.write(x)
        np.testing.assert_allclose(np.array(found), wanted, 2e-5, 1e-5, err_msg=f"{kind} {axis} {options}")
        assert np.array(found).shape == np.shape(wanted)


def test_no_option_is_taken_and_ignored() -> None:
    x = mp.array([[3.0, 1.0], [2.0, 5.0]])
    for call in (
        lambda: mp.array([1], order="F"), lambda: mp.array([1], like=np.ones(1)), lambda: mp.zeros(3, order="F"),
        lambda: mp.ones_like(x, order="X"), lambda: mp.eye(2, order="F"), lambda: mp.asarray([1], order="F"),
        lambda: mp.sort(x, kind="bubble"), lambda: mp.sort(x, order="name"), lambda: x.argsort(kind="x"),
        lambda: mp.partition(x, 1, kind="quick"), lambda: x.argpartition(1, order="a"), lambda: x.ravel("X"),
        lambda: mp.concatenate([x, x], dtype=mp.int32), lambda: mp.concatenate([x, x], dtype=mp.int32, casting="no"),
        lambda: mp.concatenate([x, x], out=mp.ones((4, 2), mp.float64), casting="no"),
        lambda: mp.copyto(mp.array([1, 2]), 1.5), lambda: mp.copyto(mp.array([1]), 1, casting="odd"),
        lambda: mp.max(x, where=[1, 0]), lambda: mp.var(x, ddof=1, correction=1), lambda: mp.asfarray([1], "text"),
        lambda: mp.average(x, weights=[1.0, -1.0], axis=0), lambda: mp.pad(x, 1, "odd"),
        lambda: mp.pad(x, 1, "edge", constant_values=1), lambda: mp.cov(x, fweights=[1.5, 2]),
        lambda: mp.trim_zeros([0, 1], axis=1),
    ):  # fmt: skip
        with pytest.raises(MNNError):
            call()


_FURTHER: dict[str, Call] = {
    "arange": lambda m, g: m.arange(g.pick(0, 2), stop=g.pick(7, 9), step=g.pick(1, 3)),
    "argmax of one": lambda m, g: m.argmax(g.floats(1)[0], axis=g.pick(0, -1, None), keepdims=g.pick(True, False)),
    "argsort": lambda m, g: m.argsort(g.ints(4, 5, low=0, high=3), axis=g.pick(0, 1), stable=True),
    "clip": lambda m, g: m.clip(g.ints(4, 5), min=g.pick(None, -3), max=g.pick(2, 3)),
    "cumsum": lambda m, g: m.cumsum(g.ints(3, 4), axis=g.pick(0, 1, None), dtype=g.pick(np.float64, np.int64)),
    "cumprod": lambda m, g: m.cumprod(g.ints(3, 4), axis=g.pick(0, 1, None), dtype=g.pick(np.float64, np.int64)),
    "hstack": lambda m, g: m.hstack([g.ints(2, 3), g.floats(2, 1)], dtype=g.pick(np.float64, np.int32),
                                    casting="unsafe"),
    "matmul": lambda m, g: m.matmul(g.ints(2, 3), g.ints(3, 2), dtype=np.float64),
    "nanargmax": lambda m, g: m.nanargmax(g.holed(3, 4), axis=g.pick(0, None), keepdims=g.pick(True, False)),
    "nancumsum": lambda m, g: m.nancumsum(g.holed(3, 4), axis=g.pick(0, None), dtype=np.float64),
    "reshape": lambda m, g: m.reshape(g.floats(3, 4), g.pick((2, 6), (4, -1), -1), order=g.pick("C", "F")),
    "reshape nothing": lambda m, g: m.reshape(g.floats(3, 4)[:, :0], g.pick((0, 3), (0, 0, 1), (2, 0), (-1,))),
    "round": lambda m, g: m.round(g.floats(3, 4) * 100, g.pick(-2, -1, 1, 2)),
    "squeeze": lambda m, g: m.squeeze(g.floats(1, 1)[0, 0], axis=g.pick(0, -1, None)),
    "stack": lambda m, g: m.stack([g.ints(2), g.ints(2)], axis=g.pick(0, 1), dtype=np.float64),
    "vstack": lambda m, g: m.vstack([g.ints(2), g.ints(3, 2)], dtype=np.float32),
}  # fmt: skip


@pytest.mark.parametrize("name", _FURTHER)
def test_options_are_those_of_numpy(name: str) -> None:
    for seed in range(8):
        wanted = np.asarray(_FURTHER[name](np, Given(seed)))
        found = np.array(_FURTHER[name](mp, Given(seed, mp.array)))
        assert (found.shape, found.dtype.kind) == (wanted.shape, wanted.dtype.kind)
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


def test_what_does_not_fit_is_not_made_fit() -> None:
    """Neither by numbers that wrap, nor by shapes that stay as they were, nor by bits that are lost."""
    bytes_ = mp.array(np.array([3, 200], np.uint8))
    doubles = np.array([0.1, 1 / 3])
    for call in (
        lambda: mp.min(bytes_, initial=-3), lambda: mp.max(bytes_, initial=300), lambda: mp.broadcast_to(bytes_, ()),
        lambda: mp.broadcast_to(np.ones((2, 1, 3)), (1, 1, 3)), lambda: mp.broadcast_to(np.ones((2, 3)), (3,)),
        lambda: mp.clip(bytes_, 1, 3, min=2), lambda: mp.asarray([1], copy=False), lambda: mp.arange(start=3),
        lambda: mp.reshape(bytes_, 2, shape=(1, 2)), lambda: mp.reshape(bytes_, order="X"),
        lambda: bytes_.reshape(2, order="K"), lambda: mp.matmul(doubles, doubles, dtype=mp.int32),
    ):  # fmt: skip
        with pytest.raises(MNNError):
            call()
    held = mp.array(doubles, mp.float64)
    assert mp.array_equal(held, doubles)
    assert mp.array_equiv(doubles, held)
    np.testing.assert_array_equal(np.array(mp.convolve(held, doubles)), np.convolve(doubles, doubles))


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_whole_quotients_are_exact(lazy: bool, kind: type) -> None:
    """``floor(x / y)`` is one too many where the quotient of floats is rounded up to a whole number."""
    rng = np.random.default_rng(int(lazy))
    special = [0.0, -0.0, 1.0, -1.25, 5.0, np.inf, -np.inf, np.nan]
    x = np.concatenate([np.repeat(special, 8), rng.integers(-99, 99, 300) * rng.choice([0.1, 0.3, 0.7], 300)])
    y = np.concatenate([np.tile(special, 8), rng.choice([0.1, -0.1, 0.3, 0.7, 2.5], 300)])
    x, y = x.astype(kind), y.astype(kind)
    with np.errstate(all="ignore"):
        wanted = np.divmod(x, y)
        assert (wanted[0] != np.floor(x / y)).sum() > 20
    if lazy:
        a, b = (placeholder(list(x.shape), dtype=mp.float32 if kind is np.float32 else mp.float64) for _ in "xy")
    else:
        a, b = (mp.array(v, mp.float32 if kind is np.float32 else mp.float64) for v in (x, y))
    found = [a // b, *mp.divmod(a, b), mp.floor_divide(a, b), *divmod(a, b)]
    if lazy:
        a.write(x)
        b.write(y)
    for v, expected in zip(found, (wanted[0], *wanted, wanted[0], *wanted), strict=True):
        array = np.array(v)
        np.testing.assert_array_equal(array, expected)
        if expected is wanted[0]:  # a remainder of 0 may have the dividend's sign
            np.testing.assert_array_equal(np.signbit(array[array == 0]), np.signbit(expected[array == 0]))


@pytest.mark.parametrize("seed", range(6))
def test_further_options(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, (4, 5)).astype(np.float32)
    holed = np.where(rng.random((4, 5)) < 0.3, np.nan, x).astype(np.float32)
    weights = rng.integers(1, 4, 5)
    v = mp.array(x)
    same(mp.unique(holed, equal_nan=False).size, np.unique(holed, equal_nan=False).size)
    same(mp.unique(holed), np.unique(holed))
    for mode in ("edge", "linear_ramp", "maximum", "mean", "median", "minimum", "wrap", "empty"):
        found, wanted = (m.pad(a, ((1, 2), (2, 0)), mode) for m, a in ((mp, v), (np, x)))
        same(found.shape, list(wanted.shape)) if mode == "empty" else same(found, wanted)
    same(mp.pad(v, 1, constant_values=(3, 4)), np.pad(x, 1, constant_values=(3, 4)))
    same(mp.pad(v, 2, "reflect", reflect_type="odd"), np.pad(x, 2, "reflect", reflect_type="odd"))
    for options in ({"fweights": weights}, {"aweights": weights / 2}, {"fweights": weights, "ddof": 0}):
        same(mp.cov(v, **options), np.cov(x, **options))
    same(mp.average(v, 1, weights, keepdims=True), np.average(x, 1, weights, keepdims=True))
    both = rng.integers(1, 4, (5, 4))
    same(mp.average(v, (1, 0), both), np.average(x, weights=both.T))
    if hasattr(np, "trapezoid"):  # numpy 2
        q = rng.random(3)
        given = {"method": "inverted_cdf", "axis": 1, "weights": weights}
        same(mp.quantile(v, q, **given), np.quantile(x, q, **given))
        given = {"method": "inverted_cdf", "weights": both.T}
        same(mp.percentile(v, q * 100, **given), np.percentile(x, q * 100, **given))
    same(mp.trim_zeros(v[0]), np.trim_zeros(x[0]))
    inner = np.pad(np.abs(x) + 1, ((1, 2), (0, 3)))
    for axis in (None, 0, 1, -1, (0, 1)):
        kept = [slice(1, 5) if axis in (None, 0, (0, 1)) else slice(None),
                slice(0, 5) if axis != 0 else slice(None)]  # fmt: skip
        same(mp.trim_zeros(inner, axis=axis), inner[tuple(kept)])
    for axis in (None, 0, 1):
        same(mp.argmax(v, axis, keepdims=True), np.argmax(x, axis, keepdims=True))
        same(mp.argmin(v, axis, keepdims=True), np.argmin(x, axis, keepdims=True))
        same(mp.sort(v, axis), np.sort(x, axis))
        same(mp.argsort(v, axis, kind="stable"), np.argsort(x, axis, kind="stable"))
    same(mp.ravel(v, "F"), np.ravel(x, "F"))
    same(v.flatten("F"), x.flatten("F"))
    same(mp.concatenate([v, v], dtype=mp.int32, casting="unsafe"), np.concatenate([x, x]).astype(np.int32))
    hole = mp.array(holed)
    assert mp.nan_to_num(hole, copy=False, nan=2.0) is hole
    same(hole, np.nan_to_num(holed, nan=2.0))
    start = mp.array([1, 2, 3])
    mp.copyto(start, [4.7, 5.2, 6.9], "unsafe", where=[1, 0, 1])
    same(start, np.array([4, 2, 6]))


def test_options_are_those_that_are_known() -> None:
    """A new option of these names needs a test above."""
    assert set(_functions("where")) == {*_REDUCING, "copyto"}
    assert set(_functions("initial")) == {n for n in _REDUCING if n[-3:] in ("sum", "max", "min") or n[-4:] == "prod"}
    assert isinstance(mp.zeros(2), Var)
