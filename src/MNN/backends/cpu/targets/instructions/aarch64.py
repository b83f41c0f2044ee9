"""AArch64's instructions (Arm Architecture Reference Manual)."""

from __future__ import annotations

from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.targets.instructions.base import instruction

INSTRUCTIONS = (
    instruction(can.DOT4_UNSIGNED, 128, "llvm.aarch64.neon.usdot.v4i32.v16i8", "i8mm"),
    # the second factor may be a lane, spread, which is what kernels give first
    instruction(can.DOT4_SIGNED, 128, "llvm.aarch64.neon.sdot.v4i32.v16i8", "dotprod", order=(0, 2, 1)),
    instruction(can.DOT2_BF16, 128, "llvm.aarch64.neon.bfdot.v4f32.v8bf16", "neon bf16"),
    # bfcvt and bfcvtn, in place of ten instructions
    *(instruction(can.TO_BF16, bits, "fptrunc", "neon bf16") for bits in (32, 128)),
    instruction(can.LOOK_UP, 128, "llvm.aarch64.neon.tbl1.v16i8", "neon"),
    # isb stalls for about as long as x86's pause; yield is a no-op on most cores
    instruction(can.PAUSE, 0, "llvm.aarch64.isb", "neon", fixed=[(32, 15)]),
    instruction(can.CONVERT_F16, 0, "", "neon"),
    instruction(can.ARITHMETIC_F16, 0, "", "fullfp16"),
    instruction(can.SATURATE, 0, "", "neon"),
)
