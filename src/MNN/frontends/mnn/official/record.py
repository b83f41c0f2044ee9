"""What is said of one operator's form in the official engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from MNN.frontends.mnn.official.advice import USUAL
from MNN.ir.graph import Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.schema.external import ExternalSource
from MNN.schema.record import Record

Rule = Callable[[Node], "list[Node] | None"]
"""From a node to the nodes that stand for it, or None when it stays."""

Data = np.ndarray | QuantizedArray
"""A constant operand."""


@dataclass
class Written:
    """An operator's record (without tensor indexes), the inputs it still takes as tensors, and notes for our reader."""

    record: Record
    inputs: list[Value | None]
    note: dict[str, Any] = field(default_factory=dict)


class Layout(Enum):
    """Formats of an operator's tensors there: NCHW, or NC4HW4 ("packed")."""

    PLAIN = "all NCHW"
    PACKED_FIRST = "first input and outputs packed, other inputs plain"
    PACKED = "all packed"
    AS_GIVEN = "outputs as the first input, other inputs plain"
    TOGETHER = "all in one format"
    TOGETHER_FITTED = "all in one format, but for constants, which the engine fits itself"
    SHAPE_ONLY = "asks for the shape alone, the same in both formats"


class Subgraphs(Enum):
    """How the official engine keeps subgraphs."""

    BRANCHES = "two graphs, one of which runs: If"
    TURNS = "a body that runs over and over: While"


@dataclass(frozen=True)
class Kernel:
    """How the weights of a convolution lie."""

    transposed: bool = False
    """Input channels come first, output channels of a group second."""
    depthwise: bool = False
    """Every channel has a window of its own, whatever group the table tells."""
    each_channel: str = ""
    """The operator that stands for this one where every channel has a window of its own."""
    computed: bool = False
    """Whether weights may be tensors, so that they need not be constants."""


@dataclass(frozen=True)
class Official:
    """One operator's form there. An operator of which nothing is said has no table, and takes and gives NCHW."""

    table: str | None = None
    """Table of its attributes: a member of the union ``Op.main``."""
    layout: Layout = Layout.PLAIN
    operands: tuple[str, ...] = ()
    """Fields of the table that hold constant operands, which follow the first input in this order.

    (Where their shapes are not those of vectors, ``read`` and ``write`` know them.)
    """
    fillers: tuple[float, ...] = ()
    """What absent ``operands`` are where it needs all of them."""
    count: str = ""
    """Field of the table that tells how long ``operands`` are; then there must be some."""
    bias_is_number: bool = False
    """Whether ``bias`` in its table is an attribute, not an operand."""
    kernel: Kernel | None = None
    """How weights lie, of a convolution."""
    write: Callable[[Node, bool], Written | None] | None = None
    """What writes a node (the flag: weights as halves) where attributes and table are not simply alike."""
    read: Callable[[Record, ExternalSource | None], list[Data | None]] | None = None
    """What reads the constant operands in its table."""
    restore: Callable[[dict[str, object]], None] | None = None
    """What turns attributes as the table has them into ours, in place."""
    framework_order: bool = False
    """Whether it tells sizes, in the order of dimensions of the framework that the model came from."""
    reads_nhwc: Callable[[Record], bool] | None = None
    """What says whether a record of it sees a packed first input as NHWC (in files from channels-last frameworks)."""
    gives_truth: Callable[[Node], bool] | None = None
    """What says whether a node's results are truth values here, and 32-bit integers there."""
    subgraphs: Subgraphs | None = None
    """How its subgraphs are written, where it has an official form."""
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
