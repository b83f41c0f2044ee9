"""LLVM IR of the entries that move numbers: parts, other orders, arrays joined, and what numpy is given."""

from __future__ import annotations

from MNN.expr.arrays.native.entries_ir import HEAD, TAIL

SHARED = """
define ptr @kernel(ptr %self, ptr %args, i64 %n, ptr %names) {
entry:
  %e = call ptr @data(ptr %self)
  %c = load ptr, ptr %e, align 8
  %alone = icmp eq i64 %n, 1
  %unnamed = icmp eq ptr %names, null
  %plain = and i1 %alone, %unnamed
  br i1 %plain, label %look, label %slow
look:
  %x = load ptr, ptr %args, align 8
  %a = call ptr @numbers_now(ptr %c, ptr %x)
  %no_a = icmp eq ptr %a, null
  br i1 %no_a, label %slow, label %view
view:
  %element = call ptr @element(ptr %a)
  %p_retain = getelementptr i8, ptr %c, i64 $retain
  %retain = load ptr, ptr %p_retain, align 8
  call void %retain(ptr %element)
  %p_array = getelementptr i8, ptr %c, i64 $array
  %array = load ptr, ptr %p_array, align 8
  %rank = call i32 @rank(ptr %a)
  %sizes = call ptr @extents(ptr %a)
  %p_strides = getelementptr i8, ptr %a, i64 $STRIDES
  %strides = load ptr, ptr %p_strides, align 8
  %from = call ptr @data(ptr %a)
  %p_make = getelementptr i8, ptr %c, i64 $make
  %make = load ptr, ptr %p_make, align 8
  ; aligned, and dense; not to be written to
  %r = call ptr %make(ptr %array, ptr %element, i32 %rank, ptr %sizes, ptr %strides, ptr %from, i32 257, ptr null)
  %failed = icmp eq ptr %r, null
  br i1 %failed, label %none, label %base
base:
  call void %retain(ptr %a)
  %p_set = getelementptr i8, ptr %c, i64 $set_base
  %set = load ptr, ptr %p_set, align 8
  %code = call i32 %set(ptr %r, ptr %a)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %lost, label %good
good:
  ret ptr %r
lost:
  call void @drop(ptr %c, ptr %r)
  ret ptr null
none:
  ret ptr null
slow:
  %p_slow = getelementptr i8, ptr %e, i64 8
  %usual = load ptr, ptr %p_slow, align 8
  %p_call = getelementptr i8, ptr %c, i64 $call_named
  %call = load ptr, ptr %p_call, align 8
  %answer = call ptr %call(ptr %usual, ptr %args, i64 %n, ptr %names)
  ret ptr %answer
}
"""
MOVED = (
    HEAD.replace("$rooms", "").replace("$operands", "2")
    + """
  %a = call ptr @numbers_now(ptr %c, ptr %x)
  %no_a = icmp eq ptr %a, null
  br i1 %no_a, label %slow, label %typed
typed:
  %rank = call i32 @rank(ptr %a)
  %matrix = icmp eq i32 %rank, 2
  %p_y = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %p_y, align 8
  %p_none = getelementptr i8, ptr %c, i64 $none
  %none = load ptr, ptr %p_none, align 8
  %unnamed = icmp eq ptr %y, %none
  %size = call i64 @count(ptr %a)
  %p_limit = getelementptr i8, ptr %e, i64 24
  %limit = load i64, ptr %p_limit, align 8
  %small = icmp sle i64 %size, %limit
  %sized = and i1 %matrix, %small
  %able = and i1 %sized, %unnamed
  br i1 %able, label %turn, label %slow
turn:
  %p_transpose = getelementptr i8, ptr %c, i64 $transpose
  %transpose = load ptr, ptr %p_transpose, align 8
  %t = call ptr %transpose(ptr %a, ptr null)
  %no_t = icmp eq ptr %t, null
  br i1 %no_t, label %failed, label %copy
copy:
  %p_copy = getelementptr i8, ptr %c, i64 $copy
  %copied = load ptr, ptr %p_copy, align 8
  %r = call ptr %copied(ptr %t, i32 0)
  call void @drop(ptr %c, ptr %t)
  %no_r = icmp eq ptr %r, null
  br i1 %no_r, label %failed, label %wrap
wrap:
  %layout = call ptr @layout(ptr %c, ptr %x)
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
"""
    + TAIL
)
PART = (
    HEAD.replace("$rooms", "").replace("$operands", "2")
    + """
  %a = call ptr @numbers_now(ptr %c, ptr %x)
  %no_a = icmp eq ptr %a, null
  br i1 %no_a, label %slow, label %typed
typed:
  %rank = call i32 @rank(ptr %a)
  %p_key = getelementptr ptr, ptr %args, i64 1
  %key = load ptr, ptr %p_key, align 8
  %whole = call i1 @is(ptr %c, ptr %key, i64 $int)
  br i1 %whole, label %row, label %other
row:  ; of a vector: a single number
  %rows = icmp sgt i32 %rank, 1
  br i1 %rows, label %take, label %slow
other:
  %cut = call i1 @is(ptr %c, ptr %key, i64 $slice)
  br i1 %cut, label %take, label %tuple
tuple:
  %is_tuple = call i1 @is(ptr %c, ptr %key, i64 $tuple)
  br i1 %is_tuple, label %count, label %slow
count:
  %p_size = getelementptr i8, ptr %c, i64 $tuple_size
  %size_of = load ptr, ptr %p_size, align 8
  %size = call i64 %size_of(ptr %key)
  %p_item = getelementptr i8, ptr %c, i64 $tuple_item
  %item = load ptr, ptr %p_item, align 8
  br label %key_head
key_head:
  %i = phi i64 [ 0, %count ], [ %i1, %key_next ]
  %cuts = phi i1 [ false, %count ], [ %cuts1, %key_next ]
  %go = icmp slt i64 %i, %size
  br i1 %go, label %key_one, label %key_out
key_one:
  %k = call ptr %item(ptr %key, i64 %i)
  %k_whole = call i1 @is(ptr %c, ptr %k, i64 $int)
  %k_slice = call i1 @is(ptr %c, ptr %k, i64 $slice)
  %k_good = or i1 %k_whole, %k_slice
  br i1 %k_good, label %key_next, label %slow
key_next:
  %cuts1 = or i1 %cuts, %k_slice
  %i1 = add i64 %i, 1
  br label %key_head
key_out:
  br i1 %cuts, label %take, label %slow
take:
  %p_get = getelementptr i8, ptr %c, i64 $item
  %get = load ptr, ptr %p_get, align 8
  %t = call ptr %get(ptr %a, ptr %key)
  %no_t = icmp eq ptr %t, null
  br i1 %no_t, label %refused, label %copy
refused:
  call void @forget(ptr %c)
  br label %slow
copy:
  %p_copy = getelementptr i8, ptr %c, i64 $copy
  %copied = load ptr, ptr %p_copy, align 8
  %r = call ptr %copied(ptr %t, i32 0)
  call void @drop(ptr %c, ptr %t)
  %no_r = icmp eq ptr %r, null
  br i1 %no_r, label %failed, label %wrap
wrap:
  %layout = call ptr @layout(ptr %c, ptr %x)
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
"""
    + TAIL
)
JOINED = (
    HEAD.replace("$rooms", "%room = alloca float, align 4\n  %length = alloca [8 x i64], align 8").replace(
        "$operands", "2"
    )
    + """
  %p_axis = getelementptr ptr, ptr %args, i64 1
  %axis = load ptr, ptr %p_axis, align 8
  %p_zero = getelementptr i8, ptr %c, i64 $zero
  %zero = load ptr, ptr %p_zero, align 8
  %outer = icmp eq ptr %axis, %zero
  %list = call i1 @is(ptr %c, ptr %x, i64 $list)
  %tuple = call i1 @is(ptr %c, ptr %x, i64 $tuple)
  %row = or i1 %list, %tuple
  %able = and i1 %row, %outer
  br i1 %able, label %count, label %slow
count:
  %at_size = select i1 %list, i64 $list_size, i64 $tuple_size
  %p_size = getelementptr i8, ptr %c, i64 %at_size
  %size_of = load ptr, ptr %p_size, align 8
  %parts = call i64 %size_of(ptr %x)
  %at_item = select i1 %list, i64 $list_item, i64 $tuple_item
  %p_item = getelementptr i8, ptr %c, i64 %at_item
  %item = load ptr, ptr %p_item, align 8
  %several = icmp sgt i64 %parts, 0
  br i1 %several, label %first_part, label %slow
first_part:
  %y = call ptr %item(ptr %x, i64 0)
  %a = call ptr @numbers_now(ptr %c, ptr %y)
  %no_a = icmp eq ptr %a, null
  br i1 %no_a, label %slow, label %typed
typed:
  %element = call ptr @element(ptr %a)
  %layout = call ptr @layout(ptr %c, ptr %y)
  %k = call i64 @kind(ptr %c, ptr %element)
  %known = icmp sge i64 %k, 0
  %rank = call i32 @rank(ptr %a)
  %axes = icmp sge i32 %rank, 1
  %few_axes = icmp sle i32 %rank, 8
  %axes_fit = and i1 %axes, %few_axes
  %start = and i1 %known, %axes_fit
  br i1 %start, label %look, label %slow
look:
  %i = phi i64 [ 0, %typed ], [ %i1, %fits ]
  %rows = phi i64 [ 0, %typed ], [ %rows1, %fits ]
  %more = icmp slt i64 %i, %parts
  br i1 %more, label %part, label %looked
part:
  %z = call ptr %item(ptr %x, i64 %i)
  %b = call ptr @numbers_now(ptr %c, ptr %z)
  %no_b = icmp eq ptr %b, null
  br i1 %no_b, label %slow, label %meet
meet:
  %element_b = call ptr @element(ptr %b)
  %layout_b = call ptr @layout(ptr %c, ptr %z)
  %same = icmp eq ptr %element, %element_b
  %laid = icmp eq ptr %layout, %layout_b
  %alike = call i1 @alike(ptr %a, ptr %b, i64 1)
  %one = and i1 %same, %laid
  %all = and i1 %one, %alike
  br i1 %all, label %fits, label %slow
fits:
  %sizes_b = call ptr @extents(ptr %b)
  %rows_b = load i64, ptr %sizes_b, align 8
  %rows1 = add i64 %rows, %rows_b
  %i1 = add i64 %i, 1
  br label %look
looked:
  %sizes = call ptr @extents(ptr %a)
  %rank64 = sext i32 %rank to i64
  %size_bytes = mul i64 %rank64, 8
  call void @copied(ptr %length, ptr %sizes, i64 %size_bytes)
  store i64 %rows, ptr %length, align 8
  %count_r = call i64 @product_of(ptr %length, i64 %rank64)
  %p_most = getelementptr i8, ptr %c, i64 $few
  %most = load i64, ptr %p_most, align 8
  %little = icmp sle i64 %count_r, %most
  br i1 %little, label %make, label %slow
make:
  %r = call ptr @fresh(ptr %c, ptr %element, i32 %rank, ptr %length)
  %none = icmp eq ptr %r, null
  br i1 %none, label %failed, label %run
run:
  %long = lshr i64 %k, 1
  %width = shl i64 4, %long
  %to = call ptr @data(ptr %r)
  br label %copy
copy:
  %j = phi i64 [ 0, %run ], [ %j1, %copy_one ]
  %at = phi ptr [ %to, %run ], [ %at1, %copy_one ]
  %left = icmp slt i64 %j, %parts
  br i1 %left, label %copy_one, label %wrap
copy_one:
  %w = call ptr %item(ptr %x, i64 %j)
  %d = call ptr @numbers_now(ptr %c, ptr %w)
  %from = call ptr @data(ptr %d)
  %elements = call i64 @count(ptr %d)
  %bytes = mul i64 %elements, %width
  call void @copied(ptr %at, ptr %from, i64 %bytes)
  %at1 = getelementptr i8, ptr %at, i64 %bytes
  %j1 = add i64 %j, 1
  br label %copy
wrap:
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
"""
    + TAIL
)
__all__ = ["JOINED", "MOVED", "PART", "SHARED"]
