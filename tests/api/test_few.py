"""What numpy answers at once is what operators give, bit by bit."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN import MNNError
from MNN.expr.arrays import few, views
from MNN.expr.fused import loops, reductions

KINDS = (np.float32, np.float64, np.int32, np.int64, np.uint8)
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, 3e38, -1.0, 0.5)
UNARY = ("abs", "negative", "square", "sign", "floor", "ceil", "round", "sqrt", "exp", "expm1", "log", "log1p", "sin",
         "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "reciprocal",
         "rsqrt", "sigmoid")  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "floordiv", "floormod", "mod", "pow", "minimum", "maximum", "atan2",
          "squared_difference", "equal", "not_equal", "greater", "greater_equal", "less", "less_equal")  # fmt: skip
REDUCING = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_any", "reduce_all")
TOOLS = {"Array", "CLIP", "constant", "function", "limit", "limited", "rounded", "run", "pooled", "silently", "spread"}
"""What is no function of Vars."""
Case = Callable[["Drawn"], Any]


class Drawn:
    """Random operands."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def sizes(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.rng.integers(0 if self.rng.random() < 0.1 else 1, 5, self.rng.integers(4)))

    def array(self, shape: tuple[int, ...] | None = None, kind: Any = None) -> np.ndarray:
        kind = kind or KINDS[self.rng.integers(len(KINDS))]
        shape = self.sizes() if shape is None else shape
        if kind in (np.float32, np.float64):
            found = np.asarray(self.rng.normal(size=shape) * 3).astype(kind)
            return np.where(self.rng.random(shape) < 0.3, self.rng.choice(SPECIAL, shape), found).astype(kind)
        info = np.iinfo(kind)
        wide = self.rng.random() < 0.3
        low, high = (info.min, info.max) if wide else (max(info.min, -9), 10)
        return np.asarray(self.rng.integers(low, high, shape, dtype=kind, endpoint=True))

    def var(self, shape: tuple[int, ...] | None = None, kind: Any = None) -> F.Var:
        array = self.array(shape, kind)
        layout = F.NHWC if self.rng.random() < 0.2 else F.NCHW
        made = F.const(array, list(array.shape), layout, F.types.public(F.types.dtype_of(array.dtype)))
        if self.rng.random() < 0.3:
            assert made.inputs == []  # which asks for its node, so that it is no more its numbers alone
        return made

    def any_axis(self) -> int | None:
        return None if self.rng.random() < 0.3 else int(self.rng.integers(-2, 2))

    def bounds(self) -> tuple[Any, Any]:
        low = float(self.rng.choice(SPECIAL)) if self.rng.random() < 0.3 else int(self.rng.integers(-3, 2))
        return low, low + 2

    def key(self) -> Any:
        part = slice(*(int(n) for n in self.rng.integers(-3, 4, 2)))
        return [int(self.rng.integers(-2, 2)), part, (part, int(self.rng.integers(2)))][self.rng.integers(3)]

    def pair(self) -> tuple[Any, Any]:
        shape = self.sizes()
        other = tuple(1 if self.rng.random() < 0.3 else n for n in shape[int(self.rng.integers(len(shape) + 1)) :])
        one, two = self.var(shape), self.var(other)
        return [(one, two), (two, one), (one, 2), (1.5, one), (one, self.var())][self.rng.integers(5)]  # type: ignore[no-any-return]

    def axis(self, v: F.Var) -> int:
        return int(self.rng.integers(-v.ndim - 1, v.ndim + 1))


def _reduced(name: str) -> Case:
    def call(d: Drawn) -> Any:
        v = d.var()
        axes = [[], d.axis(v), [0, -1], [1, 0]][d.rng.integers(4)]
        return getattr(F, name)(v, axes, bool(d.rng.integers(2)))

    return call


def _positioned(name: str) -> Case:
    def call(d: Drawn) -> Any:
        v = d.var()
        return getattr(F, name)(v, d.axis(v))

    return call


