"""What is said of one operator's form in the official engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from MNN.frontends.mnn.official.advice import USUAL
from MNN.ir.graph import Node

Rule = Callable[[Node], "list[Node] | None"]
"""From a node to the nodes that stand for it, or None when it stays."""


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
    rule: Rule | None = None
    """What it is rewritten to where it has no official form, or another one works better there."""
    tidies: bool = False
    """Whether the rule only tidies: what it makes is as good here as what it stands for, and is read back as it is."""
    given_only: bool = False
    """Whether the rule is for nodes of the model alone: what other rules make is right already."""
    advice: str = USUAL
    """What to do when it is asked for and the official engine cannot run it."""
