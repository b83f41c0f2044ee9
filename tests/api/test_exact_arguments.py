"""Arguments as they are given: doubles keep their digits where doubles are made, whole numbers that an element type
does not have and axes that do not exist are refused, and what numpy takes as one number or as many is taken as both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import MNN
import MNN.numpy as mnp
from MNN.errors import MNNError

DOUBLE = mnp.float64
_DRAWN = np.random.default_rng(29).normal(size=4).tolist()
NUMBERS = [*_DRAWN[:2], 1e300, 1e-300]
"""Of which floats have neither the digits nor the range."""


def double(values: Any) -> Any:
    """A Var of doubles, made by none of the functions that are tested."""
    array = np.asarray(values, np.float64)
    return MNN.expr.const(array, array.shape, dtype=MNN.expr.double)


def _into(change: Callable[..., None]) -> Callable[[list[float]], Any]:
    def call(numbers: list[float]) -> Any:
        target = double(np.zeros(4))
        change(target, numbers)
        return target

    return call


MADE: dict[str, Callable[[list[float]], Any]] = {
    "array of a list": lambda n: mnp.array(n, dtype=DOUBLE),
    "array of numpy's": lambda n: mnp.array(np.array(n), dtype=np.float64),
    "asarray": lambda n: mnp.asarray(np.array(n), dtype=DOUBLE),
    "full": lambda n: mnp.full((4,), n, dtype=DOUBLE),
    "full_like": lambda n: mnp.full_like(double(n), n),
    "sum with a list": lambda n: double(np.zeros(4)) + n,
    "sum with numpy's": lambda n: np.array(n) + double(np.zeros(4)),
    "product with a number": lambda n: mnp.stack([double(1.0) * x for x in n]),
    "number times": lambda n: mnp.stack([np.float64(x) * double(1.0) for x in n]),
    "largest": lambda n: mnp.maximum(double(np.full(4, -1e308)), n),
    "chosen": lambda n: mnp.where(np.ones(4, np.int32), double(np.zeros(4)) + n, 0.0),
    "clip": lambda n: mnp.stack([double(-1e308).clip(x, None) for x in n]),
    "put": _into(lambda v, n: mnp.put(v, range(4), n)),
    "place": _into(lambda v, n: mnp.place(v, np.ones(4, np.int32), n)),
    "putmask": _into(lambda v, n: mnp.putmask(v, np.ones(4, np.int32), n)),
    "put_along_axis": _into(lambda v, n: mnp.put_along_axis(v, np.arange(4), n, 0)),
    "copyto": _into(lambda v, n: mnp.copyto(v, n)),
    "item by item": _into(lambda v, n: [v.__setitem__(i, x) for i, x in enumerate(n)]),
    "insert": lambda n: mnp.insert(double([]), [0] * 4, n),
    "interp": lambda n: mnp.interp(double(range(4)), double(range(4)), double(n)),
    "solve": lambda n: mnp.linalg.solve(double(np.eye(4)), double(n)),
}


@pytest.mark.parametrize("way", MADE)
def test_doubles_keep_their_digits(way: str) -> None:
    found = MADE[way](NUMBERS)
    assert found.dtype is DOUBLE
    np.testing.assert_array_equal(found.read(), np.array(NUMBERS))


def test_doubles_keep_their_digits_in_generated_code() -> None:
    """Functions become native after some thousand calls; they are not other functions then."""
    x = double([0.0, 1.0])
    for number in (0.1, 1e300, -1 / 3):
        wanted = np.array([0.0, 1.0]) + number
        for _ in range(1500):
            found = x + number
        np.testing.assert_array_equal(found.read(), wanted)
        np.testing.assert_array_equal((number - (-x)).read(), wanted)


def test_ranges_of_doubles_and_of_whole_numbers() -> None:
    np.testing.assert_array_equal(mnp.arange(0, 1, 0.1, dtype=DOUBLE).read(), np.arange(0, 1, 0.1))
    rng = np.random.default_rng(7)
    for _ in range(20):
        start, stop = rng.normal(size=2) * 5
        wanted = np.linspace(start, stop, 7, dtype=np.int64)  # floors, of numbers below zero too
        np.testing.assert_array_equal(mnp.linspace(start, stop, 7, dtype=mnp.int64).read(), wanted)
    many = mnp.fromstring("9007199254740993, -9007199254740993", mnp.int64, sep=",")
    assert many.read().tolist() == [9007199254740993, -9007199254740993]


def test_cross_products_of_long_numbers() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-(10**7), 10**7, (2, 3))  # whose products int32 does not have
    found = mnp.cross(mnp.array(a, dtype=mnp.int64), mnp.array(b, dtype=mnp.int64))
    np.testing.assert_array_equal(found.read(), np.cross(a, b))
    c, d = rng.normal(size=(2, 3))
    np.testing.assert_array_equal(mnp.cross(double(c), mnp.array([1, 2, 3])).read(), np.cross(c, [1, 2, 3]))
    assert mnp.cross(double(c), double(d)).dtype is DOUBLE


@pytest.mark.parametrize(
    "call",
    [
        lambda: mnp.full((2,), 2**40, mnp.int32),
        lambda: mnp.full((2,), -3, mnp.uint8),
        lambda: mnp.full_like(mnp.array([1, 2]), 2**31),
        lambda: mnp.random.randint(0, 2**40, [3]),
        lambda: mnp.random.randint(-5, 5, [3], mnp.uint8),
        lambda: mnp.array([1, 2]).__setitem__(0, 2**33),
        lambda: mnp.array([1, 2]).__setitem__(0, float("nan")),
        lambda: mnp.zeros(2.5),
        lambda: mnp.reshape(np.ones(6), (2.5, 3)),
        lambda: mnp.sum(np.ones((2, 3)), axis=1.5),
        lambda: mnp.sum(np.ones((2, 3)), axis=(0, -2)),
        lambda: mnp.max(np.ones((2, 3)), axis=(1, 1)),
        lambda: mnp.all(np.ones((2, 3)), axis=(1, -1)),
        lambda: mnp.tensordot(np.ones((3, 3)), np.ones((3, 3)), ([5], [0])),
        lambda: mnp.tensordot(np.ones((3, 3)), np.ones((3, 3)), ([0, 0], [1, 1])),
        lambda: mnp.tensordot(np.ones((3, 3)), np.ones((3, 3)), 3),
        lambda: mnp.cross(np.ones((4, 3)), np.ones((4, 3)), axisc=5),
        lambda: mnp.repeat(np.ones(3), [1, 2]),
        lambda: mnp.repeat(np.ones(3), [1, 2, -1]),
        lambda: mnp.roll(np.ones((2, 3)), (1, 2, 3), axis=(0, 1)),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(MNNError) as told:
        call()
    assert "\n" not in str(told.value)


def test_one_number_or_as_many() -> None:
    rng = np.random.default_rng(11)
    for _ in range(40):
        a = rng.integers(0, 99, rng.integers(0, 5, rng.integers(1, 4))).astype(np.int32)
        axis = int(rng.integers(-a.ndim, a.ndim))
        times = rng.integers(0, 3, a.shape[axis])
        for count in (times.tolist(), mnp.array(times), 2, [2]):
            wanted = np.repeat(a, np.asarray(count, np.int64), axis)
            np.testing.assert_array_equal(mnp.array(a).repeat(count, axis).read(), wanted)
        axes = tuple(int(i) for i in rng.permutation(a.ndim)[: rng.integers(1, a.ndim + 1)])
        shift = tuple(rng.integers(-7, 8, len(axes)).tolist())
        np.testing.assert_array_equal(mnp.roll(a, shift, axes).read(), np.roll(a, shift, axes))
        np.testing.assert_array_equal(mnp.roll(a, shift).read(), np.roll(a, shift))
        np.testing.assert_array_equal(mnp.roll(a, shift, axis).read(), np.roll(a, shift, axis))
        cuts = rng.integers(-6, 7, rng.integers(1, 4)).tolist()
        for mine, theirs in zip(mnp.split(a, cuts, axis), np.split(a, cuts, axis), strict=True):
            np.testing.assert_array_equal(mine.read(), theirs)


def test_nothing_is_no_float() -> None:
    a = mnp.array([[1, 2], [3, 4]])
    assert mnp.take(a, [], axis=1).shape == [2, 0]
    assert a[[]].shape == [0, 2]
    assert a[:, []].shape == [2, 0]
    assert mnp.take_along_axis(mnp.array([1.0]), [], 0).shape == [0]
    mnp.put(a, [], [])
    a[[]] = 5
    assert a.read().tolist() == [[1, 2], [3, 4]]
    assert mnp.trapz(mnp.zeros((0, 3)), axis=0).read().tolist() == [0, 0, 0]
    assert mnp.diff(mnp.array([1, 4]), 0, prepend=0).read().tolist() == [1, 4]
