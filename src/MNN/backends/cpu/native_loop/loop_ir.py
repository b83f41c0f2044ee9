"""LLVM IR of the native loop: what walks a program's commands and what a worker thread runs while it is parked.

Seven functions share the kernels' signature, so that they are compiled and cached like kernels:

- ``run`` (args = frame): executes commands of a table in order. A command with more blocks than its grain is shared
  with the workers; every other command is one plain call. Gives the number of the command after which it stopped early,
  or of the last one; it alone gives anything.
- ``worker`` (args = pool, begin = worker's number): claims blocks of whatever command is open, spins a while when
  there is none, then sleeps.
- ``spin`` (args = pool, begin = count, end = 1 to give way each time): burns time; used to calibrate the spinning.
- ``plain`` (args = address of a Python callback, its arguments): calls it with floating point as Python knows it.
- ``flushed`` (args = address of a kernel, its arguments): calls it from Python with floating point as kernels know it.
- ``slices`` (args = ``run``, the frame of the run that it is a command of, a row for every thread): runs the program of
  the thread that it is called by once per block, with some words in memory moved on from block to block.
- ``open words`` (args = a record OPEN): computes what follows from open sizes, and writes it where it is read.

Numbers too small to be normal count as zero while kernels run: processors take up to a hundred times as long for them,
and networks make many where activations die out. The mode belongs to a thread: ``run`` sets it and puts it back, a
worker sets it for its life.

How a command is shared. Every thread gets a share of the blocks, equal runs in order: so whoever wrote rows of one
tensor mostly reads these rows in the next command, and finds them in its own caches. A thread claims from the begin of
its own share, half of what is left each time, and when that is used up from the ends of the others' shares (guided
self-scheduling, Polychronopoulos and Kuck 1987, with stealing). What is left of a share is one 64-bit word: a
generation (upper half), its end and its begin, in units of blocks (one block, unless there are more than fit). Whoever
wants blocks reads the word, reads the description of the command, and takes them by compare-and-swap on the whole
word: success proves that the description belongs to this generation, because a new description is only written while
nothing is left to claim, and a share's generation changes before there is again. The caller takes part like the
others, and afterwards waits only for blocks that workers have claimed and not finished. A worker that is asleep, late
or dead therefore costs nothing but its help. Idle workers look at one word only, the number of commands opened so far.

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

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.native_loop.io_binding_ir import BIND_IO
from MNN.backends.cpu.native_loop.layout import LINE, RECORDS, SHARE_BITS, SHARE_MOST, SLOT_BYTES
from MNN.backends.cpu.native_loop.open_words_ir import OPEN_WORDS
from MNN.backends.cpu.native_loop.processor_families import MACHINES
from MNN.backends.cpu.native_loop.wake_ir import WAKE
from MNN.backends.cpu.native_loop.worker_ir import CLAIM, SPIN, WORKER
from MNN.backends.cpu.targets.base import Target
from MNN.errors import UnsupportedError

PARTS = ("run", "worker", "spin", "plain", "flushed", "slices", "open words")

_RUN = """
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
  %p_team = getelementptr i8, ptr %pool, i64 $pool_team
  %p_fn = getelementptr i8, ptr %pool, i64 $pool_fn
  %p_args = getelementptr i8, ptr %pool, i64 $pool_args
  %p_blocks = getelementptr i8, ptr %pool, i64 $pool_blocks
  %p_grain = getelementptr i8, ptr %pool, i64 $pool_grain
  %p_scratch = getelementptr i8, ptr %pool, i64 $pool_scratch
  %p_stride = getelementptr i8, ptr %pool, i64 $pool_stride
  %b1 = add i64 %blocks, $share_most
  %b2 = sub i64 %b1, 1
  %unit = udiv i64 %b2, $share_most
  %several = icmp ugt i64 %unit, 1
  br i1 %several, label %large, label %count
large:
  %l1 = add i64 %blocks, %unit
  %l2 = sub i64 %l1, 1
  %l3 = udiv i64 %l2, %unit
  %l4 = udiv i64 %grain, %unit
  %l5 = call i64 @llvm.umax.i64(i64 %l4, i64 1)
  br label %count
