"""Convolutions and matrix products on AMX tiles, as candidates beside the vector kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.compiler import strides as st
from MNN.compiler.algorithms import Candidate
from MNN.compiler.emit.side import Side, operand_args
from MNN.compiler.emit.weights import as_it_lies, is_turned
from MNN.compiler.emitter import Emitter
from MNN.compiler.order import natural
from MNN.compiler.program import Buffer, Command, Place, Ref
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body
from MNN.ir.shape import elements
from MNN.kernels.amx import AmxSpec
from MNN.kernels.amx_cost import (
    DIRECT_COLUMNS,
    LEAN_ROWS,
    LEAST_COLUMNS,
    PANEL,
    STRETCH,
    Plan,
    ask_ahead,
    grouping,
    is_tall,
    panel_bytes,
    plan_rows,
    plan_window,
    tall_columns,
)
from MNN.kernels.amx_layout import (
    Layout,
    Window,
    direct_layout,
    direct_rows,
    joined_layout,
    rows_layout,
    tall_layout,
    window_layout,
)
from MNN.kernels.amx_lean import fits
from MNN.kernels.amx_lines import has_lines, line_layout, plan_lines
from MNN.kernels.amx_pack import AmxPackSpec
from MNN.kernels.amx_tiles import ROW_BYTES, ROWS, has_tiles
from MNN.kernels.scalar_code import body_cost
from MNN.schema.files import release
from MNN.targets.base import Target

_PARTS = {"high": 3, "normal": 2, "low": 1}
_WINDOW_CHANNELS = 16
"""With fewer channels, pixels padded to 32 would be mostly padding."""
_LINE_CHANNELS = 32
"""From so many channels on, a pixel fills steps of the sum by itself."""
_MOST_HIDDEN = 0.25
"""Of a product on tiles: what its epilogue takes in other kernels, at most, where it is as good as free here."""
_PACK_CYCLES = 0.7
"""Cycles to pack an element of B."""


@dataclass(frozen=True)
class Right:
    """The right side: convolution weights ``[O, C, kernel...]`` with ``conv`` (kernel, channels in and out per group,
    groups), or matrices ``[..., K, N]``, with the batch extents ``outer`` of the result."""

    tensor: Tensor
    conv: tuple[st.Ints, int, int, int] | None
    outer: tuple[int, ...] = ()

    @property
    def turned(self) -> bool:
        """Whether it is a constant matrix whose columns lie one after the other."""
        return self.conv is None and self.tensor.const is not None and is_turned(self.tensor.const)

    def offsets(self) -> tuple[np.ndarray, int, int, int]:
        """Where each row of B lies (taps, then channels), from column to column, from matrix to matrix, and how many
        matrices there are: in elements, for dense memory, or for that of a turned matrix."""
        if self.conv is None:
            k, n = self.tensor.shape[-2:]
            row, column = (1, k) if self.turned else (n, 1)
            return np.arange(k) * row, column, k * n, elements(self.tensor.shape[:-2])
        kernel, per_in, per_out, groups = self.conv
        taps = elements(kernel)
        j = np.arange(taps * per_in)
        return j % per_in * taps + j // per_in, taps * per_in, per_out * taps * per_in, groups

    def batches(self, size: int, n_batch: int) -> np.ndarray:
        """Offset of the matrix of every batch, matrices being ``size`` apart."""
        if self.conv is not None:
            return np.arange(n_batch, dtype=np.int64) * size
        own = tuple(self.tensor.shape[:-2])
        steps = tuple(size * s for s in st.dense(own, natural(len(own))))
        strides = st.broadcast_strides(own, steps, self.outer) if self.outer else ()
        total = np.zeros(1, np.int64)
        for extent, step in zip(self.outer, strides, strict=True):
            total = (total[:, None] + np.arange(extent) * step).reshape(-1)
        return np.broadcast_to(total, (n_batch,)) if total.size == 1 else total


def available(target: Target) -> bool:
    """Whether there are tiles to choose."""
    return has_tiles(target)


def splits_in_fp16(target: Target) -> bool:
    """Whether ``high`` multiplies two fp16 parts, as exact as three bf16 ones, in half as many products."""
    return has_tiles(target, half=True)


def amx_candidates(
    e: Emitter,
    a: Side,
    c: Side,
    right: Right,
    operands: Sequence[tuple[str, Side]],
    body: Body | None,
    taps: np.ndarray,
    k: int,
    n: int,
    window: Window | None = None,
) -> list[Candidate]:
    """Ways to compute a contraction (see :mod:`MNN.compiler.emit.contract`) on tiles; none where it does not apply.

    ``window``: the geometry where it is a convolution.
    """
    tensor = right.tensor
    assert a.rows is not None
    places = [
        a.place,
        c.place,
        *(s.place for _, s in operands),
        *([] if tensor.const is not None else [e.place(tensor)]),
    ]
    if (
        not available(e.target)
        or any(p.buffer.nbytes == 0 for p in places)  # memory within a chain, whose stages are vector kernels
        or a.dtype not in (DType.F32, DType.BF16, DType.BF16X2)
        or tensor.dtype not in (DType.F32, DType.BF16)
        or n < LEAST_COLUMNS
        or a.rows.size == 0
        or c.batch.size == 0
    ):
        return []
    parted = a.dtype is DType.BF16X2
    half = e.precision == "high" and a.dtype is DType.F32 and splits_in_fp16(e.target)
    parts = 1 if a.dtype is DType.BF16 else 2 if parted or half else _PARTS[e.precision]
    job = _Job(e, a, c, right, operands, body, n, parts, half)
    m, n_batch = a.rows.size, c.batch.size
    packing = 0.0 if tensor.const is not None else elements(tensor.shape) * parts * _PACK_CYCLES
    there = a.dtype is DType.BF16 or (parted and n <= DIRECT_COLUMNS)
    at = direct_rows(a.rows + int(taps[0]), k) if there and taps.size == 1 else None
    m, direct = (m, 0) if at is None else (int(at[-1]) + 1, parts)
    rows = plan_rows(e.target, m, n, k, taps.size, parts, n_batch, e.threads, direct > 0, parted, half)
    found = [job.candidate("rows", rows, packing, lambda: _rows(_table(a.rows), taps, k, rows, direct))]
    if window is not None and elements(window.kernel) > 1 and window.channels >= _WINDOW_CHANNELS:
        pixels = plan_window(e.target, window, n, parts, e.threads, parted=parted, half=half)
        found.append(job.candidate("pixels", pixels, packing, lambda: window_layout(window, pixels.rows), n_batch))
    if window is not None and window.channels < _LINE_CHANNELS and has_lines(window):
        lines = plan_lines(e.target, window, n, parts, e.threads, half)
        found.append(job.candidate("lines", lines, packing, lambda: line_layout(window, lines.rows), n_batch))
    return found


def fetch_ahead(commands: list[Command]) -> None:
    """Has contractions on tiles fetch what the next one begins with, where that is a constant."""
    following: Ref | None = None
    for i, command in reversed(list(enumerate(commands))):
        if isinstance(command.kernel, AmxSpec):
            if following is not None:
                commands[i] = command.moved(command.args | {"next": following}, command.stages, command.origin)
            right = command.args["b"]
            following = right if isinstance(right, Ref) and right.buffer.const is not None else None


def _rows(rows: np.ndarray, taps: np.ndarray, k: int, plan: Plan, direct: int) -> Layout:
    """``direct``: of how many parts tiles are loaded from the rows themselves."""
    if direct:
        found = direct_layout(rows + int(taps[0]), k, plan.rows, plan.chunk, direct)
        assert found is not None
        return found
    joined = joined_layout(rows, taps, k, plan.rows) if taps.size > 1 and not plan.chunk else None
    return joined or rows_layout(rows, taps, k, plan.rows, plan.chunk)


def _table(rows: np.ndarray | None) -> np.ndarray:
    assert rows is not None
    return rows


@dataclass(frozen=True)
class _Job:
    """One contraction with everything that a plan needs to be emitted."""

    e: Emitter
    a: Side
    c: Side
    right: Right
    operands: Sequence[tuple[str, Side]]
    body: Body | None
    n: int
    parts: int
    half: bool

    def candidate(
        self, kind: str, plan: Plan, packing: float, layout: Callable[[], Layout], times: int = 1
    ) -> Candidate:
        name = f"AMX {kind}, {self.parts} {'fp16' if self.half else 'bf16'} part{'s' if self.parts > 1 else ''}"
        cycles = plan.cycles * times + packing
        if self.body is not None:  # it is computed between the products; other kernels do so behind their sums
            vectors = _table(self.a.rows).size * self.c.batch.size * self.n / self.e.target.lanes(DType.F32)
            cycles -= min(body_cost(self.body) * vectors, _MOST_HIDDEN * cycles)
        return Candidate(name, cycles, lambda: self._emit(kind, plan, layout()))

    def _emit(self, kind: str, plan: Plan, layout: Layout) -> None:
        e, a, c = self.e, self.a, self.c
        n_batch = c.batch.size
        kinds = tuple(name for name, _ in self.operands)
        nb = plan.nb
        if is_tall(e.target, layout, self.parts):
            nb = tall_columns(e.target, layout, min(self.n, nb))
            layout = tall_layout(layout, STRETCH)
        lean = self._lean(layout)
        groups = grouping(e.target, self.n, nb, layout, self.parts, lean, self.half)
        overlap = self.body is not None
        steps = n_batch * layout.m_blocks * layout.pairs * -(-self.n // PANEL) * layout.n_steps
        types = (a.dtype, c.dtype, self.parts, self.body, kinds)
        traits = (overlap, layout.moves is not None, layout.direct, groups.passing, layout.tall, lean, self.half)
        family = ("AMX", *types, *traits)
        ahead = ask_ahead(groups.lines, steps, e.pool.habits.made(family), e.spare * e.threads)
        e.pool.habits.make(family, ahead)
        spec = AmxSpec(*types, ahead, *traits)
        packed, b_batch = self._packed(kind, layout, n_batch, lean)
        sides = [a.batch, b_batch, c.batch, *(s.batch for _, s in self.operands)]
        args: dict[str, int | Ref] = {
            "a": e.ref(a.place, a.dtype),
            "b": packed,
            "next": packed,
            "c": e.ref(c.place, c.dtype),
            "rows_c": e.offsets(_table(c.rows)),
            "panel": panel_bytes(layout.n_steps, self.parts, lean, self.half),
            "group": groups.group,
            "line": groups.line,
            "held": groups.held,
            "fetch": groups.lines * ROW_BYTES,
            "n": self.n,
            "nb": nb,
            "batch": e.table(np.stack([np.broadcast_to(t, (n_batch,)) for t in sides], axis=1).astype(np.int64)),
            "n_batch": n_batch,
        }
        for name in ("items", "regions", "first", "place", "kofs"):
            args[name] = e.offsets(getattr(layout, name))
        for name in ("chunks", "pitch", "plane", "step", "clear", "clear_rows", "m_blocks", "pairs"):
            args[name] = int(getattr(layout, name))
        if overlap:
            args["pace"] = layout.pace
        if layout.moves is not None:
            args["moves"] = e.offsets(layout.moves)
            args |= {"width": layout.width, "move_step": layout.move_step}
        args |= operand_args(e, self.operands)
        depth = int((layout.b_rows >= 0).sum())
        flops = 2 * layout.place.size * self.n * depth * n_batch
        e.command(spec, args, n_batch * layout.m_blocks * -(-self.n // nb), 1, flops)

    def _lean(self, layout: Layout) -> bool:
        """Whether second parts of weights are bytes: where they come from memory for few rows. Other sizes of the same
        product keep to it."""
        e, data = self.e, self.right.tensor.const
        if self.parts != 2 or self.half or data is None or data.dtype != np.float32:
            return False
        key = (e.origin, "lean tiles", id(data))
        found = e.pool.habits.get(key)
        if found is None:
            rows = sum(layout.regions[:: layout.chunks, 2]) * ROWS
            found = rows <= LEAN_ROWS and data.size * 4 > e.target.l2_bytes // 4
            if found:
                found = fits(data)
                release(data)  # packing reads it again, when its turn comes
            e.pool.habits[key] = found
        return bool(found)

    def _packed(self, kind: str, layout: Layout, n_batch: int, lean: bool) -> tuple[Ref, np.ndarray]:
        """Address and batch offsets (bytes) of packed B: a constant packed once, or packed here and now."""
        e, tensor, parts = self.e, self.right.tensor, self.parts
        rows, column, step, matrices = self.right.offsets()
        panels = -(-self.n // PANEL)
        size = panels * panel_bytes(layout.n_steps, parts, lean, self.half)
        data = tensor.const
        fresh = True
        if data is None:
            buffer = e.allocate(DType.U8, (matrices * size,), (0,)).buffer
        else:
            key = ("amx", id(data), self.right.conv, parts, kind, lean, self.half)
            buffer, fresh = e.pool.reserve(key, matrices * size, DType.U8, (data, tensor.keep))
        if fresh:
            place = self._unpacked()
            table = np.where(layout.b_rows >= 0, rows[layout.b_rows], -1)
            each = np.arange(matrices)
            args: dict[str, int | Ref] = {
                "src": e.ref(place, tensor.dtype),
                "dst": Ref(buffer, 0),
                "rows": e.offsets(table),
                "n_steps": layout.n_steps,
                "column": column,
                "n": self.n,
                "panel": panel_bytes(layout.n_steps, parts, lean, self.half),
                "batch": e.table(np.stack([each * step, each * size], axis=1).astype(np.int64)),
                "n_batch": matrices,
            }
            self._pack(
                AmxPackSpec(tensor.dtype, parts, lean, self.half), buffer, args, matrices * panels, data is not None
            )
        return Ref(buffer, 0), self.right.batches(size, n_batch)

    def _unpacked(self) -> Place:
        """B as :meth:`Right.offsets` says that it lies."""
        e, tensor = self.e, self.right.tensor
        if tensor.const is not None:
            return as_it_lies(e, tensor) if self.right.turned else e.place(tensor)
        order = natural(tensor.rank)
        return e.in_order(tensor, order, lambda p: st.is_dense(tensor.shape, p.strides, order))

    def _pack(self, spec: AmxPackSpec, buffer: Buffer, args: dict[str, int | Ref], blocks: int, once: bool) -> None:
        if not once:
            self.e.command(spec, args, blocks, 1)
            return
        with self.e.collect() as commands:
            self.e.command(spec, args, blocks, 1)
        buffer.setup += commands
