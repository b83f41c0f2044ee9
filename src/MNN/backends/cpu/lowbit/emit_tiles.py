"""Products of many rows on matrix units with weights in few bits, which are taken apart in every run.

Some columns at a time: their panels lie in the arena between two commands, in memory that all products share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.amx.cost import LEAST_COLUMNS, PANEL, panel_bytes
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.amx.emission.emit_weights import Right
from MNN.backends.cpu.amx.layout import DEPTH
from MNN.backends.cpu.amx.layout import Layout as Tiles
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.lowbit.layout import Layout
from MNN.backends.cpu.lowbit.tile_panels import LANES, TilePanelsSpec
from MNN.backends.cpu.products.epilogue import ALONG_COLUMNS
from MNN.backends.cpu.products.operand_access import OperandAccess
from MNN.backends.cpu.products.product import Product
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor

_AT_ONCE = 16 << 20
"""Bytes of panels at a time, about: they stay near, and rows of A are brought few times."""


@dataclass(frozen=True)
class ExpandedRight(Right):
    """Columns of ``codes``, which become panels when the product's command is emitted."""

    codes: Ref | None = None
    layout: Layout | None = None
    rounds: bool = False

    def packed(
        self, e: Emitter, kind: str, layout: Tiles, n: int, n_batch: int, parts: int, w24: bool, half: bool
    ) -> tuple[Ref, np.ndarray]:
        """Address and batch offsets of the panels, which a command in front of the product fills."""
        assert self.codes is not None
        assert self.layout is not None
        panels, panel = -(-n // PANEL), panel_bytes(layout.n_steps, parts)
        to = Ref(e.allocate(DType.U8, (panels * panel,), (0,)).buffer, 0)
        args: dict[str, int | Ref] = {
            "codes": self.codes, "dst": to, "n": n, "panel": panel,
            "blocks": self.layout.blocks, "groups": self.layout.groups,
        }  # fmt: skip
        e.command(TilePanelsSpec.of(self.layout.width, self.layout.zeros, parts), args, panels, 1)
        return to, np.zeros(1, np.int64)

    def places(self, e: Emitter) -> list[Place]:
        return []

    @property
    def in_fp16(self) -> bool:
        """Parts of fp16 would have to be measured first."""
        return False

    @property
    def fills_caches(self) -> bool:
        return True

    @property
    def may_round(self) -> bool:
        """Rows that may have 8 bits of a block's largest number may have 8 of each number."""
        return self.rounds


def possible(e: Emitter, layout: Layout, k: int) -> bool:
    """Whether panels can be made of the weights: of whole steps of tiles, and whole vectors."""
    return amx.available(e.target) and e.target.lanes(DType.F32) == LANES and k % DEPTH == 0


def candidates(e: Emitter, product: Product, layout: Layout, weights: Ref, rounds: bool) -> list[Candidate]:
    """The product on tiles, of one bf16 part where that ``rounds`` enough; none where it does not apply."""
    parts = list(_columns(e, product, layout, weights, rounds))
    ways = [amx.amx_candidates(e, some, right) for some, right in parts]
    if not all(ways):
        return []
    first = [found[0] for found in ways]

    def emit() -> None:
        for each in first:
            each.emit()

    name = f"{layout.width}-bit weights, {first[0].name}"
    return [Candidate(name, sum(each.cycles for each in first), emit)]


def _columns(
    e: Emitter, product: Product, layout: Layout, weights: Ref, rounds: bool
) -> Iterator[tuple[Product, ExpandedRight]]:
    """The product of some columns after the other, each with its weights."""
    n, k = product.n, product.k
    most = max(_AT_ONCE // (k * 2 * DType.BF16.size) // layout.columns, 1) * layout.columns
    count = -(-n // most)
    each = -(-n // (count * layout.columns)) * layout.columns
    begins = [begin for begin in range(0, n, each) if n - begin >= LEAST_COLUMNS] or [0]
    for begin, end in zip(begins, [*begins[1:], n], strict=True):  # the last has what is too little for one more
        size = end - begin
        codes = Ref(weights.buffer, weights.offset + begin // layout.columns * layout.panel)
        right = ExpandedRight(Tensor(DType.F32, (k, size)), None, (), None, codes, layout, rounds)
        yield _cut(product, begin, size), right


def _cut(product: Product, begin: int, size: int) -> Product:
    """So many columns from ``begin`` on."""

    def moved(side: OperandAccess) -> OperandAccess:
        place = side.place
        return replace(side, place=Place(place.buffer, place.offset + begin, place.strides))

    epilogue = product.epilogue
    operands = [(kind, moved(side) if kind in ALONG_COLUMNS else side) for kind, side in epilogue.operands]
    return replace(product, c=moved(product.c), n=size, epilogue=replace(epilogue, operands=operands))


__all__ = ["ExpandedRight", "candidates", "possible"]
