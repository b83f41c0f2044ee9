"""LLVM IR of what follows from open sizes: computed, and written to where it is read, in one call."""

SIGNS = ("number", "+", "*", "//", "max", "min")
"""What a step does, by its number: gives the number ``x`` itself, or computes with the values of numbers ``x`` and
``y``. Quotients are rounded down."""

OPEN_WORDS = """
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %values = load ptr, ptr %args, align 8
  %p_steps = getelementptr i8, ptr %args, i64 $open_steps
  %steps = load ptr, ptr %p_steps, align 8
  %p_step_count = getelementptr i8, ptr %args, i64 $open_step_count
  %step_count = load i64, ptr %p_step_count, align 8
  %p_first = getelementptr i8, ptr %args, i64 $open_first
  %first = load i64, ptr %p_first, align 8
  %p_words = getelementptr i8, ptr %args, i64 $open_written
  %words = load ptr, ptr %p_words, align 8
  %p_word_count = getelementptr i8, ptr %args, i64 $open_written_count
  %word_count = load i64, ptr %p_word_count, align 8
  %made = getelementptr i64, ptr %values, i64 %first
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %store ]
  %left = icmp slt i64 %i, %step_count
  br i1 %left, label %step, label %write
step:
  %i1 = add i64 %i, 1
  %p_step = getelementptr [$step_words x i64], ptr %steps, i64 %i
  %sign = load i64, ptr %p_step, align 8
  %p_x = getelementptr i8, ptr %p_step, i64 $step_x
  %x = load i64, ptr %p_x, align 8
  %plain = icmp eq i64 %sign, 0 ; a number
  br i1 %plain, label %store, label %operands
operands:
  %p_y = getelementptr i8, ptr %p_step, i64 $step_y
  %y = load i64, ptr %p_y, align 8
  %at_x = getelementptr i64, ptr %values, i64 %x
  %left_value = load i64, ptr %at_x, align 8
  %at_y = getelementptr i64, ptr %values, i64 %y
  %right_value = load i64, ptr %at_y, align 8
  switch i64 %sign, label %sum [
    i64 2, label %product
    i64 3, label %quotient
    i64 4, label %most
    i64 5, label %least
  ]
sum:
  %added = add i64 %left_value, %right_value
  br label %store
product:
  %multiplied = mul i64 %left_value, %right_value
  br label %store
quotient:
  %towards_zero = sdiv i64 %left_value, %right_value
  %rest = srem i64 %left_value, %right_value
  %below = icmp slt i64 %rest, 0
  %one = zext i1 %below to i64
  %down = sub i64 %towards_zero, %one
  br label %store
most:
  %larger = icmp sgt i64 %left_value, %right_value
  %high = select i1 %larger, i64 %left_value, i64 %right_value
  br label %store
least:
  %smaller = icmp slt i64 %left_value, %right_value
  %low = select i1 %smaller, i64 %left_value, i64 %right_value
  br label %store
store:
  %value = phi i64 [ %x, %step ], [ %added, %sum ], [ %multiplied, %product ], [ %down, %quotient ], [ %high, %most ],
                   [ %low, %least ]
  %p_value = getelementptr i64, ptr %made, i64 %i
  store i64 %value, ptr %p_value, align 8
  br label %next
write:
  %w = phi i64 [ 0, %next ], [ %w1, %word ]
  %more = icmp slt i64 %w, %word_count
  br i1 %more, label %word, label %out
word:
  %w1 = add i64 %w, 1
  %p_word = getelementptr [$opened_words x i64], ptr %words, i64 %w
  %where = load ptr, ptr %p_word, align 8
  %p_which = getelementptr i8, ptr %p_word, i64 $opened_value
  %which = load i64, ptr %p_which, align 8
  %p_base = getelementptr i8, ptr %p_word, i64 $opened_base
  %base = load i64, ptr %p_base, align 8
  %p_found = getelementptr i64, ptr %values, i64 %which
  %found = load i64, ptr %p_found, align 8
  %whole = add i64 %base, %found
  store i64 %whole, ptr %where, align 8
  br label %write
out:
  ret void
}
"""
