"""Numbers of a PyTorch program that are known only when it runs: sizes, and what is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@dataclass(frozen=True, eq=False)
class Number:
    """A number that the graph computes: ``value`` is a tensor of rank 0 (i64, f64 or bool). ``size`` is the name of the
    size that it is, where it is one. ``at_zero``: of a truth that tells whether a count is 0, what it is then."""

    value: Value
    size: str = ""
    at_zero: bool | None = None

    @property
    def dtype(self) -> DType:
        return self.value.dtype or DType.I64


Scalar = bool | int | float | Number
"""A number as Python has it."""
Int = int | Number
Ints = Sequence[Int]


def is_scalar(x: object) -> bool:
    """Whether it is a number, known or not."""
    return isinstance(x, (bool, int, float, Number))
