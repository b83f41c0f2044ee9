"""LLVM IR of the entry that chooses one of two numbers where a condition holds."""

from __future__ import annotations

from MNN.expr.arrays.native.entries_ir import HEAD, TAIL

CHOSEN = (
    HEAD.replace("$rooms", "%room = alloca float, align 4").replace("$operands", "3")
    + """
  %m = call ptr @numbers(ptr %c, ptr %x)
  %no_m = icmp eq ptr %m, null
  br i1 %no_m, label %slow, label %mask
mask:
  %mask_element = call ptr @element(ptr %m)
  %mask_kind = call i64 @kind(ptr %c, ptr %mask_element)
  %is_int = icmp eq i64 %mask_kind, 1
  br i1 %is_int, label %operands, label %slow
operands:
  %p_y = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %p_y, align 8
  %p_z = getelementptr ptr, ptr %args, i64 2
  %z = load ptr, ptr %p_z, align 8
  %a = call ptr @numbers(ptr %c, ptr %y)
  %b = call ptr @numbers(ptr %c, ptr %z)
  %no_a = icmp eq ptr %a, null
  %no_b = icmp eq ptr %b, null
  %neither = and i1 %no_a, %no_b
  br i1 %neither, label %slow, label %like
like:  ; the one that is no plain number says what comes out
  %given = select i1 %no_a, ptr %z, ptr %y
  %array = select i1 %no_a, ptr %b, ptr %a
  %layout = call ptr @layout(ptr %c, ptr %given)
  %element = call ptr @element(ptr %array)
  %k = call i64 @kind(ptr %c, ptr %element)
  %small = icmp ult i64 %k, 2
  %sized = call i1 @alike(ptr %m, ptr %array, i64 0)
  %able = and i1 %small, %sized
  br i1 %able, label %rest, label %slow
rest:
  %both = or i1 %no_a, %no_b
  br i1 %both, label %number, label %pair
number:
  %is_f32 = icmp eq i64 %k, 0
  br i1 %is_f32, label %read, label %slow
read:
  %other = select i1 %no_a, ptr %y, ptr %z
  %met = call i1 @plain(ptr %c, ptr %other, ptr %room)
  br i1 %met, label %make, label %slow
pair:
  %b_element = call ptr @element(ptr %b)
  %b_layout = call ptr @layout(ptr %c, ptr %z)
  %same = icmp eq ptr %element, %b_element
  %laid = icmp eq ptr %layout, %b_layout
  %alike = call i1 @alike(ptr %a, ptr %b, i64 0)
  %g1 = and i1 %same, %laid
  %g2 = and i1 %g1, %alike
  br i1 %g2, label %make, label %slow
make:
  %rank = call i32 @rank(ptr %array)
  %sizes = call ptr @extents(ptr %array)
  %all = call i64 @count(ptr %array)
  %p_limit = getelementptr i8, ptr %e, i64 24
  %limit = load i64, ptr %p_limit, align 8
  %countable = icmp sle i64 %all, %limit
  br i1 %countable, label %create, label %slow
create:
  %r = call ptr @fresh(ptr %c, ptr %element, i32 %rank, ptr %sizes)
  %none = icmp eq ptr %r, null
  br i1 %none, label %failed, label %run
run:
  %to = call ptr @data(ptr %r)
  %where = call ptr @data(ptr %m)
  br i1 %no_a, label %a_number, label %a_array
a_array:
  %from_a0 = call ptr @data(ptr %a)
  br label %a_known
a_number:
  br label %a_known
a_known:
  %from_a = phi ptr [ %from_a0, %a_array ], [ %room, %a_number ]
  %step_a = phi i64 [ 1, %a_array ], [ 0, %a_number ]
  br i1 %no_b, label %b_number, label %b_array
b_array:
  %from_b0 = call ptr @data(ptr %b)
  br label %b_known
b_number:
  br label %b_known
b_known:
  %from_b = phi ptr [ %from_b0, %b_array ], [ %room, %b_number ]
  %step_b = phi i64 [ 1, %b_array ], [ 0, %b_number ]
  %wide = and i64 %all, -16
  br i1 %no_a, label %same_a, label %mixed
same_a:
  %va = load i32, ptr %from_a, align 4
  %ia = insertelement <16 x i32> zeroinitializer, i32 %va, i32 0
  %splat_a = shufflevector <16 x i32> %ia, <16 x i32> zeroinitializer, <16 x i32> zeroinitializer
  br label %mixed
mixed:
  %all_a = phi <16 x i32> [ zeroinitializer, %b_known ], [ %splat_a, %same_a ]
  br i1 %no_b, label %same_b, label %walk
same_b:
  %vb = load i32, ptr %from_b, align 4
  %ib = insertelement <16 x i32> zeroinitializer, i32 %vb, i32 0
  %splat_b = shufflevector <16 x i32> %ib, <16 x i32> zeroinitializer, <16 x i32> zeroinitializer
  br label %walk
walk:
  %all_b = phi <16 x i32> [ zeroinitializer, %mixed ], [ %splat_b, %same_b ]
  br label %head
head:
  %i = phi i64 [ 0, %walk ], [ %i1, %body_out ]
  %go = icmp slt i64 %i, %wide
  br i1 %go, label %body, label %tail
body:
  %p_m = getelementptr i32, ptr %where, i64 %i
  %mv = load <16 x i32>, ptr %p_m, align 4
  %true = icmp ne <16 x i32> %mv, zeroinitializer
  br i1 %no_a, label %body_b, label %body_a
body_a:
  %p_av = getelementptr i32, ptr %from_a, i64 %i
  %av0 = load <16 x i32>, ptr %p_av, align 4
  br label %body_b
body_b:
  %av = phi <16 x i32> [ %all_a, %body ], [ %av0, %body_a ]
  br i1 %no_b, label %body_out, label %body_b0
body_b0:
  %p_bv = getelementptr i32, ptr %from_b, i64 %i
  %bv0 = load <16 x i32>, ptr %p_bv, align 4
  br label %body_out
body_out:
  %bv = phi <16 x i32> [ %all_b, %body_b ], [ %bv0, %body_b0 ]
  %rv = select <16 x i1> %true, <16 x i32> %av, <16 x i32> %bv
  %q = getelementptr i32, ptr %to, i64 %i
  store <16 x i32> %rv, ptr %q, align 4
  %i1 = add i64 %i, 16
  br label %head
tail:
  %j = phi i64 [ %wide, %head ], [ %j1, %one ]
  %left = icmp slt i64 %j, %all
  br i1 %left, label %one, label %wrap
one:
  %p_mj = getelementptr i32, ptr %where, i64 %j
  %mj = load i32, ptr %p_mj, align 4
  %tj = icmp ne i32 %mj, 0
  %ja = mul i64 %j, %step_a
  %jb = mul i64 %j, %step_b
  %p_aj = getelementptr i32, ptr %from_a, i64 %ja
  %p_bj = getelementptr i32, ptr %from_b, i64 %jb
  %aj = load i32, ptr %p_aj, align 4
  %bj = load i32, ptr %p_bj, align 4
  %rj = select i1 %tj, i32 %aj, i32 %bj
  %qj = getelementptr i32, ptr %to, i64 %j
  store i32 %rj, ptr %qj, align 4
  %j1 = add i64 %j, 1
  br label %tail
wrap:
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
"""
    + TAIL
)

__all__ = ["CHOSEN"]
