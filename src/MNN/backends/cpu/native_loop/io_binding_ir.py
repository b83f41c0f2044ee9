"""LLVM IR of what is lent for a run: words that say where inputs and outputs lie
(:class:`MNN.backends.cpu.native_loop.native.BoundBuffer`), and arrays that inputs are copied from and outputs to
(:class:`MNN.backends.cpu.native_loop.native.CopiedBuffer`)."""

BIND_IO = """
; At the begin of a run, words of which slots say where what they point to lies; the others, and at its end all words,
; as they were: a forked child may find them as a run left them that never ended there.
define internal void @lend(ptr %frame, i1 %begins) {
entry:
  %p_rows = getelementptr i8, ptr %frame, i64 $frame_lent
  %rows = load ptr, ptr %p_rows, align 8
  %p_count = getelementptr i8, ptr %frame, i64 $frame_lent_count
  %count = load i64, ptr %p_count, align 8
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %after ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %row, label %out
row:
  %i1 = add i64 %i, 1
  %p_word = getelementptr [$lent_words x i64], ptr %rows, i64 %i
  %word = load ptr, ptr %p_word, align 8
  %p_slot = getelementptr i8, ptr %p_word, i64 $lent_slot
  %slot = load ptr, ptr %p_slot, align 8
  br i1 %begins, label %ask, label %back
ask:
  %where = load ptr, ptr %slot, align 8
  %used = icmp ne ptr %where, null
  br i1 %used, label %point, label %back
point:
  %p_offset = getelementptr i8, ptr %p_word, i64 $lent_offset
  %offset = load i64, ptr %p_offset, align 8
  %address = load i64, ptr %where, align 8
  %value = add i64 %address, %offset
  store i64 %value, ptr %word, align 8
  br label %after
back:
  %p_home = getelementptr i8, ptr %p_word, i64 $lent_home
  %home = load i64, ptr %p_home, align 8
  store i64 %home, ptr %word, align 8
  store i64 0, ptr %slot, align 8
  br label %after
after:
  br label %next
out:
  ret void
}

; Copies what lies where slots that are not 0 point to into the arena, or the other way: once.
define internal void @carry(ptr %rows, i64 %count, i1 %back) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %after ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %row, label %out
row:
  %i1 = add i64 %i, 1
  %p_home = getelementptr [$carried_words x i64], ptr %rows, i64 %i
  %home = load ptr, ptr %p_home, align 8
  %p_slot = getelementptr i8, ptr %p_home, i64 $carried_slot
  %slot = load ptr, ptr %p_slot, align 8
  %where = load ptr, ptr %slot, align 8
  %used = icmp ne ptr %where, null
  br i1 %used, label %copy, label %after
copy:
  %p_bytes = getelementptr i8, ptr %p_home, i64 $carried_nbytes
  %bytes = load i64, ptr %p_bytes, align 8
  %p_n_planes = getelementptr i8, ptr %p_home, i64 $carried_planes
  %n_planes = load i64, ptr %p_n_planes, align 8
  %p_n_rows = getelementptr i8, ptr %p_home, i64 $carried_rows
  %n_rows = load i64, ptr %p_n_rows, align 8
  %p_plane_stride = getelementptr i8, ptr %p_home, i64 $carried_plane_stride
  %plane_stride = load i64, ptr %p_plane_stride, align 8
  %p_row_stride = getelementptr i8, ptr %p_home, i64 $carried_row_stride
  %row_stride = load i64, ptr %p_row_stride, align 8
  %other = load ptr, ptr %where, align 8
  %whole = and i64 %bytes, -64
  br label %planes
planes:
  %plane = phi i64 [ 0, %copy ], [ %plane1, %ended ]
  %here = phi ptr [ %home, %copy ], [ %here1, %ended ]
  %there = phi ptr [ %other, %copy ], [ %far, %ended ]
  %more = icmp slt i64 %plane, %n_planes
  br i1 %more, label %strips, label %done
strips:
  %strip = phi i64 [ 0, %planes ], [ %strip1, %moved ]
  %near = phi ptr [ %here, %planes ], [ %near1, %moved ]
  %far = phi ptr [ %there, %planes ], [ %far1, %moved ]
  %from = select i1 %back, ptr %near, ptr %far
  %to = select i1 %back, ptr %far, ptr %near
  %another = icmp slt i64 %strip, %n_rows
  br i1 %another, label %lines, label %ended
lines: ; volatile, or it became a call of memcpy, which only a linker could find
  %at = phi i64 [ 0, %strips ], [ %at1, %line ]
  %full = icmp slt i64 %at, %whole
  br i1 %full, label %line, label %rest
line:
  %p_from = getelementptr i8, ptr %from, i64 %at
  %p_into = getelementptr i8, ptr %to, i64 %at
  %some = load volatile <8 x i64>, ptr %p_from, align 1
  store volatile <8 x i64> %some, ptr %p_into, align 1
  %at1 = add i64 %at, 64
  br label %lines
rest:
  %end = phi i64 [ %whole, %lines ], [ %end1, %byte ]
  %over = icmp slt i64 %end, %bytes
  br i1 %over, label %byte, label %moved
byte:
  %p_last = getelementptr i8, ptr %from, i64 %end
  %p_next = getelementptr i8, ptr %to, i64 %end
  %one = load volatile i8, ptr %p_last, align 1
  store volatile i8 %one, ptr %p_next, align 1
  %end1 = add i64 %end, 1
  br label %rest
moved:
  %strip1 = add i64 %strip, 1
  %near1 = getelementptr i8, ptr %near, i64 %row_stride
  %far1 = getelementptr i8, ptr %far, i64 %bytes
  br label %strips
ended:
  %plane1 = add i64 %plane, 1
  %here1 = getelementptr i8, ptr %here, i64 %plane_stride
  br label %planes
done:
  store i64 0, ptr %slot, align 8
  br label %after
after:
  br label %next
out:
  ret void
}
"""
