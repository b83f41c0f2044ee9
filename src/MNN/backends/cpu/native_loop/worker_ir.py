"""LLVM IR of claiming blocks, of a parked worker, and of burning time; see ``loop_ir`` for how they play together."""

from __future__ import annotations

CLAIM = """
; The word that says what is left of thread %id's share.
define internal ptr @share_of(ptr %pool, i64 %id) {
  %off = mul i64 %id, $slot_bytes
  %slots = getelementptr i8, ptr %pool, i64 $pool_slots
  %slot = getelementptr i8, ptr %slots, i64 %off
  %word = getelementptr i8, ptr %slot, i64 $slot_share
  ret ptr %word
}

; Runs blocks of the open command until none is left: those of the own share from its begin, then those of other shares
; from their ends; half of what is left at a time, and no less than the grain. Returns how many units of blocks.
; %id is 0 for the caller.
define internal i64 @work(ptr %pool, i64 %id) {
entry:
  %p_team = getelementptr i8, ptr %pool, i64 $pool_team
  %p_fn = getelementptr i8, ptr %pool, i64 $pool_fn
  %p_args = getelementptr i8, ptr %pool, i64 $pool_args
  %p_blocks = getelementptr i8, ptr %pool, i64 $pool_blocks
  %p_grain = getelementptr i8, ptr %pool, i64 $pool_grain
  %p_scratch = getelementptr i8, ptr %pool, i64 $pool_scratch
  %p_stride = getelementptr i8, ptr %pool, i64 $pool_stride
  %team0 = load atomic i64, ptr %p_team monotonic, align 8
  %all = and i64 %team0, 4294967295
  br label %visit
visit: ; the share of thread %whose, after %tried others
  %whose = phi i64 [ %id, %entry ], [ %whose1, %empty ]
  %tried = phi i64 [ 0, %entry ], [ %tried1, %empty ]
  %count0 = phi i64 [ 0, %entry ], [ %count, %empty ]
  %in = icmp slt i64 %whose, %all
  br i1 %in, label %enter, label %out
enter:
  %word = call ptr @share_of(ptr %pool, i64 %whose)
  %own = icmp eq i64 %tried, 0
  br label %next
next:
  %count = phi i64 [ %count0, %enter ], [ %count, %try ], [ %count1, %won ]
  %c = load atomic i64, ptr %word acquire, align 8
  %begin16 = and i64 %c, $share_mask
  %high = lshr i64 %c, $share_bits
  %end16 = and i64 %high, $share_mask
  %any = icmp ult i64 %begin16, %end16
  br i1 %any, label %describe, label %empty
describe:
  %team = load atomic i64, ptr %p_team monotonic, align 8
  %fn = load atomic ptr, ptr %p_fn monotonic, align 8
  %args = load atomic ptr, ptr %p_args monotonic, align 8
  %blocks = load atomic i64, ptr %p_blocks monotonic, align 8
  %grain = load atomic i64, ptr %p_grain monotonic, align 8
  %scratch = load atomic ptr, ptr %p_scratch monotonic, align 8
  %stride = load atomic i64, ptr %p_stride monotonic, align 8
  %limit = and i64 %team, 4294967295
  %unit = lshr i64 %team, 32
  %wanted = icmp slt i64 %id, %limit
  br i1 %wanted, label %try, label %out
try:
  %left = sub i64 %end16, %begin16
  %half = lshr i64 %left, 1
  %take0 = call i64 @llvm.umax.i64(i64 %half, i64 %grain)
  %take = call i64 @llvm.umin.i64(i64 %take0, i64 %left)
  %first = add i64 %c, %take
  %cut = shl i64 %take, $share_bits
  %shorter = sub i64 %c, %cut
  %c1 = select i1 %own, i64 %first, i64 %shorter
  %last = sub i64 %end16, %take
  %index = select i1 %own, i64 %begin16, i64 %last
  %pair = cmpxchg ptr %word, i64 %c, i64 %c1 acq_rel monotonic, align 8
  %ok = extractvalue { i64, i1 } %pair, 1
  br i1 %ok, label %won, label %next
won:
  %index1 = add i64 %index, %take
  %begin = mul i64 %index, %unit
  %end0 = mul i64 %index1, %unit
  %end = call i64 @llvm.umin.i64(i64 %end0, i64 %blocks)
  %offset = mul i64 %id, %stride
  %mine = getelementptr i8, ptr %scratch, i64 %offset
  call void %fn(ptr %args, i64 %begin, i64 %end, ptr %mine)
  %count1 = add i64 %count, %take
  br label %next
empty:
  %tried1 = add i64 %tried, 1
  %after = add i64 %whose, 1
  %wrap = icmp sge i64 %after, %all
  %whose1 = select i1 %wrap, i64 0, i64 %after
  %more = icmp slt i64 %tried1, %all
  br i1 %more, label %visit, label %out
out:
  %done = phi i64 [ %count0, %visit ], [ %count, %describe ], [ %count, %empty ]
  ret i64 %done
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
  %last = alloca i64, align 8
  store i64 0, ptr %last, align 8
  $save
  $flush
  %p_thread = getelementptr i8, ptr %slot, i64 $slot_thread
  %p_restore = getelementptr i8, ptr %slot, i64 $slot_restore
  %mask = getelementptr i8, ptr %slot, i64 $slot_mask
  %p_set = getelementptr i8, ptr %pool, i64 $pool_setaffinity
  %p_stop = getelementptr i8, ptr %pool, i64 $pool_stop
  %p_done = getelementptr i8, ptr %pool, i64 $pool_done
  %p_active = getelementptr i8, ptr %pool, i64 $pool_active
  %p_team = getelementptr i8, ptr %pool, i64 $pool_team
  %p_spin = getelementptr i8, ptr %pool, i64 $pool_spin
  %p_linger = getelementptr i8, ptr %pool, i64 $pool_linger
  %p_after = getelementptr i8, ptr %pool, i64 $pool_after
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
  br i1 %stopped, label %leave, label %see
see:
  %opened = load atomic i64, ptr %pool acquire, align 8
  %known = load i64, ptr %last, align 8
  %new = icmp ne i64 %opened, %known
  br i1 %new, label %try, label %rest
try:
  store i64 %opened, ptr %last, align 8
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
  %after_for = load i64, ptr %p_after, align 8
  %running = icmp ne i64 %active, 0
  %longer = select i1 %running, i64 %linger_for, i64 %after_for
  %most = add i64 %spin, %longer
  %stay = icmp ult i64 %n1, %most
  br i1 %stay, label %linger, label %park
linger:
  call void @give_way(ptr %pool)
  br label %look
park:
  %old = atomicrmw xchg ptr %slot, i32 1 seq_cst, align 4
  %latest = load atomic i64, ptr %pool seq_cst, align 8
  %seen = load i64, ptr %last, align 8
  %open = icmp ne i64 %latest, %seen
  %team = load atomic i64, ptr %p_team monotonic, align 8
  %limit = and i64 %team, 4294967295
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
  %opened = load atomic i64, ptr %pool acquire, align 8
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
