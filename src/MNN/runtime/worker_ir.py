"""LLVM IR of claiming blocks, of a parked worker, and of burning time; see ``loop_ir`` for how they play together."""

from __future__ import annotations

CLAIM = """
; Runs chunks of the open command until none is left; returns how many. %id is 0 for the caller.
define internal i64 @work(ptr %pool, i64 %id) {
entry:
  %p_limit = getelementptr i8, ptr %pool, i64 $pool_limit
  %p_fn = getelementptr i8, ptr %pool, i64 $pool_fn
  %p_args = getelementptr i8, ptr %pool, i64 $pool_args
  %p_blocks = getelementptr i8, ptr %pool, i64 $pool_blocks
  %p_grain = getelementptr i8, ptr %pool, i64 $pool_grain
  %p_chunks = getelementptr i8, ptr %pool, i64 $pool_chunks
  %p_scratch = getelementptr i8, ptr %pool, i64 $pool_scratch
  %p_stride = getelementptr i8, ptr %pool, i64 $pool_stride
  br label %next
next:
  %count = phi i64 [ 0, %entry ], [ %count, %lost ], [ %count1, %won ]
  %c = load atomic i64, ptr %pool acquire, align 8
  %left = and i64 %c, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %out, label %describe
describe:
  %limit = load atomic i64, ptr %p_limit monotonic, align 8
  %fn = load atomic ptr, ptr %p_fn monotonic, align 8
  %args = load atomic ptr, ptr %p_args monotonic, align 8
  %blocks = load atomic i64, ptr %p_blocks monotonic, align 8
  %grain = load atomic i64, ptr %p_grain monotonic, align 8
  %chunks = load atomic i64, ptr %p_chunks monotonic, align 8
  %scratch = load atomic ptr, ptr %p_scratch monotonic, align 8
  %stride = load atomic i64, ptr %p_stride monotonic, align 8
  %wanted = icmp slt i64 %id, %limit
  br i1 %wanted, label %try, label %out
try:
  %c1 = sub i64 %c, 1
  %pair = cmpxchg ptr %pool, i64 %c, i64 %c1 acq_rel monotonic, align 8
  %ok = extractvalue { i64, i1 } %pair, 1
  br i1 %ok, label %won, label %lost
lost:
  br label %next
won:
  %index = sub i64 %chunks, %left
  %begin = mul i64 %index, %grain
  %end0 = add i64 %begin, %grain
  %over = icmp sgt i64 %end0, %blocks
  %end = select i1 %over, i64 %blocks, i64 %end0
  %offset = mul i64 %id, %stride
  %mine = getelementptr i8, ptr %scratch, i64 %offset
  call void %fn(ptr %args, i64 %begin, i64 %end, ptr %mine)
  %count1 = add i64 %count, 1
  br label %next
out:
  ret i64 %count
}

; Lets another thread of this machine have the core.
define internal void @give_way(ptr %pool) {
  %p = getelementptr i8, ptr %pool, i64 $pool_give_way
  %f = load ptr, ptr %p, align 8
  %none = icmp eq ptr %f, null
  br i1 %none, label %pause, label %call
call:
  %r = call i32 %f()
  ret void
pause:
  $pause
  ret void
}
"""

