"""LLVM IR of what draws lines, rectangles and circles: ``%args`` are a picture, a point, another one or a radius, a
colour, the thickness, the kind of line and the shift."""

from __future__ import annotations

from MNN.cv.kernels.quick.canvas_ir import CANVAS
from MNN.cv.kernels.quick.reading_ir import entry

SHAPES = (
    CANVAS
    + """
; Whether a shape has been drawn.
define internal i1 @draw(ptr %c, ptr %e, ptr %args) {
entry:
  %slots = alloca [$words x i64], align 8
  %a = alloca [2 x i64], align 8
  %b = alloca [2 x i64], align 8
  %numbers = alloca [3 x i64], align 8
  %inks = alloca [512 x i8], align 32
  %mode = call i64 @word(ptr %e, i64 8)
  %round = icmp eq i64 %mode, $circle
  br label %one
one:
  %x_a = call ptr @place(ptr %args, i64 8)
  %good_a = call i1 @point_of(ptr %c, ptr %x_a, ptr %a)
  br i1 %good_a, label %two, label %no
two:
  %x_b = call ptr @place(ptr %args, i64 16)
  br i1 %round, label %radius, label %point
radius:
  call void @note(ptr %b, i64 8, i64 0)
  %good_r = call i1 @whole_of(ptr %c, ptr %x_b, ptr %b)
  %r = call i64 @word(ptr %b, i64 0)
  %positive = icmp sge i64 %r, 0
  %good_radius = and i1 %good_r, %positive
  br label %met
point:
  %good_p = call i1 @point_of(ptr %c, ptr %x_b, ptr %b)
  br label %met
met:
  %good_b = phi i1 [ %good_radius, %radius ], [ %good_p, %point ]
  br i1 %good_b, label %rest, label %no
rest:
  %p_t = getelementptr i64, ptr %numbers, i64 0
  %p_k = getelementptr i64, ptr %numbers, i64 1
  %p_s = getelementptr i64, ptr %numbers, i64 2
  %x_t = call ptr @place(ptr %args, i64 32)
  %good_t = call i1 @whole_of(ptr %c, ptr %x_t, ptr %p_t)
  br i1 %good_t, label %rest1, label %no
rest1:
  %x_k = call ptr @place(ptr %args, i64 40)
  %good_k = call i1 @whole_of(ptr %c, ptr %x_k, ptr %p_k)
  br i1 %good_k, label %rest2, label %no
rest2:
  %x_s = call ptr @place(ptr %args, i64 48)
  %good_s = call i1 @whole_of(ptr %c, ptr %x_s, ptr %p_s)
  br i1 %good_s, label %tests, label %no
tests:
  %thick = load i64, ptr %p_t, align 8
  %type = load i64, ptr %p_k, align 8
  %shift = load i64, ptr %p_s, align 8
  %unshifted = icmp eq i64 %shift, 0
  %eight = icmp eq i64 %type, 8
  %four = icmp eq i64 %type, 4
  %not_round = xor i1 %round, true
  %four_too = and i1 %four, %not_round
  %touching = or i1 %eight, %four_too
  %thin = icmp sle i64 %thick, 1
  %narrow = icmp sle i64 %thick, 32767
  %able_t = select i1 %round, i1 %thin, i1 %narrow
  %is_line = icmp eq i64 %mode, 0
  %above = icmp sge i64 %thick, 1
  %not_line = xor i1 %is_line, true
  %there = or i1 %above, %not_line
  %t1 = and i1 %unshifted, %touching
  %t2 = and i1 %able_t, %there
  %t3 = and i1 %t1, %t2
  br i1 %t3, label %colours, label %no
colours:
  %img = load ptr, ptr %args, align 8
  %x_c = call ptr @place(ptr %args, i64 24)
  %index = call i64 @canvas(ptr %c, ptr %img, ptr %x_c, ptr %inks, ptr %slots)
  %good_c = icmp sge i64 %index, 0
  br i1 %good_c, label %find, label %no
find:
  %at_8 = mul i64 %index, 8
  %at = add i64 %at_8, $RECORD
  %kernel = call ptr @place(ptr %e, i64 %at)
  %unknown = icmp eq ptr %kernel, null
  br i1 %unknown, label %no, label %fill
fill:
  %filled = icmp slt i64 %thick, 0
  %outline = select i1 %filled, i64 $W_WHOLE, i64 $W_CLOSED
  %ring = select i1 %filled, i64 $W_DISC, i64 $W_CIRCLE
  %is_rectangle = icmp eq i64 %mode, $rectangle
  %w1 = select i1 %is_rectangle, i64 %outline, i64 %ring
  %what = select i1 %is_line, i64 $W_OPEN, i64 %w1
  call void @note(ptr %slots, i64 $S_what, i64 %what)
  call void @note(ptr %slots, i64 $S_kind, i64 %type)
  call void @note(ptr %slots, i64 $S_thickness, i64 %thick)
  call void @note(ptr %slots, i64 $S_shapes, i64 1)
  call void @note(ptr %slots, i64 $S_counts, i64 0)
  call void @note(ptr %slots, i64 $S_points, i64 0)
  %count = select i1 %is_rectangle, i64 4, i64 2
  call void @note(ptr %slots, i64 $S_count, i64 %count)
  %by = select i1 %round, i64 0, i64 $SHIFT
  %x0 = call i64 @word(ptr %a, i64 0)
  %y0 = call i64 @word(ptr %a, i64 8)
  %u0 = call i64 @word(ptr %b, i64 0)
  %v0 = call i64 @word(ptr %b, i64 8)
  %x = shl i64 %x0, %by
  %y = shl i64 %y0, %by
  %u = shl i64 %u0, %by
  %v = shl i64 %v0, %by
  %second_y = select i1 %is_rectangle, i64 %y, i64 %v
  call void @note(ptr %slots, i64 $S_x0, i64 %x)
  call void @note(ptr %slots, i64 $S_y0, i64 %y)
  call void @note(ptr %slots, i64 $S_x1, i64 %u)
  call void @note(ptr %slots, i64 $S_y1, i64 %second_y)
  call void @note(ptr %slots, i64 $S_x2, i64 %u)
  call void @note(ptr %slots, i64 $S_y2, i64 %v)
  call void @note(ptr %slots, i64 $S_x3, i64 %x)
  call void @note(ptr %slots, i64 $S_y3, i64 %v)
  call void @paint(ptr %c, ptr %kernel, ptr %slots)
  ret i1 true
no:
  ret i1 false
}
"""
    + entry(7, "draw")
)

__all__ = ["SHAPES"]
