"""Judges the AArch64 inner loops without such a processor: LLVM's machine code analyser against the throughput bound.

    python -m benchmarks.aarch64 [--mca llvm-mca-22]

For each kernel the innermost loop with the most multiply-adds is cut out of the assembly and given to ``llvm-mca``
(Debian's package llvm-22). The bound is the larger of what multiply-adds and loads need: of 128-bit multiply-adds and
loads a Cortex-A76 starts two of each per cycle, a Cortex-A55 one of each. f16 has twice the numbers per instruction,
dot products two (bf16) or four (bytes) products per number.

- LLVM has no model of the A76; the Neoverse N1 is the same core and has one. It takes three micro-operations a cycle
  and counts two for every load. Here the limit is taken to be eight micro-operations and four instructions instead (an
  assumption); with ``dispatch=0`` below the analyser uses its own, and finds less, see docs/aarch64.md.
- LLVM's model of the A55 starts two 128-bit multiply-adds per cycle where the guide says one, so that its cycles can be
  fewer than the bound: they show that nothing else is in the way. Its dot products start one per cycle.
- Products of bf16 need a newer core: Neoverse N2 (Cortex-A710) and Cortex-A510 stand in for large and small.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.assembly import examine
from MNN.backends.cpu.gemm.code_half import FLUSH
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.targets.base import Target, named_target
from MNN.backends.cpu.targets.syntax import MATRIX, MULTIPLY_ADD
from MNN.backends.cpu.window.cost import choose_window
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.ir.dtype import DType

ITERATIONS = 200


@dataclass(frozen=True)
class Core:
    name: str
    model: str
    fma_per_cycle: int
    loads_per_cycle: int
    instructions: int
    """How many a cycle takes in."""
    dispatch: int = 0
    """Micro-operations per cycle, where LLVM's model is told another number."""


A76, A55 = Core("Cortex-A76", "neoverse-n1", 2, 2, 4, 8), Core("Cortex-A55", "cortex-a55", 1, 1, 2)
N2, A510 = Core("Neoverse N2", "neoverse-n2", 2, 2, 5, 10), Core("Cortex-A510", "cortex-a510", 2, 2, 3)
NEON, FP16 = named_target("neon"), named_target("neon-fp16")
BF16 = dataclasses.replace(FP16, features=tuple(sorted({*FP16.features, "bf16"})))
TILES = ((8, 2), (6, 3), (5, 4), (4, 4), (2, 4), (1, 8))
"""Register tiles (rows, vectors) that the cost model prefers."""


@dataclass(frozen=True)
class Case:
    name: str
    spec: KernelSpec
    target: Target
    cores: tuple[Core, Core] = (A76, A55)


def cases() -> Iterator[Case]:
    """The tiles that the cost model takes, for every kind of product, and depthwise windows."""
    d = DType
    for mr, nv in TILES:
        yield Case(f"f32, tile {mr} x {nv}", ContractSpec(d.F32, d.F32, d.F32, d.F32, mr, nv), NEON)
    for width, stride, size in (
        (3, 1, 56),
        (3, 1, 7),
        (3, 2, 56),
        (3, 2, 28),
        (3, 2, 14),
        (3, 2, 7),
        (5, 1, 28),
        (5, 1, 7),
        (5, 2, 28),
        (5, 2, 14),
        (5, 2, 7),
        (7, 1, 14),
    ):
        lines, pixels = choose_window(NEON, "dot", (width, width), stride, 1, size, size)
        spec = WindowSpec(d.F32, d.F32, d.F32, "dot", width, stride, 1, pixels, lines=lines)
        yield Case(f"depthwise {width}x{width} / {stride} to {size}x{size}, tile {lines} x {pixels}", spec, NEON)
    for mr, nv in TILES:
        yield Case(f"f16, tile {mr} x {nv}", ContractSpec(d.F16, d.F16, d.F16, d.F16, mr, nv), FP16)
    for mr, nv in TILES:
        yield Case(f"i8, tile {mr} x {nv}", ContractSpec(d.I8, d.I8, d.I32, d.I32, mr, nv, group=4), FP16)
    for mr, nv in TILES:
        spec = ContractSpec(d.BF16, d.BF16, d.F32, d.F32, mr, nv, group=2)
        yield Case(f"bf16, tile {mr} x {nv}", spec, BF16, (N2, A510))


