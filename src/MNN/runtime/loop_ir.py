"""LLVM IR of the native loop: what walks a program's commands and what a worker thread runs while it is parked.

Three functions share the kernels' signature, so that they are compiled and cached like kernels:

- ``run`` (args = frame): executes commands of a table in order. A command with more blocks than its grain is shared
  with the workers; every other command is one plain call.
- ``worker`` (args = pool, begin = worker's number): claims blocks of whatever command is open, spins a while when
  there is none, then sleeps.
- ``spin`` (args = pool, begin = count, end = 1 to give way each time): burns time; used to calibrate the spinning.

How a command is shared. One 64-bit ``claim`` word holds a generation (high half) and the number of chunks not yet
claimed (low half). Whoever wants a chunk reads the word, reads the description of the command, and takes the chunk by
compare-and-swap on the whole word: success proves that the description belongs to this generation, because a new
description is only written while nothing is left to claim, and the generation changes before there is again. The
caller takes chunks too, and afterwards waits only for chunks that workers have claimed and not finished. A worker that
is asleep, late or dead therefore costs nothing but its help.

How workers sleep. A worker sets its ``asleep`` word, looks once more for work, and sleeps (on Linux in a futex on that
word; elsewhere it returns to Python, which waits on a semaphore). The caller opens the command first and looks at the
``asleep`` words afterwards, so one of the two always sees the other (both sides sequentially consistent).

How workers wake. Linux likes to wake a thread on the processor of whoever wakes it; as the caller goes on computing
there, the worker would wait behind it for milliseconds while another processor idles. So the caller takes its own
processor out of the sleeper's affinity mask first, and the worker puts the mask back as soon as it runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import string

from MNN.errors import UnsupportedError
from MNN.kernels.spec import KernelSpec
from MNN.targets.base import Target

LINE = 128
"""Bytes between words that different threads write; two cache lines, because some processors fetch them in pairs."""

# The pool's memory. Offsets in bytes; all words are i64 except where noted.
POOL = {
    "claim": 0,
    "busy": 1 * LINE,
    "done": 2 * LINE,
    "active": 3 * LINE,  # runs in progress: workers linger instead of going to sleep
    "fn": 4 * LINE,
    "args": 4 * LINE + 8,
    "blocks": 4 * LINE + 16,
    "grain": 4 * LINE + 24,
    "chunks": 4 * LINE + 32,
    "scratch": 4 * LINE + 40,
    "stride": 4 * LINE + 48,
    "limit": 4 * LINE + 56,  # workers with a number below this take part
    "stop": 5 * LINE,
    "spin": 5 * LINE + 8,  # pauses before a worker sleeps, or before a waiting caller gives way
    "linger": 5 * LINE + 16,  # times a worker gives way during a run before it sleeps all the same
    "syscall": 5 * LINE + 24,  # address of libc's syscall, 0: sleep in Python
    "futex": 5 * LINE + 32,  # its number for futex
    "wake": 5 * LINE + 40,  # address of void wake(i64 worker) when sleeping in Python
    "give_way": 5 * LINE + 48,  # address of sched_yield or the like, 0: none
    "getcpu": 5 * LINE + 56,  # address of sched_getcpu, 0: leave affinity alone
    "getaffinity": 5 * LINE + 64,  # system call numbers
    "setaffinity": 5 * LINE + 72,
    "slots": 6 * LINE,  # then one slot per worker
}
# The slot of a worker.
SLOT = {
    "asleep": 0,  # i32: 0 awake, 1 asleep, 2 somebody is about to wake it
    "thread": 8,  # the system's number of its thread
    "restore": 16,  # bytes of the mask to put back after waking, 0: none
    "mask": LINE,  # its affinity mask: LINE bytes, 1024 processors
}
SLOT_BYTES = 2 * LINE

# The frame of a run: i64 words, all but the last group read-only for the loop.
FRAME = {
    "table": 0,  # rows of four i64: function, arguments, blocks, grain
    "first": 8,
    "last": 16,  # commands first <= i < last
    "pool": 24,  # 0: everything in this thread
    "threads": 32,
    "scratch": 40,
    "stride": 48,  # bytes of scratch per thread
    "times": 56,  # 0, or memory for last - first + 1 clock readings
    "stopped": LINE,  # result: number of the command after which the run stopped early, or last
    "abort": LINE + 8,  # set by the host: stop after this command
    "error": LINE + 16,  # set by kernels: stop after this command
}
FRAME_BYTES = 2 * LINE

PARTS = ("run", "worker", "spin")

_CLAIM = """
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

