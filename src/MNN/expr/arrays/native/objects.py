"""Objects of CPython and numpy as typed functions see them (:mod:`MNN.expr.arrays.native.facts` has the places)."""

from __future__ import annotations

from MNN.backends.cpu.typed.language import Int32, Pointer, Pointers, Record, Words, at
from MNN.expr.arrays.native import facts

DENSE, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
"""Flags of arrays."""


class Object(Record):
    """Any object."""

    type: Pointer = at(facts.TYPE)


class Array(Object):
    """An array of numpy's."""

    data: Pointer = at(facts.DATA)
    rank: Int32 = at(facts.RANK)
    extents: Words = at(facts.EXTENTS)
    element: Pointer = at(facts.ELEMENT)
    flags: Int32 = at(facts.FLAGS)


class Arguments(Pointers):
    """What CPython gives a function."""

    element = Object

    def __getitem__(self, index: int) -> Object:  # for type checkers
        return Object(super().__getitem__(index))


__all__ = ["ALIGNED", "DENSE", "WRITEABLE", "Arguments", "Array", "Object"]