count:
  %units = phi i64 [ %blocks, %open ], [ %l3, %large ]
  %least = phi i64 [ %grain, %open ], [ %l5, %large ]
  %c1 = add i64 %units, %least
  %c2 = sub i64 %c1, 1
  %chunks = udiv i64 %c2, %least
  %fewer = icmp slt i64 %chunks, %threads
  %hands = select i1 %fewer, i64 %chunks, i64 %threads
  store atomic i64 0, ptr %p_done monotonic, align 8
  %unit32 = shl i64 %unit, 32
  %team = or i64 %unit32, %threads
  store atomic i64 %team, ptr %p_team monotonic, align 8
  store atomic ptr %fn, ptr %p_fn monotonic, align 8
  store atomic ptr %args, ptr %p_args monotonic, align 8
  store atomic i64 %blocks, ptr %p_blocks monotonic, align 8
  store atomic i64 %least, ptr %p_grain monotonic, align 8
  store atomic ptr %scratch, ptr %p_scratch monotonic, align 8
  store atomic i64 %stride, ptr %p_stride monotonic, align 8
  br label %deal
deal: ; every hand its share: units %from <= u < %to
  %id = phi i64 [ 0, %count ], [ %id1, %deal ]
  %from = phi i64 [ 0, %count ], [ %to, %deal ]
  %id1 = add i64 %id, 1
  %part = mul i64 %units, %id1
  %to = udiv i64 %part, %hands
  %word = call ptr @share_of(ptr %pool, i64 %id)
  %old = load atomic i64, ptr %word monotonic, align 8
  %generation = lshr i64 %old, 32
  %generation1 = add i64 %generation, 1
  %upper = shl i64 %generation1, 32
  %middle = shl i64 %to, $share_bits
  %lower = or i64 %middle, %from
  %share = or i64 %upper, %lower
  store atomic i64 %share, ptr %word release, align 8
  %dealt = icmp eq i64 %id1, %hands
  br i1 %dealt, label %announce, label %deal
announce:
  %opened = load atomic i64, ptr %pool monotonic, align 8
  %opened1 = add i64 %opened, 1
  store atomic i64 %opened1, ptr %pool seq_cst, align 8
  call void @rouse_all(ptr %pool, i64 %hands)
  %own = call i64 @work(ptr %pool, i64 0)
  %theirs = sub i64 %units, %own
  %p_spin = getelementptr i8, ptr %pool, i64 $pool_spin
  %spin = load i64, ptr %p_spin, align 8
  br label %wait
wait:
  %n = phi i64 [ 0, %announce ], [ %n1, %patient ], [ %n1, %yield ]
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

define i64 @kernel(ptr %frame, i64 %unused0, i64 %unused1, ptr %unused2) {
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
  call void @lend(ptr %frame, i1 true)
  %p_taken = getelementptr i8, ptr %frame, i64 $frame_taken
  %taken = load ptr, ptr %p_taken, align 8
  %p_taken_count = getelementptr i8, ptr %frame, i64 $frame_taken_count
  %taken_count = load i64, ptr %p_taken_count, align 8
  call void @carry(ptr %taken, i64 %taken_count, i1 false)
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
  %row = getelementptr [$command_words x i64], ptr %table, i64 %i
  %fn = load ptr, ptr %row, align 8
  %p_args = getelementptr i8, ptr %row, i64 $command_args
  %args = load ptr, ptr %p_args, align 8
  %p_blocks = getelementptr i8, ptr %row, i64 $command_blocks
  %blocks = load i64, ptr %p_blocks, align 8
  %p_grain = getelementptr i8, ptr %row, i64 $command_grain
  %grain = load i64, ptr %p_grain, align 8
  %some = icmp sgt i64 %blocks, 0
  %p_condition = getelementptr i8, ptr %row, i64 $command_condition
  %condition = load ptr, ptr %p_condition, align 8
  %free = icmp eq ptr %condition, null
  br i1 %some, label %whether, label %after
whether:
  br i1 %free, label %choose, label %ask
ask: ; a command before this one has written it
  %said8 = load i8, ptr %condition, align 1
  %said = zext i8 %said8 to i64
  %p_value = getelementptr i8, ptr %row, i64 $command_value
  %value = load i64, ptr %p_value, align 8
  %needed = icmp eq i64 %said, %value
  br i1 %needed, label %choose, label %after
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
  br i1 %alone, label %return, label %scatter
scatter:
  %p_active1 = getelementptr i8, ptr %pool, i64 $pool_active
  %a1 = atomicrmw sub ptr %p_active1, i64 1 seq_cst, align 8
  br label %return
return:
  call void @lend(ptr %frame, i1 false)
  %p_given = getelementptr i8, ptr %frame, i64 $frame_given
  %given = load ptr, ptr %p_given, align 8
  %p_given_count = getelementptr i8, ptr %frame, i64 $frame_given_count
  %given_count = load i64, ptr %p_given_count, align 8
  call void @carry(ptr %given, i64 %given_count, i1 true)
  ret i64 %result
}
"""

_IN_MODE = """
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %callback = load ptr, ptr %args, align 8
  %p_given = getelementptr i8, ptr %args, i64 $callback_args
  %given = load ptr, ptr %p_given, align 8
  $save
  $mode
  call void %callback(ptr %given, i64 %begin, i64 %end, ptr %scratch)
  $restore
  ret void
}
"""

_SLICES = """
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %run = load ptr, ptr %args, align 8
  %p_outer = getelementptr i8, ptr %args, i64 $slices_outer
  %outer = load ptr, ptr %p_outer, align 8
  %p_hands = getelementptr i8, ptr %args, i64 $slices_hands
  %hands = load ptr, ptr %p_hands, align 8
  ; who calls is told by its scratch memory
  %p_first = getelementptr i8, ptr %outer, i64 $frame_scratch
  %first = load i64, ptr %p_first, align 8
  %p_stride = getelementptr i8, ptr %outer, i64 $frame_stride
  %stride = load i64, ptr %p_stride, align 8
  %own = ptrtoint ptr %scratch to i64
  %distance = sub i64 %own, %first
  %hand = udiv i64 %distance, %stride
  %row = getelementptr [$hand_words x i64], ptr %hands, i64 %hand
  %frame = load ptr, ptr %row, align 8
  %p_moves = getelementptr i8, ptr %row, i64 $hand_moves
  %moves = load ptr, ptr %p_moves, align 8
  %p_count = getelementptr i8, ptr %row, i64 $hand_count
  %count = load i64, ptr %p_count, align 8
  %p_error = getelementptr i8, ptr %frame, i64 $frame_error
  %p_failed = getelementptr i8, ptr %outer, i64 $frame_error
  br label %head
