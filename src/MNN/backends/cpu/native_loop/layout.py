"""Memory that the native loop, its workers and Python share: the records in it, word by word."""

from __future__ import annotations

from MNN.backends.base.record import Record, word

LINE = 128
"""Bytes between words that different threads write; two cache lines, because some processors fetch them in pairs."""
SHARE_BITS = 16
"""Bits of the begin and of the end of a share."""
SHARE_MOST = (1 << SHARE_BITS) - 1
"""Most units that a command is counted in."""

POOL = Record(
    "pool",
    word("opened", "commands shared so far: what idle workers look at; then the description of the last one"),
    word("fn", "its kernel", pointer=True),
    word("args", "its arguments", pointer=True),
    word("blocks", "how many it has"),
    word("grain", "how many are claimed at least"),
    word("scratch", "the first thread's scratch memory", pointer=True),
    word("stride", "bytes from one thread's to the next one's"),
    word("team", "low half: threads with a number below this take part; high half: blocks per unit of a share"),
    word("busy", "1 while a run has the workers", at=2 * LINE),
    word("done", "units that are finished", at=3 * LINE),
    word("active", "runs in progress: workers linger instead of going to sleep", at=4 * LINE),
    word("stop", "1: workers end", at=5 * LINE),
    word("spin", "pauses before a worker sleeps, or before a waiting caller gives way"),
    word("linger", "times a worker gives way during a run before it sleeps all the same"),
    word("syscall", "libc's syscall; 0: sleep in Python", pointer=True),
    word("futex", "its number for futex"),
    word("wake", "void wake(i64 worker) when sleeping in Python", pointer=True),
    word("give_way", "sched_yield or the like, 0: none", pointer=True),
    word("getcpu", "sched_getcpu, 0: leave affinity alone", pointer=True),
    word("getaffinity", "number of the system call"),
    word("setaffinity", "number of the system call"),
    word("after", "what linger is between runs: the next one often comes soon"),
    word("slots", "one slot per thread from here on, that of the caller first", at=6 * LINE),
)
SLOT = Record(
    "slot",
    word("asleep", "i32: 0 awake, 1 asleep, 2 somebody is about to wake it"),
    word("thread", "the system's number of its thread"),
    word("restore", "bytes of the mask to put back after waking, 0: none"),
    word("mask", "its affinity mask, 1024 processors", at=LINE, size=LINE),
    word("share", "its part of the open command: what is not claimed; see loop_ir", size=LINE),
)
SLOT_BYTES = SLOT.size

FRAME = Record(
    "frame",  # of a run; all but the last group is read-only for the loop
    word("table", "its commands", pointer=True),
    word("first", "number of the first command"),
    word("last", "number of the command before which it ends"),
    word("pool", "0: everything in this thread", pointer=True),
    word("threads", "how many take part"),
    word("scratch", "the first thread's scratch memory", pointer=True),
    word("stride", "bytes of scratch per thread"),
    word("times", "0, or memory for last - first + 1 clock readings", pointer=True),
    word("lent", "records LENT", pointer=True),
    word("lent_count", "how many"),
    word("taken", "records CARRIED of what is copied when the run begins", pointer=True),
    word("taken_count", "how many"),
    word("given", "records CARRIED of what is copied when it ends", pointer=True),
    word("given_count", "how many"),
    word("stopped", "result: number of the command after which the run stopped early, or last", at=LINE),
    word("abort", "set by the host: stop after this command"),
    word("error", "set by kernels: stop after this command"),
)
FRAME_BYTES = 2 * LINE

COMMAND = Record(
    "command",
    word("function", "the kernel", pointer=True),
    word("args", "its arguments", pointer=True),
    word("blocks", "how many there are"),
    word("grain", "how many are claimed at least"),
    word("condition", "0, or a byte that says whether it runs", pointer=True),
    word("value", "what the byte has to be"),
)
LENT = Record(
    "lent",
    word("word", "what says where something lies", pointer=True),
    word("slot", "holds the address of a word that says it for one run, or 0", pointer=True),
    word("offset", "what is added to the number of that word"),
    word("home", "what the first word holds between runs"),
)
CARRIED = Record(
    "carried",
    word("home", "memory in the arena", pointer=True),
    word("slot", "0, or the address of a word that says where to copy from, or to, in one run", pointer=True),
    word("planes", "how many, each of rows"),
    word("rows", "how many, each of bytes that lie side by side"),
    word("nbytes", "of a row; the caller's rows follow each other"),
    word("plane_stride", "bytes from plane to plane in the arena"),
    word("row_stride", "bytes from row to row there"),
)
CALLBACK = Record(
    "callback",  # arguments of what calls something with another mode of floating point
    word("function", "what is called", pointer=True),
    word("args", "its arguments", pointer=True),
)
SLICES = Record(
    "slices",  # arguments of the command that runs slices
    word("run", "the function of the loop", pointer=True),
    word("outer", "the frame of the run that it is a command of", pointer=True),
    word("hands", "a record HAND for every thread", pointer=True),
)
HAND = Record(
    "hand",
    word("frame", "of the thread's own program", pointer=True),
    word("moves", "records MOVE", pointer=True),
    word("count", "how many"),
)
MOVE = Record(
    "move",
    word("word", "a word that moves on from slice to slice", pointer=True),
    word("base", "what it is for the first slice"),
    word("step", "how much more for each"),
)
OPEN = Record(
    "open",  # arguments of what writes all that follows from open sizes
    word("values", "the sizes, and behind them what steps compute", pointer=True),
    word("steps", "records STEP", pointer=True),
    word("step_count", "how many"),
    word("first", "the number of the value that the first step gives"),
    word("written", "records OPENED", pointer=True),
    word("written_count", "how many"),
)
STEP = Record(
    "step",
    word("sign", "what is computed, a number of open_words_ir.SIGNS"),
    word("x", "the number of a value, or what the step gives"),
    word("y", "the number of a value; divisors are positive"),
)
OPENED = Record(
    "opened",
    word("word", "what is written", pointer=True),
    word("value", "the number of a value"),
    word("base", "what is added to it"),
)
RECORDS = (POOL, SLOT, FRAME, COMMAND, LENT, CARRIED, CALLBACK, SLICES, HAND, MOVE, OPEN, STEP, OPENED)
