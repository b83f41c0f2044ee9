"""Expressions follow the leaves that they are computed from, also those that become something else later."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.nn as nn
import MNN.optim as optim
from MNN.expr import Var


def _product() -> tuple[Var, Var, Var]:
    x, c = F.placeholder([3]), F.const([1.0, 2.0, 3.0], [3])
    y = x * c
    x.write([1.0, 1.0, 1.0])
    np.testing.assert_array_equal(y.read(), [1, 2, 3])
    return x, c, y


def test_a_constant_is_written() -> None:
    _, c, y = _product()
    c.write([7.0, 8.0, 9.0])
    np.testing.assert_array_equal(y.read(), [7, 8, 9])
    c[0] = 5.0
    np.testing.assert_array_equal(y.read(), [5, 8, 9])


@pytest.mark.parametrize("kind", ["placeholder", "trainable"])
def test_a_constant_becomes_a_source(kind: str) -> None:
    x, c, y = _product()
    getattr(c, f"fix_as_{kind}")()
    for number in (7.0, 8.0):
        c.write([number] * 3)
        np.testing.assert_array_equal(y.read(), [number] * 3)
    x.write([2.0, 2.0, 2.0])
    np.testing.assert_array_equal(y.read(), [16, 16, 16])


@pytest.mark.parametrize("kind", ["placeholder", "trainable"])
def test_a_result_becomes_a_source(kind: str) -> None:
    x = F.placeholder([3])
    h = x * 2.0
    y = h + 1.0
    x.write([1.0, 1.0, 1.0])
    np.testing.assert_array_equal(y.read(), [3, 3, 3])
    getattr(h, f"fix_as_{kind}")()
    for number in (7.0, 8.0):
        h.write([number] * 3)
        np.testing.assert_array_equal(y.read(), [number + 1] * 3)


def test_large_products_follow_a_constant() -> None:
    """What is compiled has its constants built in."""
    x, c = F.placeholder([300, 300]), F.const(np.eye(300, dtype=np.float32), [300, 300])
    y = F.matmul(F.matmul(x, c), x) + 1.0
    x.write(np.eye(300))
    for _ in range(6):
        x.write(np.eye(300))
        y.sync()
    c.write(2 * np.eye(300))
    np.testing.assert_array_equal(y.read(), 2 * np.eye(300) + 1)


def test_a_parameter_of_an_expression_that_was_made_before() -> None:
    _, c, y = _product()
    module = nn.Module()
    module.weight = c
    optim.SGD(module, 1.0, 0.0).step(F.reduce_sum(y))
    np.testing.assert_array_equal(c.read(), [0, 1, 2])
    np.testing.assert_array_equal(y.read(), [0, 1, 2])


@pytest.mark.parametrize("kind", ["placeholder", "trainable", "const"])
def test_numbers_go_with_the_last_that_holds_them(kind: str) -> None:
    """Not when the garbage collector comes, which counts objects, not their bytes."""
    x = F.placeholder([3])
    x.write([1.0, 2.0, 3.0])
    getattr(x, f"fix_as_{kind}")()
    y = F.exp(x * 2.0 + 1.0)
    y.sync()
    array = weakref.ref(x._array())
    gc.collect()
    gc.disable()
    try:
        del x, y
        assert array() is None
    finally:
        gc.enable()
