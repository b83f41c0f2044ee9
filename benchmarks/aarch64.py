"""Judges the AArch64 inner loops without such a processor: LLVM's machine code analyser against the FMA bound.

    python -m benchmarks.aarch64 [--mca llvm-mca-22]

For each kernel the innermost loop with the most multiply-adds is cut out of the assembly and given to ``llvm-mca``
(Debian's package llvm-22). The bound is what the processor's own optimisation guide allows: 128-bit multiply-adds at
two per cycle (Cortex-A76) or one (Cortex-A55), and 128-bit loads at two per cycle or one. LLVM has no model of the A76;
the Neoverse N1 is the same core and has one. LLVM's model of the A55 counts two 128-bit multiply-adds per cycle where
the guide says one, so that its cycles can be fewer than the bound: they show that nothing else is in the way.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from dataclasses import dataclass

from MNN.ir.dtype import DType
from MNN.kernels import toolchain
from MNN.kernels.contract import ContractSpec
from MNN.kernels.spec import KernelSpec
from MNN.kernels.window import WindowSpec
from MNN.targets.base import Target, named_target

ITERATIONS = 200


@dataclass(frozen=True)
class Core:
    name: str
    model: str
    fma_per_cycle: int
    loads_per_cycle: int


CORES = (Core("Cortex-A76", "neoverse-n1", 2, 2), Core("Cortex-A55", "cortex-a55", 1, 1))


def kernels() -> dict[str, KernelSpec]:
    """The tiles that the cost model takes, and depthwise windows."""
    f = DType.F32
    found: dict[str, KernelSpec] = {
        f"contraction, tile {mr} rows x {nv} vectors": ContractSpec(f, f, f, f, mr, nv)
        for mr, nv in ((8, 2), (6, 3), (5, 4), (4, 4), (1, 4))
    }
    for width, stride in ((3, 1), (3, 2), (5, 1)):
        name = f"depthwise {width}x{width}, stride {stride}"
        found[name] = WindowSpec(f, f, f, "dot", width, stride, 1, 4)
    return found


def inner_loops(assembly: str) -> list[list[str]]:
    """The loops of an assembly text that hold no other block: from a label to the branch back to it."""
    lines = assembly.splitlines()
    labels: dict[str, int] = {}
    loops = []
    for number, line in enumerate(lines):
        if match := re.match(r"(\.LBB\w+):", line):
            labels[match[1]] = number
        match = re.match(r"\s+(?:b\.?\w*|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+(\.LBB\w+)", line)
        if match and match[1] in labels:
            body = lines[labels[match[1]] : number + 1]
            if sum(text.startswith(".LBB") for text in body) == 1:
                loops.append(body)
    return loops


def cycles(loop: list[str], model: str, mca: str) -> float:
    """Cycles of one turn of the loop."""
    command = [mca, "-mtriple=aarch64", f"-mcpu={model}", f"-iterations={ITERATIONS}"]
    result = subprocess.run(command, input="\n".join(loop), capture_output=True, text=True, check=True)
    match = re.search(r"Total Cycles:\s+(\d+)", result.stdout)
    if match is None:
        raise RuntimeError(f"{mca} gave no cycles: {result.stderr}")
    return int(match[1]) / ITERATIONS


def row(name: str, spec: KernelSpec, target: Target, mca: str) -> str:
    """One line of the table."""
    assembly = toolchain.assembly(spec.emit(target), target, shaped=spec.shaped)
    loop = max(inner_loops(assembly), key=lambda body: sum("fmla" in line for line in body))
    products = sum("fmla" in line for line in loop)
    loaded = sum(2 if re.search(r"\bldp\s+q", line) else 1 for line in loop if re.search(r"\bld[pr1]", line))
    spilled = sum("[sp" in line for line in loop)
    cells = [name, str(products), str(loaded), str(spilled)]
    for core in CORES:
        arithmetic, memory = products / core.fma_per_cycle, loaded / core.loads_per_cycle
        bound, what = max((arithmetic, "FMA"), (memory, "loads"))
        needed = max(cycles(loop, core.model, mca), bound)
        cells.append(f"{needed:.0f} / {bound:.0f} ({what}): {bound / needed:.0%}")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mca", default="llvm-mca-22", help="the program llvm-mca")
    mca = parser.parse_args().mca
    print(f"| inner loop | FMAs | loads | spills | {' | '.join(f'{c.name}: cycles / bound' for c in CORES)} |")
    print("| --- | ---: | ---: | ---: |" + " ---: |" * len(CORES))
    for name, spec in kernels().items():
        print(row(name, spec, named_target("neon"), mca))


if __name__ == "__main__":
    main()