WORKER = """
; Returns when the pool stops, and when Python is to put the thread to sleep.
define void @kernel(ptr %pool, i64 %id, i64 %unused0, ptr %unused1) {
entry:
  %off = mul i64 %id, $slot_bytes
  %slots = getelementptr i8, ptr %pool, i64 $pool_slots
  %slot = getelementptr i8, ptr %slots, i64 %off
  $save
  $flush
  %p_thread = getelementptr i8, ptr %slot, i64 $slot_thread
  %p_restore = getelementptr i8, ptr %slot, i64 $slot_restore
  %mask = getelementptr i8, ptr %slot, i64 $slot_mask
  %p_set = getelementptr i8, ptr %pool, i64 $pool_setaffinity
  %p_stop = getelementptr i8, ptr %pool, i64 $pool_stop
  %p_done = getelementptr i8, ptr %pool, i64 $pool_done
  %p_active = getelementptr i8, ptr %pool, i64 $pool_active
  %p_limit = getelementptr i8, ptr %pool, i64 $pool_limit
  %p_spin = getelementptr i8, ptr %pool, i64 $pool_spin
  %p_linger = getelementptr i8, ptr %pool, i64 $pool_linger
  %p_sys = getelementptr i8, ptr %pool, i64 $pool_syscall
  %p_nr = getelementptr i8, ptr %pool, i64 $pool_futex
  br label %wake
wake: ; by itself unless somebody is about to wake it
  %mine0 = cmpxchg ptr %slot, i32 1, i32 0 seq_cst seq_cst, align 4
  %state = extractvalue { i32, i1 } %mine0, 0
  %held = icmp eq i32 %state, 2
  br i1 %held, label %hold, label %awake
hold:
  $pause
  br label %wake
awake:
  %bytes = load i64, ptr %p_restore, align 8
  %moved = icmp ne i64 %bytes, 0
  br i1 %moved, label %restore, label %fresh
restore:
  %sys0 = load ptr, ptr %p_sys, align 8
  %set = load i64, ptr %p_set, align 8
  %thread = load i64, ptr %p_thread, align 8
  %r0 = call i64 (i64, ...) %sys0(i64 %set, i64 %thread, i64 %bytes, ptr %mask)
  store i64 0, ptr %p_restore, align 8
  br label %fresh
fresh:
  br label %look
look:
  %n = phi i64 [ 0, %fresh ], [ 0, %report ], [ %n1, %idle ], [ %n1, %linger ]
  %stop = load atomic i64, ptr %p_stop acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %leave, label %try
try:
  %count = call i64 @work(ptr %pool, i64 %id)
  %worked = icmp ne i64 %count, 0
  br i1 %worked, label %report, label %rest
report:
  %d = atomicrmw add ptr %p_done, i64 %count release, align 8
  br label %look
rest:
  %n1 = add i64 %n, 1
  %spin = load i64, ptr %p_spin, align 8
  %short = icmp ult i64 %n1, %spin
  br i1 %short, label %idle, label %tired
idle:
  $pause
  br label %look
tired:
  %active = load atomic i64, ptr %p_active monotonic, align 8
  %linger_for = load i64, ptr %p_linger, align 8
  %most = add i64 %spin, %linger_for
  %within = icmp ult i64 %n1, %most
  %running = icmp ne i64 %active, 0
  %stay = and i1 %within, %running
  br i1 %stay, label %linger, label %park
linger:
  call void @give_way(ptr %pool)
  br label %look
park:
  %old = atomicrmw xchg ptr %slot, i32 1 seq_cst, align 4
  %c = load atomic i64, ptr %pool seq_cst, align 8
  %left = and i64 %c, 4294967295
  %open = icmp ne i64 %left, 0
  %limit = load atomic i64, ptr %p_limit monotonic, align 8
  %mine = icmp slt i64 %id, %limit
  %work = and i1 %open, %mine
  %stop2 = load atomic i64, ptr %p_stop seq_cst, align 8
  %stopping = icmp ne i64 %stop2, 0
  %up = or i1 %work, %stopping
  br i1 %up, label %wake, label %sleep
sleep:
  %sys = load ptr, ptr %p_sys, align 8
  %python = icmp eq ptr %sys, null
  br i1 %python, label %out, label %futex
futex:
  %nr = load i64, ptr %p_nr, align 8
  ; FUTEX_WAIT_PRIVATE while asleep is 1, no time limit
  %r = call i64 (i64, ...) %sys(i64 %nr, ptr %slot, i64 128, i64 1, i64 0, i64 0, i64 0)
  br label %wake
leave:
  $restore
  ret void
out:
  $restore
  ret void
}
"""

SPIN = """
define void @kernel(ptr %pool, i64 %count, i64 %yielding, ptr %unused) {
entry:
  %yields = icmp ne i64 %yielding, 0
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %pause ], [ %i1, %yield ]
  %i1 = add i64 %i, 1
  %done = icmp sge i64 %i, %count
  br i1 %done, label %out, label %body
body:
  %nothing = call i64 @work(ptr %pool, i64 $never)
  br i1 %yields, label %yield, label %pause
pause:
  $pause
  br label %head
yield:
  call void @give_way(ptr %pool)
  br label %head
out:
  ret void
}
"""
