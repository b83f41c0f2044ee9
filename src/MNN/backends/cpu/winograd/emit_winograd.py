"""Convolutions by Winograd's method, as candidates beside implicit GEMM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.inner_product.iteration import HEAD
from MNN.backends.cpu.inner_product.pack import InnerProductPackSpec
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.emit_epilogue import Epilogue
from MNN.backends.cpu.products.operand_access import OperandAccess
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.winograd.cost import Plan, inner_product_applies, int16_plans, plans
from MNN.backends.cpu.winograd.fixed import FixedLayout, applies, pack_fixed
from MNN.backends.cpu.winograd.int16 import fits, pack_transformed
from MNN.backends.cpu.winograd.records import PER_PIXEL, tile_record
from MNN.backends.cpu.winograd.spec import WinogradSpec, WinogradWeightsSpec
from MNN.backends.cpu.winograd.sums import Work
from MNN.compiler import strides as st
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import body_of

SMALL = 400_000
"""Operations below which a convolution is not shared between workers."""
_STEP = 16
"""Channels per block in which weights are transformed."""


@contraction_algorithm("Winograd", rank=1)
def winograd_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """Ways to compute a convolution by Winograd's method. Where one is ``settled``, no other is looked at."""
    prim, product, w = work.prim, work.product, work.weights.tensor
    if not isinstance(prim, p.Conv):
        return []
    kind, shape = product.a.dtype, prim.outputs[0].shape
    int16 = kind is DType.I16 and w.dtype.is_int  # bytes in 16 bits
    if (
        w.const is None
        or not (int16 or (kind in (DType.F32, DType.BF16) and w.dtype is DType.F32))
        or prim.groups != 1
        or len(shape) not in (3, 4)
        or any(d != 1 for d in prim.dilations)
        or not (strides := _strides(prim)) <= ({1} if int16 else {1, 2})
        or len(strides) > 1
        or not (_whole(e, w, w.const) if int16 else e.pool.even((e.origin, "even", id(w.const)), w.const))
    ):
        return []
    oh, ow = (1, *shape[2:])[-2:]
    rh, rw = (1, *w.shape[2:])[-2:]
    stride = min(strides, default=1)
    fixed = kind is DType.BF16 and e.precision == "low" and applies(e.target, w.shape[1])
    conv_work = Work(shape[0], oh, ow, w.shape[1], w.shape[0], rh, rw, fixed, stride)
    conv = _Conv(e, product, w, conv_work)
    found = []
    choice_key = (e.origin, "Winograd", conv_work.c, conv_work.n, rh, rw, conv_work.stride)
    earlier = e.pool.kept_choices.get(choice_key) or {}
    tiles = dict(earlier)
    ways = int16_plans(e.target, conv_work, e.threads, earlier) if int16 else None
    if ways is None:
        sizable = not fixed and kind is DType.F32 and _sizable(e, w.const)
        ways = plans(e.target, conv_work, e.threads, e.options.precision, earlier, settled, sizable)
    for plan in ways:
        tiles.setdefault((plan.mh, plan.mw), (plan.mr, plan.nv))
        found.append(Candidate(plan.name(conv_work), plan.cycles, lambda plan=plan: conv.emit(plan)))  # type: ignore[misc]
    if len(tiles) > len(earlier):
        e.pool.kept_choices.note(choice_key, tiles)
    return found


def _strides(prim: p.Conv) -> set[int]:
    """The strides of the windows along all sides where they are or move."""
    dimensions = zip(prim.strides, prim.inputs[1].shape[2:], prim.outputs[0].shape[2:], strict=True)
    return {stride for stride, taps, size in dimensions if taps > 1 or size > 1}


def _whole(e: Emitter, w: Tensor, data: np.ndarray) -> bool:
    """Whether integers can be transformed exactly, and lie as the kernel for them reads them."""
    key = (e.origin, "words", id(data))
    found = e.pool.kept_choices.get(key)
    if found is None:
        found = e.pool.kept_choices.setdefault(key, fits(_square(data)))
    return bool(found) and w.shape[1] % (2 * e.target.lanes(DType.F32)) == 0


