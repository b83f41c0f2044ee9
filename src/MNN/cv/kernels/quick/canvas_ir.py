"""LLVM IR that reads what is drawn into, and with which colour: the slots that all kernels which draw begin with
(:data:`MNN.backends.cpu.image.pixels.CANVAS`)."""

from __future__ import annotations

from MNN.cv.kernels.quick.reading_ir import READING

CANVAS = (
    READING
    + """
; A colour of at most four numbers, the rest of them 0; whether it is one.
define internal i1 @colour_of(ptr %c, ptr %x, ptr %to) {
entry:
  call void @note(ptr %to, i64 0, i64 0)
  call void @note(ptr %to, i64 8, i64 0)
  call void @note(ptr %to, i64 16, i64 0)
  call void @note(ptr %to, i64 24, i64 0)
  %tuple = call i1 @is(ptr %c, ptr %x, i64 $tuple)
  br i1 %tuple, label %sized, label %single
single:
  %alone = call i1 @real_of(ptr %c, ptr %x, ptr %to)
  ret i1 %alone
sized:
  %f_size = call ptr @place(ptr %c, i64 $size)
  %n = call i64 %f_size(ptr %x)
  %less = sub i64 %n, 1
  %few = icmp ult i64 %less, 4
  br i1 %few, label %head, label %no
head:
  %i = phi i64 [ 0, %sized ], [ %i1, %next ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %yes
body:
  %f_item = call ptr @place(ptr %c, i64 $item)
  %item = call ptr %f_item(ptr %x, i64 %i)
  %p = getelementptr double, ptr %to, i64 %i
  %good = call i1 @real_of(ptr %c, ptr %item, ptr %p)
  br i1 %good, label %next, label %no
next:
  %i1 = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}
; The colour of %n elements, over and over: as bytes, rounded to even and within 0 to 255, or as f32.
define internal void @ink(ptr %colour, i64 %channels, i64 %n, i1 %bytes, ptr %to) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %which = phi i64 [ 0, %entry ], [ %which2, %next ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %out
body:
  %p = getelementptr double, ptr %colour, i64 %which
  %d = load double, ptr %p, align 8
  br i1 %bytes, label %byte, label %float
byte:
  %below = fcmp olt double %d, 0.0
  %d1 = select i1 %below, double 0.0, double %d
  %above = fcmp ogt double %d1, 255.0
  %d2 = select i1 %above, double 255.0, double %d1
  %d3 = fadd double %d2, 0x4338000000000000
  %d4 = fsub double %d3, 0x4338000000000000
  %level = fptoui double %d4 to i8
  %p_byte = getelementptr i8, ptr %to, i64 %i
  store i8 %level, ptr %p_byte, align 1
  br label %next
float:
  %f = fptrunc double %d to float
  %p_float = getelementptr float, ptr %to, i64 %i
  store float %f, ptr %p_float, align 4
  br label %next
next:
  %i1 = add i64 %i, 1
  %which1 = add i64 %which, 1
  %around = icmp eq i64 %which1, %channels
  %which2 = select i1 %around, i64 0, i64 %which1
  br label %head
out:
  ret void
}
; Fills the slots of a canvas: a dense picture of bytes or f32 of few channels, and a colour, which is written to
; %inks. Gives the number of its kind, by element type and channels; -1 where it is another one.
define internal i64 @canvas(ptr %c, ptr %img, ptr %x_c, ptr %inks, ptr %slots) {
entry:
  %colour = alloca [4 x double], align 8
  %array = call i1 @is(ptr %c, ptr %img, i64 $array)
  br i1 %array, label %kind, label %no
kind:
  %element = call ptr @place(ptr %img, i64 $ELEMENT)
  %of_bytes = call ptr @place(ptr %c, i64 $bytes)
  %of_singles = call ptr @place(ptr %c, i64 $singles)
  %bytes = icmp eq ptr %element, %of_bytes
  %singles = icmp eq ptr %element, %of_singles
  %known = or i1 %bytes, %singles
  %p_flags = getelementptr i8, ptr %img, i64 $FLAGS
  %flags = load i32, ptr %p_flags, align 4
  %wanted = and i32 %flags, 1281  ; dense, aligned, may be written to
  %usual = icmp eq i32 %wanted, 1281
  %p_rank = getelementptr i8, ptr %img, i64 $RANK
  %rank = load i32, ptr %p_rank, align 4
  %up = sub i32 %rank, 2
  %flat = icmp ult i32 %up, 2
  %k1 = and i1 %known, %usual
  %k2 = and i1 %k1, %flat
  br i1 %k2, label %sizes, label %no
sizes:
  %extents = call ptr @place(ptr %img, i64 $EXTENTS)
  %height = call i64 @word(ptr %extents, i64 0)
  %width = call i64 @word(ptr %extents, i64 8)
  %deep = icmp eq i32 %rank, 3
  br i1 %deep, label %depth, label %sized
depth:
  %third = call i64 @word(ptr %extents, i64 16)
  br label %sized
sized:
  %channels = phi i64 [ 1, %sizes ], [ %third, %depth ]
  %number = sub i64 %channels, 1
  %shallow = icmp ult i64 %number, $channels
  %area = mul i64 %height, %width
  %some = icmp sgt i64 %area, 0
  %s1 = and i1 %shallow, %some
  br i1 %s1, label %colours, label %no
colours:
  %good_c = call i1 @colour_of(ptr %c, ptr %x_c, ptr %colour)
  br i1 %good_c, label %fill, label %no
fill:
  %first = select i1 %bytes, i64 0, i64 $channels
  %index = add i64 %first, %number
  %long = select i1 %bytes, i64 1, i64 4
  %pixel = mul i64 %channels, %long
  %small = icmp sle i64 %pixel, 4
  %times = select i1 %small, i64 $few, i64 $fewer
  %elements = mul i64 %times, %channels
  call void @ink(ptr %colour, i64 %channels, i64 %elements, i1 %bytes, ptr %inks)
  %row = mul i64 %width, %pixel
  %data = call i64 @word(ptr %img, i64 $DATA)
  %inks_at = ptrtoint ptr %inks to i64
  call void @note(ptr %slots, i64 $S_img, i64 %data)
  call void @note(ptr %slots, i64 $S_row, i64 %row)
  call void @note(ptr %slots, i64 $S_width, i64 %width)
  call void @note(ptr %slots, i64 $S_height, i64 %height)
  call void @note(ptr %slots, i64 $S_ink, i64 %inks_at)
  ret i64 %index
no:
  ret i64 -1
}
; Runs a kernel that draws, while other threads of Python may run.
define internal void @paint(ptr %c, ptr %kernel, ptr %slots) {
entry:
  %f_save = call ptr @place(ptr %c, i64 $save)
  %state = call ptr %f_save()
  call void %kernel(ptr %slots, i64 0, i64 1, ptr null)
  %f_restore = call ptr @place(ptr %c, i64 $restore)
  call void %f_restore(ptr %state)
  ret void
}
"""
)

__all__ = ["CANVAS"]
