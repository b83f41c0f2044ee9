"""LLVM IR of the entries: functions as CPython calls them (``METH_FASTCALL``), with numpy's inner loops in them.

An entry's first argument is an array of numpy whose numbers are its record: the address of the common record, the
Python function that does the same, a switch, the most elements, and per element type an inner loop and what is to be
given to it."""

from __future__ import annotations

HEAD = """
define ptr @kernel(ptr %self, ptr %args, i64 %n) {
entry:
  %e = call ptr @data(ptr %self)
  %c = load ptr, ptr %e, align 8
  $rooms
  %enough = icmp eq i64 %n, $operands
  %now = call i1 @at_once(ptr %c)
  %begin = and i1 %enough, %now
  br i1 %begin, label %first, label %slow
first:
  %x = load ptr, ptr %args, align 8
"""
FRESH = """
  %r = call ptr @fresh(ptr %c, ptr %element, i32 %rank, ptr %sizes)
  %none = icmp eq ptr %r, null
  br i1 %none, label %failed, label %run
run:
  %to = call ptr @data(ptr %r)
"""
"""A new array for the result, and where its numbers lie."""
LOOPS = """
  %own = mul i64 %k, 16
  %p_own = getelementptr i8, ptr %e, i64 %own
  %p_loop = getelementptr i8, ptr %p_own, i64 32
  %loop = load ptr, ptr %p_loop, align 8
  %p_given = getelementptr i8, ptr %p_own, i64 40
  %given = load ptr, ptr %p_given, align 8
  %unknown = icmp eq ptr %loop, null
"""
LATER_EACH = """
  %v_later = call ptr @later_each(ptr %c, ptr %e, ptr %x)
  %no_later = icmp eq ptr %v_later, null
  br i1 %no_later, label %at_once, label %later
later:
  ret ptr %v_later
at_once:
"""
"""What is computed later; the rest is done now."""
LATER_PAIR = """
  %p_other = getelementptr ptr, ptr %args, i64 1
  %other_given = load ptr, ptr %p_other, align 8
""" + LATER_EACH.replace("@later_each(ptr %c, ptr %e, ptr %x)", "@later_pair(ptr %c, ptr %e, ptr %x, ptr %other_given)")
ONE = """
  %a = call ptr @numbers(ptr %c, ptr %x)
  %no_a = icmp eq ptr %a, null
  br i1 %no_a, label %slow, label %typed
typed:
  %element = call ptr @element(ptr %a)
  %k = call i64 @kind(ptr %c, ptr %element)
  %other = icmp slt i64 %k, 0
  br i1 %other, label %slow, label %find
find:
"""
TAIL = """
failed:
  ret ptr null
slow:
  %answer = call ptr @usual(ptr %c, ptr %e, ptr %args, i64 %n)
  ret ptr %answer
}
"""
CALL_ROOMS = """%places = alloca [4 x ptr], align 8
  %steps = alloca [4 x i64], align 8
  %counts = alloca i64, align 8
  %room = alloca [2 x float], align 8
  %place1 = getelementptr ptr, ptr %places, i64 1
  %place2 = getelementptr ptr, ptr %places, i64 2
  %place3 = getelementptr ptr, ptr %places, i64 3
  %step1 = getelementptr i64, ptr %steps, i64 1
  %step2 = getelementptr i64, ptr %steps, i64 2
  %step3 = getelementptr i64, ptr %steps, i64 3"""
