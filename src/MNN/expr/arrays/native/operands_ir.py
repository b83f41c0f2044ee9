"""LLVM IR that reads what is not computed yet: slots of :class:`~MNN.expr.fused.Deferred` are ``$D_...``, those of a
Var ``$V_...``."""

from __future__ import annotations

OPERANDS = """
define internal ptr @at(ptr %p, i64 %off) {
  %q = getelementptr i8, ptr %p, i64 %off
  %v = load ptr, ptr %q, align 8
  ret ptr %v
}

define internal i64 @number(ptr %p, i64 %place) {
  %q = getelementptr i64, ptr %p, i64 %place
  %v = load i64, ptr %q, align 8
  ret i64 %v
}

define internal void @note(ptr %p, i64 %place, i64 %v) {
  %q = getelementptr i64, ptr %p, i64 %place
  store i64 %v, ptr %q, align 8
  ret void
}

define internal void @put(ptr %p, i64 %off, ptr %v) {
  %q = getelementptr i8, ptr %p, i64 %off
  store ptr %v, ptr %q, align 8
  ret void
}

define internal void @keep(ptr %c, ptr %v) {
  %retain = call ptr @at(ptr %c, i64 $retain)
  call void %retain(ptr %v)
  ret void
}

; Fills an empty slot with what stays somebody else's, too.
define internal void @share(ptr %c, ptr %p, i64 %off, ptr %v) {
  call void @keep(ptr %c, ptr %v)
  call void @put(ptr %p, i64 %off, ptr %v)
  ret void
}

; The same for a slot that holds something.
define internal void @change(ptr %c, ptr %p, i64 %off, ptr %v) {
  %old = call ptr @at(ptr %p, i64 %off)
  call void @share(ptr %c, ptr %p, i64 %off, ptr %v)
  %empty = icmp eq ptr %old, null
  br i1 %empty, label %out, label %release
release:
  call void @drop(ptr %c, ptr %old)
  br label %out
out:
  ret void
}

define internal i1 @there(ptr %c, ptr %v) {
  %none = call ptr @at(ptr %c, i64 $none)
  %is_none = icmp eq ptr %v, %none
  %null = icmp eq ptr %v, null
  %absent = or i1 %is_none, %null
  %found = xor i1 %absent, true
  ret i1 %found
}

; Whether an operand is what is not computed yet.
define internal i1 @open(ptr %c, ptr %o) {
  %later = call i1 @is(ptr %c, ptr %o, i64 $later)
  br i1 %later, label %look, label %no
look:
  %held = call ptr @at(ptr %o, i64 $D_array)
  %known = call i1 @there(ptr %c, ptr %held)
  %found = xor i1 %known, true
  ret i1 %found
no:
  ret i1 false
}

; What a Var gives to a function that is computed later: an array, or what is such a function itself; else null.
define internal ptr @operand(ptr %c, ptr %x) {
  %var = call i1 @is(ptr %c, ptr %x, i64 $var)
  br i1 %var, label %look, label %no
look:
  %few = call ptr @at(ptr %x, i64 $V_few)
  %some = call i1 @there(ptr %c, ptr %few)
  br i1 %some, label %dense, label %node
dense:
  %a = call ptr @numbers(ptr %c, ptr %x)
  ret ptr %a
node:
  %n = call ptr @at(ptr %x, i64 $V_node)
  %unset = icmp eq ptr %n, null
  br i1 %unset, label %no, label %typed
typed:
  %later = call i1 @is(ptr %c, ptr %n, i64 $later)
  br i1 %later, label %yes, label %no
yes:
  ret ptr %n
no:
  ret ptr null
}

; An array of the sizes of an operand, or null.
define internal ptr @sized(ptr %c, ptr %o) {
  %later = call i1 @is(ptr %c, ptr %o, i64 $later)
  br i1 %later, label %look, label %itself
look:
  %like = call ptr @at(ptr %o, i64 $D_like)
  %unset = icmp eq ptr %like, null
  br i1 %unset, label %no, label %typed
typed:
  %array = call i1 @is(ptr %c, ptr %like, i64 $array)
  br i1 %array, label %yes, label %no
yes:
  ret ptr %like
itself:
  ret ptr %o
no:
  ret ptr null
}

; Whether an operand has the element type of number %k, which is the one at %place in the record.
define internal i1 @of_kind(ptr %c, ptr %o, i64 %place, i64 %k) {
  %later = call i1 @is(ptr %c, ptr %o, i64 $later)
  br i1 %later, label %look, label %array
look:
  %function = call ptr @at(ptr %o, i64 $D_function)
  %kind = call ptr @at(ptr %function, i64 $F_kind)
  %wanted = call ptr @at(ptr %c, i64 %place)
  %same = icmp eq ptr %kind, %wanted
  ret i1 %same
array:
  %element = call ptr @element(ptr %o)
  %number = call i64 @kind(ptr %c, ptr %element)
  %equal = icmp eq i64 %number, %k
  ret i1 %equal
}

; The sizes of an operand as a tuple; null with an exception where there is no memory.
define internal ptr @sizes_of(ptr %c, ptr %o) {
  %later = call i1 @is(ptr %c, ptr %o, i64 $later)
  br i1 %later, label %look, label %array
look:
  %held = call ptr @at(ptr %o, i64 $D_shape)
  call void @keep(ptr %c, ptr %held)
  ret ptr %held
array:
  %rank = call i32 @rank(ptr %o)
  %n = sext i32 %rank to i64
  %extents = call ptr @extents(ptr %o)
  %make = call ptr @at(ptr %c, i64 $tuple_new)
  %set = call ptr @at(ptr %c, i64 $tuple_set)
  %long = call ptr @at(ptr %c, i64 $long)
  %t = call ptr %make(i64 %n)
  %failed = icmp eq ptr %t, null
  br i1 %failed, label %no, label %head
head:
  %i = phi i64 [ 0, %array ], [ %i1, %body ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %size, label %out
size:
  %extent = call i64 @number(ptr %extents, i64 %i)
  %v = call ptr %long(i64 %extent)
  %lost = icmp eq ptr %v, null
  br i1 %lost, label %give_up, label %body
body:
  %code = call i32 %set(ptr %t, i64 %i, ptr %v)
  %i1 = add i64 %i, 1
  br label %head
out:
  ret ptr %t
give_up:
  call void @drop(ptr %c, ptr %t)
  ret ptr null
no:
  ret ptr null
}

; As @numbers, of a Var that may not be computed yet and is from now on.
define internal ptr @numbers_now(ptr %c, ptr %x) {
  %args = alloca ptr, align 8
  %o = call ptr @operand(ptr %c, ptr %x)
  %absent = icmp eq ptr %o, null
  br i1 %absent, label %no, label %look
look:
  %later = call i1 @is(ptr %c, ptr %o, i64 $later)
  br i1 %later, label %compute, label %itself
itself:
  ret ptr %o
compute:
  store ptr %o, ptr %args, align 8
  %computed = call ptr @at(ptr %c, i64 $computed)
  %record = call ptr @at(ptr %c, i64 $computed_record)
  %r = call ptr %computed(ptr %record, ptr %args, i64 1)
  %none = call ptr @at(ptr %c, i64 $none)
  %lost = icmp eq ptr %r, %none
  br i1 %lost, label %release, label %check
check:  ; what has been computed in Python may be anything
  %array = call i1 @is(ptr %c, ptr %r, i64 $array)
  %element = call ptr @element(ptr %r)
  %kind = call i64 @kind(ptr %c, ptr %element)
  %all = call i64 @count(ptr %r)
  %p_most = getelementptr i8, ptr %c, i64 $few
  %most = load i64, ptr %p_most, align 8
  %small = icmp sle i64 %all, %most
  %known = icmp sge i64 %kind, 0
  %g1 = and i1 %small, %known
  %g2 = and i1 %g1, %array
  br i1 %g2, label %settle, label %release
settle:
  %nothing = call ptr @at(ptr %c, i64 $nothing)
  call void @change(ptr %c, ptr %x, i64 $V_few, ptr %r)
  call void @keep(ptr %c, ptr %o)
  call void @change(ptr %c, ptr %o, i64 $D_array, ptr %r)
  call void @change(ptr %c, ptr %o, i64 $D_like, ptr %r)
  call void @change(ptr %c, ptr %o, i64 $D_operands, ptr %nothing)
  call void @drop(ptr %c, ptr %o)
  call void @drop(ptr %c, ptr %r)
  %a = call ptr @numbers(ptr %c, ptr %x)
  ret ptr %a
release:
  call void @drop(ptr %c, ptr %r)
  br label %no
no:
  ret ptr null
}
"""

__all__ = ["OPERANDS"]
