"""Products with weights that stay in 2, 4 or 8 bits (see :mod:`MNN.backends.cpu.lowbit.layout` for how they lie).

With few rows of A, floats would have to be waited for. Compressed, taking them apart is what takes the time (16 of
28 GB/s of bytes are read on a Zen 4 core). Codes become numbers in registers, and what scale
and zero point do is put off to the end of each block: ``sum(a * (c - z)) * s = (sum(a * c) - z * sum(a)) * s``, so that
a number of a weight costs a shift, a table look-up and a multiply-add. With many rows each panel is expanded into
scratch memory once and then multiplied as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from MNN.backends.base.kernel import Arguments
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lowbit import codebook, planes
from MNN.backends.cpu.lowbit.layout import VECTORS, Layout, column_bytes
from MNN.backends.cpu.lowbit.records import COMPRESSED
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType


@dataclass(frozen=True)
class CompressedSpec(ContractSpec):
    """:class:`ContractSpec` with one tap and one batch, and weights in panels of
    :class:`~MNN.backends.cpu.lowbit.layout.Layout` at ``b`` (``ldb`` and ``panel`` mean nothing). Behind its arguments
    come those of :data:`~.records.COMPRESSED`.

    ``few``: meant for few rows, of which all in
    ``mb`` are copied to scratch; ``nv`` is then 1, 2 or 4. Else ``b`` is what the panels are expanded to, f32, or bf16
    with ``group`` 2.
    """

    width: int = 4
    zeros: str = "none"
    factors: DType = DType.F32
    few: bool = False
    codebook: bool = False
    """Whether codes are numbers of entries (:mod:`.codebook`)."""
    high: int = 0
    """Bits beside four of codes that lie in pieces (:mod:`.planes`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.acc is not DType.F32 or not self.b_packed or (self.few and (self.group > 1 or VECTORS % self.nv)):
            raise ValueError(f"no product of compressed weights like {self.key()}")

    def slots(self) -> tuple[str, ...]:
        return (*super().slots(), *COMPRESSED, *codebook.slots(self.codebook))

    def layout(self, target: Target, args: Mapping[str, int]) -> Layout:
        columns = VECTORS * target.lanes(DType.F32)
        return Layout(
            self.width,
            self.zeros,
            columns,
            args["blocks"],
            args["groups"],
            self.factors,
            (),
            self.high,
            planes.lane_of(target),
        )

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """A tile of sums; then rows of A and their sums block by block, or an expanded panel."""
        tile = self.mr * self.nr(target) * 4
        depth = args["blocks"] * args["groups"] * planes.steps_of(self.width, self.high)
        if self.few:
            return tile + args["mb"] * (depth + args["blocks"]) * 4
        return tile + depth * self.nr(target) * self.b.size

    def traffic(self, args: Arguments) -> dict[str, int]:
        """The weights' own bytes."""
        found = super().traffic(args)
        if self.routed:
            return found
        blocks, groups = number(args, "blocks"), number(args, "groups")
        found["b"] = number(args, "n") * blocks * column_bytes(self, groups)
        return found
