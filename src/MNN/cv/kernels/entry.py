"""Kernels as functions that Python calls straight: generated code takes arrays, fills a kernel's arguments, runs it.

A call by ``ctypes`` takes longer than many a kernel on a small picture. What arrays keep where is looked at before it
is trusted (:mod:`MNN.expr.arrays.native.facts`); where it is not as known, there are no such functions."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import hashlib
import string
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.targets.base import Target
from MNN.expr.arrays.native import facts
from MNN.expr.arrays.native.methods import FASTCALL, Method, function_of

_PYTHON = {
    "retain": "Py_IncRef", "whole": "PyLong_AsLongLong", "occurred": "PyErr_Occurred", "is_kind": "PyType_IsSubtype",
    "save": "PyEval_SaveThread", "restore": "PyEval_RestoreThread", "refuse": "PyErr_BadArgument",
}  # fmt: skip
_COMMON = ("array", "none", *_PYTHON)
_HEAD = ("kernel", "operands", "moving", "slots", "blocks", "scratch", "common")
"""The first words of a record; ``scratch`` is the number of the operand that says where it is, -1 for none. Behind
them are three words for each slot that is given: its number, that of the operand, how many bytes behind where that
begins; then the slots as they are otherwise."""

Function = Callable[..., None]
Given = tuple[str, int, int]
"""A slot, the number of the operand that says where it begins, or what it is, and how many bytes are to be added."""


@dataclasses.dataclass(frozen=True)
class EntrySpec(KernelSpec):
    """``PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t n)``; ``self`` is a record as an array."""

    shaped: ClassVar[bool] = True

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        return f"cv.EntrySpec({hashlib.sha256(self._text().encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        del target
        return self._text()

    def _text(self) -> str:
        common = {name: 8 * i for i, name in enumerate(_COMMON)}
        head = {f"at_{name}": 8 * i for i, name in enumerate(_HEAD)}
        places = {"DATA": facts.DATA, "TYPE": facts.TYPE}
        return string.Template(_TEXT).substitute(common, **head, **places, end=8 * len(_HEAD))


_TEXT = """
define internal i64 @word(ptr %from, i64 %at) {
  %p = getelementptr i8, ptr %from, i64 %at
  %found = load i64, ptr %p, align 8
  ret i64 %found
}
define internal ptr @place(ptr %from, i64 %at) {
  %p = getelementptr i8, ptr %from, i64 %at
  %found = load ptr, ptr %p, align 8
  ret ptr %found
}
; Where an array begins, or a whole number; sets %bad where it is neither.
define internal i64 @given(ptr %c, ptr %x, ptr %bad) {
  %type = call ptr @place(ptr %x, i64 $TYPE)
  %array = call ptr @place(ptr %c, i64 $array)
  %plain = icmp eq ptr %type, %array
  br i1 %plain, label %begin, label %other
other:
  %is_kind = call ptr @place(ptr %c, i64 $is_kind)
  %kin = call i32 %is_kind(ptr %type, ptr %array)
  %like = icmp ne i32 %kin, 0
  br i1 %like, label %begin, label %number
begin:
  %data = call i64 @word(ptr %x, i64 $DATA)
  ret i64 %data
number:
  %whole = call ptr @place(ptr %c, i64 $whole)
  %n = call i64 %whole(ptr %x)
  %odd = icmp eq i64 %n, -1
  br i1 %odd, label %ask, label %fine
ask:
  %occurred = call ptr @place(ptr %c, i64 $occurred)
  %error = call ptr %occurred()
  %none = icmp eq ptr %error, null
  br i1 %none, label %fine, label %wrong
wrong:
  store i1 true, ptr %bad, align 1
  ret i64 0
fine:
  ret i64 %n
}
define ptr @kernel(ptr %self, ptr %args, i64 %n) {
entry:
  %e = call ptr @place(ptr %self, i64 $DATA)
  %c = call ptr @place(ptr %e, i64 $at_common)
  %count = call i64 @word(ptr %e, i64 $at_slots)
  %moving = call i64 @word(ptr %e, i64 $at_moving)
  %slots = alloca i64, i64 %count, align 8
  %bad = alloca i1, align 1
  store i1 false, ptr %bad, align 1
  %operands = call i64 @word(ptr %e, i64 $at_operands)
  %as_many = icmp eq i64 %n, %operands
  br i1 %as_many, label %copy, label %refuse
refuse:
  %f_refuse = call ptr @place(ptr %c, i64 $refuse)
  %refused = call i32 %f_refuse()
  ret ptr null
copy:
  %triples = getelementptr i8, ptr %e, i64 $end
  %words = mul i64 %moving, 3
  %usual = getelementptr i64, ptr %triples, i64 %words
  br label %each_usual
each_usual:
  %i = phi i64 [ 0, %copy ], [ %i1, %next_usual ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %next_usual, label %each
next_usual:
  %p_from = getelementptr i64, ptr %usual, i64 %i
  %value = load i64, ptr %p_from, align 8
  %p_to = getelementptr i64, ptr %slots, i64 %i
  store i64 %value, ptr %p_to, align 8
  %i1 = add i64 %i, 1
  br label %each_usual
each:
  %j = phi i64 [ 0, %each_usual ], [ %j1, %next ]
  %left = icmp ult i64 %j, %moving
  br i1 %left, label %next, label %ready
next:
  %at = mul i64 %j, 3
  %p_slot = getelementptr i64, ptr %triples, i64 %at
  %slot = load i64, ptr %p_slot, align 8
  %which = call i64 @word(ptr %p_slot, i64 8)
  %behind = call i64 @word(ptr %p_slot, i64 16)
  %p_x = getelementptr ptr, ptr %args, i64 %which
  %x = load ptr, ptr %p_x, align 8
  %begin = call i64 @given(ptr %c, ptr %x, ptr %bad)
  %there = add i64 %begin, %behind
  %p_given = getelementptr i64, ptr %slots, i64 %slot
  store i64 %there, ptr %p_given, align 8
  %j1 = add i64 %j, 1
  br label %each
ready:
  %which_scratch = call i64 @word(ptr %e, i64 $at_scratch)
  %has = icmp sge i64 %which_scratch, 0
  br i1 %has, label %room, label %check
room:
  %p_room = getelementptr ptr, ptr %args, i64 %which_scratch
  %room_object = load ptr, ptr %p_room, align 8
  %room_at = call i64 @given(ptr %c, ptr %room_object, ptr %bad)
  %room_place = inttoptr i64 %room_at to ptr
  br label %check
check:
  %scratch = phi ptr [ null, %ready ], [ %room_place, %room ]
  %failed = load i1, ptr %bad, align 1
  br i1 %failed, label %fail, label %run
fail:
  ret ptr null
run:
  %kernel = call ptr @place(ptr %e, i64 $at_kernel)
  %blocks = call i64 @word(ptr %e, i64 $at_blocks)
  %f_save = call ptr @place(ptr %c, i64 $save)
  %state = call ptr %f_save()
  call void %kernel(ptr %slots, i64 0, i64 %blocks, ptr %scratch)
  %f_restore = call ptr @place(ptr %c, i64 $restore)
  call void %f_restore(ptr %state)
  %none = call ptr @place(ptr %c, i64 $none)
  %f_retain = call ptr @place(ptr %c, i64 $retain)
  call void %f_retain(ptr %none)
  ret ptr %none
}
"""


class _Maker:
    """What makes functions; all of them point to its memory, so that there is one in a process."""

    def __init__(self, library: Library, addresses: Sequence[int]) -> None:
        self.common = np.array([id(np.ndarray), id(None), *addresses], np.int64)
        (address,) = library.load([EntrySpec()])
        self.method = Method(b"kernel", address, FASTCALL, b"Runs a kernel.")

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
    if facts.functions() is None:
        return None
    addresses = []
    for name in _PYTHON.values():
        function = getattr(ctypes.pythonapi, name, None)
        if function is None:
            return None
        addresses.append(ctypes.cast(function, ctypes.c_void_p).value or 0)
    return _Maker(library, addresses)


__all__ = ["EntrySpec", "Function", "Given", "maker"]
