"""LLVM IR of what fills polygons or draws their outlines: ``%args`` are a picture, a list of polygons, the number of
one of them or -1, a colour, the thickness (below 0: filled) and the kind of line."""

from __future__ import annotations

from MNN.cv.kernels.quick.canvas_ir import CANVAS
from MNN.cv.kernels.quick.reading_ir import entry

POLYGONS = (
    CANVAS
    + """
; Appends the points of a dense array (n, 2) or (n, 1, 2) of i32 at number %at of %to, in fractions of pixels; how many
; there are, 0 where it is another one or they are too many.
define internal i64 @polygon(ptr %c, ptr %x, ptr %to, i64 %at) {
entry:
  %count = call i64 @pairs(ptr %c, ptr %x)
  %left = sub i64 $most, %at
  %less = sub i64 %count, 1
  %few = icmp ult i64 %less, %left
  br i1 %few, label %kind, label %no
kind:
  %element = call ptr @place(ptr %x, i64 $ELEMENT)
  %of_ints = call ptr @place(ptr %c, i64 $ints)
  %whole = icmp eq ptr %element, %of_ints
  br i1 %whole, label %copy, label %no
copy:
  %from = call ptr @place(ptr %x, i64 $DATA)
  %n = mul i64 %count, 2
  %begin = mul i64 %at, 2
  br label %head
head:
  %i = phi i64 [ 0, %copy ], [ %i1, %body ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %yes
body:
  %p = getelementptr i32, ptr %from, i64 %i
  %k = load i32, ptr %p, align 4
  %wide = sext i32 %k to i64
  %fixed = shl i64 %wide, $SHIFT
  %there = add i64 %begin, %i
  %q = getelementptr i64, ptr %to, i64 %there
  store i64 %fixed, ptr %q, align 8
  %i1 = add i64 %i, 1
  br label %head
yes:
  ret i64 %count
no:
  ret i64 0
}
; Whether polygons have been drawn.
define internal i1 @draw(ptr %c, ptr %e, ptr %args) {
entry:
  %slots = alloca [$words x i64], align 8
  %numbers = alloca [3 x i64], align 8
  %inks = alloca [512 x i8], align 32
  %points = alloca [$twice x i64], align 8
  %counts = alloca [$shapes x i64], align 8
  %memory = alloca [$memory x i64], align 8
  %p_index = getelementptr i64, ptr %numbers, i64 0
  %p_thick = getelementptr i64, ptr %numbers, i64 1
  %p_kind = getelementptr i64, ptr %numbers, i64 2
  %x_index = call ptr @place(ptr %args, i64 16)
  %good_i = call i1 @whole_of(ptr %c, ptr %x_index, ptr %p_index)
  br i1 %good_i, label %rest1, label %no
rest1:
  %x_thick = call ptr @place(ptr %args, i64 32)
  %good_t = call i1 @whole_of(ptr %c, ptr %x_thick, ptr %p_thick)
  br i1 %good_t, label %rest2, label %no
rest2:
  %x_kind = call ptr @place(ptr %args, i64 40)
  %good_k = call i1 @whole_of(ptr %c, ptr %x_kind, ptr %p_kind)
  br i1 %good_k, label %tests, label %no
tests:
  %index = load i64, ptr %p_index, align 8
  %thick = load i64, ptr %p_thick, align 8
  %type = load i64, ptr %p_kind, align 8
  %eight = icmp eq i64 %type, 8
  %four = icmp eq i64 %type, 4
  %touching = or i1 %eight, %four
  %narrow = icmp sle i64 %thick, 32767
  %t1 = and i1 %touching, %narrow
  %x_list = call ptr @place(ptr %args, i64 8)
  %list = call i1 @is(ptr %c, ptr %x_list, i64 $list)
  %t2 = and i1 %t1, %list
  br i1 %t2, label %listed, label %no
listed:
  %f_size = call ptr @place(ptr %c, i64 $list_size)
  %f_item = call ptr @place(ptr %c, i64 $list_item)
  %n = call i64 %f_size(ptr %x_list)
  %less = sub i64 %n, 1
  %few = icmp ult i64 %less, $shapes
  %there = icmp slt i64 %index, %n
  %l1 = and i1 %few, %there
  br i1 %l1, label %chosen, label %no
chosen:
  %every = icmp slt i64 %index, 0
  %first = select i1 %every, i64 0, i64 %index
  %after = add i64 %index, 1
  %last = select i1 %every, i64 %n, i64 %after
  br label %head
head:
  %i = phi i64 [ 0, %chosen ], [ %i1, %next ]
  %total = phi i64 [ 0, %chosen ], [ %total2, %next ]
  %made = phi i64 [ 0, %chosen ], [ %made2, %next ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %canvas
body:  ; those that are not drawn are looked at, too
  %item = call ptr %f_item(ptr %x_list, i64 %i)
  %count = call i64 @polygon(ptr %c, ptr %item, ptr %points, i64 %total)
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %next, label %no
next:
  %p_count = getelementptr i64, ptr %counts, i64 %made
  store i64 %count, ptr %p_count, align 8
  %from = icmp sge i64 %i, %first
  %until = icmp slt i64 %i, %last
  %wanted = and i1 %from, %until
  %more = select i1 %wanted, i64 %count, i64 0
  %one = zext i1 %wanted to i64
  %total2 = add i64 %total, %more
  %made2 = add i64 %made, %one
  %i1 = add i64 %i, 1
  br label %head
canvas:
  %img = load ptr, ptr %args, align 8
  %x_c = call ptr @place(ptr %args, i64 24)
  %number = call i64 @canvas(ptr %c, ptr %img, ptr %x_c, ptr %inks, ptr %slots)
  %good_c = icmp sge i64 %number, 0
  br i1 %good_c, label %find, label %no
find:
  %filled = icmp slt i64 %thick, 0
  %table = select i1 %filled, i64 $FILLING, i64 $RECORD
  %at_8 = mul i64 %number, 8
  %at = add i64 %at_8, %table
  %kernel = call ptr @place(ptr %e, i64 %at)
  %unknown = icmp eq ptr %kernel, null
  br i1 %unknown, label %no, label %known
known:
  %counts_at = ptrtoint ptr %counts to i64
  %points_at = ptrtoint ptr %points to i64
  br i1 %filled, label %fill, label %outline
fill:
  %edges_at = ptrtoint ptr %memory to i64
  %rows = add i64 %total, 1
  %bytes = mul i64 %rows, $edge
  %live_at = add i64 %edges_at, %bytes
  call void @note(ptr %slots, i64 $P_kind, i64 %type)
  call void @note(ptr %slots, i64 $P_shapes, i64 %made)
  call void @note(ptr %slots, i64 $P_counts, i64 %counts_at)
  call void @note(ptr %slots, i64 $P_points, i64 %points_at)
  call void @note(ptr %slots, i64 $P_edges, i64 %edges_at)
  call void @note(ptr %slots, i64 $P_live, i64 %live_at)
  br label %run
outline:
  call void @note(ptr %slots, i64 $S_what, i64 $W_CLOSED)
  call void @note(ptr %slots, i64 $S_kind, i64 %type)
  call void @note(ptr %slots, i64 $S_thickness, i64 %thick)
  call void @note(ptr %slots, i64 $S_shapes, i64 %made)
  call void @note(ptr %slots, i64 $S_counts, i64 %counts_at)
  call void @note(ptr %slots, i64 $S_points, i64 %points_at)
  call void @note(ptr %slots, i64 $S_count, i64 0)
  br label %run
run:
  call void @paint(ptr %c, ptr %kernel, ptr %slots)
  ret i1 true
no:
  ret i1 false
}
"""
    + entry(6, "draw")
)

__all__ = ["POLYGONS"]
