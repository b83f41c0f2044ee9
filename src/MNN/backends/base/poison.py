"""``MNN_POISON=1``: memory that nobody has written holds NaN, so that reading it shows. For tests and debugging; slow.

The pattern is NaN as fp16, bf16, fp32 and fp64, and as an index far outside of any tensor.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from MNN.errors import MNNError

PATTERN = 0x7FF1
"""NaN in all floating point types, of 16 bits repeated."""
VARIABLE = "MNN_POISON"


def wanted() -> bool:
    """Whether programs that are bound now are to be poisoned. Raises ``MNNError`` when the variable holds nonsense."""
    text = os.environ.get(VARIABLE, "")
    if text not in ("", "0", "1"):
        raise MNNError(f"{VARIABLE} is '{text}'; set it to 1 to fill unwritten memory with NaN, or to 0")
    return text == "1"


def fill(array: NDArray[np.uint8]) -> None:
    """Fills bytes; the first at an even address is the pattern's lower byte."""
    filler(array)()


def filler(array: NDArray[np.uint8]) -> Callable[[], None]:
    """:func:`fill` of memory that is filled often: what it works on is made once."""
    even = array.nbytes & ~1
    words, rest = array[:even].view(np.uint16), array[even:]

    def again() -> None:
        words.fill(PATTERN)
        if rest.size:
            rest.fill(PATTERN & 0xFF)

    return again


__all__ = ["PATTERN", "VARIABLE", "fill", "filler", "wanted"]
