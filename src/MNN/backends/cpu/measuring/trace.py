"""Which thread worked on which blocks, and when: a program run once with a clock around every chunk of blocks."""

from __future__ import annotations

import dataclasses
import hashlib
import string

import numpy as np

from MNN.backends.base.arena import aligned_bytes
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.machine import Span
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.native_loop.functions import clock_tick_ns
from MNN.backends.cpu.native_loop.native import Command, NativeProgram
from MNN.backends.cpu.native_loop.processor_families import clock_ir, has_clock
from MNN.backends.cpu.targets.base import Target

_WORDS = 4
_CHUNKS = 1 << 16
"""Most chunks that are noted; what comes after them is not."""

_TRACE = """$declarations
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %fn = load ptr, ptr %args, align 8
  %p1 = getelementptr i64, ptr %args, i64 1
  %inner = load ptr, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %args, i64 2
  %log = load ptr, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %args, i64 3
  %number = load i64, ptr %p3, align 8
  %t0 = $clock
  call void %fn(ptr %inner, i64 %begin, i64 %end, ptr %scratch)
  %t1 = $clock
  %at = atomicrmw add ptr %log, i64 1 monotonic, align 8
  %room = icmp slt i64 %at, $chunks
  br i1 %room, label %note, label %out
note:
  %o = mul i64 %at, $words
  %o1 = add i64 %o, $words
  %row = getelementptr i64, ptr %log, i64 %o1
  store i64 %number, ptr %row, align 8
  %r1 = getelementptr i64, ptr %row, i64 1
  store i64 %t0, ptr %r1, align 8
  %r2 = getelementptr i64, ptr %row, i64 2
  store i64 %t1, ptr %r2, align 8
  %r3 = getelementptr i64, ptr %row, i64 3
  %who = ptrtoint ptr %scratch to i64
  store i64 %who, ptr %r3, align 8
  br label %out
out:
  ret void
}
"""


@dataclasses.dataclass(frozen=True)
class TraceSpec(KernelSpec):
    """Calls another kernel and notes its number, both times and the scratch memory, by which threads are told apart."""

    def slots(self) -> tuple[str, ...]:
        return ("function", "args", "log", "number")

    def key(self) -> str:
        return f"TraceSpec({hashlib.sha256(_TRACE.encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        clock, declarations = clock_ir(target)
        values = {"clock": clock, "declarations": declarations, "words": _WORDS, "chunks": _CHUNKS}
        return string.Template(_TRACE).substitute(values)


def trace(program: NativeProgram, library: Library, threads: int, tries: int = 5) -> list[Span]:
    """The spans of the fastest of some runs, in order of their begin; none where the processor has no clock for it.

    Works on the program's own memory: its inputs must be in place, and nothing else may run it meanwhile.
    """
    if not has_clock(library.target) or not len(program):
        return []
    log = aligned_bytes(8 * _WORDS * (_CHUNKS + 1), zero=True).view(np.int64)
    address = library.load([TraceSpec()])[0]
    commands = [
        Command(address, [function, args, log.ctypes.data, number], blocks, grain, program.labels[number])
        for number, (function, args, blocks, grain) in enumerate(program.rows())
    ]
    stride = max(program.scratch_bytes, 1)
    traced = NativeProgram(commands, scratch_bytes=stride, keep=(log, program))
    best: np.ndarray | None = None
    for _ in range(tries):
        log[0] = 0
        traced.run(threads)
        rows = log[_WORDS : _WORDS * (1 + min(int(log[0]), _CHUNKS))].reshape(-1, _WORDS).copy()
        if len(rows) and (best is None or np.ptp(rows[:, 1:3]) < np.ptp(best[:, 1:3])):
            best = rows
    if best is None:
        return []
    tick, start = clock_tick_ns(), int(best[:, 1].min())
    first = int(best[:, 3].min())
    step = -(-stride // 128) * 128
    best = best[np.argsort(best[:, 1], kind="stable")]
    return [
        Span(int(n), (int(who) - first) // step, (int(t0) - start) * tick, (int(t1) - start) * tick)
        for n, t0, t1, who in best
    ]