def _sizable(e: Emitter, data: np.ndarray) -> bool:
    """Whether filters are all of sizes for inner products, so that all that matters of them is when transformed."""
    if not inner_product_applies(e.target):
        return False
    key = (e.origin, "winograd sizes", id(data))
    found = e.pool.kept_choices.get(key)
    if found is None:
        sizes = np.abs(data.reshape(len(data), -1)).max(1)
        found = e.pool.kept_choices.setdefault(
            key, bool(((sizes == 0) | ((sizes > 2.0**-22) & (sizes < 2.0**22))).all())
        )
    return bool(found) and e.pool.mixable((e.origin, "mixable", id(data)), data)


def _square(w: np.ndarray) -> np.ndarray:
    """Weights with two spatial dimensions."""
    return w.reshape(*w.shape[:2], *(1, *w.shape[2:])[-2:])


def _packed_words(e: Emitter, w: Tensor, work: Work, nr: int) -> Ref:
    """U of integers, made once."""
    data = w.const
    assert data is not None
    key = ("winograd words", id(data), nr)
    return Ref(e.pool.get(key, lambda: pack_transformed(_square(data), nr).reshape(-1), (data, w.keep)), 0)


def _packed_fixed(e: Emitter, w: Tensor, spec: WinogradSpec) -> dict[str, int | Ref]:
    """U in fixed point, its scales, and the channels' factors, made once."""
    data = w.const
    assert data is not None
    layout = FixedLayout(spec.filterings, w.shape[1], w.shape[0], spec.nr(e.target))
    key = ("winograd fixed", id(data), spec.mh, spec.mw, spec.stride, layout.nr)
    buffer, fresh = e.pool.reserve(key, layout.nbytes, DType.U8, (data, w.keep))
    if fresh:
        assert buffer.const is not None
        pack_fixed(_square(data), layout, buffer.const)
        e.pool.filled(buffer)
    return {"u": Ref(buffer, 0), "scales": Ref(buffer, layout.scales), "factors": Ref(buffer, layout.factors)}


