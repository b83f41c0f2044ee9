"""LLVM IR that makes what is not computed yet, as :mod:`MNN.expr.arrays.later` does: a Var, and in it a function with
its operands."""

from __future__ import annotations

LATER = """
; Adds to %sums the functions and arrays that an operand brings.
define internal void @tally(ptr %c, ptr %o, ptr %sums) {
  %f = call i64 @number(ptr %sums, i64 0)
  %a = call i64 @number(ptr %sums, i64 1)
  %open = call i1 @open(ptr %c, ptr %o)
  br i1 %open, label %more, label %array
more:
  %whole = call ptr @at(ptr %c, i64 $whole)
  %functions = call ptr @at(ptr %o, i64 $D_functions)
  %arrays = call ptr @at(ptr %o, i64 $D_arrays)
  %fn = call i64 %whole(ptr %functions)
  %an = call i64 %whole(ptr %arrays)
  %f1 = add i64 %f, %fn
  %a1 = add i64 %a, %an
  call void @note(ptr %sums, i64 0, i64 %f1)
  call void @note(ptr %sums, i64 1, i64 %a1)
  ret void
array:
  %a2 = add i64 %a, 1
  call void @note(ptr %sums, i64 1, i64 %a2)
  ret void
}

; A Var of a function of %n operands, of which %p has its sizes; null where the loop would be too long, or with an
; exception.
define internal ptr @deferred(ptr %c, ptr %function, i64 %n, ptr %operands, ptr %p, ptr %layout) {
entry:
  %sums = alloca [2 x i64], align 8
  call void @note(ptr %sums, i64 0, i64 1)
  call void @note(ptr %sums, i64 1, i64 0)
  br label %count
count:
  %i = phi i64 [ 0, %entry ], [ %i1, %count ]
  %p_i = getelementptr ptr, ptr %operands, i64 %i
  %o = load ptr, ptr %p_i, align 8
  call void @tally(ptr %c, ptr %o, ptr %sums)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %count, label %counted
counted:
  %f = call i64 @number(ptr %sums, i64 0)
  %a = call i64 @number(ptr %sums, i64 1)
  %short = icmp sle i64 %f, $FUNCTIONS
  %few = icmp sle i64 %a, $OPERANDS
  %able = and i1 %short, %few
  br i1 %able, label %collect, label %no
collect:
  %make = call ptr @at(ptr %c, i64 $tuple_new)
  %set = call ptr @at(ptr %c, i64 $tuple_set)
  %long = call ptr @at(ptr %c, i64 $long)
  %new = call ptr @at(ptr %c, i64 $new)
  %later = call ptr @at(ptr %c, i64 $later)
  %var = call ptr @at(ptr %c, i64 $var)
  %none = call ptr @at(ptr %c, i64 $none)
  %false = call ptr @at(ptr %c, i64 $false)
  %zero = call ptr @at(ptr %c, i64 $zero)
  %t = call ptr %make(i64 %n)
  %no_t = icmp eq ptr %t, null
  br i1 %no_t, label %no, label %fill
fill:
  %j = phi i64 [ 0, %collect ], [ %j1, %fill ]
  %p_j = getelementptr ptr, ptr %operands, i64 %j
  %u = load ptr, ptr %p_j, align 8
  call void @keep(ptr %c, ptr %u)
  %code = call i32 %set(ptr %t, i64 %j, ptr %u)
  %j1 = add i64 %j, 1
  %again = icmp slt i64 %j1, %n
  br i1 %again, label %fill, label %filled
filled:
  %sizes = call ptr @sizes_of(ptr %c, ptr %p)
  %no_sizes = icmp eq ptr %sizes, null
  br i1 %no_sizes, label %drop_t, label %create
create:
  %d = call ptr %new(ptr %later, i64 0)
  %no_d = icmp eq ptr %d, null
  br i1 %no_d, label %drop_sizes, label %slots
slots:
  %like = call ptr @sized(ptr %c, ptr %p)
  %fs = call ptr %long(i64 %f)
  %as = call ptr %long(i64 %a)
  call void @share(ptr %c, ptr %d, i64 $D_array, ptr %none)
  call void @share(ptr %c, ptr %d, i64 $D_passed, ptr %false)
  call void @share(ptr %c, ptr %d, i64 $D_function, ptr %function)
  call void @share(ptr %c, ptr %d, i64 $D_like, ptr %like)
  call void @put(ptr %d, i64 $D_functions, ptr %fs)
  call void @put(ptr %d, i64 $D_arrays, ptr %as)
  call void @put(ptr %d, i64 $D_operands, ptr %t)
  call void @put(ptr %d, i64 $D_shape, ptr %sizes)
  %v = call ptr %new(ptr %var, i64 0)
  %no_v = icmp eq ptr %v, null
  br i1 %no_v, label %drop_d, label %whole
whole:
  call void @share(ptr %c, ptr %v, i64 $V_few, ptr %none)
  call void @share(ptr %c, ptr %v, i64 $V_layout, ptr %layout)
  call void @share(ptr %c, ptr %v, i64 $V_index, ptr %zero)
  call void @share(ptr %c, ptr %v, i64 $V_unconverted, ptr %none)
  call void @put(ptr %v, i64 $V_node, ptr %d)
  ret ptr %v
drop_d:
  call void @drop(ptr %c, ptr %d)
  ret ptr null
drop_sizes:
  call void @drop(ptr %c, ptr %sizes)
  br label %drop_t
drop_t:
  call void @drop(ptr %c, ptr %t)
  br label %no
no:
  ret ptr null
}

; Whether a function of this operand is computed later: of what is not computed itself, and of enough numbers.
define internal i1 @waits(ptr %c, ptr %e, ptr %o) {
  %open = call i1 @open(ptr %c, ptr %o)
  br i1 %open, label %yes, label %large
yes:
  ret i1 true
large:
  %like = call ptr @sized(ptr %c, ptr %o)
  %unknown = icmp eq ptr %like, null
  br i1 %unknown, label %no, label %look
look:
  %all = call i64 @count(ptr %like)
  %least = call i64 @number(ptr %e, i64 $LEAST)
  %found = icmp sge i64 %all, %least
  ret i1 %found
no:
  ret i1 false
}

; A plain number that meets f32 as an array, which is the caller's; null for what is none.
define internal ptr @single(ptr %c, ptr %x) {
  %room = alloca float, align 4
  %sizes = alloca i64, align 8
  %met = call i1 @plain(ptr %c, ptr %x, ptr %room)
  br i1 %met, label %look, label %no
look:
  %find = call ptr @at(ptr %c, i64 $dict_item)
  %scalars = call ptr @at(ptr %c, i64 $scalars)
  %held = call ptr %find(ptr %scalars, ptr %x)
  %unknown = icmp eq ptr %held, null
  br i1 %unknown, label %make, label %known
known:
  call void @keep(ptr %c, ptr %held)
  ret ptr %held
make:
  call void @forget(ptr %c)
  %p_kinds = getelementptr i64, ptr %c, i64 $kinds_at
  %element = load ptr, ptr %p_kinds, align 8
  %r = call ptr @fresh(ptr %c, ptr %element, i32 0, ptr %sizes)
  %failed = icmp eq ptr %r, null
  br i1 %failed, label %no, label %fill
fill:
  %to = call ptr @data(ptr %r)
  %f = load float, ptr %room, align 4
  store float %f, ptr %to, align 4
  ret ptr %r
no:
  ret ptr null
}

; The function of an entry, which Python makes when it is asked for first; null where there is none.
define internal ptr @function(ptr %c, ptr %e) {
entry:
  %args = alloca ptr, align 8
  %now = call i64 @number(ptr %e, i64 $FUNCTION)
  %unknown = icmp eq i64 %now, -1
  br i1 %unknown, label %ask, label %out
ask:
  %call = call ptr @at(ptr %c, i64 $call)
  %maker = call ptr @at(ptr %c, i64 $maker)
  %record_place = call i64 @number(ptr %e, i64 $RECORD)
  %record = inttoptr i64 %record_place to ptr
  store ptr %record, ptr %args, align 8
  %answer = call ptr %call(ptr %maker, ptr %args, i64 1, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %forget, label %made
forget:
  call void @forget(ptr %c)
  ret ptr null
made:
  call void @drop(ptr %c, ptr %answer)
  %then = call i64 @number(ptr %e, i64 $FUNCTION)
  br label %out
out:
  %word = phi i64 [ %now, %entry ], [ %then, %made ]
  %found = inttoptr i64 %word to ptr
  ret ptr %found
}

; A Var of the entry's function of one operand; null for what is left to others.
define internal ptr @later_each(ptr %c, ptr %e, ptr %x) {
entry:
  %operands = alloca [3 x ptr], align 8
  %a = call ptr @operand(ptr %c, ptr %x)
  %absent = icmp eq ptr %a, null
  br i1 %absent, label %no, label %waiting
waiting:
  %waits = call i1 @waits(ptr %c, ptr %e, ptr %a)
  br i1 %waits, label %typed, label %no
typed:
  %f32 = call i1 @of_kind(ptr %c, ptr %a, i64 $f32, i64 0)
  %like = call ptr @sized(ptr %c, ptr %a)
  %known = icmp ne ptr %like, null
  %good = and i1 %f32, %known
  br i1 %good, label %ask, label %no
ask:
  %function = call ptr @function(ptr %c, ptr %e)
  %able = icmp ne ptr %function, null
  br i1 %able, label %make, label %no
make:
  store ptr %a, ptr %operands, align 8
  %layout = call ptr @at(ptr %x, i64 $V_layout)
  %v = call ptr @deferred(ptr %c, ptr %function, i64 1, ptr %operands, ptr %a, ptr %layout)
  %made = icmp ne ptr %v, null
  br i1 %made, label %out, label %lost
out:
  ret ptr %v
lost:
  call void @forget(ptr %c)
  br label %no
no:
  ret ptr null
}

; The same of two operands, of which the second one may be a plain number.
define internal ptr @later_pair(ptr %c, ptr %e, ptr %x, ptr %y) {
entry:
  %operands = alloca [3 x ptr], align 8
  %second = getelementptr ptr, ptr %operands, i64 1
  %turned = call i64 @number(ptr %e, i64 2)
  %straight = icmp eq i64 %turned, 0
  %a = call ptr @operand(ptr %c, ptr %x)
  %absent = icmp eq ptr %a, null
  br i1 %absent, label %no, label %first
first:
  %wait_a = call i1 @waits(ptr %c, ptr %e, ptr %a)
  %f32 = call i1 @of_kind(ptr %c, ptr %a, i64 $f32, i64 0)
  %like = call ptr @sized(ptr %c, ptr %a)
  %layout = call ptr @at(ptr %x, i64 $V_layout)
  %known = icmp ne ptr %like, null
  %good = and i1 %f32, %known
  br i1 %good, label %other, label %no
other:
  %var = call i1 @is(ptr %c, ptr %y, i64 $var)
  br i1 %var, label %pair, label %number
pair:
  %b = call ptr @operand(ptr %c, ptr %y)
  %no_b = icmp eq ptr %b, null
  br i1 %no_b, label %no, label %both
both:
  %wait_b = call i1 @waits(ptr %c, ptr %e, ptr %b)
  %waits = or i1 %wait_a, %wait_b
  %f32_b = call i1 @of_kind(ptr %c, ptr %b, i64 $f32, i64 0)
  %like_b = call ptr @sized(ptr %c, ptr %b)
  %layout_b = call ptr @at(ptr %y, i64 $V_layout)
  %known_b = icmp ne ptr %like_b, null
  %laid = icmp eq ptr %layout, %layout_b
  %g1 = and i1 %waits, %f32_b
  %g2 = and i1 %known_b, %laid
  %g3 = and i1 %g1, %g2
  %g4 = and i1 %g3, %straight
  br i1 %g4, label %shapes, label %no
shapes:
  %alike = call i1 @alike(ptr %like, ptr %like_b, i64 0)
  br i1 %alike, label %ask, label %no
ask:
  %function = call ptr @function(ptr %c, ptr %e)
  %able = icmp ne ptr %function, null
  br i1 %able, label %two, label %no
two:
  store ptr %a, ptr %operands, align 8
  store ptr %b, ptr %second, align 8
  %v = call ptr @deferred(ptr %c, ptr %function, i64 2, ptr %operands, ptr %a, ptr %layout)
  br label %made
number:
  br i1 %wait_a, label %ask_too, label %no
ask_too:
  %function_ = call ptr @function(ptr %c, ptr %e)
  %able_ = icmp ne ptr %function_, null
  br i1 %able_, label %plain, label %no
plain:
  %s = call ptr @single(ptr %c, ptr %y)
  %no_s = icmp eq ptr %s, null
  br i1 %no_s, label %lost, label %scaled
scaled:
  %one = select i1 %straight, ptr %a, ptr %s
  %two_ = select i1 %straight, ptr %s, ptr %a
  store ptr %one, ptr %operands, align 8
  store ptr %two_, ptr %second, align 8
  %w = call ptr @deferred(ptr %c, ptr %function_, i64 2, ptr %operands, ptr %a, ptr %layout)
  call void @drop(ptr %c, ptr %s)
  br label %made
made:
  %found = phi ptr [ %v, %two ], [ %w, %scaled ]
  %done = icmp ne ptr %found, null
  br i1 %done, label %out, label %lost
out:
  ret ptr %found
lost:
  call void @forget(ptr %c)
  br label %no
no:
  ret ptr null
}
"""

__all__ = ["LATER"]
