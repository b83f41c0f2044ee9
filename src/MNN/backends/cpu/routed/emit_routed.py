"""Products with a matrix chosen for every row (:class:`MNN.ir.prims.RoutedMatMul`): rows are sorted by what they choose
while the program runs, then multiplied by the kernels of other products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.routed_rows import WORDS
from MNN.backends.cpu.lowbit import codebook, emit_int8
from MNN.backends.cpu.lowbit.emit_lowbit import few_tile, most_few, packed
from MNN.backends.cpu.lowbit.int8 import Int8Spec, words_at_once
from MNN.backends.cpu.lowbit.layout import Layout
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.backends.cpu.products.load_balance import split_evenly
from MNN.backends.cpu.products.operand_access import OperandAccess, store_back
from MNN.backends.cpu.products.register_tiles import choose_tile, contract_cycles, pack_b
from MNN.backends.cpu.routed.routing import RoutingSpec
from MNN.compiler import strides as st
from MNN.compiler.fuse import Group
from MNN.compiler.layout import natural
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.quant import FEWEST_ROW_BITS
from MNN.ir.scalar import Body, body_of
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

_INDICES = (DType.I32, DType.I64)
_EVEN_ROWS = 2520
"""Rows that suit all tiles: what weights are packed for does not depend on how many there are."""
_UNIT = 16, 256
"""Rows of a unit, at least and at most; between these, as many as half of the second-level cache holds."""
_ROWS_OF_A = 512 << 10
"""Bytes of rows that a unit may take in a worker's scratch memory."""
_PARTS = 4
"""Blocks for each of several threads, of one unit."""


