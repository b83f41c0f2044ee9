"""A contraction as all algorithms take it: what is multiplied, where results go, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.backends.cpu.products.emit_epilogue import Epilogue
from MNN.backends.cpu.products.operand_access import OperandAccess


@dataclass(frozen=True)
class Product:
    """``C[i, j] = epilogue(sum over taps t and steps s < k of A[rows[i] + t + s] * B[t, s, j])``, batched.

    A matrix product has one tap, a convolution those of its window. The right side, B, lies as the algorithm at hand
    wants it.
    """

    a: OperandAccess
    c: OperandAccess
    epilogue: Epilogue
    taps: np.ndarray
    """Offsets of the taps in A, in elements."""
    k: int
    n: int
    """Columns of C."""

    m: int
    """Rows of C in every batch."""
    batches: int

    @property
    def sides(self) -> list[OperandAccess]:
        """A, C and what the epilogue reads."""
        return [self.a, self.c, *self.epilogue.sides]
