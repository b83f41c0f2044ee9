"""Objects of CPython, numpy and this package as typed functions see them (:mod:`MNN.expr.arrays.native.facts` has the
places), and the records that entries are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from MNN.backends.cpu.typed.language import Int32, Pointer, Pointers, Record, Words, at
from MNN.expr.arrays.native import facts
from MNN.expr.fused import Deferred
from MNN.expr.fused.functions import Function
from MNN.expr.var import Var

DENSE, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
"""Flags of arrays."""
_NAMES: dict[type, tuple[str, ...]] = {
    Var: ("_few", "_index", "_layout", "_node", "_unconverted"),
    Deferred: ("array", "arrays", "function", "functions", "like", "operands", "passed", "shape"),
    Function: ("kind",),
}
_known = facts.functions() is not None  # before anything is read where it might be
SLOTS = {kind: facts.slots(kind, names) if _known else None for kind, names in _NAMES.items()}
"""Where objects of these classes have their slots; None where that is not known, and nothing here is of use."""


def _slot(kind: type, name: str) -> Any:
    return at((SLOTS[kind] or {}).get(name, 0))


class Object(Record):
    """Any object."""

    type: Pointer = at(facts.TYPE)


class Array(Object):
    """An array of numpy's."""

    data: Pointer = at(facts.DATA)
    rank: Int32 = at(facts.RANK)
    extents: Words = at(facts.EXTENTS)
    strides: Words = at(facts.STRIDES)
    element: Object = at(facts.ELEMENT)
    flags: Int32 = at(facts.FLAGS)


class Arguments(Pointers):
    """What CPython gives a function, and other objects side by side."""

    element = Object

    def __getitem__(self, index: int) -> Object:  # for type checkers
        return Object(super().__getitem__(index))


class VarObject(Object):
    """A :class:`~MNN.expr.var.Var`."""

    few: Object = at(_slot(Var, "_few"))
    index: Object = at(_slot(Var, "_index"))
    layout: Object = at(_slot(Var, "_layout"))
    node: Object = at(_slot(Var, "_node"))
    unconverted: Object = at(_slot(Var, "_unconverted"))


class FunctionObject(Object):
    """A :class:`~MNN.expr.fused.functions.Function`."""

    kind: Object = at(_slot(Function, "kind"))


class Later(Object):
    """What is not computed yet: a :class:`~MNN.expr.fused.Deferred`."""

    array: Object = at(_slot(Deferred, "array"))
    arrays: Object = at(_slot(Deferred, "arrays"))
    function: FunctionObject = at(_slot(Deferred, "function"))
    functions: Object = at(_slot(Deferred, "functions"))
    like: Object = at(_slot(Deferred, "like"))
    operands: Object = at(_slot(Deferred, "operands"))
    passed: Object = at(_slot(Deferred, "passed"))
    shape: Object = at(_slot(Deferred, "shape"))


class Common(Record):
    """What all entries know: objects, functions of CPython's and numpy's, and tables. Behind it are the element
    types."""

    lazy: Words
    few: int
    var: Object
    none: Object
    zero: Object
    float_: Object
    int_: Object
    list_: Object
    tuple_: Object
    slice_: Object
    array: Object
    later: Object
    f32: Object
    i32: Object
    true: Object
    false: Object
    nothing: Object
    scalars: Object
    maker: Object
    programs: Words
    computed_record: Object
    computed: Callable[[Object, Arguments, int], Object]
    retain: Callable[[Object], None]
    release: Callable[[Object], None]
    clear: Callable[[], None]
    new: Callable[[Object, int], Object]
    call: Callable[[Object, Arguments, int, Pointer], Object]
    call_named: Callable[[Object, Arguments, int, Pointer], Object]
    real: Callable[[Object], float]
    whole: Callable[[Object], int]
    long: Callable[[int], Object]
    item: Callable[[Object, Object], Object]
    dict_item: Callable[[Object, Object], Object]
    list_item: Callable[[Object, int], Object]
    list_size: Callable[[Object], int]
    tuple_item: Callable[[Object, int], Object]
    tuple_size: Callable[[Object], int]
    tuple_new: Callable[[int], Object]
    tuple_set: Callable[[Object, int, Object], Int32]
    copy: Callable[[Object, Int32], Array]
    make: Callable[[Object, Object, Int32, Words, Words, Pointer, Int32, Pointer], Array]
    transpose: Callable[[Array, Pointer], Array]
    set_base: Callable[[Array, Array], Int32]


KINDS = len(Common.__annotations__)
"""Words of the common record before the element types."""
F32, I32 = range(2)
"""Numbers of element types."""


class Loop(Record):
    """An inner loop of numpy's, or none, and what it is to be given."""

    is_there: Pointer = at(0)
    run: Callable[[Pointers, Words, Words, Pointer], None] = at(0)
    given: Pointer = at(8)


LOOPS = 4
"""Words of an entry's record before its loops, by element type."""


class Entry(Record):
    """What belongs to one entry: the Python function that does the same, whether operands are exchanged, most elements
    or multiplications; behind its loops the function that is computed later, from how many numbers on, and itself."""

    common: Common
    usual: Object
    turned: int
    most: int
    function: int = at(8 * (LOOPS + 2 * len(facts.KINDS)))
    least: int = at(8 * (LOOPS + 2 * len(facts.KINDS) + 1))
    record: Object = at(8 * (LOOPS + 2 * len(facts.KINDS) + 2))


UNKNOWN = -1
"""Stands for a function that nobody has asked for."""

__all__ = [
    "ALIGNED", "DENSE", "F32", "I32", "KINDS", "LOOPS", "SLOTS", "UNKNOWN", "WRITEABLE", "Arguments", "Array", "Common",
    "Entry", "FunctionObject", "Later", "Loop", "Object", "VarObject",
]  # fmt: skip