def _product(d: Drawn) -> Any:
    m, n, k = (int(s) for s in d.rng.integers(1, 4, 3))
    a, b = [((m, k), (k, n)), ((k,), (k, n)), ((m, k), (k,)), ((k,), (k,)), ((2, m, k), (k, n)), ((m, k), (m, n)),
            ((1, m, k), (3, k, n)), ((), (m,))][d.rng.integers(8)]  # fmt: skip
    return mp.matmul(d.var(a), d.var(b))


def _joined(d: Drawn) -> Any:
    shape = d.sizes()
    parts = [d.var(shape), d.var(shape), d.var(d.sizes() if d.rng.random() < 0.2 else shape)]
    return F.concat(parts, d.axis(parts[0]))


def _chosen(d: Drawn) -> Any:
    a, b = d.pair()
    return F.select(d.var(() if d.rng.random() < 0.3 else tuple(mp.array(a).shape)), a, b)


def _moved(d: Drawn) -> Any:
    v = d.var()
    order = d.rng.permutation(v.ndim) if d.rng.random() < 0.9 else [0, 0]
    return F.transpose(v, [int(i) - v.ndim * int(d.rng.integers(2)) for i in order])


def _stacked(d: Drawn) -> Any:
    shape = d.sizes()
    parts = [d.var(shape), d.var(shape), d.var(d.sizes() if d.rng.random() < 0.2 else shape)]
    return F.stack(parts, d.axis(parts[0]))


def _pieces(d: Drawn) -> Any:
    v = d.var()
    axis = d.axis(v)
    if d.rng.random() < 0.3:
        return mp.split(v, int(d.rng.integers(1, 4)), axis)[-1]
    if d.rng.random() < 0.3:
        return F.split(v, [int(n) for n in d.rng.integers(0, 4, 2)], axis)[0]
    return mp.split(v, [int(n) for n in d.rng.integers(-3, 5, 2)], axis)[int(d.rng.integers(3))]


def _resized(d: Drawn) -> Any:
    v = d.var()
    sizes = [int(n) for n in d.rng.permutation(v.shape)]
    for place in range(len(sizes)):
        sizes[place] = int(
            d.rng.choice([sizes[place], sizes[place], sizes[place], -1, 0, 7], p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05])
        )
    return F.reshape(v, sizes + [1] * int(d.rng.integers(2)))


def _spread(d: Drawn) -> Any:
    v = d.var()
    sizes = [int(n) if n != 1 else int(d.rng.integers(1, 4)) for n in v.shape]
    return F.broadcast_to(v, [2] * int(d.rng.integers(2)) + (sizes if d.rng.random() < 0.9 else sizes[1:]))


def _all_axes(d: Drawn, v: F.Var) -> Any:
    return None if d.rng.random() < 0.3 else d.axis(v) if d.rng.random() < 0.6 else (0, -1)


def _along(function: Callable[..., Any], *more: Callable[[Drawn], Any]) -> Case:
    """A function of a Var, whatever ``more`` draws, and axes."""

    def call(d: Drawn) -> Any:
        v = d.var()
        return function(v, *(draw(d) for draw in more), _all_axes(d, v))

    return call


def _times(d: Drawn) -> int:
    return int(d.rng.integers(-1, 4))