def cycles(code: list[str], core: Core, mca: str) -> float:
    """Cycles of one turn of a loop."""
    command = [mca, "-mtriple=aarch64", f"-mcpu={core.model}", "-mattr=+fullfp16,+dotprod,+bf16"]
    command += [f"-iterations={ITERATIONS}", *([f"-dispatch={core.dispatch}"] if core.dispatch else [])]
    result = subprocess.run(command, input="\n".join(code), capture_output=True, text=True, check=True)
    match = re.search(r"Total Cycles:\s+(\d+)", result.stdout)
    if match is None:
        raise RuntimeError(f"{mca} gave no cycles: {result.stderr}")
    instructions = sum(line.startswith("\t") and not line.startswith("\t.") for line in code)
    return max(int(match[1]) / ITERATIONS, instructions / core.instructions)


@dataclass(frozen=True)
class Loop:
    """An innermost loop and what it holds."""

    code: list[str]
    products: int
    loads: int
    spills: int

    def cells(self, name: str) -> str:
        """The first cells of its line in the table."""
        return f"| {name} | {self.products} | {self.loads} | {self.spills} |"


def inner_loop(case: Case) -> Loop:
    """The loop with the most multiply-adds."""
    assembly = toolchain.assembly(case.spec.emit(case.target), case.target, shaped=case.spec.shaped)
    hot = examine(assembly, "aarch64").hot
    if hot is None:
        raise RuntimeError(f"{case.name}: its code has no loop")
    loop = assembly.splitlines()[hot.lines[0] - 1 : hot.lines[-1] + 1]  # from its label to the branch back
    products = sum(hot.kinds.get(kind, 0) for kind in (MULTIPLY_ADD, MATRIX))
    loaded = sum(2 if re.search(r"\bldp\s+q", line) else 1 for line in loop if re.search(r"\bld[pr1]", line))
    return Loop(loop, products, loaded, hot.vector_spills + hot.general_spills)


def row(case: Case, mca: str) -> str:
    """One line of the table."""
    loop = inner_loop(case)
    cells = []
    for core in case.cores:
        bound, what = max((loop.products / core.fma_per_cycle, "FMA"), (loop.loads / core.loads_per_cycle, "loads"))
        needed = max(cycles(loop.code, core, mca), bound)
        cells.append(f"{needed:.1f} / {bound:.1f} ({what}): {bound / needed:.0%}")
    return f"{loop.cells(case.name)} {' | '.join(cells)} |"


def flushing(core: Core, mca: str) -> float:
    """The share of time that f16 kernels (tile 8 x 2) take to add their sums to those of f32."""
    half = DType.F16
    assembly = toolchain.assembly(ContractSpec(half, half, half, half, 8, 2).emit(FP16), FP16, shaped=True)
    blocks = re.split(r"^\.LBB\w+:", assembly, flags=re.MULTILINE)
    block = max(blocks, key=lambda text: text.count("fcvtl")).splitlines()[1:]
    adding = cycles([line for line in block if line.startswith("\t") and not line.startswith("\t.")], core, mca)
    return adding / (adding + FLUSH * 8 * 2 / core.fma_per_cycle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mca", default="llvm-mca-22", help="the program llvm-mca")
    mca = parser.parse_args().mca
    print("| inner loop (rows x vectors) | FMAs | loads | spills | large core: cycles / bound | small core |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for case in cases():
        print(row(case, mca))
    shares = ", ".join(f"{core.name} {flushing(core, mca):.0%}" for core in (A76, A55))
    print(f"\nAdding f16 sums to f32 every {FLUSH} steps, share of the time: {shares}")


if __name__ == "__main__":
    main()
