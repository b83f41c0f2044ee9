"""Kernels as functions that Python calls straight: generated code takes arrays, fills a kernel's arguments, runs it.

A call by ``ctypes`` takes longer than many a kernel on a small picture. What arrays keep where is looked at before it
is trusted (:mod:`MNN.expr.arrays.native.facts`); where it is not as known, there are no such functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.typed.language import NULL, Pointer, Record, Words, address, typed, words
from MNN.backends.cpu.typed.spec import TypedSpec
from MNN.cv.kernels.quick.known import SOURCES, Common, common
from MNN.expr.arrays.native.methods import FASTCALL, Method, function_of
from MNN.expr.arrays.native.objects import Arguments, Array, Object

Function = Callable[..., None]
Given = tuple[str, int, int]
"""A slot, the number of the operand that says where it begins, or what it is, and how many bytes are to be added."""


class _Head(Record):
    """The first words of a record. ``scratch`` is the number of the operand that says where it is, -1 for none. Behind
    them are three words for each slot that is given: its number, that of the operand, how many bytes behind where that
    begins; then the slots as they are otherwise."""

    kernel: Callable[[Words, int, int, Pointer], None]
    operands: int
    moving: int
    slots: int
    blocks: int
    scratch: int
    common: Common


_HEAD = len(_Head.__annotations__)


@typed
def begin(c: Common, x: Object, failed: Words) -> int:
    """Where an array begins, or a whole number; says that it has failed where it is neither."""
    if x.type is c.array or c.is_kind(x.type, c.array) != 0:
        return address(Array(x).data)
    found = c.to_whole(x)
    if found == -1 and c.error():
        failed[0] = 1
    return found


@typed
def run(self: Array, given: Arguments, count: int) -> Object:
    """Runs a kernel with its slots filled, while other threads of Python may run."""
    head = _Head(self.data)
    c = head.common
    if count != head.operands:
        c.refuse()
        return Object(NULL)
    slots, failed = words(head.slots), words(1)
    triples = Words(head).after(_HEAD)
    usual = triples.after(3 * head.moving)
    failed[0] = 0
    for i in range(head.slots):
        slots[i] = usual[i]
    for i in range(head.moving):
        slots[triples[3 * i]] = begin(c, given[triples[3 * i + 1]], failed) + triples[3 * i + 2]
    scratch = Pointer(begin(c, given[head.scratch], failed)) if head.scratch >= 0 else NULL
    if failed[0] != 0:
        return Object(NULL)
    state = c.save()
    head.kernel(slots, 0, head.blocks, scratch)
    c.restore(state)
    c.retain(c.none)
    return c.none


class _Maker:
    """What makes functions; all of them point to its memory, so that there is one in a process."""

    def __init__(self, library: Library, common: Any) -> None:
        self.common = common
        (place,) = library.load([TypedSpec("running a kernel", run, sources=SOURCES)])
        self.method = Method(b"kernel", place, FASTCALL, b"Runs a kernel.")

    def function(
        self, kernel: int, values: Sequence[int], moving: Sequence[tuple[int, int, int]], blocks: int, scratch: bool,
        keep: object,
    ) -> Function:  # fmt: skip
        operands = max((operand for _, operand, _ in moving), default=-1) + 1
        head = (
            kernel, operands + scratch, len(moving), len(values), blocks, operands if scratch else -1,
            self.common.ctypes.data,
        )  # fmt: skip
        record = np.array([*head, *(n for triple in moving for n in triple), *values], np.int64)
        # what it belongs to is held, as a module would be
        found: Function = function_of(self.method, record, keep)
        return found


@functools.cache
def maker(library: Library) -> _Maker | None:
    """What makes functions of kernels; None where CPython or numpy are not as they are known."""
    shared = common()
    return None if shared is None else _Maker(library, shared)


__all__ = ["Function", "Given", "maker"]
