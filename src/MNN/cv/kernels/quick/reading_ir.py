"""LLVM IR that reads what Python functions are given: whole numbers and points. Nothing is converted that is not
of Python's very types, and no error of Python's is left behind.

``%c`` is the address of a record with those of types (``$int``, ``$float``, ``$tuple``) and of CPython's functions."""

from __future__ import annotations

READING = """
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
define internal void @note(ptr %to, i64 %at, i64 %value) {
  %p = getelementptr i8, ptr %to, i64 %at
  store i64 %value, ptr %p, align 8
  ret void
}
define internal i1 @is(ptr %c, ptr %x, i64 %kind) {
  %type = call ptr @place(ptr %x, i64 $TYPE)
  %wanted = call ptr @place(ptr %c, i64 %kind)
  %same = icmp eq ptr %type, %wanted
  ret i1 %same
}
; Whether there is an error of Python's, which is forgotten.
define internal i1 @wrong(ptr %c) {
  %occurred = call ptr @place(ptr %c, i64 $occurred)
  %error = call ptr %occurred()
  %none = icmp eq ptr %error, null
  br i1 %none, label %fine, label %clear
clear:
  %f = call ptr @place(ptr %c, i64 $clear)
  call void %f()
  ret i1 true
fine:
  ret i1 false
}
; A whole number of 32 bits; whether it is one.
define internal i1 @whole_of(ptr %c, ptr %x, ptr %to) {
  %int = call i1 @is(ptr %c, ptr %x, i64 $int)
  br i1 %int, label %read, label %no
read:
  %f = call ptr @place(ptr %c, i64 $whole)
  %n = call i64 %f(ptr %x)
  store i64 %n, ptr %to, align 8
  %odd = icmp eq i64 %n, -1
  br i1 %odd, label %ask, label %fits
ask:
  %bad = call i1 @wrong(ptr %c)
  br i1 %bad, label %no, label %fits
fits:
  %up = add i64 %n, 2147483648
  %there = icmp ult i64 %up, 4294967296
  ret i1 %there
no:
  ret i1 false
}
; A finite number; whether it is one.
define internal i1 @real_of(ptr %c, ptr %x, ptr %to) {
  %int = call i1 @is(ptr %c, ptr %x, i64 $int)
  %float = call i1 @is(ptr %c, ptr %x, i64 $float)
  %number = or i1 %int, %float
  br i1 %number, label %read, label %no
read:
  %f = call ptr @place(ptr %c, i64 $real)
  %n = call double %f(ptr %x)
  store double %n, ptr %to, align 8
  %odd = fcmp oeq double %n, -1.0
  br i1 %odd, label %ask, label %fits
ask:
  %bad = call i1 @wrong(ptr %c)
  br i1 %bad, label %no, label %fits
fits:
  %low = fcmp oge double %n, -1.0e30
  %high = fcmp ole double %n, 1.0e30
  %there = and i1 %low, %high
  ret i1 %there
no:
  ret i1 false
}
; A tuple of two whole numbers; whether it is one.
define internal i1 @point_of(ptr %c, ptr %x, ptr %to) {
  %tuple = call i1 @is(ptr %c, ptr %x, i64 $tuple)
  br i1 %tuple, label %sized, label %no
sized:
  %f_size = call ptr @place(ptr %c, i64 $size)
  %n = call i64 %f_size(ptr %x)
  %two = icmp eq i64 %n, 2
  br i1 %two, label %read, label %no
read:
  %f_item = call ptr @place(ptr %c, i64 $item)
  %one = call ptr %f_item(ptr %x, i64 0)
  %other = call ptr %f_item(ptr %x, i64 1)
  %second = getelementptr i64, ptr %to, i64 1
  %good = call i1 @whole_of(ptr %c, ptr %one, ptr %to)
  br i1 %good, label %last, label %no
last:
  %found = call i1 @whole_of(ptr %c, ptr %other, ptr %second)
  ret i1 %found
no:
  ret i1 false
}
; How many points are in a dense array (n, 2) or (n, 1, 2), of whatever numbers; 0 where it is another object.
define internal i64 @pairs(ptr %c, ptr %x) {
entry:
  %array = call i1 @is(ptr %c, ptr %x, i64 $array)
  br i1 %array, label %kind, label %no
kind:
  %p_flags = getelementptr i8, ptr %x, i64 $FLAGS
  %flags = load i32, ptr %p_flags, align 4
  %wanted = and i32 %flags, 257  ; dense and aligned
  %usual = icmp eq i32 %wanted, 257
  %p_rank = getelementptr i8, ptr %x, i64 $RANK
  %rank = load i32, ptr %p_rank, align 4
  %up = sub i32 %rank, 2
  %listed = icmp ult i32 %up, 2
  %k1 = and i1 %usual, %listed
  br i1 %k1, label %sizes, label %no
sizes:
  %extents = call ptr @place(ptr %x, i64 $EXTENTS)
  %count = call i64 @word(ptr %extents, i64 0)
  %second = call i64 @word(ptr %extents, i64 8)
  %deep = icmp eq i32 %rank, 3
  br i1 %deep, label %depth, label %sized
depth:
  %third = call i64 @word(ptr %extents, i64 16)
  %alone = icmp eq i64 %second, 1
  %pairs_3 = icmp eq i64 %third, 2
  %good_3 = and i1 %alone, %pairs_3
  br label %ready
sized:
  %good_2 = icmp eq i64 %second, 2
  br label %ready
ready:
  %pairs = phi i1 [ %good_3, %depth ], [ %good_2, %sized ]
  br i1 %pairs, label %yes, label %no
yes:
  ret i64 %count
no:
  ret i64 0
}
"""


def entry(arguments: int, work: str) -> str:
    """What CPython calls with so many arguments: True where the function ``work`` of a module, which is given what is
    common, its own data and the arguments, has done it; False where Python has to."""
    return _ENTRY.replace("$arguments", str(arguments)).replace("$work", work)


_ENTRY = """
define ptr @kernel(ptr %self, ptr %args, i64 %n) {
entry:
  %e = call ptr @place(ptr %self, i64 $DATA)
  %c = call ptr @place(ptr %e, i64 0)
  %expected = icmp eq i64 %n, $arguments
  br i1 %expected, label %do, label %no
do:
  %done = call i1 @$work(ptr %c, ptr %e, ptr %args)
  br i1 %done, label %yes, label %no
yes:
  %true = call ptr @place(ptr %c, i64 $true)
  br label %out
no:
  %false = call ptr @place(ptr %c, i64 $false)
  br label %out
out:
  %found = phi ptr [ %true, %yes ], [ %false, %no ]
  %f_retain = call ptr @place(ptr %c, i64 $retain)
  call void %f_retain(ptr %found)
  ret ptr %found
}
"""

__all__ = ["READING", "entry"]