_RUN = """
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

; One command shared with the workers; returns false, having done nothing, when they serve another run.
define internal i1 @share(ptr %pool, i64 %threads, ptr %scratch, i64 %stride,
                          ptr %fn, ptr %args, i64 %blocks, i64 %grain) {
entry:
  %p_busy = getelementptr i8, ptr %pool, i64 $pool_busy
  %lock = cmpxchg ptr %p_busy, i64 0, i64 1 acquire monotonic, align 8
  %free = extractvalue { i64, i1 } %lock, 1
  br i1 %free, label %open, label %refuse
refuse:
  ret i1 false
open:
  %p_done = getelementptr i8, ptr %pool, i64 $pool_done
  %p_limit = getelementptr i8, ptr %pool, i64 $pool_limit
  %p_fn = getelementptr i8, ptr %pool, i64 $pool_fn
  %p_args = getelementptr i8, ptr %pool, i64 $pool_args
  %p_blocks = getelementptr i8, ptr %pool, i64 $pool_blocks
  %p_grain = getelementptr i8, ptr %pool, i64 $pool_grain
  %p_chunks = getelementptr i8, ptr %pool, i64 $pool_chunks
  %p_scratch = getelementptr i8, ptr %pool, i64 $pool_scratch
  %p_stride = getelementptr i8, ptr %pool, i64 $pool_stride
  %g1 = add i64 %blocks, %grain
  %g2 = sub i64 %g1, 1
  %chunks = udiv i64 %g2, %grain
  store atomic i64 0, ptr %p_done monotonic, align 8
  store atomic i64 %threads, ptr %p_limit monotonic, align 8
  store atomic ptr %fn, ptr %p_fn monotonic, align 8
  store atomic ptr %args, ptr %p_args monotonic, align 8
  store atomic i64 %blocks, ptr %p_blocks monotonic, align 8
  store atomic i64 %grain, ptr %p_grain monotonic, align 8
  store atomic i64 %chunks, ptr %p_chunks monotonic, align 8
  store atomic ptr %scratch, ptr %p_scratch monotonic, align 8
  store atomic i64 %stride, ptr %p_stride monotonic, align 8
  %old = load atomic i64, ptr %pool monotonic, align 8
  %generation = and i64 %old, -4294967296
  %generation1 = add i64 %generation, 4294967296
  %claim = or i64 %generation1, %chunks
  store atomic i64 %claim, ptr %pool seq_cst, align 8
  %fewer = icmp slt i64 %chunks, %threads
  %hands = select i1 %fewer, i64 %chunks, i64 %threads
  call void @rouse_all(ptr %pool, i64 %hands)
  %own = call i64 @work(ptr %pool, i64 0)
  %theirs = sub i64 %chunks, %own
  %p_spin = getelementptr i8, ptr %pool, i64 $pool_spin
  %spin = load i64, ptr %p_spin, align 8
  br label %wait
wait:
  %n = phi i64 [ 0, %open ], [ %n1, %patient ], [ %n1, %yield ]
  %done = load atomic i64, ptr %p_done acquire, align 8
  %all = icmp eq i64 %done, %theirs
  br i1 %all, label %close, label %again
again:
  $pause
  %n1 = add i64 %n, 1
  %long = icmp ugt i64 %n1, %spin
  br i1 %long, label %yield, label %patient
patient:
  br label %wait
yield: ; a worker that holds a chunk may be waiting for this very core
  call void @give_way(ptr %pool)
  br label %wait
close:
  store atomic i64 0, ptr %p_busy release, align 8
  ret i1 true
}

define void @kernel(ptr %frame, i64 %unused0, i64 %unused1, ptr %unused2) {
entry:
  %p_table = getelementptr i8, ptr %frame, i64 $frame_table
  %table = load ptr, ptr %p_table, align 8
  %p_first = getelementptr i8, ptr %frame, i64 $frame_first
  %first = load i64, ptr %p_first, align 8
  %p_last = getelementptr i8, ptr %frame, i64 $frame_last
  %last = load i64, ptr %p_last, align 8
  %p_pool = getelementptr i8, ptr %frame, i64 $frame_pool
  %pool = load ptr, ptr %p_pool, align 8
  %p_threads = getelementptr i8, ptr %frame, i64 $frame_threads
  %threads = load i64, ptr %p_threads, align 8
  %p_scratch = getelementptr i8, ptr %frame, i64 $frame_scratch
  %scratch = load ptr, ptr %p_scratch, align 8
  %p_stride = getelementptr i8, ptr %frame, i64 $frame_stride
  %stride = load i64, ptr %p_stride, align 8
  %p_times = getelementptr i8, ptr %frame, i64 $frame_times
  %times = load ptr, ptr %p_times, align 8
  %p_stopped = getelementptr i8, ptr %frame, i64 $frame_stopped
  %p_abort = getelementptr i8, ptr %frame, i64 $frame_abort
  %p_error = getelementptr i8, ptr %frame, i64 $frame_error
  %timed = icmp ne ptr %times, null
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %head, label %gather
gather: ; workers wake while the first commands already run
  %p_active = getelementptr i8, ptr %pool, i64 $pool_active
  %a0 = atomicrmw add ptr %p_active, i64 1 seq_cst, align 8
  call void @rouse_all(ptr %pool, i64 %threads)
  br label %head
head:
  %i = phi i64 [ %first, %entry ], [ %first, %gather ], [ %i1, %after ]
  %more = icmp slt i64 %i, %last
  br i1 %more, label %command, label %finish
command:
  br i1 %timed, label %stamp, label %fetch
stamp:
  %t0 = $clock
  %k0 = sub i64 %i, %first
  %p_t0 = getelementptr i64, ptr %times, i64 %k0
  store i64 %t0, ptr %p_t0, align 8
  br label %fetch
fetch:
  %row = getelementptr [4 x i64], ptr %table, i64 %i
  %fn = load ptr, ptr %row, align 8
  %p_args = getelementptr i8, ptr %row, i64 8
  %args = load ptr, ptr %p_args, align 8
  %p_blocks = getelementptr i8, ptr %row, i64 16
  %blocks = load i64, ptr %p_blocks, align 8
  %p_grain = getelementptr i8, ptr %row, i64 24
  %grain = load i64, ptr %p_grain, align 8
  %some = icmp sgt i64 %blocks, 0
  br i1 %some, label %choose, label %after
choose:
  %many = icmp sgt i64 %blocks, %grain
  %team = icmp ne ptr %pool, null
  %both = and i1 %many, %team
  br i1 %both, label %parallel, label %serial
parallel:
  %shared = call i1 @share(ptr %pool, i64 %threads, ptr %scratch, i64 %stride,
                           ptr %fn, ptr %args, i64 %blocks, i64 %grain)
  br i1 %shared, label %after, label %serial
serial:
  call void %fn(ptr %args, i64 0, i64 %blocks, ptr %scratch)
  br label %after
after:
  %i1 = add i64 %i, 1
  %abort = load atomic i64, ptr %p_abort monotonic, align 8
  %error = load atomic i64, ptr %p_error monotonic, align 8
  %either = or i64 %abort, %error
  %bad = icmp ne i64 %either, 0
  br i1 %bad, label %finish, label %head
finish:
  ; early: the command just done; at the end: last
  %result = phi i64 [ %last, %head ], [ %i, %after ]
  br i1 %timed, label %stamp_end, label %leave
stamp_end:
  %t1 = $clock
  %k1 = sub i64 %last, %first
  %p_t1 = getelementptr i64, ptr %times, i64 %k1
  store i64 %t1, ptr %p_t1, align 8
  br label %leave
leave:
  store i64 %result, ptr %p_stopped, align 8
  br i1 %alone, label %out, label %scatter
scatter:
  %p_active1 = getelementptr i8, ptr %pool, i64 $pool_active
  %a1 = atomicrmw sub ptr %p_active1, i64 1 seq_cst, align 8
  br label %out
out:
  ret void
}
"""

