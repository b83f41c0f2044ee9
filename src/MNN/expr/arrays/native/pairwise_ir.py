"""LLVM IR of the entry of operators on pairs of numbers, whose operands broadcast."""

from __future__ import annotations

from MNN.expr.arrays.native.entries_ir import CALL_ROOMS, FRESH, HEAD, TAIL, TWO

PAIRWISE = (
    HEAD.replace(
        "$rooms",
        CALL_ROOMS
        + """
  %joint = alloca [8 x i64], align 8
  %index = alloca [8 x i64], align 8
  %steps_a = alloca [8 x i64], align 8
  %steps_b = alloca [8 x i64], align 8""",
    ).replace("$operands", "2")
    + TWO
    + FRESH
    + """
  store ptr %one, ptr %places, align 8
  store ptr %two, ptr %place1, align 8
  store ptr %to, ptr %place2, align 8
  store i64 %one_step, ptr %steps, align 8
  store i64 %two_step, ptr %step1, align 8
  store i64 %bytes, ptr %step2, align 8
  store i64 %all, ptr %counts, align 8
  call void %loop(ptr %places, ptr %counts, ptr %steps, ptr %given)
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
spread:  ; sizes of 1 are repeated
  %rank_b = call i32 @rank(ptr %b)
  %sizes_b = call ptr @extents(ptr %b)
  %higher = icmp sgt i32 %rank, %rank_b
  %top = select i1 %higher, i32 %rank, i32 %rank_b
  %axes = sext i32 %top to i64
  %axes_a = sext i32 %rank to i64
  %axes_b = sext i32 %rank_b to i64
  %less_a = sub i64 %axes, %axes_a
  %less_b = sub i64 %axes, %axes_b
  %few_axes = icmp ule i64 %axes, 8
  %some_axes = icmp ugt i64 %axes, 0
  %able = and i1 %few_axes, %some_axes
  br i1 %able, label %axis_head, label %slow
axis_head:  ; from the innermost axis outwards
  %i = phi i64 [ %axes, %spread ], [ %i1, %axis_next ]
  %step_a = phi i64 [ %bytes, %spread ], [ %step_a1, %axis_next ]
  %step_b = phi i64 [ %bytes, %spread ], [ %step_b1, %axis_next ]
  %so_far = phi i64 [ 1, %spread ], [ %so_far1, %axis_next ]
  %more = icmp sgt i64 %i, 0
  br i1 %more, label %axis, label %sized
axis:
  %i1 = sub i64 %i, 1
  %ia = sub i64 %i1, %less_a
  %ib = sub i64 %i1, %less_b
  %in_a = icmp sge i64 %ia, 0
  %in_b = icmp sge i64 %ib, 0
  %ia0 = select i1 %in_a, i64 %ia, i64 0
  %ib0 = select i1 %in_b, i64 %ib, i64 0
  %p_sa = getelementptr i64, ptr %sizes, i64 %ia0
  %p_sb = getelementptr i64, ptr %sizes_b, i64 %ib0
  br i1 %in_a, label %size_a, label %axis_b
size_a:
  %held_a = load i64, ptr %p_sa, align 8
  br label %axis_b
axis_b:
  %sa = phi i64 [ 1, %axis ], [ %held_a, %size_a ]
  br i1 %in_b, label %size_b, label %axis_meet
size_b:
  %held_b = load i64, ptr %p_sb, align 8
  br label %axis_meet
axis_meet:
  %sb = phi i64 [ 1, %axis_b ], [ %held_b, %size_b ]
  %one_a = icmp eq i64 %sa, 1
  %one_b = icmp eq i64 %sb, 1
  %equal = icmp eq i64 %sa, %sb
  %either = or i1 %one_a, %one_b
  %fits = or i1 %either, %equal
  br i1 %fits, label %axis_next, label %slow
axis_next:
  %size = select i1 %one_a, i64 %sb, i64 %sa
  %p_joint = getelementptr i64, ptr %joint, i64 %i1
  store i64 %size, ptr %p_joint, align 8
  %p_index = getelementptr i64, ptr %index, i64 %i1
  store i64 0, ptr %p_index, align 8
  %own_a = select i1 %one_a, i64 0, i64 %step_a
  %own_b = select i1 %one_b, i64 0, i64 %step_b
  %p_steps_a = getelementptr i64, ptr %steps_a, i64 %i1
  %p_steps_b = getelementptr i64, ptr %steps_b, i64 %i1
  store i64 %own_a, ptr %p_steps_a, align 8
  store i64 %own_b, ptr %p_steps_b, align 8
  %step_a1 = mul i64 %step_a, %sa
  %step_b1 = mul i64 %step_b, %sb
  %so_far1 = mul i64 %so_far, %size
  br label %axis_head
sized:
  %last = sub i64 %axes, 1
  %p_inner = getelementptr i64, ptr %joint, i64 %last
  %inner = load i64, ptr %p_inner, align 8
  %p_most = getelementptr i8, ptr %c, i64 $few
  %most = load i64, ptr %p_most, align 8
  %small = icmp sle i64 %so_far, %most
  %wide = icmp sge i64 %inner, 8
  %some = icmp sgt i64 %so_far, 0
  %good = and i1 %small, %wide
  %worth = and i1 %good, %some
  br i1 %worth, label %spread_make, label %slow
spread_make:
  %s = call ptr @fresh(ptr %c, ptr %element, i32 %top, ptr %joint)
  %s_none = icmp eq ptr %s, null
  br i1 %s_none, label %failed, label %spread_run
spread_run:
  %s_to = call ptr @data(ptr %s)
  %p_inner_a = getelementptr i64, ptr %steps_a, i64 %last
  %p_inner_b = getelementptr i64, ptr %steps_b, i64 %last
  %inner_a = load i64, ptr %p_inner_a, align 8
  %inner_b = load i64, ptr %p_inner_b, align 8
  store i64 %inner, ptr %counts, align 8
  %rows = udiv i64 %so_far, %inner
  %row_bytes = mul i64 %inner, %bytes
  br label %row
row:
  %t = phi i64 [ 0, %spread_run ], [ %t1, %row_next ]
  %at_a = phi ptr [ %from, %spread_run ], [ %next_a, %row_next ]
  %at_b = phi ptr [ %from_b, %spread_run ], [ %next_b, %row_next ]
  %at_r = phi ptr [ %s_to, %spread_run ], [ %next_r, %row_next ]
  store ptr %at_a, ptr %places, align 8
  store ptr %at_b, ptr %place1, align 8
  store ptr %at_r, ptr %place2, align 8
  store i64 %inner_a, ptr %steps, align 8
  store i64 %inner_b, ptr %step1, align 8
  store i64 %bytes, ptr %step2, align 8
  call void %loop(ptr %places, ptr %counts, ptr %steps, ptr %given)
  %t1 = add i64 %t, 1
  %next_r = getelementptr i8, ptr %at_r, i64 %row_bytes
  %done = icmp eq i64 %t1, %rows
  br i1 %done, label %spread_out, label %carry
carry:  ; the next place of the outer axes
  %u = phi i64 [ %last, %row ], [ %u1, %wrap ]
  %carry_a = phi ptr [ %at_a, %row ], [ %back_a, %wrap ]
  %carry_b = phi ptr [ %at_b, %row ], [ %back_b, %wrap ]
  %u1 = sub i64 %u, 1
  %p_u = getelementptr i64, ptr %index, i64 %u1
  %place = load i64, ptr %p_u, align 8
  %placed = add i64 %place, 1
  %p_size = getelementptr i64, ptr %joint, i64 %u1
  %size_u = load i64, ptr %p_size, align 8
  %p_ua = getelementptr i64, ptr %steps_a, i64 %u1
  %p_ub = getelementptr i64, ptr %steps_b, i64 %u1
  %ua = load i64, ptr %p_ua, align 8
  %ub = load i64, ptr %p_ub, align 8
  %moved_a = getelementptr i8, ptr %carry_a, i64 %ua
  %moved_b = getelementptr i8, ptr %carry_b, i64 %ub
  %full = icmp eq i64 %placed, %size_u
  br i1 %full, label %wrap, label %row_next
wrap:
  store i64 0, ptr %p_u, align 8
  %whole_a = mul i64 %ua, %size_u
  %whole_b = mul i64 %ub, %size_u
  %minus_a = sub i64 0, %whole_a
  %minus_b = sub i64 0, %whole_b
  %back_a = getelementptr i8, ptr %moved_a, i64 %minus_a
  %back_b = getelementptr i8, ptr %moved_b, i64 %minus_b
  br label %carry
row_next:
  %next_a = phi ptr [ %moved_a, %carry ]
  %next_b = phi ptr [ %moved_b, %carry ]
  store i64 %placed, ptr %p_u, align 8
  br label %row
spread_out:
  %w = call ptr @wrapped(ptr %c, ptr %s, ptr %layout)
  ret ptr %w
"""
    + TAIL
)

__all__ = ["PAIRWISE"]