CASES: dict[str, Case] = {
    **{n: (lambda d, n=n: getattr(F, n)(d.var())) for n in UNARY},
    **{n: (lambda d, n=n: getattr(F, n)(*d.pair())) for n in BINARY},
    **{n: _reduced(n) for n in REDUCING},
    **{n: _positioned(n) for n in ("argmax", "argmin", "cumsum", "cumprod")},
    "matmul": _product, "concat": _joined, "select": _chosen, "transpose": _moved,
    "std": lambda d: mp.std(d.var(), ddof=int(d.rng.integers(2))), "mean": lambda d: mp.mean(d.var(), d.any_axis()),
    "where": lambda d: mp.where(d.var() > 0, *d.pair()), "clip": lambda d: d.var().clip(*d.bounds()),
    "sort": lambda d: d.var().sort(d.any_axis()), "number on the left": lambda d: 0.0 - d.var() * -0.0 + 3 / d.var(),
    "var": lambda d: d.var().var(d.any_axis(), keepdims=d.rng.random() < 0.5),
    "max": lambda d: d.var().max(d.any_axis()),
    "argmin": lambda d: d.var().argmin(d.any_axis()), "prod": lambda d: d.var().prod(d.any_axis(), keepdims=True),
    "stack": _stacked, "split": _pieces, "reshape": _resized, "broadcast_to": _spread,
    "flip": _along(mp.flip), "any": _along(mp.any), "all": _along(mp.all), "count_nonzero": _along(mp.count_nonzero),
    "repeat": _along(lambda v, n, a: mp.repeat(v, n, a if type(a) is int else None), _times),
    "roll": _along(lambda v, n, a: mp.roll(v, n, a if type(a) is int else None), _times),
    "tile": lambda d: mp.tile(d.var(), [int(n) for n in d.rng.integers(0, 3, d.rng.integers(1, 4))]),
    "argsort": _along(lambda v, a: mp.argsort(v, a if type(a) is int else None)),
    "nonzero": lambda d: (mp.nonzero(d.var()) or [None])[0],
    "astype": lambda d: d.var().astype(d.var().dtype), "number meets": lambda d: (d.var() * 3 - 2) > d.any_axis(),
    "part": lambda d: d.var()[d.key()], "dot": lambda d: mp.dot(*d.pair()),
}  # fmt: skip


def _answer(case: Case, seed: int) -> Any:
    try:
        found = case(Drawn(seed))
    except MNNError as error:
        return str(error)
    if isinstance(found, F.Var):
        return found.dtype, found.data_format, found.read()
    return type(found), None, np.array(found)


@pytest.mark.parametrize("name", CASES)
def test_as_operators(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = [_answer(CASES[name], seed) for seed in range(40)]
    monkeypatch.setattr(few, "FEW", -1)
    monkeypatch.setattr(few, "ALONE", -1)  # every constant has a node
    monkeypatch.setattr(few, "CHAINED", -1)
    monkeypatch.setattr(views, "numbers", lambda _: None)
    for function in set(few.__all__) - TOOLS:
        if callable(getattr(few, function)):
            monkeypatch.setattr(few, function, lambda *_: None)
    for made in (loops.loop_of, loops.loop_over, reductions.fold_of):  # by other tests, as kernels
        made.cache_clear()
    monkeypatch.setattr(loops, "COMPILE_AFTER", np.inf)  # kernels have functions of their own, near those of numpy
    monkeypatch.setattr(reductions, "COMPILE_AFTER", np.inf)
    for seed, ours in enumerate(quick):
        wanted = _answer(CASES[name], seed)
        if isinstance(wanted, str):
            assert ours == wanted, seed
            continue
        assert ours[:2] == wanted[:2], seed
        assert ours[2].shape == wanted[2].shape
        np.testing.assert_array_equal(ours[2], wanted[2], err_msg=str(seed))
        if ours[2].dtype.kind == "f":
            numbers = ~np.isnan(wanted[2])
            np.testing.assert_array_equal(np.signbit(ours[2])[numbers], np.signbit(wanted[2])[numbers], str(seed))


def test_numpy_does_not_warn_in_any_thread() -> None:
    x = mp.array([0.0, -1.0, 3e38, np.nan])
    done: list[bool] = []

    def compute() -> None:
        done.append(all(np.array(mp.log(x) + x * 1e30 / 0.0).shape == (4,) for _ in range(200)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=compute) for _ in range(4)]
        for thread in threads:
            thread.start()
        compute()
        for thread in threads:
            thread.join()
        with pytest.raises(RuntimeWarning):  # numpy's own calls are as they were
            np.log(np.float32([-1.0]))
    assert done == [True] * 5
