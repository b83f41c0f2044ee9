"""What is said of one operator's form in the official engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from MNN.frontends.mnn.official.advice import USUAL


class Layout(Enum):
    """Formats of an operator's tensors there: NCHW, or NC4HW4 ("packed")."""

    PLAIN = "all NCHW"
    PACKED_FIRST = "first input and outputs packed, other inputs plain"
    PACKED = "all packed"
    AS_GIVEN = "outputs as the first input, other inputs plain"
    TOGETHER = "all in one format"
    SHAPE_ONLY = "asks for the shape alone, the same in both formats"


@dataclass(frozen=True)
class Official:
    """One operator's form there. An operator of which nothing is said has no table, and takes and gives NCHW."""

    table: str | None = None
    """Table of its attributes: a member of the union ``Op.main``."""
    layout: Layout = Layout.PLAIN
    operands: tuple[str, ...] = ()
    """Fields of the table that hold constant operands, which follow the first input in this order.

    (Convolution2D, Convolution3D and InnerProduct need shapes from elsewhere; see ``operands``.)
    """
    fillers: tuple[float, ...] = ()
    """What absent ``operands`` are where it needs all of them."""
    table_optional: bool = False
    """Whether the table is left out when all of it is at its defaults."""
    stands_for: tuple[str, ...] = ()
    """Other operators that may be written as this one, as the notes of a file say."""
    advice: str = USUAL
    """What to do when it is asked for and the official engine cannot run it."""
