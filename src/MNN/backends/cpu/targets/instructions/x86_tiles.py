"""The tile registers of AMX, by the intrinsics that name registers: those for which LLVM allocates tiles copy them."""

from __future__ import annotations

from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.targets.instructions.base import instruction

INSTRUCTIONS = (
    instruction(can.TILE_CONFIGURE, 0, "llvm.x86.ldtilecfg", "amx-tile"),
    instruction(can.TILE_RELEASE, 0, "llvm.x86.tilerelease", "amx-tile"),
    instruction(can.TILE_ZERO, 0, "llvm.x86.tilezero", "amx-tile"),
    instruction(can.TILE_LOAD, 0, "llvm.x86.tileloadd64", "amx-tile"),
    instruction(can.TILE_LOAD_PASSING, 0, "llvm.x86.tileloaddt164", "amx-tile"),
    instruction(can.TILE_STORE, 0, "llvm.x86.tilestored64", "amx-tile"),
    instruction(can.TILE_DOT_BF16, 0, "llvm.x86.tdpbf16ps", "amx-tile amx-bf16"),
    instruction(can.TILE_DOT_F16, 0, "llvm.x86.tdpfp16ps", "amx-tile amx-fp16"),
    instruction(can.TILE_DOT_U8_I8, 0, "llvm.x86.tdpbusd", "amx-tile amx-int8"),
    instruction(can.TILE_DOT_I8_I8, 0, "llvm.x86.tdpbssd", "amx-tile amx-int8"),
    instruction(can.TILE_DOT_U8_U8, 0, "llvm.x86.tdpbuud", "amx-tile amx-int8"),
    instruction(can.TILE_DOT_I8_U8, 0, "llvm.x86.tdpbsud", "amx-tile amx-int8"),
)