class _Conv:
    """One convolution with everything that a plan needs to be emitted."""

    def __init__(self, e: Emitter, product: Product, w: Tensor, work: Work) -> None:
        acc, out = DType.I32 if product.a.dtype is DType.I16 else DType.F32, product.c.dtype
        if product.epilogue.body is None and out is not acc:
            product = replace(product, epilogue=Epilogue(body_of([acc], lambda b, v: b.cast(v, out))))
        self.e, self.product, self.w, self.work = e, product, w, work

    def emit(self, plan: Plan) -> None:
        e, work, epilogue = self.e, self.work, self.product.epilogue
        a, c = self.product.a, self.product.c
        lanes = e.target.lanes(DType.F32)
        spec = WinogradSpec.of(
            plan.mh,
            plan.mw,
            work.rh,
            work.rw,
            plan.mr,
            plan.nv,
            plan.chunk > 0,
            work.c % (2 * lanes if work.fixed else lanes) != 0 and a.dtype is not DType.I16,
            work.n % lanes != 0,
            c.dtype,
            epilogue.body,
            epilogue.kinds,
            a.dtype,
            fixed=work.fixed,
            inner_product=plan.inner_product,
            stride=work.stride,
        )
        tiles = self._tiles(plan)
        n_tiles = work.images * -(-work.oh // plan.mh) * -(-work.ow // plan.mw)
        row_x, col_x = _steps(a.place.strides)
        row_y, col_y = _steps(c.place.strides)
        args: dict[str, int | Ref] = {
            "x": e.ref(a.place, a.dtype),
            **self._weights(spec),
            "y": e.ref(c.place, c.dtype),
            "tiles": tiles,
            "n_tiles": n_tiles,
            "group": plan.group,
            "c": work.c,
            "n": work.n,
            "n_block": plan.n_block,
            "chunk": max(plan.chunk, 1),
            "row_x": row_x,
            "col_x": col_x,
            "row_y": row_y,
            "col_y": col_y,
        }
        for i, (kind, operand) in enumerate(epilogue.operands):
            args[f"op{i}"] = e.ref(operand.place, operand.dtype)
            if kind in PER_PIXEL:
                at = self._rows(operand)[0]
                args[f"row{i}"] = int(at[1, 0] - at[0, 0]) if work.oh > 1 else 0
                args[f"col{i}"] = int(at[0, 1] - at[0, 0]) if work.ow > 1 else 0
        blocks = spec.blocks(n_tiles, plan.group, work.n, plan.n_block)
        flops = 2 * work.images * work.oh * work.ow * work.n * work.c * work.rh * work.rw
        e.command(spec, args, blocks, blocks if flops < SMALL else 1, flops)

    def _rows(self, operand: OperandAccess) -> np.ndarray:
        """Offsets of an operand's elements by image, row and column."""
        return operand.table.reshape(self.work.images, self.work.oh, self.work.ow)

    def _tiles(self, plan: Plan) -> Ref:
        """The table of tiles, see :class:`MNN.backends.cpu.winograd.spec.WinogradSpec`; one for all that lie alike."""
        e, work = self.e, self.work
        a, c, operands = self.product.a, self.product.c, self.product.epilogue.operands
        grids = tuple([e.grid_key(operand.rows) if kind in PER_PIXEL else () for kind, operand in operands])
        if None in grids:
            return e.offsets(self._table(plan))
        places = a.place.strides, c.place.strides
        key = (
            "Winograd",
            work.images,
            work.oh,
            work.ow,
            work.rh,
            work.rw,
            work.stride,
            plan.mh,
            plan.mw,
            places,
            grids,
        )
        return e.named_offsets(key, lambda: self._table(plan))

    def _table(self, plan: Plan) -> np.ndarray:
        work, step, operands = self.work, self.work.stride, self.product.epilogue.operands
        image = np.arange(work.images)[:, None, None]
        row, col = np.arange(0, work.oh, plan.mh)[:, None], np.arange(0, work.ow, plan.mw)
        high, wide = np.minimum(work.oh - row, plan.mh), np.minimum(work.ow - col, plan.mw)
        record = tile_record(len(operands))
        table = np.zeros((record.count, work.images, row.size, col.size), np.int64)
        words = dict(zip(record, table, strict=True))
        for name, place, moved in (("x", self.product.a.place, step), ("y", self.product.c.place, 1)):
            down, right = _steps(place.strides)
            words[name][:] = image * place.strides[0] + row * (down * moved) + col * (right * moved)
        words["last_row"][:], words["last_column"][:] = (high - 1) * step + work.rh - 1, (wide - 1) * step + work.rw - 1
        words["rows"][:], words["columns"][:] = high, wide
        for i, (kind, operand) in enumerate(operands):
            if kind in PER_PIXEL:
                words[f"op{i}"][:] = self._rows(operand)[image, row, col]
        return np.ascontiguousarray(table.reshape(record.count, -1).T)

    def _weights(self, spec: WinogradSpec) -> dict[str, int | Ref]:
        """U and what belongs to it, made once."""
        e, w, work = self.e, self.w, self.work
        if spec.acc is DType.I32:
            return {"u": _packed_words(e, w, work, spec.nr(e.target))}
        if spec.fixed:
            return _packed_fixed(e, w, spec)
        form = spec.mh, spec.mw, spec.rh, spec.rw, spec.nr(e.target), spec.stride
        head = HEAD if spec.inner_product else 0
        key = ("winograd", id(w.const), *form, head)
        known = e.pool.known(key)
        if known is not None:
            return {"u": Ref(known, 0)}
        made = WinogradWeightsSpec(*form)
        buffer, fresh = e.pool.reserve(key, made.size(work.c, work.n, head), DType.F32, (w.const, w.keep))
        if fresh:
            place = e.place(w)
            w_n, w_c, *rest = place.strides
            w_h, w_w = (0, *rest)[-2:]
            step = min(_STEP, work.c)
            args: dict[str, int | Ref] = {"w": e.ref(place, DType.F32), "u": Ref(buffer, 0), "c": work.c, "n": work.n}
            args |= {"head": head, "step": step, "w_n": w_n, "w_c": w_c, "w_h": w_h, "w_w": w_w}
            with e.collect() as commands:
                e.command(made, args, made.blocks(work.c, work.n, step), 1)
                if head:
                    vectors = spec.nv * made.panels(work.n)
                    e.command(
                        InnerProductPackSpec(), {"b": Ref(buffer, 0), "k": work.c, "vectors": spec.nv}, vectors, 1
                    )
            buffer.setup += commands
        return {"u": Ref(buffer, 0)}


def _steps(strides: st.Ints) -> tuple[int, int]:
    """From row to row and from column to column of an image ``[N, C, (H,) W]``."""
    return (0, strides[-1]) if len(strides) == 3 else (strides[-2], strides[-1])
