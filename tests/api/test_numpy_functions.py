"""Functions of ``MNN.numpy`` against numpy's, with random arguments; ``MNN_NUMPY_CASES`` says how many of each."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

import MNN.numpy as mp
from MNN import MNNError
from MNN.expr import Var, placeholder
from MNN.numpy import _creating, _editing, _matrices, _places, _special, _statistics
from tests.api.numpy_calls import CALLS, Given

TRAPEZOID = np.trapezoid if hasattr(np, "trapezoid") else np.trapz  # numpy 1
COUNT = int(os.environ.get("MNN_NUMPY_CASES", "5"))
CASES = [(family, name) for family, calls in CALLS.items() for name in calls]


def same(ours: Any, theirs: Any) -> None:
    """The same nesting, shapes, kinds of numbers and, to six digits, numbers."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
        return
    if isinstance(theirs, str):
        assert ours == theirs
        return
    wanted, found = np.asarray(theirs), np.asarray(ours)
    assert found.shape == wanted.shape
    assert (found.dtype.kind == "f") == (wanted.dtype.kind == "f"), (found.dtype, wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("family", "name"), CASES)
def test_as_numpy(family: str, name: str) -> None:
    call = CALLS[family][name]
    for seed in range(COUNT):
        with warnings.catch_warnings():  # numpy warns of rows without numbers, and this package does not
            warnings.simplefilter("ignore", RuntimeWarning)
            with warnings.catch_warnings():  # it may be about to leave what this package keeps
                warnings.simplefilter("ignore", DeprecationWarning)
                theirs = call(np, Given(seed))
            ours = call(mp, Given(seed, mp.array))
        if name in FLOATS:
            theirs = [np.asarray(t, np.float32) if i == 0 else t for i, t in enumerate(theirs)]
        same(ours, theirs)


def test_running_sums_of_bytes_do_not_wrap() -> None:
    a = np.array([[200, 100, 50], [255, 255, 3]], np.uint8)
    for kind in (np.uint8, np.int8):
        for axis in (0, 1, None):
            found = mp.cumsum(mp.array(a.astype(kind), kind), axis)
            assert found.dtype == mp.int32
            np.testing.assert_array_equal(found, a.astype(kind).cumsum(axis))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [None, 0, -1, 1])
def test_running_totals_along_any_axis(name: str, axis: int | None) -> None:
    array = np.random.default_rng(3).normal(size=(3, 5)).astype(np.float32)
    same(getattr(mp, name)(mp.array(array), axis=axis), getattr(np, name)(array, axis=axis))
    for wrong in (2, -3, "x", [0, 1]):
        with pytest.raises(MNNError, match="axis"):
            getattr(mp, name)(mp.array(array), axis=wrong)


FLOATS = {"histogram"}
"""Counts are floats in PyMNN."""


def test_every_new_function_is_compared() -> None:
    tested = {name.split()[0] for calls in CALLS.values() for name in calls}
    ours = {n for m in (_creating, _editing, _matrices, _places, _special, _statistics) for n in m}
    apart = {  # of PyMNN alone, or other names of the same
        "asanyarray", "asfarray", "asfortranarray", "asmatrix", "asscalar", "fill", "fromfile", "mat", "matrix",
        "repmat", "trapz", "flatiter", "nested_iters", "sort_complex",
    }  # fmt: skip
    assert ours - tested == apart


def test_what_numpy_has_no_more(tmp_path: Any) -> None:
    x = np.float32([[1, 2, 3], [4, 5, 7]])
    same(mp.repmat([1, 2], 2, 3), np.tile([[1, 2]], (2, 3)))
    same(mp.trapz(x, [0.0, 1.0, 4.0]), TRAPEZOID(x, [0.0, 1.0, 4.0]))
    same(mp.trapz(x[0]), np.float32(4.0))
    same(mp.trapz(x, dx=2.0, axis=0), TRAPEZOID(x, dx=2.0, axis=0))
    assert mp.asscalar(mp.array([24])) == 24
    assert mp.asfarray([1, 2]).dtype == mp.float32
    same(mp.matrix("1 2; 3 4"), np.array([[1, 2], [3, 4]]))
    same(mp.mat([1, 2]), np.array([[1, 2]]))
    assert mp.asmatrix([1, 2, 3]).shape == [1, 3]
    same(mp.sort_complex(x[:, ::-1]), x)
    assert list(mp.flatiter(x)) == [1, 2, 3, 4, 5, 7]
    outer, inner = mp.nested_iters(mp.array(x), [[0], [1]])
    assert [[float(v) for v in inner] for _ in outer] == x.tolist()
    v = mp.array(x)
    mp.fill(v, 3)
    same(v, np.full_like(x, 3))
    x.tofile(tmp_path / "x.bin")
    same(mp.fromfile(str(tmp_path / "x.bin")), x.ravel())
    same(mp.asanyarray(x), x)
    same(mp.asfortranarray(x), x)


