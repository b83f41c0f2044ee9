"""LLVM IR that computes what is not computed yet by a program in the table (:mod:`MNN.expr.fused.programs`)."""

from __future__ import annotations

from MNN.expr.fused.deferred import MOST, MOST_OPERANDS

PROGRAMS = """
; What an operand is numbered in the list of those that have been met; -1 where it has not been.
define internal i64 @met(ptr %s, ptr %o) {
entry:
  %n = call i64 @number(ptr %s, i64 2)
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %no
body:
  %two = mul i64 %i, 2
  %at = add i64 %two, $MET
  %word = call i64 @number(ptr %s, i64 %at)
  %p = inttoptr i64 %word to ptr
  %same = icmp eq ptr %p, %o
  br i1 %same, label %yes, label %next
next:
  %i1 = add i64 %i, 1
  br label %head
yes:
  %after = add i64 %at, 1
  %code = call i64 @number(ptr %s, i64 %after)
  ret i64 %code
no:
  ret i64 -1
}

; Lists what %node is computed from, each step behind its operands, as a key and arrays; the number of its own step, or
; -1 for what is left to Python. In %s: how many steps, arrays, and operands met; then the lists of each.
define internal i64 @walk(ptr %c, ptr %s, ptr %node, ptr %like) {
entry:
  %operands = call ptr @at(ptr %node, i64 $D_operands)
  %unset = icmp eq ptr %operands, null
  br i1 %unset, label %fail, label %typed
typed:
  %tuple = call i1 @is(ptr %c, ptr %operands, i64 $tuple)
  br i1 %tuple, label %sized, label %fail
sized:
  %size_of = call ptr @at(ptr %c, i64 $tuple_size)
  %item = call ptr @at(ptr %c, i64 $tuple_item)
  %n = call i64 %size_of(ptr %operands)
  %less = sub i64 %n, 1
  %usual = icmp ult i64 %less, 4
  br i1 %usual, label %head, label %fail
head:
  %i = phi i64 [ 0, %sized ], [ %i1, %have ]
  %packed = phi i64 [ 0, %sized ], [ %packed1, %have ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %finish
body:
  %o = call ptr %item(ptr %operands, i64 %i)
  %seen = call i64 @met(ptr %s, ptr %o)
  %known = icmp sge i64 %seen, 0
  br i1 %known, label %have, label %unmet
unmet:
  %open = call i1 @open(ptr %c, ptr %o)
  br i1 %open, label %step, label %leaf
step:  ; which is stored where it has been computed before
  %passed = call ptr @at(ptr %o, i64 $D_passed)
  %true = call ptr @at(ptr %c, i64 $true)
  %again = icmp eq ptr %passed, %true
  br i1 %again, label %fail, label %deeper
deeper:
  %inner = call i64 @walk(ptr %c, ptr %s, ptr %o, ptr %like)
  %bad = icmp slt i64 %inner, 0
  br i1 %bad, label %fail, label %note
leaf:
  %later = call i1 @is(ptr %c, ptr %o, i64 $later)
  br i1 %later, label %computed, label %array
computed:
  %held = call ptr @at(ptr %o, i64 $D_array)
  br label %array
array:
  %a = phi ptr [ %o, %leaf ], [ %held, %computed ]
  %is_array = call i1 @is(ptr %c, ptr %a, i64 $array)
  br i1 %is_array, label %flagged, label %fail
flagged:
  %p_flags = getelementptr i8, ptr %a, i64 $FLAGS
  %flags = load i32, ptr %p_flags, align 4
  %bits = and i32 %flags, 257
  %dense = icmp eq i32 %bits, 257
  %alike = call i1 @alike(ptr %a, ptr %like, i64 0)
  %all = call i64 @count(ptr %a)
  %one = icmp eq i64 %all, 1
  %either = or i1 %alike, %one
  %k = call i64 @number(ptr %s, i64 1)
  %room = icmp slt i64 %k, $OPERANDS
  %g1 = and i1 %either, %dense
  %g2 = and i1 %g1, %room
  br i1 %g2, label %place, label %fail
place:
  %p_a = ptrtoint ptr %a to i64
  %at_a = add i64 %k, $ARRAYS
  call void @note(ptr %s, i64 %at_a, i64 %p_a)
  %k1 = add i64 %k, 1
  call void @note(ptr %s, i64 1, i64 %k1)
  %from = select i1 %alike, i64 $ARRAY, i64 $SINGLE
  %numbered = add i64 %k, %from
  br label %note
note:
  %own = phi i64 [ %inner, %deeper ], [ %numbered, %place ]
  %m = call i64 @number(ptr %s, i64 2)
  %m2 = mul i64 %m, 2
  %at_m = add i64 %m2, $MET
  %at_n = add i64 %at_m, 1
  %p_o = ptrtoint ptr %o to i64
  call void @note(ptr %s, i64 %at_m, i64 %p_o)
  call void @note(ptr %s, i64 %at_n, i64 %own)
  %m1 = add i64 %m, 1
  call void @note(ptr %s, i64 2, i64 %m1)
  br label %have
have:
  %code = phi i64 [ %seen, %body ], [ %own, %note ]
  %bit = mul i64 %i, 8
  %shifted = shl i64 %code, %bit
  %packed1 = or i64 %packed, %shifted
  %i1 = add i64 %i, 1
  br label %head
finish:
  %steps = call i64 @number(ptr %s, i64 0)
  %free = icmp slt i64 %steps, $FUNCTIONS
  br i1 %free, label %list, label %fail
list:
  %function = call ptr @at(ptr %node, i64 $D_function)
  %p_function = ptrtoint ptr %function to i64
  %two = mul i64 %steps, 2
  %at_key = add i64 %two, $KEY
  %at_key1 = add i64 %at_key, 1
  call void @note(ptr %s, i64 %at_key, i64 %p_function)
  call void @note(ptr %s, i64 %at_key1, i64 %packed)
  %p_node = ptrtoint ptr %node to i64
  %at_step = add i64 %steps, $STEPS
  call void @note(ptr %s, i64 %at_step, i64 %p_node)
  %steps1 = add i64 %steps, 1
  call void @note(ptr %s, i64 0, i64 %steps1)
  ret i64 %steps
fail:
  ret i64 -1
}

; Whether a key has these words.
define internal i1 @same_key(ptr %key, ptr %words, i64 %n) {
entry:
  %length = call i64 @number(ptr %key, i64 0)
  %long = icmp eq i64 %length, %n
  br i1 %long, label %head, label %no
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %yes
body:
  %at = add i64 %i, 2
  %a = call i64 @number(ptr %key, i64 %at)
  %b = call i64 @number(ptr %words, i64 %i)
  %same = icmp eq i64 %a, %b
  br i1 %same, label %next, label %no
next:
  %i1 = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

; The place in the table of the program with a key; null where there is none.
define internal ptr @program(ptr %c, ptr %words, i64 %n) {
entry:
  %table = call ptr @at(ptr %c, i64 $programs)
  br label %mix
mix:
  %i = phi i64 [ 0, %entry ], [ %i1, %mix ]
  %h = phi i64 [ 0, %entry ], [ %h3, %mix ]
  %word = call i64 @number(ptr %words, i64 %i)
  %h1 = xor i64 %h, %word
  %h2 = mul i64 %h1, $MIX
  %high = lshr i64 %h2, 29
  %h3 = xor i64 %h2, %high
  %i1 = add i64 %i, 1
  %go = icmp slt i64 %i1, %n
  br i1 %go, label %mix, label %mixed
mixed:
  %nothing = icmp eq i64 %h3, 0
  %hash = select i1 %nothing, i64 1, i64 %h3
  %first = and i64 %hash, $PLACES
  br label %probe
probe:
  %place = phi i64 [ %first, %mixed ], [ %place1, %next ]
  %at = mul i64 %place, $ROW
  %row = getelementptr i64, ptr %table, i64 %at
  %own = load i64, ptr %row, align 8
  %free = icmp eq i64 %own, 0
  br i1 %free, label %no, label %look
look:
  %equal = icmp eq i64 %own, %hash
  br i1 %equal, label %compare, label %next
compare:
  %key = call ptr @at(ptr %row, i64 8)
  %same = call i1 @same_key(ptr %key, ptr %words, i64 %n)
  br i1 %same, label %yes, label %next
next:
  %after = add i64 %place, 1
  %place1 = and i64 %after, $PLACES
  br label %probe
yes:
  ret ptr %row
no:
  ret ptr null
}

; The numbers of what may not be computed yet, which are the caller's; null where that is left to Python.
define internal ptr @forced(ptr %c, ptr %node) {
entry:
  %s = alloca [$LISTS x i64], align 8
  %args = alloca [$ARGUMENTS x i64], align 8
  %open = call i1 @open(ptr %c, ptr %node)
  br i1 %open, label %begin, label %held
held:
  %array = call ptr @at(ptr %node, i64 $D_array)
  call void @keep(ptr %c, ptr %array)
  ret ptr %array
begin:
  %like = call ptr @sized(ptr %c, ptr %node)
  %unknown = icmp eq ptr %like, null
  br i1 %unknown, label %no, label %list
list:
  call void @note(ptr %s, i64 0, i64 0)
  call void @note(ptr %s, i64 1, i64 0)
  call void @note(ptr %s, i64 2, i64 0)
  %root = call i64 @walk(ptr %c, ptr %s, ptr %node, ptr %like)
  %failed = icmp slt i64 %root, 0
  br i1 %failed, label %no, label %find
find:
  %steps = call i64 @number(ptr %s, i64 0)
  %n = mul i64 %steps, 2
  %words = getelementptr i64, ptr %s, i64 $KEY
  %row = call ptr @program(ptr %c, ptr %words, i64 %n)
  %none = icmp eq ptr %row, null
  br i1 %none, label %no, label %found
found:
  %all = call i64 @count(ptr %like)
  %most = call i64 @number(ptr %row, i64 3)
  %less = sub i64 %all, 1
  %able = icmp ult i64 %less, %most
  br i1 %able, label %make, label %no
make:
  %key = call ptr @at(ptr %row, i64 8)
  %kind = call i64 @number(ptr %key, i64 1)
  %kind_at = add i64 %kind, $kinds_at
  %p_kind = getelementptr i64, ptr %c, i64 %kind_at
  %element = load ptr, ptr %p_kind, align 8
  %rank = call i32 @rank(ptr %like)
  %sizes = call ptr @extents(ptr %like)
  %r = call ptr @fresh(ptr %c, ptr %element, i32 %rank, ptr %sizes)
  %lost = icmp eq ptr %r, null
  br i1 %lost, label %forget, label %arguments
arguments:
  call void @note(ptr %args, i64 0, i64 %all)
  call void @note(ptr %args, i64 1, i64 %all)
  %k = call i64 @number(ptr %s, i64 1)
  br label %head
head:
  %i = phi i64 [ 0, %arguments ], [ %i1, %body ]
  %go = icmp slt i64 %i, %k
  br i1 %go, label %body, label %run
body:
  %at_a = add i64 %i, $ARRAYS
  %word = call i64 @number(ptr %s, i64 %at_a)
  %a = inttoptr i64 %word to ptr
  %from = call ptr @data(ptr %a)
  %p_from = ptrtoint ptr %from to i64
  %slot = add i64 %i, 2
  call void @note(ptr %args, i64 %slot, i64 %p_from)
  %i1 = add i64 %i, 1
  br label %head
run:
  %to = call ptr @data(ptr %r)
  %p_to = ptrtoint ptr %to to i64
  %last = add i64 %k, 2
  call void @note(ptr %args, i64 %last, i64 %p_to)
  %kernel = call ptr @at(ptr %row, i64 16)
  call void %kernel(ptr %args, i64 0, i64 1, ptr null)
  %true = call ptr @at(ptr %c, i64 $true)
  br label %mark
mark:
  %j = phi i64 [ 0, %run ], [ %j1, %mark ]
  %at_step = add i64 %j, $STEPS
  %step_word = call i64 @number(ptr %s, i64 %at_step)
  %step = inttoptr i64 %step_word to ptr
  call void @change(ptr %c, ptr %step, i64 $D_passed, ptr %true)
  %j1 = add i64 %j, 1
  %on = icmp slt i64 %j1, %steps
  br i1 %on, label %mark, label %out
out:
  ret ptr %r
forget:
  call void @forget(ptr %c)
  br label %no
no:
  ret ptr null
}
"""
COMPUTED = """
define ptr @kernel(ptr %self, ptr %args, i64 %n) {
entry:
  %e = call ptr @data(ptr %self)
  %c = load ptr, ptr %e, align 8
  %x = load ptr, ptr %args, align 8
  %later = call i1 @is(ptr %c, ptr %x, i64 $later)
  br i1 %later, label %run, label %no
run:
  %r = call ptr @forced(ptr %c, ptr %x)
  %lost = icmp eq ptr %r, null
  br i1 %lost, label %no, label %yes
yes:
  ret ptr %r
no:
  %none = call ptr @at(ptr %c, i64 $none)
  call void @keep(ptr %c, ptr %none)
  ret ptr %none
}
"""
"""Of what is not computed yet, the numbers, which are not kept; None where there is no program for them."""
_KEY = 8
_ARRAYS = _KEY + 2 * MOST
_MET = _ARRAYS + MOST_OPERANDS
_STEPS = _MET + 2 * (MOST + MOST_OPERANDS)
PLACES = {
    "KEY": _KEY, "ARRAYS": _ARRAYS, "MET": _MET, "STEPS": _STEPS, "LISTS": _STEPS + MOST,
    "ARGUMENTS": MOST_OPERANDS + 4, "FUNCTIONS": MOST, "OPERANDS": MOST_OPERANDS,
}  # fmt: skip
"""Where the lists are that @walk makes, and how long they may be, in words."""

__all__ = ["COMPUTED", "PLACES", "PROGRAMS"]
