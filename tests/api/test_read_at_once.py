"""Results that are not computed yet, read by several threads at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import MNN.numpy as mnp
from MNN.expr.fused import deferred

_operands: Any = deferred.Deferred.operands


class Finished(deferred.Deferred):
    """One whose numbers another thread has found when somebody asks for its operands."""

    __slots__ = ("waits",)
    waits: bool

    @property
    def operands(self) -> Any:
        if self.waits:
            self.waits = False
            self.numbers()
        return _operands.__get__(self)

    @operands.setter
    def operands(self, operands: Any) -> None:
        _operands.__set__(self, operands)


@pytest.mark.parametrize("functions", [1, 2])
def test_an_operand_is_computed_meanwhile(functions: int) -> None:
    x = np.arange(1, 9, dtype=np.float32)
    inner = (mnp.sqrt(mnp.array(x) * 2.0) if functions > 1 else mnp.negative(mnp.array(x)))._expr._deferred
    if inner is None:  # few numbers are computed at once
        large = np.tile(x, 1 << 16)
        v = mnp.array(large)
        inner = (mnp.sqrt(v * 2.0) if functions > 1 else mnp.negative(v))._expr._deferred
        x = large
    assert inner is not None
    found = Finished.__new__(Finished)
    found.waits = False
    deferred.Deferred.__init__(found, inner.function, inner.operands, inner.shape)
    outer = deferred.Deferred(inner.function, (found, *inner.operands[1:]), inner.shape)
    expected = deferred.Deferred(inner.function, (inner.numbers(), *inner.operands[1:]), inner.shape).numbers()
    found.waits = True
    np.testing.assert_array_equal(outer.numbers(), expected)
    other = Finished.__new__(Finished)
    other.waits = False
    again = deferred.Deferred(inner.function, (expected, *outer.operands[1:]), inner.shape)
    deferred.Deferred.__init__(other, again.function, again.operands, again.shape)
    other.waits = True
    np.testing.assert_array_equal(other.computed(), again.numbers())