_WORKER = """
; Returns when the pool stops, and when Python is to put the thread to sleep.
define void @kernel(ptr %pool, i64 %id, i64 %unused0, ptr %unused1) {
entry:
  %off = mul i64 %id, $slot_bytes
  %slots = getelementptr i8, ptr %pool, i64 $pool_slots
  %slot = getelementptr i8, ptr %slots, i64 %off
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
  ret void
out:
  ret void
}
"""

_SPIN = """
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

# Per processor: what a spinning loop executes, and a clock that user code may read (or 0: none).
_MACHINES: dict[str, tuple[str, str, str]] = {
    "x86": (
        "call void @llvm.x86.sse2.pause()",
        "call i64 @llvm.readcyclecounter()",
        "declare void @llvm.x86.sse2.pause()\ndeclare i64 @llvm.readcyclecounter()\n",
    ),
    # isb stalls for about as long as x86's pause; yield is a no-op on most cores. The cycle counter traps in user
    # code, the steady counter (cntvct_el0) does not.
    "aarch64": (
        "call void @llvm.aarch64.isb(i32 15)",
        "call i64 @llvm.readsteadycounter()",
        "declare void @llvm.aarch64.isb(i32)\ndeclare i64 @llvm.readsteadycounter()\n",
    ),
}


def has_clock(target: Target) -> bool:
    """Whether the loop can take time stamps on this processor."""
    return target.family in _MACHINES


@dataclasses.dataclass(frozen=True)
class LoopSpec(KernelSpec):
    """One of the functions of the native loop: ``run``, ``worker`` or ``spin``."""

    part: str

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        text = repr((self.part, _SOURCES, _MACHINES, POOL, SLOT, SLOT_BYTES, FRAME, LINE))
        return f"LoopSpec({self.part},{hashlib.sha256(text.encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        if target.family not in _MACHINES:
            raise UnsupportedError(f"the native loop has no code for the processor family '{target.family}'")
        pause, clock, declarations = _MACHINES[target.family]
        values: dict[str, object] = {f"pool_{name}": offset for name, offset in POOL.items()}
        values.update((f"frame_{name}", offset) for name, offset in FRAME.items())
        values.update((f"slot_{name}", offset) for name, offset in SLOT.items())
        values.update(slot_bytes=SLOT_BYTES, pause=pause, clock=clock, line=LINE, never=1 << 32)
        text = string.Template(_CLAIM + _SOURCES[self.part]).substitute(values)
        return declarations + re.sub(r"\n{2,}", "\n\n", text)


_SOURCES = {"run": _RUN, "worker": _WORKER, "spin": _SPIN}
