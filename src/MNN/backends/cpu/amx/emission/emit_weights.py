"""The right side of contractions on AMX tiles: packed once when it is constant, else for every run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from MNN.backends.base.program import Buffer, Place, Ref
from MNN.backends.cpu.amx.byte_parts import fits, uses_weights24
from MNN.backends.cpu.amx.cost import PANEL, panel_bytes
from MNN.backends.cpu.amx.layout import DEPTH, Layout
from MNN.backends.cpu.amx.open_rows import AmxOpenPackSpec
from MNN.backends.cpu.amx.pack import AmxPackSpec
from MNN.backends.cpu.amx.records import TILES
from MNN.backends.cpu.amx.tiles import ROWS
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.packing.weights import as_it_lies, is_transposed, matrix_starts
from MNN.compiler import strides as st
from MNN.compiler.layout import natural
from MNN.compiler.open.errors import NotOpenError
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import room_of
from MNN.schema.files import release


@dataclass(frozen=True)
class Right:
    """Convolution weights ``[O, C, kernel...]`` with ``conv`` (kernel, channels in and out per group, groups), or
    matrices ``[..., K, N]``, with the batch extents ``outer`` of the result. ``bytes``: of which type they are, where
    the tensor holds pairs of these (:mod:`MNN.backends.cpu.amx.emission.pairs_of_bytes`)."""

    tensor: Tensor
    conv: tuple[st.Ints, int, int, int] | None
    outer: tuple[int, ...] = ()
    bytes: DType | None = None

    def packed(
        self, e: Emitter, kind: str, layout: Layout, n: int, n_batch: int, parts: int, w24: bool, half: bool
    ) -> tuple[Ref, np.ndarray]:
        """Address and batch offsets (bytes) of the ``n`` columns, packed for a ``kind`` of layout."""
        data, matrices = self.tensor.const, self._matrices()
        size = -(-room_of(n) // PANEL) * panel_bytes(layout.n_steps, parts, w24, half)
        if self.tensor.whole is not None:
            raise NotOpenError(f"{e.origin}: weights of an open size")
        if data is None and e.options.open_sizes:
            buffer = e.allocate(DType.U8, (matrices * size,), (0,)).buffer
            self._pack_open(e, buffer, layout, n, AmxOpenPackSpec(self.tensor.dtype, parts, w24, half))
        elif data is None:
            buffer = self._computed(e, layout, n, AmxPackSpec(self.tensor.dtype, parts, w24, half), matrices * size)
        else:
            key = ("amx", id(data), self.conv, parts, kind, w24, half)
            buffer, fresh = e.pool.reserve(key, matrices * size, DType.U8, (data, self.tensor.keep))
            if fresh:
                with e.collect() as commands:
                    self._pack(e, buffer, layout, n, AmxPackSpec(self.tensor.dtype, parts, w24, half))
                buffer.setup += commands
        groups = 0 if self.conv is None else matrices
        return Ref(buffer, 0), matrix_starts(e, self.tensor, groups, self.outer, size, n_batch)

    def _computed(self, e: Emitter, layout: Layout, n: int, spec: AmxPackSpec, size: int) -> Buffer:
        """The ``size`` bytes of one that is computed, packed once in each run for all products that read it alike (the
        steps of a sequence)."""
        rows = int.from_bytes(hashlib.sha256(layout.b_rows.tobytes()).digest(), "big")
        key = self.tensor, ((-3, spec.parts, spec.half, n, layout.n_steps, self.conv is None, rows), 0)
        if key not in e.copies:
            e.copies[key] = e.allocate(DType.U8, (size,), (0,))
            self._pack(e, e.copies[key].buffer, layout, n, spec)
        return e.copies[key].buffer

    def places(self, e: Emitter) -> list[Place]:
        """Where it lies, if it is computed."""
        return [] if self.tensor.const is not None else [e.place(self.tensor)]

    def w24(self, e: Emitter, layout: Layout, parts: int) -> bool:
        """Whether second parts of weights are bytes: where they come from memory for few rows. Other sizes of the same
        product keep to it."""
        data = self.tensor.const
        if parts != 2 or data is None or data.dtype != np.float32:
            return False
        key = (e.origin, "lean tiles", id(data))
        found = e.pool.kept_choices.get(key)
        if found is None:
            blocks = layout.regions[:: layout.chunks, TILES]
            rows = (blocks[0] if layout.sliced else sum(blocks)) * ROWS
            found = uses_weights24(e.target, data.size, rows, layout.m_blocks, e.threads)
            if found:
                found = fits(data)
                release(data)  # packing reads it again, when its turn comes
            e.pool.kept_choices[key] = found
        return bool(found)

    def _pack(self, e: Emitter, buffer: Buffer, layout: Layout, n: int, spec: AmxPackSpec) -> None:
        place, rows, column, step = self._source(e)
        matrices, panels = self._matrices(), -(-n // PANEL)
        panel = panel_bytes(layout.n_steps, spec.parts, spec.w24, spec.half)
        each = np.arange(matrices)
        args: dict[str, int | Ref] = {
            "src": e.ref(place, self.tensor.dtype),
            "dst": Ref(buffer, 0),
            "rows": e.offsets(np.where(layout.b_rows >= 0, rows[layout.b_rows], -1)),
            "n_steps": layout.n_steps,
            "column": column,
            "n": n,
            "panel": panel,
            "batch": e.table(np.stack([each * step, each * (panels * panel)], axis=1).astype(np.int64)),
            "n_batch": matrices,
        }
        e.command(spec, args, matrices * panels, 1)

    def _pack_open(self, e: Emitter, buffer: Buffer, layout: Layout, n: int, spec: AmxOpenPackSpec) -> None:
        """The same for matrices of open sizes, whose panels lie as those of the largest."""
        tensor, k = self.tensor, self.tensor.shape[-2]
        if self.conv is not None:
            raise NotOpenError(f"{e.origin}: weights that are computed")
        place = e.in_order(tensor, natural(tensor.rank), lambda p: p.strides[-1] == 1)
        matrices, panel = self._matrices(), panel_bytes(layout.n_steps, spec.parts, spec.w24, spec.half)
        begin, size = e.grid(tensor.shape[:-2], place.strides[:-2]), -(-room_of(n) // PANEL) * panel
        args: dict[str, int | Ref] = {
            "src": e.ref(place, tensor.dtype),
            "dst": Ref(buffer, 0),
            "rows": e.offsets(e.grid((k,), place.strides[-2:-1])),
            "n_steps": -(-k // DEPTH),
            "column": 1,
            "n": n,
            "panel": panel,
            "batch": e.table(np.stack([begin, np.arange(matrices) * size], axis=1).astype(np.int64)),
            "n_batch": matrices,
            "k": k,
        }
        e.command(spec, args, matrices * -(-n // PANEL), 1)

    def _source(self, e: Emitter) -> tuple[Place, np.ndarray, int, int]:
        """Where B lies unpacked: each of its rows (taps, then channels) from there on, from column to column, and from
        matrix to matrix, in elements."""
        tensor, order = self.tensor, natural(self.tensor.rank)
        k, n = tensor.shape[-2:]
        if tensor.const is None:
            place = e.in_order(tensor, order, lambda p: st.is_dense(tensor.shape, p.strides, order))
        elif self.conv is None and is_transposed(tensor.const):
            return as_it_lies(e, tensor), np.arange(k), k, k * n
        else:
            place = e.place(tensor)
        if self.conv is not None:
            kernel, per_in, per_out, _ = self.conv
            taps = elements(kernel)
            j = np.arange(taps * per_in)
            return place, j % per_in * taps + j // per_in, taps * per_in, per_out * taps * per_in
        return place, np.arange(k) * n, 1, k * n

    def _matrices(self) -> int:
        return elements(self.tensor.shape[:-2]) if self.conv is None else self.conv[3]