head: ; until some thread has failed
  %b = phi i64 [ %begin, %entry ], [ %b1, %after ]
  %failed = load atomic i64, ptr %p_failed monotonic, align 8
  %well = icmp eq i64 %failed, 0
  %some = icmp slt i64 %b, %end
  %more = and i1 %well, %some
  br i1 %more, label %next, label %out
next:
  %m = phi i64 [ 0, %head ], [ %m1, %move ]
  %left = icmp slt i64 %m, %count
  br i1 %left, label %move, label %call
move: ; the word's address, what it is for block 0, and how much more for each block
  %p_word = getelementptr [$move_words x i64], ptr %moves, i64 %m
  %word = load ptr, ptr %p_word, align 8
  %p_base = getelementptr i8, ptr %p_word, i64 $move_base
  %base = load i64, ptr %p_base, align 8
  %p_step = getelementptr i8, ptr %p_word, i64 $move_step
  %step = load i64, ptr %p_step, align 8
  %way = mul i64 %b, %step
  %value = add i64 %base, %way
  store i64 %value, ptr %word, align 8
  %m1 = add i64 %m, 1
  br label %next
call:
  %ran = call i64 %run(ptr %frame, i64 0, i64 0, ptr null)
  %error = load atomic i64, ptr %p_error monotonic, align 8
  %bad = icmp ne i64 %error, 0
  br i1 %bad, label %fail, label %after
after:
  %b1 = add i64 %b, 1
  br label %head
fail:
  store atomic i64 %error, ptr %p_failed monotonic, align 8
  br label %out
out:
  ret void
}
"""


@dataclasses.dataclass(frozen=True)
class LoopSpec(KernelSpec):
    """One of the functions of the native loop: one of :data:`PARTS`."""

    part: str

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        text = repr((self.part, _SOURCES, MACHINES, RECORDS, LINE))
        return f"LoopSpec({self.part},{hashlib.sha256(text.encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        if target.family not in MACHINES:
            raise UnsupportedError(f"the native loop has no code for the processor family '{target.family}'")
        machine = dataclasses.asdict(MACHINES[target.family])
        values: dict[str, object] = {}
        for record in RECORDS:
            values.update(record.names(f"{record.name}_"))
        values.update(
            machine,
            slot_bytes=SLOT_BYTES,
            line=LINE,
            share_bits=SHARE_BITS,
            share_mask=SHARE_MOST,
            share_most=SHARE_MOST,
        )
        text = string.Template(CLAIM + _SOURCES[self.part]).substitute(values)
        return str(machine["declarations"]) + _DECLARATIONS + re.sub(r"\n{2,}", "\n\n", text)


_DECLARATIONS = "declare i64 @llvm.umin.i64(i64, i64)\ndeclare i64 @llvm.umax.i64(i64, i64)\n"
_SOURCES = {
    "run": WAKE + BIND_IO + _RUN,
    "worker": WORKER,
    "spin": SPIN,
    "plain": _IN_MODE.replace("$mode", "$usual"),
    "flushed": _IN_MODE.replace("$mode", "$flush"),
    "slices": _SLICES,
    "open words": OPEN_WORDS,
}
