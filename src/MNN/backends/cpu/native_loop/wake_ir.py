"""LLVM IR of waking workers that sleep, on other processors than the caller's; see ``loop_ir`` for why."""

from __future__ import annotations

WAKE = """
; Wakes worker %id if it sleeps.
define internal void @rouse(ptr %pool, i64 %id) {
  %off = mul i64 %id, $slot_bytes
  %slots = getelementptr i8, ptr %pool, i64 $pool_slots
  %slot = getelementptr i8, ptr %slots, i64 %off
  %seen = load atomic i32, ptr %slot seq_cst, align 4
  %sleeps = icmp eq i32 %seen, 1
  br i1 %sleeps, label %take, label %out
take:
  %was = cmpxchg ptr %slot, i32 1, i32 2 seq_cst monotonic, align 4
  %mine = extractvalue { i32, i1 } %was, 1
  br i1 %mine, label %wake, label %out
wake:
  %p_sys = getelementptr i8, ptr %pool, i64 $pool_syscall
  %sys = load ptr, ptr %p_sys, align 8
  %python = icmp eq ptr %sys, null
  br i1 %python, label %call, label %futex
futex:
  call void @elsewhere(ptr %pool, ptr %slot)
  store atomic i32 0, ptr %slot seq_cst, align 4
  %p_nr = getelementptr i8, ptr %pool, i64 $pool_futex
  %nr = load i64, ptr %p_nr, align 8
  ; FUTEX_WAKE_PRIVATE, one waiter
  %r = call i64 (i64, ...) %sys(i64 %nr, ptr %slot, i64 129, i64 1, i64 0, i64 0, i64 0)
  br label %out
call:
  store atomic i32 0, ptr %slot seq_cst, align 4
  %p_wake = getelementptr i8, ptr %pool, i64 $pool_wake
  %f = load ptr, ptr %p_wake, align 8
  call void %f(i64 %id)
  br label %out
out:
  ret void
}

; Keeps a sleeping worker off this processor when it wakes, if it may run on any other.
define internal void @elsewhere(ptr %pool, ptr %slot) {
entry:
  %others = alloca [16 x i64], align 8
  %p_getcpu = getelementptr i8, ptr %pool, i64 $pool_getcpu
  %getcpu = load ptr, ptr %p_getcpu, align 8
  %unknown = icmp eq ptr %getcpu, null
  br i1 %unknown, label %out, label %ask
ask:
  %here = call i32 %getcpu()
  %known = icmp ult i32 %here, 1024
  br i1 %known, label %read, label %out
read:
  %p_sys = getelementptr i8, ptr %pool, i64 $pool_syscall
  %sys = load ptr, ptr %p_sys, align 8
  %p_get = getelementptr i8, ptr %pool, i64 $pool_getaffinity
  %get = load i64, ptr %p_get, align 8
  %p_thread = getelementptr i8, ptr %slot, i64 $slot_thread
  %thread = load i64, ptr %p_thread, align 8
  %mask = getelementptr i8, ptr %slot, i64 $slot_mask
  %bytes = call i64 (i64, ...) %sys(i64 %get, i64 %thread, i64 $line, ptr %mask)
  %got = icmp sgt i64 %bytes, 0
  br i1 %got, label %copy_start, label %out
copy_start:
  %here64 = zext i32 %here to i64
  %word = lshr i64 %here64, 6
  %bit = and i64 %here64, 63
  %only = shl i64 1, %bit
  %without = xor i64 %only, -1
  %words = lshr i64 %bytes, 3
  br label %copy
copy:
  %i = phi i64 [ 0, %copy_start ], [ %i1, %copy ]
  %any = phi i64 [ 0, %copy_start ], [ %any1, %copy ]
  %from = getelementptr i64, ptr %mask, i64 %i
  %to = getelementptr i64, ptr %others, i64 %i
  %m = load i64, ptr %from, align 8
  %own = icmp eq i64 %i, %word
  %m1 = and i64 %m, %without
  %m2 = select i1 %own, i64 %m1, i64 %m
  store i64 %m2, ptr %to, align 8
  %any1 = or i64 %any, %m2
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %words
  br i1 %more, label %copy, label %copied
copied:
  %nowhere = icmp eq i64 %any1, 0
  br i1 %nowhere, label %out, label %write
write:
  %p_set = getelementptr i8, ptr %pool, i64 $pool_setaffinity
  %set = load i64, ptr %p_set, align 8
  %r = call i64 (i64, ...) %sys(i64 %set, i64 %thread, i64 %bytes, ptr %others)
  %p_restore = getelementptr i8, ptr %slot, i64 $slot_restore
  store i64 %bytes, ptr %p_restore, align 8
  br label %out
out:
  ret void
}

; Wakes the sleepers among workers 1 <= id < %limit.
define internal void @rouse_all(ptr %pool, i64 %limit) {
entry:
  br label %head
head:
  %id = phi i64 [ 1, %entry ], [ %id1, %body ]
  %more = icmp slt i64 %id, %limit
  br i1 %more, label %body, label %out
body:
  call void @rouse(ptr %pool, i64 %id)
  %id1 = add i64 %id, 1
  br label %head
out:
  ret void
}
"""
