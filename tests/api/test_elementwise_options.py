"""``out`` and ``where`` of elementwise functions: as numpy's, which are asked for the same."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import MNN.numpy as mp
from MNN import MNNError

ONE = (
    "abs arccos arcsin arcsinh arctan arctanh cbrt ceil cos cosh deg2rad exp exp2 expm1 fabs floor log log10 log1p "
    "log2 negative rad2deg rint sign signbit sin sinh sqrt square tan tanh trunc"
).split()
TWO = (
    "add arctan2 copysign divide equal fmax fmin greater greater_equal hypot less less_equal maximum minimum multiply "
    "not_equal power subtract true_divide"
).split()
TRUTHS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal", "signbit")


def _operands(random: np.random.Generator, count: int) -> list[Any]:
    shape = tuple(int(n) for n in random.integers(1, 5, random.integers(1, 4)))
    first = (random.random(shape) * 0.9 + 0.05).astype(np.float32)
    if count == 1:
        return [first]
    other = tuple(1 if random.random() < 0.3 else n for n in shape[int(random.integers(len(shape))) :])
    return [first, (random.random(other) + 0.1).astype(np.float32)]


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_as_numpy(name: str) -> None:
    random = np.random.default_rng([*name.encode()])
    for _ in range(3):
        arrays = _operands(random, 2 if name in TWO else 1)
        kind: Any = np.int32 if name in TRUTHS else np.float32
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        before = (random.random(shape) * 9).astype(kind)
        mask = random.random(shape[int(random.integers(len(shape) + 1)) :]) < 0.5
        function: Any = getattr(np, name)
        for chosen in (True, mask):
            wanted = function(*arrays, out=before.copy(), where=chosen)
            out = mp.array(before)
            found = getattr(mp, name)(*map(mp.array, arrays), out=out, where=chosen)
            assert found is out
            np.testing.assert_allclose(np.array(out), wanted, rtol=1e-5, atol=1e-6)
        alone = np.array(getattr(mp, name)(*map(mp.array, arrays), where=mask))
        np.testing.assert_allclose(alone, np.where(mask, function(*arrays), 0), rtol=1e-5, atol=1e-6)


def test_every_function_takes_them() -> None:
    functions = {
        f for name in mp.__all__ if hasattr(f := getattr(mp, name), "__wrapped__") and f.__module__ != mp.__name__
    }
    assert {getattr(mp, name) for name in (*ONE, *TWO)} < functions
    for function in functions:
        assert list(inspect.signature(function).parameters)[-2:] == ["out", "where"]
        assert getattr(mp, function.__name__) is function


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": np.zeros(3)}, r"add\(\): out is a Var to be written into, found ndarray"),
        ({"out": mp.array([1.0, 2.0])}, r"out has shape \[2\], the result \[3\]"),
        ({"out": mp.array([1.0, 2.0]), "where": [1, 0, 1]}, r"add\(\): out has shape \[2\], the result \[3\]"),
        ({"out": mp.array([1, 2, 3])}, "results of float32 are not written"),
        ({"where": [1, 0]}, r"add\(\): where has shape \[2\], the result \[3\]"),
    ],
)
def test_mistakes_are_sentences(options: dict[str, Any], words: str) -> None:
    with pytest.raises(MNNError, match=words):
        mp.add(mp.array([1.0, 2.0, 3.0]), 1.0, **options)
