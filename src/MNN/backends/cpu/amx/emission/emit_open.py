"""Products on AMX tiles in plans for a range of sizes: what is chosen holds for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Ref
from MNN.backends.cpu.amx.cost import PANEL, Plan, asks_results, panel_bytes, plan_rows
from MNN.backends.cpu.amx.emission.emit_weights import Right
from MNN.backends.cpu.amx.grouping import ask_ahead, grouping
from MNN.backends.cpu.amx.layout import DEPTH, Layout, rows_layout
from MNN.backends.cpu.amx.open_rows import AmxOpenSpec
from MNN.backends.cpu.amx.tiles import ROWS
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.products.operand_access import batch_starts
from MNN.backends.cpu.products.product import Product
from MNN.compiler.open.errors import NotOpenError
from MNN.ir.traced import room_of

_ENOUGH_ROWS = 1024
"""Beyond three blocks, rows that tell how a product is done: more are done alike."""


@dataclass(frozen=True)
class OpenRows:
    """One product of rows with everything that a plan needs to be emitted."""

    e: Emitter
    product: Product
    right: Right
    parts: int
    half: bool

    def plan(self) -> Plan:
        """How the product is cut where open sizes take all of their room."""
        product = self.product
        m, n, k, batch = (room_of(size) for size in (product.m, product.n, product.k, product.batches))
        return plan_rows(
            self.e.target, m, n, k, product.taps.size, self.parts, batch, self.e.threads, half=self.half, apart=True
        )

    def candidate(self, name: str, cycles: float, plan: Plan) -> Candidate:
        """``cycles`` of the ``plan``, with what is packed and finished."""
        return Candidate(name, cycles, lambda: self._emit(plan))

    def _emit(self, plan: Plan) -> None:
        e, product = self.e, self.product
        if product.taps.size > 1:
            raise NotOpenError(f"{e.origin}: windows on tiles, which know their lines")
        a, c, epilogue, n_batch = product.a, product.c, product.epilogue, product.batches
        m, n, k = product.m, product.n, product.k
        # As many blocks at every size, so that all threads have some: a block has fewer rows where there are fewer.
        unit, blocks = PANEL if e.threads == 1 else ROWS, -(-room_of(m) // plan.rows)
        layout = self._layout(-(-room_of(m) // (unit * blocks)) * unit, plan.chunk)
        w24 = not self.half and self.right.w24(e, layout, self.parts)
        overlap = epilogue.body is not None
        groups = grouping(e.target, room_of(n), plan.nb, layout, self.parts, w24, self.half, overlap=overlap)
        steps = room_of(n_batch) * blocks * layout.pairs * -(-room_of(n) // PANEL) * layout.n_steps
        types = (a.dtype, c.dtype, self.parts, epilogue.body, epilogue.kinds)
        asks = asks_results(e.target, c.dtype, room_of(m) * room_of(n) * room_of(n_batch))
        family = ("AMX open", *types, groups.passing, w24, self.half, asks)
        ahead = ask_ahead(groups.lines, steps, e.pool.kept_choices.made(family), e.spare * e.threads)
        e.pool.kept_choices.make(family, ahead)
        spec = AmxOpenSpec(*types, ahead, overlap, passing=groups.passing, w24=w24, half=self.half, asks_results=asks)
        packed, b_batch = self.right.packed(e, "rows", layout, n, n_batch, self.parts, w24, self.half)
        starts = [a.batch + int(product.taps[0]), b_batch, c.batch, *(side.batch for side in epilogue.sides)]
        args: dict[str, int | Ref] = {
            "a": e.ref(a.place, a.dtype),
            "b": packed,
            "c": e.ref(c.place, c.dtype),
            "rows_a": e.offsets(a.table),
            "rows_c": e.offsets(c.table),
            "m": m,
            "mb": -(-m // (unit * blocks)) * unit,
            "m_blocks": blocks,
            "k": k,
            "per": (plan.chunk or layout.n_steps * DEPTH) // DEPTH,
            "pitch": layout.pitch,
            "plane": layout.plane,
            "panel": panel_bytes(layout.n_steps, self.parts, w24, self.half),
            **groups.words(),
            "n": n,
            "nb": plan.nb,
            "batch": batch_starts(e, starts, n_batch),
            "n_batch": n_batch,
        }
        args |= epilogue.args(e)
        e.command(spec, args, n_batch * blocks * -(-n // plan.nb), 1, 2 * m * n * k * n_batch)

    def _layout(self, mb: int, chunk: int) -> Layout:
        """What a block of ``mb`` rows takes of memory, among enough others."""
        m, k = room_of(self.product.m), room_of(self.product.k)
        rows = np.arange(min(m, 3 * mb + _ENOUGH_ROWS)) * k
        key = ("AMX open", rows.size, k, mb, chunk)
        return self.e.once(key, lambda: rows_layout(rows, np.zeros(1, np.int64), k, mb, chunk))


__all__ = ["OpenRows"]
