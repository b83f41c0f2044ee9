"""LLVM IR of what is lent for a run: words that say where inputs and outputs lie (:class:`MNN.runtime.native.Lent`)."""

LEND = """
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
  %p_word = getelementptr [4 x i64], ptr %rows, i64 %i
  %word = load ptr, ptr %p_word, align 8
  %p_slot = getelementptr i8, ptr %p_word, i64 8
  %slot = load ptr, ptr %p_slot, align 8
  br i1 %begins, label %ask, label %back
ask:
  %where = load ptr, ptr %slot, align 8
  %used = icmp ne ptr %where, null
  br i1 %used, label %point, label %back
point:
  %p_offset = getelementptr i8, ptr %p_word, i64 16
  %offset = load i64, ptr %p_offset, align 8
  %address = load i64, ptr %where, align 8
  %value = add i64 %address, %offset
  store i64 %value, ptr %word, align 8
  br label %after
back:
  %p_home = getelementptr i8, ptr %p_word, i64 24
  %home = load i64, ptr %p_home, align 8
  store i64 %home, ptr %word, align 8
  store i64 0, ptr %slot, align 8
  br label %after
after:
  br label %next
out:
  ret void
}
"""