@dataclass(frozen=True)
class _Routed:
    """``m`` rows of ``k`` numbers to ``n``. ``rows``: their sizes without the last; ``left``: as they are, fewer where
    several choices are made for one."""

    prim: p.RoutedMatMul
    rows: tuple[int, ...]
    m: int
    k: int
    n: int
    left: OperandAccess
    left_shape: tuple[int, ...]
    index: OperandAccess
    into: OperandAccess

    @property
    def each(self) -> int:
        """Rows of a matrix, if all were chosen alike."""
        return max(1, -(-room_of(self.m) // self.prim.count))

    @property
    def body(self) -> Body | None:
        out = self.into.dtype
        return None if out is DType.F32 else body_of([DType.F32], lambda b, v: b.cast(v, out))

    def units(self, unit: int) -> int:
        """How many units of so many rows there may be, whatever is chosen."""
        return self.m // unit + min(room_of(self.m), self.prim.count)

    def broadcast(self, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of the rows as they are, along all rows."""
        return st.broadcast_strides(self.left_shape, strides, self.rows)


@emits(p.RoutedMatMul)
def emit_routed(e: Emitter, group: Group) -> bool:
    """The rows in the order of their matrices; False for types that no kernel has."""
    prim = group.root
    assert isinstance(prim, p.RoutedMatMul)
    (x, index, *weights), out = prim.inputs, prim.outputs[0]
    rows, (n, k) = out.shape[:-1], (out.shape[-1], x.shape[-1])
    floats = (DType.F32, DType.F16, DType.BF16)
    if x.dtype not in floats or out.dtype not in floats or index.dtype not in _INDICES:
        return False
    if any(t.const is None for t in weights) or 0 in out.shape or k == 0:
        return False
    source = e.in_order(x, natural(x.rank), lambda place: place.strides[-1] == 1 or k == 1)
    result = e.output(out)
    if result.strides[-1] != 1 and n != 1:
        result = e.allocate(out.dtype, out.shape, natural(out.rank), roomy=True)
    chosen = e.place(index)
    here = np.zeros(1, np.int64)
    picks = e.grid(rows, st.broadcast_strides(index.shape, chosen.strides, rows))
    work = _Routed(
        prim, rows, elements(rows), k, n,
        OperandAccess(source, x.dtype, e.grid(x.shape[:-1], source.strides[:-1]), here, source.strides[:-1]),
        x.shape[:-1],
        OperandAccess(chosen, index.dtype, picks, here),
        OperandAccess(result, out.dtype, e.grid(rows, result.strides[:-1]), here),
    )  # fmt: skip
    cycles = prim.count * contract_cycles(e.target, work.each, n, k)
    if prim.width == 0:
        _emit_floats(e, work, weights[0])
        return store_back(e, out, result)
    layout, panels = packed(e, weights, prim.width, k, prim.row_bits, prim.count)
    name = f"{prim.width}-bit routed weights"
    ways = [Candidate(name, cycles, lambda: _emit_lowbit(e, work, layout, panels))]
    if (prim.row_bits == FEWEST_ROW_BITS or e.precision == "low") and emit_int8.possible(e.target, layout):
        faster = f"{name}, rows of bytes"
        ways.append(Candidate(faster, cycles / 2, lambda: _emit_int8(e, work, layout, panels)))
    e.choose(f"routed {x.dtype.value} {prim.width} {room_of(work.m)} x {n} x {k} of {prim.count} {e.precision}", ways)
    return store_back(e, out, result)


def _emit_floats(e: Emitter, work: _Routed, weights: Tensor) -> None:
    """Weights in floats; in 16 bits where precision is low."""
    n, k, count = work.n, work.k, work.prim.count
    data = weights.const
    assert data is not None
    kind = DType.BF16 if e.precision == "low" and weights.dtype is DType.F32 else weights.dtype
    mr, nv = choose_tile(e.target, _EVEN_ROWS, n, k)
    spec = ContractSpec.of(
        work.left.dtype, kind, DType.F32, work.into.dtype, min(mr, work.each), nv, True, work.body, routed=True
    )
    nr = spec.nr(e.target)
    panel = k * nr
    each = -(-n // nr) * panel
    buffer, fresh = e.pool.reserve(("routed", id(data), nr, count, kind), count * each, kind, (data, weights.keep))
    if fresh:
        assert buffer.const is not None
        matrices = data.reshape(count, n, k)
        for i in range(count):
            buffer.const[i * each : (i + 1) * each] = pack_b(matrices[i].T, nr).reshape(-1).astype(kind.numpy)
        e.pool.filled(buffer)
    rows = e.grid(work.rows, work.broadcast(work.left.strides))
    unit = _unit(e, k * work.left.dtype.size)
    args = _arguments(e, work, rows, unit, each * kind.size)
    args |= {"a": e.ref(work.left.place, work.left.dtype), "b": Ref(buffer, 0), "ldb": nr, "panel": panel}
    _command(e, work, spec, args, unit, nr)


def _emit_lowbit(e: Emitter, work: _Routed, layout: Layout, weights: Ref) -> None:
    """Weights in few bits."""
    few = work.each <= most_few(e.target)
    mr, nv = few_tile(e.target, work.each) if few else choose_tile(e.target, _EVEN_ROWS, work.n, work.k)
    spec = CompressedSpec.of(
        work.left.dtype, DType.F32, DType.F32, work.into.dtype, mr, nv, True, work.body, (), 1,
        width=layout.width, zeros=layout.zeros, factors=layout.factors, few=few, routed=True,
        codebook=layout.codebook, high=layout.high,
    )  # fmt: skip
    rows = e.grid(work.rows, work.broadcast(work.left.strides))
    unit = max(mr, min(most_few(e.target), _ROWS_OF_A // (4 * work.k))) if few else _unit(e, 4 * work.k)
    args = _arguments(e, work, rows, unit, layout.nbytes(work.n))
    nr = spec.nr(e.target)
    args |= {"a": e.ref(work.left.place, work.left.dtype), "b": weights, "ldb": nr, "panel": layout.panel}
    args |= {"blocks": layout.blocks, "groups": layout.groups} | codebook.arguments(e, layout.entries)
    _command(e, work, spec, args, unit, layout.columns if few else nr)


def _emit_int8(e: Emitter, work: _Routed, layout: Layout, weights: Ref) -> None:
    """Weights in few bits and rows of bytes, each rounded once."""
    parts = emit_int8.rounded(e.target, layout.bits)
    rounded, row, meta = emit_int8.round_rows(e, work.left, elements(work.left_shape), work.k, layout, parts)
    mr, nv = emit_int8.tile_of(e.target, work.each)
    spec = Int8Spec.of(
        DType.I8, DType.I8, DType.I32, work.into.dtype, mr, nv, True, work.body, (), 4,
        width=layout.width, zeros=layout.zeros, factors=layout.factors, wide=parts.wide,
        words=words_at_once(e.target, layout.width, layout.groups, parts.wide), routed=True,
        codebook=layout.codebook, high=layout.high, expanded=emit_int8.expands(e.target, layout, parts, work.each),
    )  # fmt: skip
    strides = tuple(row * s for s in st.dense(work.left_shape, natural(len(work.left_shape))))
    unit = _unit(e, row)
    args = _arguments(e, work, e.grid(work.rows, work.broadcast(strides)), unit, layout.nbytes(work.n))
    args |= {"a": e.ref(rounded, DType.I8), "b": weights, "ldb": 0, "panel": layout.panel}
    args |= {"blocks": layout.blocks, "groups": layout.groups, "meta": meta, "part": row}
    args |= codebook.arguments(e, layout.entries)
    _command(e, work, spec, args, unit, layout.columns)


def _arguments(e: Emitter, work: _Routed, rows: np.ndarray, unit: int, matrix: int) -> dict[str, int | Ref]:
    """Sorts the ``rows`` (offsets of them all) by their matrices, of ``matrix`` bytes, in units of ``unit``, and gives
    what products of them have in common."""
    m, count, units = work.m, work.prim.count, work.units(unit)
    rows_a, rows_c = (e.allocate(DType.I32, (m,), (0,), roomy=True) for _ in range(2))
    dealt: Place = e.allocate(DType.I32, (units * WORDS,), (0,), roomy=True)
    here: dict[str, int | Ref] = {
        "rows_a": e.ref(rows_a, DType.I32), "rows_c": e.ref(rows_c, DType.I32), "units": e.ref(dealt, DType.I32)
    }  # fmt: skip
    common: dict[str, int | Ref] = {"m": m, "matrices": count, "mb": unit}
    sort = common | {
        "index": e.ref(work.index.place, work.index.dtype), "rows_i": e.offsets(work.index.table),
        "rows_x": e.offsets(rows), "rows_y": e.offsets(work.into.table), "n_units": units, "error": e.error_ref(),
    }  # fmt: skip
    e.command(RoutingSpec.of(work.index.dtype), sort | here, 1, 1)
    return here | common | {
        "c": e.ref(work.into.place, work.into.dtype), "taps": e.offsets(e.grid((), ())), "n_taps": 1, "k": work.k,
        "n": work.n, "batch": e.table(np.zeros((1, 3), np.int64)), "n_batch": 1, "ub": unit, "matrix": matrix,
    }  # fmt: skip


def _unit(e: Emitter, row: int) -> int:
    """Rows of a unit, of so many bytes each."""
    least, most = _UNIT
    return max(least, min(most, e.target.l2_bytes // 2 // row))


def _command(
    e: Emitter, work: _Routed, spec: ContractSpec, args: dict[str, int | Ref], unit: int, columns: int
) -> None:
    """The product, in blocks of whole panels of ``columns``."""
    nb = split_evenly(work.n, 1 if e.threads == 1 else e.threads * _PARTS, columns)
    blocks = work.units(unit) * -(-work.n // nb)
    e.command(spec, args | {"nb": nb}, blocks, 1, 2 * work.m * work.n * work.k)


__all__ = ["emit_routed"]
