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
        assert list(inspect.signature(function).parameters)[-6:] == [
            "out", "where", "casting", "order", "dtype", "subok",
        ]  # fmt: skip
        assert getattr(mp, function.__name__) is function
    taken = {name for name in mp.__all__ if isinstance(getattr(np, name, None), np.ufunc)}
    assert taken - {f.__name__ for f in functions} == {
        "absolute", "degrees", "fabs", "matmul", "mod", "positive", "radians", "remainder", "true_divide",
    }  # fmt: skip # aliases, and two that take them in their own way


def test_operands_are_converted_first() -> None:
    """``dtype`` is what is computed in: nothing is lost before."""
    third = [1 / 3, 0.1]
    for given in (third, np.array(third)):
        found = mp.add(given, [0.2, 0.3], dtype=mp.float64)
        np.testing.assert_array_equal(np.array(found), np.add(third, [0.2, 0.3]))
    out = mp.zeros(2, mp.int32)
    assert mp.multiply(third, 9, out, casting="unsafe") is out
    np.testing.assert_array_equal(np.array(out), [3, 0])
    np.testing.assert_array_equal(np.array(mp.add(mp.array([1, 2]), 3, dtype=np.int64, where=[1, 0])), [4, 0])


def test_several_results_go_to_several_places() -> None:
    x = np.array([5.5, -5.5, 7.25, -4.0], np.float32)
    for name, rest in (("divmod", (2.0,)), ("modf", ()), ("frexp", ())):
        wanted = getattr(np, name)(x, *rest)
        second = mp.zeros(4, mp.int32 if name == "frexp" else mp.float32)
        first, same = getattr(mp, name)(mp.array(x), *rest, out=(None, second))
        assert same is second
        for found, expected in ((first, wanted[0]), (second, wanted[1])):
            np.testing.assert_array_equal(np.array(found), expected)
    parts = zip(mp.modf(mp.array([-0.0, -2.0, -np.inf])), np.modf([-0.0, -2.0, -np.inf]), strict=True)
    assert all(np.signbit(np.array(v)).all() and np.signbit(a).all() for v, a in parts)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": np.zeros(3)}, r"add\(\): out is a Var to be written into, found ndarray"),
        ({"out": mp.array([1.0, 2.0])}, r"out has shape \[2\], the result \[3\]"),
        ({"out": mp.array([1.0, 2.0]), "where": [1, 0, 1]}, r"add\(\): out has shape \[2\], the result \[3\]"),
        ({"out": mp.array([1, 2, 3])}, "results of float32 are not written"),
        ({"where": [1, 0]}, r"add\(\): where has shape \[2\], the result \[3\]"),
        ({"dtype": mp.int32}, "f32 does not become i32 with casting 'same_kind'"),
        ({"casting": "some", "out": mp.array([1, 2, 3])}, "'some' is none of no, equiv, safe"),
        ({"order": "F"}, r"add\(\): order 'F' is not supported"),
        ({"axis": 1}, r"add\(\) has no option axis; it takes out, where, dtype and casting"),
        ({"out": (mp.array([1.0]), mp.array([1.0]))}, r"add\(\) has 1 results, found 2 in out"),
    ],
)
def test_mistakes_are_sentences(options: dict[str, Any], words: str) -> None:
    with pytest.raises(MNNError, match=words):
        mp.add(mp.array([1.0, 2.0, 3.0]), 1.0, **options)
