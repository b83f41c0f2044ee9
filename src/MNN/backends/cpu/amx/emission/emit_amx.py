"""Convolutions and matrix products on AMX tiles, as candidates beside the vector kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.amx.cost import (
    DIRECT_COLUMNS,
    LEAST_COLUMNS,
    PANEL,
    STRETCH,
    Plan,
    asks_results,
    in_one_set,
    is_tall,
    panel_bytes,
    plan_rows,
    plan_window,
    tall_columns,
)
from MNN.backends.cpu.amx.emission.emit_open import OpenRows
from MNN.backends.cpu.amx.emission.emit_prefetch import turns
from MNN.backends.cpu.amx.emission.emit_slices import can_sum, emit_sum
from MNN.backends.cpu.amx.emission.emit_weights import Right
from MNN.backends.cpu.amx.emission.pairs_of_bytes import BYTES, of_bytes
from MNN.backends.cpu.amx.grouping import ask_ahead, grouping
from MNN.backends.cpu.amx.layout import (
    Layout,
    direct_layout,
    direct_rows,
    joined_layout,
    orders,
    rows_layout,
    tall_layout,
    turned_layout,
)
from MNN.backends.cpu.amx.lines import Lines, has_lines, line_layout, lines_of, plan_lines
from MNN.backends.cpu.amx.sections import COLUMNS, Sections, plan_sections, section_layout, sections_of
from MNN.backends.cpu.amx.slices import plan_slices, sliced_layout
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.amx.tiles import ROWS, has_tiles
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.math.scalar_code import body_cost
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm, only_asked
from MNN.backends.cpu.products.emit_epilogue import Epilogue
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.products.operand_access import OperandAccess, batch_starts
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.compiler.layout import natural
from MNN.ir.dtype import DType
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

_PARTS = {"high": 3, "normal": 2, "low": 1}
_WINDOW_CHANNELS = 16
"""With fewer channels, pixels padded to 32 would be mostly padding."""
_LINE_CHANNELS = 32
"""From so many channels on, a pixel fills steps of the sum by itself."""
_MOST_HIDDEN = 0.25
"""Of a product on tiles: what its epilogue takes in other kernels, at most, where it is as good as free here."""
_BYTES_BEHIND = 1.5
"""Cycles that a vector of results in bytes takes longer than behind other kernels, whose sums are in registers."""
_PACK_CYCLES = 0.7
"""Cycles to pack an element of B."""


def available(target: Target) -> bool:
    """Whether there are tiles to choose."""
    return has_tiles(target)


def splits_in_fp16(target: Target) -> bool:
    """Whether ``high`` multiplies two fp16 parts, as exact as three bf16 ones, in half as many products."""
    return has_tiles(target, can.TILE_DOT_F16)


@contraction_algorithm("AMX", rank=2, parts=True)
def contraction_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """Ways to compute a contraction on tiles."""
    product, weights, window = work.product, work.weights, work.window
    bounded = product.a.dtype in BYTES or (product.a.dtype is DType.BF16 and e.precision == "low")
    forms = [(product, weights, window, 0)]
    if bounded and window is not None and available(e.target):
        if product.batches > 1:
            forms = [(*(work.in_lines() or (product, weights, window)), 0)]
        apart = () if e.options.open_sizes else COLUMNS
        forms += [(*found, columns) for columns in apart if (found := work.in_sections(columns)) is not None]
    every = [
        amx_candidates(e, product, Right(weights.tensor, weights.conv, weights.outer), window, settled, columns)
        for product, weights, window, columns in forms
    ]
    return [candidate for found in every for candidate in found]


def amx_candidates(
    e: Emitter, product: Product, right: Right, window: Window | None = None, settled: str = "", columns: int = 0
) -> list[Candidate]:
    """Ways to compute a contraction on tiles; none where it does not apply.

    ``window``: the geometry where it is a convolution; ``columns``: those of a section that takes the channels of a
    window of its own. The one that is ``settled`` comes alone.
    """
    tensor, a = right.tensor, product.a
    places = [side.place for side in product.sides] + right.places(e)
    within = any(p.buffer.nbytes == 0 for p in places)  # memory of a chain; measured: in f32 it is better not compared
    bytes_ = of_bytes(e, product, right, window) if a.dtype in BYTES else None
    if bytes_ is not None:
        product, right, window = bytes_.product, bytes_.right, bytes_.window
        tensor, a = right.tensor, product.a
    if (
        not available(e.target)
        or (within and not (only_asked() and a.dtype is DType.BF16))  # stages are vector kernels
        or (bytes_ is None and a.dtype not in (DType.F32, DType.BF16, DType.BF16X2))
        or (bytes_ is None and tensor.dtype not in (DType.F32, DType.BF16))
        or room_of(product.n) < LEAST_COLUMNS
        or product.m == 0
        or product.batches == 0
    ):
        return []
    parted = a.dtype is DType.BF16X2
    half = e.precision == "high" and a.dtype is DType.F32 and splits_in_fp16(e.target)
    one = right.bytes or a.dtype is DType.BF16
    parts = 1 if one else 2 if parted or half else _PARTS[e.precision]
    lines = None if bytes_ is None else bytes_.lines
    alone = lines is not None
    if window is not None and window.channels < _LINE_CHANNELS and has_lines(window):
        lines = lines_of(window)
    job = _Job(e, product, right, window, lines, parts, half)
    if columns:
        sections = None if window is None else sections_of(window, columns)
        return [] if sections is None else [job.apart(sections)]
    if e.options.open_sizes:
        return [job.open_rows()]
    ways = {} if alone else {"rows": job.rows}
    if window is not None and elements(window.kernel) > 1 and window.channels >= _WINDOW_CHANNELS:
        ways["pixels"] = job.pixels
    if lines is not None:
        ways["lines"] = job.along_lines
    kept = [kind for kind in ways if job.name(kind) == settled]
    return [ways[kind]() for kind in kept or ways]


_G = TypeVar("_G", Window, Lines)
_Laid = tuple[Layout, dict[str, int | Ref]]
"""A layout, and its arguments."""


@dataclass(frozen=True)
class _Job:
    """One contraction with everything that a plan needs to be emitted."""

    e: Emitter
    product: Product
    right: Right
    window: Window | None
    lines: Lines | None
    parts: int
    half: bool

    def name(self, kind: str) -> str:
        if self.right.bytes is not None:
            return f"AMX {kind}, bytes"
        return f"AMX {kind}, {self.parts} {'fp16' if self.half else 'bf16'} part{'s' if self.parts > 1 else ''}"

    def rows(self) -> Candidate:
        """The rows of A one behind the other, or loaded from where they are."""
        e, product = self.e, self.product
        a, taps, k, n, batch = product.a, product.taps, product.k, product.n, product.batches
        rows, parted = a.table, a.dtype is DType.BF16X2
        there = a.dtype is DType.BF16 or self.right.bytes is not None or (parted and n <= DIRECT_COLUMNS)
        there = there and not (a.dtype is DType.BF16 and n > DIRECT_COLUMNS and in_one_set(rows, a.dtype))
        at = direct_rows(rows + int(taps[0]), k) if there and taps.size == 1 else None
        m, direct = (rows.size, 0) if at is None else (int(at[-1]) + 1, self.parts)
        plan = plan_rows(e.target, m, n, k, taps.size, self.parts, batch, e.threads, direct > 0, parted, self.half)
        if batch == taps.size == 1 and e.threads > 1 and not e.collecting and self.right.bytes is None:
            plan = self._sliced(plan, m, direct > 0)
        job = self._sharing(plan) if plan.shared else self
        rows = job.product.a.table
        key = (e.grid_key(rows), e.grid_key(taps), k, plan.rows, plan.chunk, plan.slices, direct)
        return job.candidate("rows", plan, key, lambda: _rows(rows, taps, k, plan, direct))

    def _sliced(self, plan: Plan, m: int, direct: bool) -> Plan:
        """The plan with slices of the depth, where that is done sooner; other sizes of the same product keep to it."""
        e, product = self.e, self.product
        n, k, parted = product.n, product.k, product.a.dtype is DType.BF16X2
        choice_key = (e.origin, "slices", n, k)
        kept = e.pool.kept_choices.get(choice_key)
        if kept is False:
            return plan
        least = replace(plan, time=math.inf) if kept else plan
        found = plan_slices(e.target, m, n, k, least, e.threads, self.parts, direct, parted, self.half)
        sliced = found.slices > 1 and can_sum(product.c, product.epilogue)
        if kept is None:
            e.pool.kept_choices.note(choice_key, sliced)
        return found if sliced else plan

    def _sharing(self, plan: Plan) -> _Job:
        """The same with the rows of all blocks one after the other, those that they share behind the others of each."""
        product = self.product
        own, shared, m = plan.rows - plan.shared, plan.shared, product.m

        def order() -> np.ndarray:
            blocks = np.arange(m - shared).reshape(-1, own)
            return np.concatenate([blocks, np.broadcast_to(np.arange(m - shared, m), (len(blocks), shared))], 1).ravel()

        def change(rows: np.ndarray) -> np.ndarray:
            return self.e.derived(rows, ("shared", own, shared), lambda rows: rows[order()])

        return self._moved(change)

    def _moved(self, change: Callable[[np.ndarray], np.ndarray]) -> _Job:
        """The same with its rows, and those of all operands, as ``change`` puts them in order."""

        def side(s: OperandAccess) -> OperandAccess:
            return s if s.rows is None else replace(s, rows=change(s.rows))

        product = self.product
        to = side(product.c)
        moved = replace(product, a=side(product.a), c=to, epilogue=product.epilogue.moved(side), m=to.table.size)
        return replace(self, product=moved)

    def pixels(self) -> Candidate:
        """The pixels of regions, each once. A region has all of the result along every dimension but one."""
        e, window, n = self.e, _known(self.window), self.product.n
        parted = self.product.a.dtype is DType.BF16X2

        def cut(order: tuple[int, ...]) -> Plan:
            return plan_window(e.target, window.turned(order), n, self.parts, e.threads, parted=parted, half=self.half)

        plans = {order: cut(order) for order in orders(window)}
        order, plan = min(plans.items(), key=lambda item: item[1].time)
        key = (window, order, plan.rows)
        job = self._turned(window, order)
        return job.candidate("pixels", plan, key, lambda: turned_layout(window, order, plan.rows), True)

    def _turned(self, window: Window, order: tuple[int, ...]) -> _Job:
        """The same with its results in another order of the spatial dimensions."""
        if order == tuple(sorted(order)):
            return self
        axes = (0, *[1 + i for i in order])

        def turn(rows: np.ndarray) -> np.ndarray:
            turned: np.ndarray = rows.reshape(window.images, *window.outputs).transpose(axes).reshape(-1)
            return turned

        return self._moved(lambda rows: self.e.derived(rows, ("turned", order, window.outputs), turn))

    def along_lines(self) -> Candidate:
        """Lines of pixels, each once."""
        e, lines = self.e, _known(self.lines)
        plan = plan_lines(e.target, lines, self.product.n, self.parts, e.threads, self.half)
        return self.candidate("lines", plan, (lines, plan.rows), lambda: line_layout(lines, plan.rows), True)

    def apart(self, sections: Sections) -> Candidate:
        """Lines of pixels, each once, groups of channels apart."""
        e, n = self.e, self.product.n
        plan = plan_sections(e.target, sections, n, e.threads)
        columns = min(n, plan.nb)
        key = (sections, plan.rows, columns)
        kind = f"groups of {sections.columns}"
        return self.candidate(kind, plan, key, lambda: section_layout(sections, plan.rows, columns), True)

    def open_rows(self) -> Candidate:
        """Rows of an open number."""
        rows = OpenRows(self.e, self.product, self.right, self.parts, self.half)
        plan = rows.plan()
        return rows.candidate(self.name("rows"), self._cycles(plan.cycles), plan)

    def _cycles(self, cycles: float) -> float:
        """Those of a plan's products with what B's packing takes, less what is hidden between them."""
        product, body = self.product, self.product.epilogue.body
        if self.right.tensor.const is None:
            cycles += room_of(elements(self.right.tensor.shape)) * self.parts * _PACK_CYCLES
        vectors = room_of(product.m * product.batches * product.n) / self.e.target.lanes(DType.F32)
        if self.right.bytes is not None:
            cycles += _BYTES_BEHIND * vectors
        if body is not None:  # it is computed between the products; other kernels do so behind their sums
            cycles -= min(body_cost(body) * vectors, _MOST_HIDDEN * cycles)
        return cycles

    def candidate(
        self, kind: str, plan: Plan, key: tuple[object, ...], layout: Callable[[], Layout], each: bool = False
    ) -> Candidate:
        """``key``: what tells its layout from others of this kind; None in it where nothing does. ``plan`` is of all
        batches, or of ``each``."""
        cycles = self._cycles(plan.cycles * (self.product.batches if each else 1))
        name = None if None in key else ("AMX", kind, self.parts, *key)

        def laid() -> _Laid:
            found = layout()
            if is_tall(self.e.target, found, self.parts):
                found = tall_layout(found, STRETCH)
            return found, _tables(self.e, found, name)

        def emit() -> None:
            found = laid() if name is None else self.e.once(name, laid)
            (self._emit_slices if plan.slices > 1 else self._emit)(kind, plan, *found)

        return Candidate(self.name(kind), cycles, emit)

    def _emit_slices(self, kind: str, plan: Plan, layout: Layout, tables: dict[str, int | Ref]) -> None:
        """Slices of the depth side by side, and their sum."""
        e, product = self.e, self.product
        m, n = product.m, product.n
        results = e.allocate(DType.F32, (plan.slices, m, n), natural(3))
        rows = e.grid((plan.slices, m), results.strides[:2])
        side = OperandAccess(results, DType.F32, rows, product.c.batch * 0)
        alone = replace(product, c=side, epilogue=Epilogue(), m=rows.size)
        replace(self, product=alone)._emit(kind, plan, layout, tables)
        each = [Place(results.buffer, z * m * n, results.strides[1:]) for z in range(plan.slices)]
        emit_sum(e, each, product.c, product.epilogue, n)

    def _emit(self, kind: str, plan: Plan, layout: Layout, tables: dict[str, int | Ref]) -> None:
        e, product = self.e, self.product
        a, c, n, epilogue, n_batch = product.a, product.c, product.n, product.epilogue, product.batches
        nb = tall_columns(e.target, layout, min(n, plan.nb)) if layout.tall else plan.nb
        w24 = not self.half and self.right.w24(e, layout, self.parts)
        shared, overlap = -(-plan.shared // ROWS), epilogue.body is not None
        groups = grouping(e.target, n, nb, layout, self.parts, w24, self.half, shared, overlap)
        steps = n_batch * layout.m_blocks * layout.pairs * -(-n // PANEL) * layout.n_steps
        types = (a.dtype, c.dtype, self.parts, epilogue.body, epilogue.kinds)
        moved = layout.moves is not None
        traits = (overlap, moved, layout.direct, layout.lines, groups.passing, layout.tall, w24, self.half)
        asks = asks_results(e.target, c.dtype, product.m * n_batch * n) and not layout.tall
        masked = e.target.can(can.MASKED_BYTES) and c.dtype is not DType.BF16X2 and not layout.tall
        ragged = overlap and masked and n % PANEL > 0
        family = ("AMX", *types, *traits, self.right.bytes, asks, layout.sections, ragged)
        ahead = ask_ahead(groups.lines, steps, e.pool.kept_choices.made(family), e.spare * e.threads)
        e.pool.kept_choices.make(family, ahead)
        spec = AmxSpec(*types, ahead, *traits, right=self.right.bytes, asks_results=asks, fits=epilogue.fits,
                       sections=layout.sections, ragged=ragged)  # fmt: skip
        packed, b_batch = self.right.packed(e, kind, layout, n, n_batch, self.parts, w24, self.half)
        starts = [a.batch, b_batch, c.batch, *(side.batch for side in epilogue.sides)]
        args = tables | {
            "a": e.ref(a.place, a.dtype),
            "b": packed,
            "next": packed,
            "turns": turns(e.pool, n_batch * layout.m_blocks * -(-n // nb), {}),
            "c": e.ref(c.place, c.dtype),
            "rows_c": e.offsets(c.table),
            "panel": panel_bytes(layout.n_steps, self.parts, w24, self.half),
            **groups.words(),
            "n": n,
            "nb": nb,
            "shared": shared,
            "part": groups.part,
            "batch": batch_starts(e, starts, n_batch),
            "n_batch": n_batch,
        }
        if overlap:
            args["pace"] = layout.pace
        args |= epilogue.args(e)
        results = layout.place.size // plan.slices - plan.shared * (layout.m_blocks - 1)
        flops = 2 * results * n * layout.taps * layout.run * n_batch * (1 if self.right.bytes is None else 2)
        e.command(spec, args, n_batch * layout.m_blocks * -(-n // nb), 1, flops)


def _rows(rows: np.ndarray, taps: np.ndarray, k: int, plan: Plan, direct: int) -> Layout:
    """``direct``: of how many parts tiles are loaded from the rows themselves."""
    if direct:
        found = direct_layout(rows + int(taps[0]), k, plan.rows, plan.chunk, direct)
        assert found is not None
        return sliced_layout(found, plan.slices) if plan.slices > 1 else found
    if plan.slices > 1:
        return sliced_layout(rows_layout(rows, taps, k, plan.rows, plan.chunk), plan.slices)
    joined = joined_layout(rows, taps, k, plan.rows) if taps.size > 1 and not plan.chunk else None
    return joined or rows_layout(rows, taps, k, plan.rows, plan.chunk)


def _tables(e: Emitter, layout: Layout, name: tuple[object, ...] | None) -> dict[str, int | Ref]:
    """``name``: what tells the layout from others, where anything does."""

    def table(slot: str) -> Ref:
        if name is None:
            return e.offsets(getattr(layout, slot))
        return e.named_offsets((*name, slot), lambda: getattr(layout, slot))

    found: dict[str, int | Ref] = {slot: table(slot) for slot in ("items", "regions", "first", "place", "kofs")}
    for slot in ("chunks", "pitch", "plane", "step", "clear", "clear_rows", "m_blocks", "pairs"):
        found[slot] = int(getattr(layout, slot))
    if layout.sections is not None:
        found["beside"] = layout.beside
    if layout.moves is not None:
        found |= {"moves": table("moves"), "width": layout.width, "move_step": layout.move_step}
    return found


def _known(geometry: _G | None) -> _G:
    assert geometry is not None
    return geometry
