"""LLVM IR of the entry of products of matrices and vectors."""

from __future__ import annotations

from MNN.expr.arrays.native.entries_ir import HEAD, LOOPS, ONE, TAIL

PRODUCT = (
    HEAD.replace(
        "$rooms",
        """%places = alloca [3 x ptr], align 8
  %counts = alloca [4 x i64], align 8
  %steps = alloca [9 x i64], align 8
  %result = alloca [2 x i64], align 8""",
    ).replace("$operands", "3")
    + ONE
    + LOOPS
    + """
  br i1 %unknown, label %slow, label %second
second:
  %p_y = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %p_y, align 8
  %b = call ptr @numbers_now(ptr %c, ptr %y)
  %no_b = icmp eq ptr %b, null
  br i1 %no_b, label %slow, label %meet
meet:
  %element_b = call ptr @element(ptr %b)
  %same = icmp eq ptr %element, %element_b
  %layout = call ptr @layout(ptr %c, ptr %x)
  %layout_b = call ptr @layout(ptr %c, ptr %y)
  %laid = icmp eq ptr %layout, %layout_b
  %rank_a = call i32 @rank(ptr %a)
  %rank_b = call i32 @rank(ptr %b)
  %less_a = sub i32 %rank_a, 1
  %less_b = sub i32 %rank_b, 1
  %known_a = icmp ult i32 %less_a, 2
  %known_b = icmp ult i32 %less_b, 2
  %ranks = add i32 %rank_a, %rank_b
  %matrix = icmp sgt i32 %ranks, 2
  %g1 = and i1 %same, %laid
  %g2 = and i1 %known_a, %known_b
  %g3 = and i1 %g1, %matrix
  %able = and i1 %g2, %g3
  br i1 %able, label %measure, label %slow
measure:  ; rows by depth, and depth by columns
  %sizes_a = call ptr @extents(ptr %a)
  %sizes_b = call ptr @extents(ptr %b)
  %last_a = call ptr @last(ptr %a)
  %last_b = call ptr @last(ptr %b)
  %many_a = icmp eq i32 %rank_a, 2
  %many_b = icmp eq i32 %rank_b, 2
  %first_a = load i64, ptr %sizes_a, align 8
  %depth_b = load i64, ptr %sizes_b, align 8
  %depth = load i64, ptr %last_a, align 8
  %end_b = load i64, ptr %last_b, align 8
  %rows = select i1 %many_a, i64 %first_a, i64 1
  %columns = select i1 %many_b, i64 %end_b, i64 1
  %long = lshr i64 %k, 1
  %bytes = shl i64 4, %long
  %from_a = call ptr @data(ptr %a)
  %from_b = call ptr @data(ptr %b)
  %fit = icmp eq i64 %depth, %depth_b
  %plane = mul i64 %rows, %columns
  %work = mul i64 %plane, %depth
  %p_limit = getelementptr i8, ptr %e, i64 24
  %limit = load i64, ptr %p_limit, align 8
  %less = sub i64 %work, 1
  %countable = icmp ult i64 %less, %limit
  %p_most = getelementptr i8, ptr %c, i64 $few
  %most = load i64, ptr %p_most, align 8
  %little = icmp sle i64 %plane, %most
  %h1 = and i1 %fit, %countable
  %h2 = and i1 %h1, %little
  br i1 %h2, label %make, label %slow
make:
  %outer = select i1 %many_a, i64 %rows, i64 %columns
  %result1 = getelementptr i64, ptr %result, i64 1
  store i64 %outer, ptr %result, align 8
  store i64 %columns, ptr %result1, align 8
  %rank = sub i32 %ranks, 2
  %r = call ptr @fresh(ptr %c, ptr %element, i32 %rank, ptr %result)
  %none = icmp eq ptr %r, null
  br i1 %none, label %failed, label %run
run:
  %to = call ptr @data(ptr %r)
  %place1 = getelementptr ptr, ptr %places, i64 1
  %place2 = getelementptr ptr, ptr %places, i64 2
  store ptr %from_a, ptr %places, align 8
  store ptr %from_b, ptr %place1, align 8
  store ptr %to, ptr %place2, align 8
  %count1 = getelementptr i64, ptr %counts, i64 1
  %count2 = getelementptr i64, ptr %counts, i64 2
  %count3 = getelementptr i64, ptr %counts, i64 3
  store i64 1, ptr %counts, align 8
  store i64 %rows, ptr %count1, align 8
  store i64 %depth, ptr %count2, align 8
  store i64 %columns, ptr %count3, align 8
  %row_a = mul i64 %depth, %bytes
  %row_b = mul i64 %columns, %bytes
  %step1 = getelementptr i64, ptr %steps, i64 1
  %step2 = getelementptr i64, ptr %steps, i64 2
  %step3 = getelementptr i64, ptr %steps, i64 3
  %step4 = getelementptr i64, ptr %steps, i64 4
  %step5 = getelementptr i64, ptr %steps, i64 5
  %step6 = getelementptr i64, ptr %steps, i64 6
  %step7 = getelementptr i64, ptr %steps, i64 7
  %step8 = getelementptr i64, ptr %steps, i64 8
  store i64 0, ptr %steps, align 8
  store i64 0, ptr %step1, align 8
  store i64 0, ptr %step2, align 8
  store i64 %row_a, ptr %step3, align 8
  store i64 %bytes, ptr %step4, align 8
  store i64 %row_b, ptr %step5, align 8
  store i64 %bytes, ptr %step6, align 8
  store i64 %row_b, ptr %step7, align 8
  store i64 %bytes, ptr %step8, align 8
  call void %loop(ptr %places, ptr %counts, ptr %steps, ptr %given)
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
"""
    + TAIL
)

__all__ = ["PRODUCT"]
