"""LLVM IR of the native loop: what walks a program's commands and what a worker thread runs while it is parked.

Four functions share the kernels' signature, so that they are compiled and cached like kernels:

- ``run`` (args = frame): executes commands of a table in order. A command with more blocks than its grain is shared
  with the workers; every other command is one plain call.
- ``worker`` (args = pool, begin = worker's number): claims blocks of whatever command is open, spins a while when
  there is none, then sleeps.
- ``spin`` (args = pool, begin = count, end = 1 to give way each time): burns time; used to calibrate the spinning.
- ``plain`` (args = address of a Python callback, its arguments): calls it with floating point as Python knows it.

Numbers too small to be normal count as zero while kernels run: processors take up to a hundred times as long for them,
and networks make many where activations die out. The mode belongs to a thread: ``run`` sets it and puts it back, a
worker sets it for its life.

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
from MNN.runtime.loop_layout import FRAME, LINE, POOL, SLOT, SLOT_BYTES
from MNN.runtime.loop_machines import MACHINES
from MNN.runtime.worker_ir import CLAIM, SPIN, WORKER
from MNN.targets.base import Target

PARTS = ("run", "worker", "spin", "plain")

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
  $save
  $flush
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
  $restore
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

_PLAIN = """
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %callback = load ptr, ptr %args, align 8
  %p_given = getelementptr i8, ptr %args, i64 8
  %given = load ptr, ptr %p_given, align 8
  $save
  $usual
  call void %callback(ptr %given, i64 %begin, i64 %end, ptr %scratch)
  $restore
  ret void
}
"""


@dataclasses.dataclass(frozen=True)
class LoopSpec(KernelSpec):
    """One of the functions of the native loop: ``run``, ``worker``, ``spin`` or ``plain``."""

    part: str

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        text = repr((self.part, _SOURCES, MACHINES, POOL, SLOT, SLOT_BYTES, FRAME, LINE))
        return f"LoopSpec({self.part},{hashlib.sha256(text.encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        if target.family not in MACHINES:
            raise UnsupportedError(f"the native loop has no code for the processor family '{target.family}'")
        machine = dataclasses.asdict(MACHINES[target.family])
        values: dict[str, object] = {f"pool_{name}": offset for name, offset in POOL.items()}
        values.update((f"frame_{name}", offset) for name, offset in FRAME.items())
        values.update((f"slot_{name}", offset) for name, offset in SLOT.items())
        values.update(machine, slot_bytes=SLOT_BYTES, line=LINE, never=1 << 32)
        text = string.Template(CLAIM + _SOURCES[self.part]).substitute(values)
        return str(machine["declarations"]) + re.sub(r"\n{2,}", "\n\n", text)


_SOURCES = {"run": _RUN, "worker": WORKER, "spin": SPIN, "plain": _PLAIN}
