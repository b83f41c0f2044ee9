"""What is made of a user's array has the numbers of when it was made, whatever is written to the array later."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.nn as nn
import MNN.numpy as mnp
from MNN.expr import Var
from MNN.expr.arrays import few


def _dropped(u: np.ndarray) -> Var:
    layer = nn.dropout(0.5)
    layer.train(False)
    found: Var = layer(u)
    return found


GIVEN_BACK: dict[str, Callable[[np.ndarray], Var]] = {
    "cast": lambda u: F.cast(u, F.float),
    "atleast_1d": mnp.atleast_1d,
    "atleast_2d": mnp.atleast_2d,
    "atleast_3d": mnp.atleast_3d,
    "convert": lambda u: F.convert(u, F.NCHW),
    "converted": lambda u: F.convert(u, F.NHWC),
    "transpose": lambda u: F.transpose(u.reshape(-1)[:1].reshape(())),
    "scalar": F.scalar,
    "clip": lambda u: mnp.clip(u, None, None),
    "positive": mnp.positive,
    "roll": lambda u: mnp.roll(u, 0, 0),
    "diff": lambda u: mnp.diff(u, 0),
    "real_if_close": mnp.real_if_close,
    "dropout": _dropped,
}


@pytest.mark.parametrize("size", [2, 80])
@pytest.mark.parametrize("name", GIVEN_BACK)
def test_what_is_given_back_does_not_follow(name: str, size: int) -> None:
    array = np.arange(2 * size**3, dtype=np.float32).reshape(2, size, size, size)
    found = GIVEN_BACK[name](array)
    before = found.read()
    array += 100
    np.testing.assert_array_equal(found.read(), before)


def test_operands_of_expressions_do_not_follow() -> None:
    array, x = np.full(3, 2, np.float32), F.placeholder([3])
    y = x * array
    array[:] = 7  # before y is computed for the first time
    x.write([1.0, 1.0, 1.0])
    np.testing.assert_array_equal(y.read(), [2, 2, 2])
    array[:] = 8
    x.write([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(y.read(), [2, 4, 6])


def test_parameters_do_not_follow() -> None:
    array, module = np.ones(3, np.float32), nn.Module()
    module.weight = F.cast(array, F.float)
    array[:] = 5
    np.testing.assert_array_equal(module.weight.read(), [1, 1, 1])


@pytest.mark.parametrize("size", [6, few.ALONE + 1])
def test_what_is_given_back_of_a_var_is_another_var(size: int) -> None:
    """What is written to one of the two is not written to the other."""
    more: dict[str, Callable[[Var], Var]] = {"astype": lambda v: v.astype(mnp.float32), "pos": lambda v: +v}
    for name, function in ({**GIVEN_BACK, **more}).items():
        for make in (lambda: mnp.array(np.arange(size, dtype=np.float32)), lambda: mnp.arange(size) * 1.0):
            source = make() if name != "scalar" else make()[size - 1 :].reshape(())
            before, made, kept = source.read(), function(source), function(source)
            numbers = kept.read()
            made.fill(-3.0)
            np.testing.assert_array_equal(source, before, name)
            source.fill(-5.0)
            np.testing.assert_array_equal(kept, numbers, name)
            assert (made.read() == -3.0).all()
