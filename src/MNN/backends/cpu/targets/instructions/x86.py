"""x86's vector instructions (Intel's "Intrinsics Guide"): SSE, AVX2, AVX512, VNNI and bf16."""

from __future__ import annotations

from MNN.backends.cpu.targets import emulation
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.targets.instructions.base import Instruction, instruction

_ALL_LANES = (16, -1)
"""A mask of 16 ones."""
_ROUNDING = (32, 4)
"""As the processor's mode says."""
_ZEROS = (0, 0)
"""What masked lanes would get."""
_LESSER_SIZE = (32, 2)
"""Of two numbers the smaller one in size, with the first one's sign."""


def _vnni(bits: int) -> list[Instruction]:
    """The 512-bit form is AVX512-VNNI's, the others are that with VL, or AVX-VNNI's."""
    needs = ("avx512vnni",) if bits == 512 else ("avx512vnni avx512vl", "avxvnni")
    bytes_, words = emulation.dot4_unsigned, emulation.dot2
    return [
        instruction(can.DOT4_UNSIGNED, bits, "llvm.x86.avx512.vpdpbusd.{bits}", *needs, plain=bytes_),
        instruction(can.DOT2_I16, bits, "llvm.x86.avx512.vpdpwssd.{bits}", *needs, plain=words),
    ]


def _vnni_int8(bits: int) -> Instruction:
    name = "llvm.x86.avx2.vpdpbssd.{bits}"
    return instruction(can.DOT4_SIGNED, bits, name, "avxvnniint8", "avx10.2", plain=emulation.dot4_signed)


def _bf16(bits: int) -> list[Instruction]:
    """Subnormal numbers count as zero."""
    need = "avx512bf16" if bits == 512 else "avx512bf16 avx512vl"
    dot, to = "llvm.x86.avx512bf16.dpbf16ps.{bits}", "llvm.x86.avx512bf16.cvtneps2bf16.{bits}"
    return [
        instruction(can.DOT2_BF16, bits, dot, need, plain=emulation.dot_bf16),
        instruction(can.TO_BF16, bits, to, need),
    ]


INSTRUCTIONS = (
    *(i for bits in (128, 256, 512) for i in _vnni(bits)),
    *(_vnni_int8(bits) for bits in (128, 256)),
    *(i for bits in (256, 512) for i in _bf16(bits)),
    instruction(can.TWO_TO_BF16, 512, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", "avx512bf16"),
    instruction(can.PAIRS_BYTES, 128, "llvm.x86.ssse3.pmadd.ub.sw.128", "ssse3"),
    instruction(can.PAIRS_BYTES, 256, "llvm.x86.avx2.pmadd.ub.sw", "avx2"),
    instruction(can.SIGN_BYTES, 128, "llvm.x86.ssse3.psign.b.128", "ssse3"),
    instruction(can.SIGN_BYTES, 256, "llvm.x86.avx2.psign.b", "avx2"),
    instruction(can.PAIRS_I16, 128, "llvm.x86.sse2.pmadd.wd", "sse4.1"),
    instruction(can.PAIRS_I16, 256, "llvm.x86.avx2.pmadd.wd", "avx2"),
    instruction(can.PAIRS_I16, 512, "llvm.x86.avx512.pmaddw.d.512", "avx512bw", plain=emulation.pairs),
    instruction(can.PACK_I32, 128, "llvm.x86.sse2.packssdw.128", "sse4.1"),
    instruction(can.PACK_I32, 256, "llvm.x86.avx2.packssdw", "avx2"),
    instruction(can.PACK_I16_UNSIGNED, 128, "llvm.x86.sse2.packuswb.128", "sse4.1"),
    instruction(can.PACK_I16_UNSIGNED, 256, "llvm.x86.avx2.packuswb", "avx2"),
    instruction(can.PACK_I16_SIGNED, 128, "llvm.x86.sse2.packsswb.128", "sse4.1"),
    instruction(can.PACK_I16_SIGNED, 256, "llvm.x86.avx2.packsswb", "avx2"),
    instruction(can.PACK_I32, 512, "llvm.x86.avx512.packssdw.512", "avx512bw", plain=emulation.packed_int16),
    instruction(
        can.PACK_I16_UNSIGNED, 512, "llvm.x86.avx512.packuswb.512", "avx512bw", plain=emulation.packed_unsigned
    ),
    instruction(can.PACK_I16_SIGNED, 512, "llvm.x86.avx512.packsswb.512", "avx512bw", plain=emulation.packed_signed),
    instruction(can.PICK_F32, 256, "llvm.x86.avx2.permps", "avx2"),
    instruction(can.PICK_F32, 512, "llvm.x86.avx512.permvar.sf.512", "avx512f", plain=emulation.table),
    instruction(can.PICK_BYTES, 512, "llvm.x86.avx512.vpermi2var.qi.512", "avx512vbmi"),
    instruction(can.PICK_WITHIN, 128, "llvm.x86.ssse3.pshuf.b.128", "ssse3"),
    instruction(can.PICK_WITHIN, 256, "llvm.x86.avx2.pshuf.b", "avx2"),
    instruction(can.LOOK_UP, 128, "llvm.x86.ssse3.pshuf.b.128", "ssse3"),
    instruction(can.LOOK_UP, 256, "llvm.x86.avx2.pshuf.b", "avx2"),
    instruction(can.LOOK_UP, 512, "llvm.x86.avx512.pshuf.b.512", "avx512bw", plain=emulation.bytes_within),
    instruction(
        can.SCALE_F32, 512, "llvm.x86.avx512.mask.scalef.ps.512", "avx512f", fixed=[_ZEROS, _ALL_LANES, _ROUNDING]
    ),
    instruction(
        can.SCALE_F64, 512, "llvm.x86.avx512.mask.scalef.pd.512", "avx512f", fixed=[_ZEROS, (8, -1), _ROUNDING]
    ),
    instruction(can.RECIPROCAL, 512, "llvm.x86.avx512.rcp14.ps.512", "avx512f", fixed=[_ZEROS, _ALL_LANES]),
    instruction(
        can.LIMIT_SIZE,
        512,
        "llvm.x86.avx512.mask.range.ps.512",
        "avx512dq",
        fixed=[_LESSER_SIZE, _ZEROS, _ALL_LANES, _ROUNDING],
    ),
    instruction(can.PAUSE, 0, "llvm.x86.sse2.pause", "sse4.1"),
    instruction(can.CONVERT_F16, 0, "", "f16c"),
    instruction(can.ARITHMETIC_F16, 0, "", "avx512fp16"),
    instruction(can.GATHER, 0, "", "avx2"),
    instruction(can.MASKED_BYTES, 0, "", "avx512bw"),
    instruction(can.MASKED_WORDS, 0, "", "avx2"),
    instruction(can.MOVE_BYTES, 256, "", "avx2"),
    instruction(can.MOVE_BYTES, 512, "", "avx512vbmi"),
    instruction(can.GREATER, 0, "", "sse4.1"),
    instruction(can.ASSEMBLY_F32, 256, "", "avx2 fma"),
)