def test_graphs_follow_their_placeholders() -> None:
    x = placeholder([3, 4])
    made = [mp.tril(x), mp.diff(x), mp.rot90(x), mp.nansum(x, 0), mp.logaddexp(x, 1.0), mp.append(x, x, 0), mp.diag(x),
            mp.tensordot(x, x, ([0], [0])), mp.nan_to_num(x), mp.trapz(x), mp.resize(x, (2, 3))]  # fmt: skip
    for seed in (1, 2):
        a = np.random.default_rng(seed).normal(size=(3, 4)).astype(np.float32)
        x.write(a)
        wanted = [np.tril(a), np.diff(a), np.rot90(a), np.nansum(a, 0), np.logaddexp(a, 1), np.append(a, a, 0),
                  np.diag(a), np.tensordot(a, a, ([0], [0])), a, TRAPEZOID(a), np.resize(a, (2, 3))]  # fmt: skip
        for ours, theirs in zip(made, wanted, strict=True):
            assert isinstance(ours, Var)
            same(ours, theirs)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mp.take([1, 2], 5), lambda: mp.cross([1, 2, 3, 4], [1, 2, 3]), lambda: mp.gcd(1.5, 2),
        lambda: mp.tensordot([[1.0, 2]], [[1.0, 2]], 1), lambda: mp.diff(3.0), lambda: mp.bmat("A B"),
        lambda: mp.asarray_chkfinite([np.inf]), lambda: mp.trim_zeros(1.0), lambda: mp.copyto(np.ones(2), 1),
        lambda: mp.frombuffer(b"123"), lambda: mp.fromstring("a b", sep=" "), lambda: mp.percentile([1.0], 120),
        lambda: mp.require([1], requirements=["F"]), lambda: mp.unravel_index([99], (3, 4)), lambda: mp.tril(1.0),
        lambda: mp.loadtxt(["a"]), lambda: mp.block([[1], 2]), lambda: mp.choose([5], [[1], [2]]),
        lambda: mp.matrix("1 x"), lambda: mp.interp([1.0], [1.0, 2.0], [1.0]), lambda: mp.resize([1], (-1,)),
        lambda: mp.broadcast_arrays([1, 2], [1, 2, 3]), lambda: mp.nanargmax([np.nan]), lambda: mp.digitize([1], [[1]]),
    ],
)  # fmt: skip
def test_mistakes_are_sentences(call: Any) -> None:
    with pytest.raises(MNNError):
        call()


def test_masks_and_no_axes() -> None:
    """Truth values are a mask for positions, an empty list is none, and no axes are turned by ``flip(x, ())``."""
    x, mask = np.arange(6), [True, False, False, True, False, False]
    for given in (mask, np.array(mask), []):
        same(mp.delete(mp.array(x), given), np.delete(x, np.array(given, bool) if given is mask else given))
    same(mp.insert(mp.array(x), np.array(mask), 9), np.insert(x, [0, 3], 9))
    same(mp.insert(mp.array(x), [], []), np.insert(x, [], []))
    same(mp.flip(mp.array(x), ()), x)


SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3e38, 1e-30, -2.5)


def _with_special(rng: np.random.Generator, kind: Any, shape: tuple[int, ...]) -> Any:
    """Random numbers with special ones among them, as every second element of memory, in either direction."""
    wide = np.where(rng.random((*shape, 2)) < 0.5, rng.choice(SPECIAL, (*shape, 2)), rng.normal(size=(*shape, 2)) * 9)
    return wide.astype(kind)[..., 0][:: rng.choice([1, -1])]


@pytest.mark.parametrize("name", ["fmax", "fmin", "hypot", "copysign", "signbit", "nanstd", "nanvar", "nanmax"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_special_numbers(name: str, kind: Any) -> None:
    rng = np.random.default_rng([len(name), np.dtype(kind).itemsize])
    for _ in range(20):
        shape = tuple(int(n) for n in rng.integers(1, 6, 2))
        one, two = _with_special(rng, kind, shape), _with_special(rng, kind, shape[1:])
        two = np.where(np.isnan(two), np.abs(two), two)  # a sign of no-number is nobody's
        operands: tuple[Any, ...] = (one,)
        if name in ("fmax", "fmin", "hypot", "copysign"):
            operands = one, two
        elif name == "signbit":
            operands = (np.where(np.isnan(one), 1, one).astype(kind),)
        given = [mp.array(a, dtype=kind) for a in operands]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = getattr(np, name)(*(v.read() for v in given))
        np.testing.assert_allclose(np.asarray(getattr(mp, name)(*given), kind), wanted, 3e-6, 1e-37)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: mp.flip(mp.array(1.0), 0), "axis 0 is outside"),
        (lambda: mp.flip(mp.ones([2, 3]), (0, 2)), "axis 2 is outside"),
        (lambda: mp.roll(mp.ones([2, 3]), 1, 4), "axis 4 is outside"),
        (lambda: mp.repeat(mp.ones([2, 3]), 2, -3), "axis -3 is outside"),
        (lambda: mp.repeat(mp.ones([2, 3]), -1), "0 times or more"),
        (lambda: mp.split(mp.ones([2, 3]), [1], 5), "axis 5 is outside"),
        (lambda: mp.array_split(mp.ones([2, 3]), 2, 5), "axis 5 is outside"),
        (lambda: mp.linspace(0, 1, -1), "num is how many"),
        (lambda: mp.eye(-2), "must not be negative"),
        (lambda: mp.random.randint(5, 1), "no whole number"),
        (lambda: mp.nanmax(mp.zeros([0], dtype=mp.float32)), "nothing has no largest"),
    ],
)
def test_mistakes_with_axes_and_counts_are_sentences(call: Any, word: str) -> None:
    with pytest.raises(MNNError, match=word):
        call()
