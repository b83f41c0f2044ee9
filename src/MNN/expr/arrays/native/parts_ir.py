"""LLVM IR of what the entries have in common: reading operands, making results, leaving to Python what is unusual.

``%c`` is the address of the record of all entries, ``%e`` that of an entry's own."""

from __future__ import annotations

_FIELDS = "".join(
    f"""
define internal {kind} @{name}(ptr %a) {{
  %p = getelementptr i8, ptr %a, i64 ${place}
  %found = load {kind}, ptr %p, align {size}
  ret {kind} %found
}}
"""
    for kind, name, place, size in (
        ("ptr", "element", "ELEMENT", 8),
        ("ptr", "data", "DATA", 8),
        ("i32", "rank", "RANK", 4),
        ("ptr", "extents", "EXTENTS", 8),
    )
)
"""What an array says of itself."""
PARTS = (
    _FIELDS
    + """
; The array of a Var without a node, if it is dense, aligned and of Python's very types; else null.
define internal ptr @numbers(ptr %c, ptr %x) {
  %p_type = getelementptr i8, ptr %x, i64 $TYPE
  %type = load ptr, ptr %p_type, align 8
  %p_var = getelementptr i8, ptr %c, i64 $var
  %var = load ptr, ptr %p_var, align 8
  %is_var = icmp eq ptr %type, %var
  br i1 %is_var, label %look, label %no
look:
  %p_at = getelementptr i8, ptr %c, i64 $at_few
  %at = load i64, ptr %p_at, align 8
  %p_few = getelementptr i8, ptr %x, i64 %at
  %a = load ptr, ptr %p_few, align 8
  %p_none = getelementptr i8, ptr %c, i64 $none
  %none = load ptr, ptr %p_none, align 8
  %unset = icmp eq ptr %a, null
  %is_none = icmp eq ptr %a, %none
  %absent = or i1 %unset, %is_none
  br i1 %absent, label %no, label %held
held:
  %p_a_type = getelementptr i8, ptr %a, i64 $TYPE
  %a_type = load ptr, ptr %p_a_type, align 8
  %p_array = getelementptr i8, ptr %c, i64 $array
  %array = load ptr, ptr %p_array, align 8
  %is_array = icmp eq ptr %a_type, %array
  %p_flags = getelementptr i8, ptr %a, i64 $FLAGS
  %flags = load i32, ptr %p_flags, align 4
  %both = and i32 %flags, 257
  %dense = icmp eq i32 %both, 257
  %good = and i1 %is_array, %dense
  br i1 %good, label %yes, label %no
yes:
  ret ptr %a
no:
  ret ptr null
}

; The slot of a Var that says in which order its sizes are.
define internal ptr @layout(ptr %c, ptr %x) {
  %p_at = getelementptr i8, ptr %c, i64 $at_layout
  %at = load i64, ptr %p_at, align 8
  %p = getelementptr i8, ptr %x, i64 %at
  %found = load ptr, ptr %p, align 8
  ret ptr %found
}

; Where the size of the last axis is, if there is an axis.
define internal ptr @last(ptr %a) {
  %sizes = call ptr @extents(ptr %a)
  %rank = call i32 @rank(ptr %a)
  %n = sext i32 %rank to i64
  %at = sub i64 %n, 1
  %found = getelementptr i64, ptr %sizes, i64 %at
  ret ptr %found
}

define internal i64 @product_of(ptr %sizes, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %body ]
  %all = phi i64 [ 1, %entry ], [ %more, %body ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %out
body:
  %p = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %p, align 8
  %more = mul i64 %all, %size
  %i1 = add i64 %i, 1
  br label %head
out:
  ret i64 %all
}

define internal i64 @count(ptr %a) {
  %sizes = call ptr @extents(ptr %a)
  %rank = call i32 @rank(ptr %a)
  %n = sext i32 %rank to i64
  %all = call i64 @product_of(ptr %sizes, i64 %n)
  ret i64 %all
}

; Whether two arrays have the same sizes from the axis %from on.
define internal i1 @alike(ptr %a, ptr %b, i64 %from) {
entry:
  %ra = call i32 @rank(ptr %a)
  %rb = call i32 @rank(ptr %b)
  %ranks = icmp eq i32 %ra, %rb
  %n = sext i32 %ra to i64
  %sa = call ptr @extents(ptr %a)
  %sb = call ptr @extents(ptr %b)
  br i1 %ranks, label %head, label %no
head:
  %i = phi i64 [ %from, %entry ], [ %i1, %body ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %yes
body:
  %pa = getelementptr i64, ptr %sa, i64 %i
  %pb = getelementptr i64, ptr %sb, i64 %i
  %va = load i64, ptr %pa, align 8
  %vb = load i64, ptr %pb, align 8
  %i1 = add i64 %i, 1
  %same = icmp eq i64 %va, %vb
  br i1 %same, label %head, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; The number of an element type; -1 for others.
define internal i64 @kind(ptr %c, ptr %element) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %at = add i64 %i, $kinds_at
  %p = getelementptr i64, ptr %c, i64 %at
  %known = load ptr, ptr %p, align 8
  %same = icmp eq ptr %known, %element
  br i1 %same, label %out, label %next
next:
  %i1 = add i64 %i, 1
  %go = icmp slt i64 %i1, 4
  br i1 %go, label %head, label %out
out:
  %found = phi i64 [ %i, %head ], [ -1, %next ]
  ret i64 %found
}

; A plain number that meets f32, stored in %room: not a whole one of more than 24 bits.
define internal i1 @plain(ptr %c, ptr %x, ptr %room) {
  %p_type = getelementptr i8, ptr %x, i64 $TYPE
  %type = load ptr, ptr %p_type, align 8
  %p_float = getelementptr i8, ptr %c, i64 $float
  %float = load ptr, ptr %p_float, align 8
  %is_real = icmp eq ptr %type, %float
  br i1 %is_real, label %real, label %other
real:
  %p_get = getelementptr i8, ptr %c, i64 $real
  %get = load ptr, ptr %p_get, align 8
  %d = call double %get(ptr %x)
  %f = fptrunc double %d to float
  store float %f, ptr %room, align 4
  ret i1 true
other:
  %p_int = getelementptr i8, ptr %c, i64 $int
  %int = load ptr, ptr %p_int, align 8
  %is_whole = icmp eq ptr %type, %int
  br i1 %is_whole, label %whole, label %no
whole:
  %p_get_whole = getelementptr i8, ptr %c, i64 $whole
  %get_whole = load ptr, ptr %p_get_whole, align 8
  %n = call i64 %get_whole(ptr %x)
  %far = icmp eq i64 %n, -1
  br i1 %far, label %doubtful, label %limits
doubtful:  ; -1, or more than 64 bits
  %p_clear = getelementptr i8, ptr %c, i64 $clear
  %clear = load ptr, ptr %p_clear, align 8
  call void %clear()
  br label %no
limits:
  %moved = add i64 %n, 16777216
  %fits = icmp ule i64 %moved, 33554432
  br i1 %fits, label %store, label %no
store:
  %g = sitofp i64 %n to float
  store float %g, ptr %room, align 4
  ret i1 true
no:
  ret i1 false
}

; A new array; null with an exception where there is no memory.
define internal ptr @fresh(ptr %c, ptr %element, i32 %rank, ptr %sizes) {
  %p_retain = getelementptr i8, ptr %c, i64 $retain
  %retain = load ptr, ptr %p_retain, align 8
  call void %retain(ptr %element)
  %p_array = getelementptr i8, ptr %c, i64 $array
  %array = load ptr, ptr %p_array, align 8
  %p_make = getelementptr i8, ptr %c, i64 $make
  %make = load ptr, ptr %p_make, align 8
  %made = call ptr %make(ptr %array, ptr %element, i32 %rank, ptr %sizes, ptr null, ptr null, i32 0, ptr null)
  ret ptr %made
}

; A Var of an array, which is taken over; null with an exception where there is no memory.
define internal ptr @wrapped(ptr %c, ptr %a, ptr %layout) {
  %p_new = getelementptr i8, ptr %c, i64 $new
  %new = load ptr, ptr %p_new, align 8
  %p_var = getelementptr i8, ptr %c, i64 $var
  %var = load ptr, ptr %p_var, align 8
  %v = call ptr %new(ptr %var, i64 0)
  %failed = icmp eq ptr %v, null
  br i1 %failed, label %drop, label %fill
drop:
  call void @drop(ptr %c, ptr %a)
  ret ptr null
fill:
  %p_retain = getelementptr i8, ptr %c, i64 $retain
  %retain = load ptr, ptr %p_retain, align 8
  %p_none = getelementptr i8, ptr %c, i64 $none
  %none = load ptr, ptr %p_none, align 8
  %p_zero = getelementptr i8, ptr %c, i64 $zero
  %zero = load ptr, ptr %p_zero, align 8
  call void %retain(ptr %layout)
  call void %retain(ptr %zero)
  call void %retain(ptr %none)
  %p_at_few = getelementptr i8, ptr %c, i64 $at_few
  %at_few = load i64, ptr %p_at_few, align 8
  %p_at_layout = getelementptr i8, ptr %c, i64 $at_layout
  %at_layout = load i64, ptr %p_at_layout, align 8
  %p_at_index = getelementptr i8, ptr %c, i64 $at_index
  %at_index = load i64, ptr %p_at_index, align 8
  %p_at_unconverted = getelementptr i8, ptr %c, i64 $at_unconverted
  %at_unconverted = load i64, ptr %p_at_unconverted, align 8
  %few = getelementptr i8, ptr %v, i64 %at_few
  store ptr %a, ptr %few, align 8
  %own_layout = getelementptr i8, ptr %v, i64 %at_layout
  store ptr %layout, ptr %own_layout, align 8
  %index = getelementptr i8, ptr %v, i64 %at_index
  store ptr %zero, ptr %index, align 8
  %unconverted = getelementptr i8, ptr %v, i64 %at_unconverted
  store ptr %none, ptr %unconverted, align 8
  ret ptr %v
}

define internal void @drop(ptr %c, ptr %x) {
  %p_release = getelementptr i8, ptr %c, i64 $release
  %release = load ptr, ptr %p_release, align 8
  call void %release(ptr %x)
  ret void
}

define internal void @forget(ptr %c) {
  %p_clear = getelementptr i8, ptr %c, i64 $clear
  %clear = load ptr, ptr %p_clear, align 8
  call void %clear()
  ret void
}

; What Python does with the same arguments.
define internal ptr @usual(ptr %c, ptr %e, ptr %args, i64 %n) {
  %p_slow = getelementptr i8, ptr %e, i64 8
  %slow = load ptr, ptr %p_slow, align 8
  %p_call = getelementptr i8, ptr %c, i64 $call
  %call = load ptr, ptr %p_call, align 8
  %found = call ptr %call(ptr %slow, ptr %args, i64 %n, ptr null)
  ret ptr %found
}

; Whether Vars of constants are computed at once.
define internal i1 @at_once(ptr %c) {
  %p = getelementptr i8, ptr %c, i64 $lazy
  %word = load ptr, ptr %p, align 8
  %lazy = load i64, ptr %word, align 8
  %no = icmp eq i64 %lazy, 0
  ret i1 %no
}

define internal i1 @is(ptr %c, ptr %x, i64 %at) {
  %p_type = getelementptr i8, ptr %x, i64 $TYPE
  %type = load ptr, ptr %p_type, align 8
  %p = getelementptr i8, ptr %c, i64 %at
  %wanted = load ptr, ptr %p, align 8
  %same = icmp eq ptr %type, %wanted
  ret i1 %same
}

define internal void @copied(ptr %to, ptr %from, i64 %bytes) {
entry:
  %wide = and i64 %bytes, -32
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %body ]
  %go = icmp slt i64 %i, %wide
  br i1 %go, label %body, label %tail
body:
  %p = getelementptr i8, ptr %from, i64 %i
  %q = getelementptr i8, ptr %to, i64 %i
  %v = load <32 x i8>, ptr %p, align 1
  store <32 x i8> %v, ptr %q, align 1
  %i1 = add i64 %i, 32
  br label %head
tail:
  %j = phi i64 [ %wide, %head ], [ %j1, %one ]
  %rest = icmp slt i64 %j, %bytes
  br i1 %rest, label %one, label %out
one:
  %pj = getelementptr i8, ptr %from, i64 %j
  %qj = getelementptr i8, ptr %to, i64 %j
  %b = load i8, ptr %pj, align 1
  store i8 %b, ptr %qj, align 1
  %j1 = add i64 %j, 1
  br label %tail
out:
  ret void
}
"""
)

__all__ = ["PARTS"]
