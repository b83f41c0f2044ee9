"""Memory that the native loop, its workers and Python share: where every word lies, in bytes."""

from __future__ import annotations

LINE = 128
"""Bytes between words that different threads write; two cache lines, because some processors fetch them in pairs."""

# The pool's memory. Offsets in bytes; all words are i64 except where noted.
POOL = {
    "opened": 0,  # commands shared so far: what idle workers look at; then the description of the last one
    "fn": 8,
    "args": 16,
    "blocks": 24,
    "grain": 32,
    "scratch": 40,
    "stride": 48,
    "team": 56,  # low half: threads with a number below this take part; high half: blocks per unit of a share
    "busy": 2 * LINE,
    "done": 3 * LINE,
    "active": 4 * LINE,  # runs in progress: workers linger instead of going to sleep
    "stop": 5 * LINE,
    "spin": 5 * LINE + 8,  # pauses before a worker sleeps, or before a waiting caller gives way
    "linger": 5 * LINE + 16,  # times a worker gives way during a run before it sleeps all the same
    "after": 5 * LINE + 80,  # the same between runs: the next one often comes soon
    "syscall": 5 * LINE + 24,  # address of libc's syscall, 0: sleep in Python
    "futex": 5 * LINE + 32,  # its number for futex
    "wake": 5 * LINE + 40,  # address of void wake(i64 worker) when sleeping in Python
    "give_way": 5 * LINE + 48,  # address of sched_yield or the like, 0: none
    "getcpu": 5 * LINE + 56,  # address of sched_getcpu, 0: leave affinity alone
    "getaffinity": 5 * LINE + 64,  # system call numbers
    "setaffinity": 5 * LINE + 72,
    "slots": 6 * LINE,  # then one slot per thread, that of the caller first
}
# The slot of a thread.
SLOT = {
    "asleep": 0,  # i32: 0 awake, 1 asleep, 2 somebody is about to wake it
    "thread": 8,  # the system's number of its thread
    "restore": 16,  # bytes of the mask to put back after waking, 0: none
    "mask": LINE,  # its affinity mask: LINE bytes, 1024 processors
    "share": 2 * LINE,  # its part of the open command: what is not claimed; see loop_ir
}
SLOT_BYTES = 3 * LINE
SHARE_BITS = 16
"""Bits of the begin and of the end of a share."""
SHARE_MOST = (1 << SHARE_BITS) - 1
"""Most units that a command is counted in."""

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
    "lent": 64,  # rows of four i64: a word, a slot, what is added to the number that the slot points to, and what the
    "lent_count": 72,  # word holds between runs. Slots that are not 0 count for one run
    "taken": 80,  # rows of three i64: memory, a slot that is 0 or points to the address of what to copy there when the
    "taken_count": 88,  # run begins, and how many bytes
    "given": 96,  # the same, where to copy it to when the run ends
    "given_count": 104,
    "stopped": LINE,  # result: number of the command after which the run stopped early, or last
    "abort": LINE + 8,  # set by the host: stop after this command
    "error": LINE + 16,  # set by kernels: stop after this command
}
FRAME_BYTES = 2 * LINE
