"""Points as they mostly are, dense arrays of i32 or f32 and not many of them, read and measured by a function of
generated code that CPython calls straight; what else there is it leaves to :mod:`MNN.cv.kernels.points`, and says
so."""

from __future__ import annotations

import dataclasses
import hashlib
import string
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.points import PointsSpec
from MNN.backends.cpu.targets.base import Target
from MNN.cv.kernels.quick import known
from MNN.cv.kernels.quick.reading_ir import READING, entry
from MNN.cv.kernels.run import library
from MNN.expr.arrays.native.methods import FASTCALL, Method, function_of

Measuring = Callable[[Any, int, Any, Any, Any, Any], bool]
"""Of points (count, 2) or (count, 1, 2), a measure, whether a hull is clockwise, memory for the points, the result and
the places: whether they were measured."""
SOONEST = 16
"""Measures after which the function is made."""
_SLOTS = {name: i for i, name in enumerate(PointsSpec.of().slots())}


@dataclasses.dataclass(frozen=True)
class MeasuringSpec(KernelSpec):
    """``PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t n)``; ``self`` is a record as an array: the common
    one, the kernel and the most points."""

    shaped: ClassVar[bool] = False

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        return f"cv.MeasuringSpec({hashlib.sha256(_text().encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        del target
        return _text()


def _text() -> str:
    slots = {f"S_{name}": 8 * at for name, at in _SLOTS.items()}
    return string.Template(_TEXT).substitute(known.places(), **slots, words=len(_SLOTS))


_TEXT = (
    READING
    + """
; Copies numbers as f64; whether all of them are finite.
define internal i1 @widened(ptr %from, i64 %n, i1 %whole, ptr %to) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %yes
body:
  %p = getelementptr i32, ptr %from, i64 %i
  br i1 %whole, label %int, label %single
int:
  %k = load i32, ptr %p, align 4
  %d_int = sitofp i32 %k to double
  br label %next
single:
  %f = load float, ptr %p, align 4
  %d_float = fpext float %f to double
  %apart = fsub double %d_float, %d_float
  %finite = fcmp oeq double %apart, 0.0
  br i1 %finite, label %next, label %no
next:
  %d = phi double [ %d_int, %int ], [ %d_float, %single ]
  %q = getelementptr double, ptr %to, i64 %i
  store double %d, ptr %q, align 8
  %i1 = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}
; Whether points have been measured.
define internal i1 @measure(ptr %c, ptr %e, ptr %args) {
entry:
  %slots = alloca [$words x i64], align 8
  %what_at = alloca i64, align 8
  %x = load ptr, ptr %args, align 8
  %count = call i64 @pairs(ptr %c, ptr %x)
  %most = call i64 @word(ptr %e, i64 16)
  %less = sub i64 %count, 1
  %few = icmp ult i64 %less, %most
  br i1 %few, label %kind, label %no
kind:
  %element = call ptr @place(ptr %x, i64 $ELEMENT)
  %of_ints = call ptr @place(ptr %c, i64 $ints)
  %of_singles = call ptr @place(ptr %c, i64 $singles)
  %whole = icmp eq ptr %element, %of_ints
  %singles = icmp eq ptr %element, %of_singles
  %known = or i1 %whole, %singles
  br i1 %known, label %wish, label %no
wish:
  %x_what = call ptr @place(ptr %args, i64 8)
  %good_what = call i1 @whole_of(ptr %c, ptr %x_what, ptr %what_at)
  %what = load i64, ptr %what_at, align 8
  %turn = call ptr @place(ptr %args, i64 16)
  %true = call ptr @place(ptr %c, i64 $true)
  %false = call ptr @place(ptr %c, i64 $false)
  %clockwise = icmp eq ptr %turn, %true
  %anti = icmp eq ptr %turn, %false
  %told = or i1 %clockwise, %anti
  %w1 = and i1 %good_what, %told
  br i1 %w1, label %rooms, label %no
rooms:
  %a_points = call ptr @place(ptr %args, i64 24)
  %a_result = call ptr @place(ptr %args, i64 32)
  %a_order = call ptr @place(ptr %args, i64 40)
  %is_points = call i1 @is(ptr %c, ptr %a_points, i64 $array)
  %is_result = call i1 @is(ptr %c, ptr %a_result, i64 $array)
  %is_order = call i1 @is(ptr %c, ptr %a_order, i64 $array)
  %m1 = and i1 %is_points, %is_result
  %m2 = and i1 %m1, %is_order
  br i1 %m2, label %copy, label %no
copy:
  %to = call ptr @place(ptr %a_points, i64 $DATA)
  %from = call ptr @place(ptr %x, i64 $DATA)
  %n = mul i64 %count, 2
  %finite = call i1 @widened(ptr %from, i64 %n, i1 %whole, ptr %to)
  br i1 %finite, label %run, label %no
run:
  %points_at = ptrtoint ptr %to to i64
  %result_at = call i64 @word(ptr %a_result, i64 $DATA)
  %order_at = call i64 @word(ptr %a_order, i64 $DATA)
  %turned = zext i1 %clockwise to i64
  ; two i32 a point, and two more, three times
  %pairs_most = add i64 %most, 1
  %bytes = mul i64 %pairs_most, 8
  %sorted_at = add i64 %order_at, %bytes
  %chain_at = add i64 %sorted_at, %bytes
  call void @note(ptr %slots, i64 $S_points, i64 %points_at)
  call void @note(ptr %slots, i64 $S_count, i64 %count)
  call void @note(ptr %slots, i64 $S_what, i64 %what)
  call void @note(ptr %slots, i64 $S_clockwise, i64 %turned)
  call void @note(ptr %slots, i64 $S_result, i64 %result_at)
  call void @note(ptr %slots, i64 $S_order, i64 %order_at)
  call void @note(ptr %slots, i64 $S_sorted, i64 %sorted_at)
  call void @note(ptr %slots, i64 $S_chain, i64 %chain_at)
  %kernel = call ptr @place(ptr %e, i64 8)
  call void %kernel(ptr %slots, i64 0, i64 1, ptr null)
  ret i1 true
no:
  ret i1 false
}
"""
    + entry(6, "measure")
)


def function(most: int) -> Measuring | None:
    """What measures at most so many points, in memory for as many; None where CPython and numpy are not as they are
    known."""
    shared = known.common()
    if shared is None:
        return None
    kernel, address = library().load([PointsSpec.of(), MeasuringSpec()])
    method = Method(b"measured", address, FASTCALL, b"Measures points, if they are usual ones; whether it has.")
    _KEPT.append(method)
    made: Measuring = function_of(method, np.array([shared.ctypes.data, kernel, most], np.int64))
    return made


_KEPT: list[Method] = []
"""What CPython has the addresses of: for the life of the process."""

__all__ = ["SOONEST", "Measuring", "MeasuringSpec", "function"]
