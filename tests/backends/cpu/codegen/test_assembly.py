"""Reading assembly: kinds of instructions, spills, and which loop is the hottest."""

from __future__ import annotations

import pytest

from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.assembly import examine
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.targets.base import named_target
from MNN.backends.cpu.targets.syntax import MULTIPLY_ADD
from MNN.ir.dtype import DType

X86 = """
kernel:
\tpushq\t%rbx
\tmovq\t%rsi, -8(%rsp)                   # 8-byte Spill
\tvxorps\t%xmm0, %xmm0, %xmm0
\tjmp\t.LBB0_3
.LBB0_2:
\taddq\t$64, %rdi
\tcmpq\t%rsi, %rdi
\tjge\t.LBB0_5
.LBB0_3:
\txorl\t%eax, %eax
.LBB0_4:
\tvmovups\t(%rdi), %zmm1
\tvfmadd231ps\t(%rdx,%rax,4), %zmm1, %zmm0
\tvmovups\t%zmm0, 64(%rsp)
\tvmovaps\t%zmm0, %zmm3
\tleaq\t(%rsp,%rax), %rcx
\tincq\t%rax
\tcmpq\t%r8, %rax
\tjl\t.LBB0_4
\tjmp\t.LBB0_2
.LBB0_5:
\tmovq\t-8(%rsp), %rsi
.LBB0_6:
\tvaddps\t%zmm0, %zmm1, %zmm0
\tdecq\t%rsi
\tjne\t.LBB0_6
\tpopq\t%rbx
\tretq
"""

NEON = """
kernel:
\tsub\tsp, sp, #32
\tstr\tq8, [sp]
.LBB0_1:
\tldr\tq0, [x0], #16
\tfmla\tv1.4s, v0.4s, v2.s[0]
\tfmla\tv3.4s, v0.4s, v2.s[1]
\tsubs\tx3, x3, #1
\tb.ne\t.LBB0_1
\tldr\tx5, [sp, #16]
\tret
"""


def test_a_loop_within_a_loop_is_the_hottest():
    found = examine(X86, "x86")
    assert found.hot is not None
    text = X86.splitlines()
    assert [text[n].split()[0] for n in found.hot.lines][:2] == ["vmovups", "vfmadd231ps"]
    assert found.hot.count == 8
    assert found.hot.kinds == {
        "load or store": 2, MULTIPLY_ADD: 1, "move": 1, "address": 2, "branch or compare": 2,
    }  # fmt: skip
    assert (found.hot.vector_spills, found.hot.general_spills) == (1, 0)
    assert (found.whole.vector_spills, found.whole.general_spills) == (1, 2)


def test_neon():
    found = examine(NEON, "aarch64")
    assert found.hot is not None
    assert found.hot.kinds[MULTIPLY_ADD] == 2
    assert found.hot.vector_spills == 0
    assert (found.whole.vector_spills, found.whole.general_spills) == (1, 1)


def test_without_loops_and_for_other_processors():
    assert examine("kernel:\n\tretq\n", "x86").hot is None
    found = examine("kernel:\n\tadd a0, a0, a1\n\tret\n", "riscv")
    assert found.hot is None
    assert found.whole.vector_spills == found.whole.general_spills == 0


@pytest.mark.parametrize(("name", "tile"), [("avx512", (8, 3)), ("avx2", (4, 2)), ("neon", (8, 2))])
def test_real_kernels_have_their_tile_in_the_hottest_loop(name, tile):
    target = named_target(name)
    spec = ContractSpec(DType.F32, DType.F32, DType.F32, DType.F32, *tile)
    code = toolchain.assembly(spec.emit(target), target, shaped=spec.shaped)
    found = examine(code, target.family)
    assert found.hot is not None
    assert found.hot.kinds[MULTIPLY_ADD] % (tile[0] * tile[1]) == 0
    assert found.hot.vector_spills == 0
    assert found.hot.count < found.whole.count