_SIZES = """
  %rank = call i32 @rank(ptr %a)
  %sizes = call ptr @extents(ptr %a)
  %all = call i64 @count(ptr %a)
  %long = lshr i64 %k, 1
  %bytes = shl i64 4, %long
  %from = call ptr @data(ptr %a)
  %p_limit = getelementptr i8, ptr %e, i64 24
  %limit = load i64, ptr %p_limit, align 8
  %less = sub i64 %all, 1
  %countable = icmp ult i64 %less, %limit
  br i1 %countable, label %filled, label %slow
filled:
"""
EACH = (
    HEAD.replace("$rooms", CALL_ROOMS).replace("$operands", "1")
    + LATER_EACH
    + ONE
    + LOOPS
    + """
  br i1 %unknown, label %slow, label %make
make:
"""
    + _SIZES
    + FRESH
    + """
  store ptr %from, ptr %places, align 8
  store ptr %to, ptr %place1, align 8
  store i64 %bytes, ptr %steps, align 8
  store i64 %bytes, ptr %step1, align 8
  store i64 %all, ptr %counts, align 8
  call void %loop(ptr %places, ptr %counts, ptr %steps, ptr %given)
  %layout = call ptr @layout(ptr %c, ptr %x)
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
"""
    + TAIL
)
TWO = (
    LATER_PAIR
    + ONE
    + LOOPS
    + """
  br i1 %unknown, label %slow, label %second
second:
"""
    + _SIZES
    + """
  %layout = call ptr @layout(ptr %c, ptr %x)
  %p_switch = getelementptr i8, ptr %e, i64 16
  %reverse = load i64, ptr %p_switch, align 8
  %turned = icmp ne i64 %reverse, 0
  %p_y = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %p_y, align 8
  %b = call ptr @numbers(ptr %c, ptr %y)
  %no_b = icmp eq ptr %b, null
  br i1 %no_b, label %number, label %pair
number:
  %is_f32 = icmp eq i64 %k, 0
  br i1 %is_f32, label %read, label %slow
read:
  %met = call i1 @plain(ptr %c, ptr %y, ptr %room)
  br i1 %met, label %dense, label %slow
pair:
  %b_element = call ptr @element(ptr %b)
  %b_layout = call ptr @layout(ptr %c, ptr %y)
  %same_type = icmp eq ptr %element, %b_element
  %same_layout = icmp eq ptr %layout, %b_layout
  %meet = and i1 %same_type, %same_layout
  %straight = xor i1 %turned, true
  %simple = and i1 %meet, %straight
  br i1 %simple, label %shapes, label %slow
shapes:
  %from_b = call ptr @data(ptr %b)
  %alike = call i1 @alike(ptr %a, ptr %b, i64 0)
  br i1 %alike, label %dense, label %spread
dense:
  %other_from = phi ptr [ %room, %read ], [ %from_b, %shapes ]
  %other_step = phi i64 [ 0, %read ], [ %bytes, %shapes ]
  %one = select i1 %turned, ptr %other_from, ptr %from
  %two = select i1 %turned, ptr %from, ptr %other_from
  %one_step = select i1 %turned, i64 %other_step, i64 %bytes
  %two_step = select i1 %turned, i64 %bytes, i64 %other_step
"""
)
COMPARING = (
    HEAD.replace("$rooms", CALL_ROOMS + "\n  %truth = alloca [2048 x i8], align 64").replace("$operands", "2")
    + TWO.replace("label %spread", "label %slow")
    + """
  %whole_at = add i64 $kinds_at, 1
  %p_whole = getelementptr i64, ptr %c, i64 %whole_at
  %int = load ptr, ptr %p_whole, align 8
  %r = call ptr @fresh(ptr %c, ptr %int, i32 %rank, ptr %sizes)
  %none = icmp eq ptr %r, null
  br i1 %none, label %failed, label %run
run:
  %to = call ptr @data(ptr %r)
  store i64 %one_step, ptr %steps, align 8
  store i64 %two_step, ptr %step1, align 8
  store i64 1, ptr %step2, align 8
  br label %piece
piece:
  %begun = phi i64 [ 0, %run ], [ %end, %piece_next ]
  %left = sub i64 %all, %begun
  %much = icmp sgt i64 %left, 2048
  %part = select i1 %much, i64 2048, i64 %left
  %end = add i64 %begun, %part
  %off1 = mul i64 %begun, %one_step
  %off2 = mul i64 %begun, %two_step
  %at1 = getelementptr i8, ptr %one, i64 %off1
  %at2 = getelementptr i8, ptr %two, i64 %off2
  store ptr %at1, ptr %places, align 8
  store ptr %at2, ptr %place1, align 8
  store ptr %truth, ptr %place2, align 8
  store i64 %part, ptr %counts, align 8
  call void %loop(ptr %places, ptr %counts, ptr %steps, ptr %given)
  %out = getelementptr i32, ptr %to, i64 %begun
  %wide = and i64 %part, -16
  br label %widen
widen:
  %i = phi i64 [ 0, %piece ], [ %i1, %widen_body ]
  %go = icmp slt i64 %i, %wide
  br i1 %go, label %widen_body, label %rest
widen_body:
  %p_i = getelementptr i8, ptr %truth, i64 %i
  %t = load <16 x i8>, ptr %p_i, align 1
  %t32 = zext <16 x i8> %t to <16 x i32>
  %q_i = getelementptr i32, ptr %out, i64 %i
  store <16 x i32> %t32, ptr %q_i, align 4
  %i1 = add i64 %i, 16
  br label %widen
rest:
  %j = phi i64 [ %wide, %widen ], [ %j1, %rest_body ]
  %go_on = icmp slt i64 %j, %part
  br i1 %go_on, label %rest_body, label %piece_next
rest_body:
  %p_j = getelementptr i8, ptr %truth, i64 %j
  %tj = load i8, ptr %p_j, align 1
  %tj32 = zext i8 %tj to i32
  %q_j = getelementptr i32, ptr %out, i64 %j
  store i32 %tj32, ptr %q_j, align 4
  %j1 = add i64 %j, 1
  br label %rest
piece_next:
  %again = icmp slt i64 %end, %all
  br i1 %again, label %piece, label %wrap
wrap:
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
"""
    + TAIL
)
CLIPPED = (
    HEAD.replace("$rooms", CALL_ROOMS).replace("$operands", "3")
    + ONE
    + LOOPS
    + """
  %is_f32 = icmp eq i64 %k, 0
  %known = xor i1 %unknown, true
  %able = and i1 %is_f32, %known
  br i1 %able, label %low, label %slow
low:
  %p_low = getelementptr ptr, ptr %args, i64 1
  %low_given = load ptr, ptr %p_low, align 8
  %has_low = call i1 @plain(ptr %c, ptr %low_given, ptr %room)
  br i1 %has_low, label %high, label %slow
high:
  %room1 = getelementptr float, ptr %room, i64 1
  %p_high = getelementptr ptr, ptr %args, i64 2
  %high_given = load ptr, ptr %p_high, align 8
  %has_high = call i1 @plain(ptr %c, ptr %high_given, ptr %room1)
  br i1 %has_high, label %make, label %slow
make:
"""
    + _SIZES
    + FRESH
    + """
  store ptr %from, ptr %places, align 8
  store ptr %room, ptr %place1, align 8
  store ptr %room1, ptr %place2, align 8
  store ptr %to, ptr %place3, align 8
  store i64 4, ptr %steps, align 8
  store i64 0, ptr %step1, align 8
  store i64 0, ptr %step2, align 8
  store i64 4, ptr %step3, align 8
  store i64 %all, ptr %counts, align 8
  call void %loop(ptr %places, ptr %counts, ptr %steps, ptr %given)
  %layout = call ptr @layout(ptr %c, ptr %x)
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
"""
    + TAIL
)

__all__ = ["CALL_ROOMS", "CLIPPED", "COMPARING", "EACH", "FRESH", "HEAD", "LOOPS", "ONE", "TAIL", "TWO"]
