"""Steps of a register tile that takes every vector register, in inline assembly.

With 16 registers a tile of 4x3 vectors leaves one for A's scalars once a step's vectors of B are loaded. LLVM's
scheduler moves the next row's scalar up before the last one is used, and its allocator then spills sums inside the
loop, which costs 15 %. Such a tile has 7 loads for 12 multiply-adds where 6x2 vectors have 8, and suits numbers of rows
and columns that others pad: measured on AVX2, products of 24, 72 and 116 columns are 5 % faster than with 3x3 vectors,
128 rows 2 to 4 % faster than with 6x2.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from MNN.backends.cpu.lang.module import F32, Builder, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.targets.instructions import x86_assembly as assembly
from MNN.ir.dtype import DType


@functools.cache
def with_all_registers(target: Target) -> Target:
    """The target as the choice of a tile sees it, which leaves one register over, where tiles may take it, too."""
    if not _possible(target):
        return target
    return dataclasses.replace(target, vector_registers=target.vector_registers + 1)


def _possible(target: Target) -> bool:
    return target.vector_bytes == 32 and target.vector_registers == 16 and target.can(can.ASSEMBLY_F32)


def fills_registers(target: Target, mr: int, nv: int, types: Iterable[DType] = ()) -> bool:
    """Whether sums, vectors of B and a scalar of A take all registers, and steps are those of :func:`step`: where the
    operands' ``types`` are f32."""
    takes = mr * nv + nv + 1
    return _possible(target) and nv > 1 and takes == target.vector_registers and set(types) <= {DType.F32}


def step(b: Builder, sums: Sequence[Value], left: Sequence[Value], right: Value) -> list[Value]:
    """``sums`` (rows of vectors of f32) and the products of the scalars at ``left``, one a row, with the vectors from
    ``right`` on."""
    count, rows = len(sums), len(left)
    wide = sums[0].type
    nv = count // rows
    vectors = [b.gep(right, wide, j) for j in range(nv)]
    for place in left:
        b.check(place, F32.size)
    b.check(right, nv * wide.size)
    scalar = count + nv
    code = [assembly.load(f"${scalar + 1 + j}", f"${count + j}") for j in range(nv)]
    for r in range(rows):
        code.append(assembly.spread(f"${scalar + 1 + nv + r}", f"${scalar}"))
        code += [assembly.multiply_add(f"${count + j}", f"${scalar}", f"${r * nv + j}") for j in range(nv)]
    outputs = ["=x"] * count + ["=&x"] * (nv + 1)
    inputs = ["*m"] * (nv + rows) + [str(i) for i in range(count)]
    args = [f"ptr elementtype({wide.text}) {v.text}" for v in vectors]
    args += [f"ptr elementtype(float) {p.text}" for p in left]
    args += [f"{wide.text} {s.text}" for s in sums]
    many = f"{{ {', '.join([wide.text] * len(outputs))} }}"
    text, operands = "\\0A\\09".join(code), ",".join([*outputs, *inputs])
    # Side effects keep LLVM from moving loads of the next step up here.
    found = b.emit(wide, f'call {many} asm sideeffect "{text}", "{operands}"({", ".join(args)})')
    return [b.emit(wide, f"extractvalue {many} {found.text}, {i}") for i in range(count)]
