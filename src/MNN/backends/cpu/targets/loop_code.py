"""What the native loop needs of a processor family: pausing, a clock, and the mode of floating point."""

from __future__ import annotations

import dataclasses

from MNN.backends.cpu.targets.instructions.capability import PAUSE
from MNN.backends.cpu.targets.instructions.table import find


@dataclasses.dataclass(frozen=True)
class Machine:
    """What the loop needs of a processor family, as LLVM IR.

    ``pause`` is executed while spinning, ``clock`` reads a clock that user code may read. The mode of floating point is
    kept by ``save`` (in %mode), put back by ``restore``; ``flush`` makes subnormal numbers zero, ``usual`` is what
    programs start with.
    """

    pause: str
    clock: str
    save: str
    flush: str
    usual: str
    restore: str
    declarations: str


def _pause(feature: str) -> str:
    found = find(frozenset((feature,)), PAUSE, 0)
    assert found is not None
    return f"call void @{found.text}({', '.join(f'i{bits} {n}' for bits, n in found.fixed)})"


MACHINES = {
    "x86": Machine(
        pause=_pause("sse4.1"),
        clock="call i64 @llvm.readcyclecounter()",
        save="%mode = alloca [2 x i32], align 8\n  call void @llvm.x86.sse.stmxcsr(ptr %mode)\n"
        "  %other = getelementptr i8, ptr %mode, i64 4",
        # MXCSR: all exceptions masked, flush to zero (bit 15), denormals are zero (bit 6)
        flush="store i32 40896, ptr %other, align 4\n  call void @llvm.x86.sse.ldmxcsr(ptr %other)",
        usual="store i32 8064, ptr %other, align 4\n  call void @llvm.x86.sse.ldmxcsr(ptr %other)",
        restore="call void @llvm.x86.sse.ldmxcsr(ptr %mode)",
        declarations="declare void @llvm.x86.sse2.pause()\ndeclare i64 @llvm.readcyclecounter()\n"
        "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)\n",
    ),
    # The cycle counter traps in user code, the steady counter (cntvct_el0) does not.
    # FPCR: flush to zero (bit 24), also of halves (bit 19).
    "aarch64": Machine(
        pause=_pause("neon"),
        clock="call i64 @llvm.readsteadycounter()",
        save="%mode = call i64 @llvm.aarch64.get.fpcr()",
        flush="call void @llvm.aarch64.set.fpcr(i64 17301504)",
        usual="call void @llvm.aarch64.set.fpcr(i64 0)",
        restore="call void @llvm.aarch64.set.fpcr(i64 %mode)",
        declarations="declare void @llvm.aarch64.isb(i32)\ndeclare i64 @llvm.readsteadycounter()\n"
        "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)\n",
    ),
}


__all__ = ["MACHINES", "Machine"]
