"""Who does what in inner products (:mod:`MNN.backends.cpu.inner_product.spec`): a turn of pairs of steps, and its code
with 16 registers.

With 32 registers some rows of a tile are taken by inner products and the others plainly, in every pair; factors of A
are operands in memory. With 16 (AVX2) and no such operands a tile has 4x2 vectors: sums, a pair's vectors of B and four
numbers on their way take all registers, and one row in four is taken plainly, the first and the second one in turns,
for the two multiply-adds of a plain row wait for each other. Written in assembly, since LLVM would spill: a turn of
four pairs takes 24.5 cycles, where plain tiles of 6x2 take 32 (measured, in the first-level cache).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.backends.cpu.lang.module import Builder, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.targets.instructions import x86_assembly as assembly

HEAD = 2
"""Rows before the weights of a panel of B: sums of products of pairs, and what results are multiplied by."""
SIGNS = {False: (1, -1), True: (1, -1, -1, 1)}
"""Those of the pairs of a turn: where rows take turns, every second pair of each row must have another sign."""
FULL_REGISTER_TILE = (4, 2)
"""The tile that takes 16 registers."""


@dataclass(frozen=True)
class Iteration:
    """The pairs of a turn: the sign of each, and its rows taken by inner products."""

    signs: tuple[int, ...]
    halved: tuple[tuple[int, ...], ...]

    @property
    def steps(self) -> int:
        """Depth of a turn."""
        return 2 * len(self.signs)

    @property
    def split(self) -> bool:
        """Whether rows differ from pair to pair: then B's sums are over even pairs, and a third row of a panel's head
        has those over odd ones."""
        return len(set(self.halved)) > 1

    @property
    def head(self) -> int:
        """Rows before the weights of a panel of B."""
        return HEAD + self.split

    @property
    def scaled(self) -> tuple[int, ...]:
        """Rows of A that are brought to size."""
        return tuple(sorted({r for rows in self.halved for r in rows}))

    def whole(self, k: int) -> int:
        """The depth in whole turns: those that are split end with zeros."""
        return -(-k // self.steps) * self.steps

    def share(self, row: int, lane: int) -> float:
        """What the product of a pair counts in what the sums of ``row`` begin with; ``lane``: a step of the pair."""
        pair = lane // 2 % len(self.signs)
        return -0.5 * self.signs[pair] if row in self.halved[pair] else 0.0


def fills_registers(target: Target) -> bool:
    """Whether tiles are :data:`FULL_REGISTER_TILE` and turns are those of :func:`emit_iteration`."""
    return target.vector_bytes == 32 and target.vector_registers == 16 and target.can(can.ASSEMBLY_F32)


def halved_rows(mr: int) -> list[int]:
    """The rows of a tile that are taken by inner products, spread over it: what leaves adders and multipliers of a turn
    with the least work."""
    count = min(range(mr + 1), key=lambda n: (max(2 * n, 2 * mr - n), n))
    return [r for r in range(mr) if (r + 1) * count // mr > r * count // mr]


def iteration_of(target: Target, mr: int, nv: int) -> Iteration:
    """The turn of a tile. Pairs with either sign take turns, for every row."""
    if fills_registers(target) and (mr, nv) == FULL_REGISTER_TILE:
        return Iteration(SIGNS[True], ((1, 2, 3), (0, 2, 3)) * 2)
    return Iteration(SIGNS[False], (tuple(halved_rows(mr)),) * 2)


def emit_iteration(b: Builder, iteration: Iteration, sums: Sequence[Value], a: Value, right: Value) -> list[Value]:
    """The ``sums`` of a tile with a turn's products, of the rows at ``a`` (a vector each) and the weights ``right``."""
    wide, (mr, nv) = sums[0].type, FULL_REGISTER_TILE
    b.check(a, mr * wide.size)
    b.check(right, iteration.steps * nv * wide.size)
    count = len(sums)
    weights = [[f"${count + v * nv + j}" for j in range(nv)] for v in (0, 1)]
    x, y, s, t = (f"${count + 2 * nv + i}" for i in range(4))
    places = f"${count + 2 * nv + 4}", f"${count + 2 * nv + 5}"
    code = []
    for pair, (sign, halved) in enumerate(zip(iteration.signs, iteration.halved, strict=True)):
        for i, register in enumerate([*weights[0], *weights[1]]):
            code.append(assembly.load(f"{(2 * nv * pair + i) * wide.size}({places[1]})", register))
        for r in range(mr):
            for v, register in enumerate((x, y)):
                code.append(assembly.spread(f"{r * wide.size + (2 * pair + v) * 4}({places[0]})", register))
            for j in range(nv):
                total, first, second = f"${r * nv + j}", weights[0][j], weights[1][j]
                if r not in halved:
                    code += [assembly.multiply_add(first, x, total), assembly.multiply_add(second, y, total)]
                    continue
                p, q = (x, y) if j == nv - 1 else (s, t)
                if sign > 0:
                    code += [assembly.add(second, x, p), assembly.add(first, y, q)]
                else:
                    code += [assembly.subtract(second, x, p), assembly.subtract(y, first, q)]
                code.append(assembly.multiply_add(p, q, total))
    outputs = ["=x"] * count + ["=&x"] * (2 * nv + 4)
    inputs = ["r", "r", *(str(i) for i in range(count))]
    many = f"{{ {', '.join([wide.text] * len(outputs))} }}"
    text, operands = "\\0A\\09".join(code), ",".join([*outputs, *inputs])
    args = ", ".join([f"ptr {a.text}", f"ptr {right.text}", *(f"{wide.text} {value.text}" for value in sums)])
    found = b.emit(wide, f'call {many} asm sideeffect "{text}", "{operands}"({args})')
    return [b.emit(wide, f"extractvalue {many} {found.text}, {i}") for i in range(count)]
