"""What flows along a graph's edges without being a tensor: variables, lists of tensors, tables.

They are values of the graph being read only; no node of ours ever takes one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from MNN.frontends.common.complex_parts import Parts
from MNN.ir.graph import Value
from MNN.ir.shape import Shape


@dataclass(eq=False)
class Handle(Value):
    """Base of all of them."""

    what: str = "a handle"


@dataclass(eq=False)
class VariableHandle(Handle):
    """A variable, whose numbers are constant: ``content`` is None where the file does not tell them. ``key`` is the
    same for all handles of one variable; ``changes``: it is a state, whose numbers are in the model's memory."""

    what: str = "a variable"
    content: Value | None = None
    key: str = ""
    changes: bool = False


@dataclass(eq=False)
class TableHandle(Handle):
    """A lookup table."""

    what: str = "a lookup table"


@dataclass(eq=False)
class ComplexHandle(Handle):
    """A complex tensor, whose parts are tensors of its shape."""

    what: str = "a complex tensor"
    parts: Parts = field(kw_only=True)


@dataclass(eq=False)
class Unseen:
    """What a loop's body does with a list of which no element is known before the loop.

    ``item``: an element that it writes; ``needed``: it does something that cannot be said without the elements, as
    asking how many there are, writing two in a turn or one in a branch.
    """

    item: Value | None = None
    needed: bool = False


@dataclass(eq=False)
class ListHandle(Handle):
    """A TensorList or TensorArray. Its elements lie along axis 0 of ``stacked``, or are ``items`` (None: not written
    yet), or, in a loop's body, are not there to be seen (``unseen``): then ``written`` is what this turn writes at
    ``written_at`` (None: at the end).

    ``element`` is the elements' shape as far as it is told, ``count`` how many there are to be; ``growing``: writing
    behind its end makes it longer.
    """

    what: str = "a list of tensors"
    stacked: Value | None = None
    items: tuple[Value | None, ...] | None = None
    count: Value | None = None
    element: Shape | None = None
    written: Value | None = None
    written_at: Value | None = None
    unseen: Unseen | None = None
    growing: bool = False
