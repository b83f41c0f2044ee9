"""Convolutions by Winograd's method, as candidates beside implicit GEMM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.offset_table import Column, OffsetTable
from MNN.backends.base.program import Buffer, Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.inner_product.iteration import HEAD
from MNN.backends.cpu.inner_product.pack import InnerProductPackSpec
from MNN.backends.cpu.packing.byte_pairs import sums_byte_pairs
from MNN.backends.cpu.packing.filters import columns_innermost
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.emit_epilogue import Epilogue
from MNN.backends.cpu.products.epilogue import masks_work
from MNN.backends.cpu.products.operand_access import OperandAccess
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.winograd.axes import Axes, Phases, choose_axes, dilations_apart, phases
from MNN.backends.cpu.winograd.cost import Plan, filter_cycles, inner_product_applies, int16_plans, plans
from MNN.backends.cpu.winograd.depth import depth_tile
from MNN.backends.cpu.winograd.fixed import FixedLayout, applies, largest_weights, pack_fixed
from MNN.backends.cpu.winograd.int16 import LARGER, fits, pack_transformed, sizes
from MNN.backends.cpu.winograd.records import PER_PIXEL, tile_record
from MNN.backends.cpu.winograd.spec import WinogradSpec, WinogradWeightsSpec
from MNN.backends.cpu.winograd.sums import Work
from MNN.compiler import strides as st
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import body_of
from MNN.ir.shape import elements
from MNN.ir.traced import OpenSize, room_of

LINE = 64
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
    int16 = w.dtype.is_int and (kind is DType.I16 or _pairs_of_bytes(e, kind))  # bytes, or bytes in 16 bits
    constant = w.const is not None
    if (
        not (constant or _at_run_time(e, prim))
        or not (int16 or (kind in (DType.F32, DType.BF16) and (w.dtype is DType.F32 or not constant)))
        or (prim.groups != 1 and not (constant and kind is DType.F32))
        or (axes := choose_axes(w.shape[2:])) is None
        or (apart := dilations_apart(prim, axes)) is None
        or (max(apart) > 1 and not constant)
        or not (strides := _strides(prim, axes)) <= ({1} if int16 else {1, 2})
        or len(strides) > 1
        or (w.const is not None and not int16 and not e.pool.even((e.origin, "even", id(w.const)), w.const))
    ):
        return []
    longest = tuple([-(-n // d) if d > 1 else n for n, d in zip(shape[2:], apart, strict=True)])
    (oh, ow), (rh, rw) = axes.plane(longest, 1), axes.plane(w.shape[2:], 1)
    stride = min(strides, default=1)
    fixed = constant and kind is DType.BF16 and e.precision == "low" and applies(e.target, w.shape[1])
    images = shape[0] * elements([shape[2 + a] for a in axes.others]) * elements(apart)
    third = [axes.along_depth(numbers, 1) for numbers in (shape[2:], w.shape[2:], prim.strides, prim.dilations)]
    channels = w.shape[1], w.shape[0] // prim.groups
    conv_work = Work(images, oh, ow, *channels, rh, rw, fixed, stride, *third, groups=prim.groups)
    if max(apart) == 1:
        convs = [_Conv(e, product, w, conv_work, axes, axes, shape, prim.strides)]
    else:
        convs = [_phase(e, product, w, conv_work, axes, prim, part) for part in phases(shape[2:], apart)]
    found = []
    choice_key: tuple[object, ...] = (e.origin, "Winograd", conv_work.c, conv_work.n, rh, rw, conv_work.stride)
    choice_key += (conv_work.taps,) if conv_work.taps > 1 else ()
    choice_key += ("groups", prim.groups) if prim.groups > 1 else ()
    choice_key += ("dilations", apart) if max(apart) > 1 else ()
    earlier = e.pool.kept_choices.get(choice_key) or {}
    tiles = dict(earlier)
    room = replace(conv_work, images=room_of(images), oh=room_of(oh), ow=room_of(ow), depths=room_of(third[0]))
    ways = int16_plans(e.target, room, e.threads, _exact(e, w, axes, kind), earlier) if int16 else None
    if ways is None:
        sizable = w.const is not None and not fixed and kind is DType.F32 and _sizable(e, w.const)
        ways = plans(e.target, room, e.threads, e.options.precision, earlier, settled, sizable)
    for plan in ways:
        tiles.setdefault((plan.mh, plan.mw), (plan.mr, plan.nv))
        cycles = plan.cycles + (0.0 if constant else filter_cycles(e.target, conv_work, plan))
        found.append(Candidate(plan.name(conv_work), cycles, lambda plan=plan: _emit(convs, plan)))  # type: ignore[misc]
    if len(tiles) > len(earlier):
        e.pool.kept_choices.note(choice_key, tiles)
    return found


def _emit(convs: Sequence[_Conv], plan: Plan) -> None:
    for conv in convs:
        conv.emit(plan)


def _phase(e: Emitter, product: Product, w: Tensor, work: Work, axes: Axes, prim: p.Conv, part: Phases) -> _Conv:
    """Some results of a dilated convolution, ``work`` being the longest of these."""

    def moved(side: OperandAccess, strides: st.Ints) -> OperandAccess:
        place = part.place(side.place, strides)
        return replace(side, place=place._replace(strides=part.strides(strides)), strides=part.strides(strides))

    epilogue = product.epilogue
    operands = [(kind, moved(side, side.strides) if kind in PER_PIXEL else side) for kind, side in epilogue.operands]
    a, c = (moved(side, side.place.strides) for side in (product.a, product.c))
    apart, shape = part.axes(axes), part.shape(prim.outputs[0].shape)
    (oh, ow), rank = apart.plane(shape[2:], 1), len(prim.strides)
    images = shape[0] * elements([shape[2 + a] for a in apart.others])
    depths = apart.along_depth(shape[2:], 1)
    return _Conv(
        e, replace(product, a=a, c=c, epilogue=replace(epilogue, operands=operands)), w,
        replace(work, images=images, oh=oh, ow=ow, depths=depths), apart, axes, shape, (*prim.strides, *[1] * rank),
    )  # fmt: skip


def _strides(prim: p.Conv, axes: Axes) -> set[int]:
    """The strides of the windows along all sides of tiles where they are or move."""
    dimensions = list(zip(prim.strides, prim.inputs[1].shape[2:], prim.outputs[0].shape[2:], strict=True))
    sides = [dimensions[a] for a in (axes.row, axes.column) if a is not None]
    return {stride for stride, taps, size in sides if taps > 1 or size > 1}


def _at_run_time(e: Emitter, prim: p.Conv) -> bool:
    """Whether filters that are computed at run time may be transformed in each run: they are taken to be even, as those
    of a network that is trained are. They are f32 or, like the images, bf16, and of a size that is known."""
    x, w = prim.inputs
    kinds = DType.F32, DType.BF16
    return x.dtype is w.dtype in kinds and not e.collecting and not any(isinstance(n, OpenSize) for n in w.shape)


def _pairs_of_bytes(e: Emitter, kind: DType) -> bool:
    """Whether bytes are multiplied in pairs of 16 bits as fast as floats, or nearly as fast as in pairs of bytes, so
    that tiles of four pay."""
    fast = e.target.can(can.DOT2_I16, 8 * e.target.vector_bytes) or sums_byte_pairs(e.target)
    return kind in (DType.I8, DType.U8) and fast


def _exact(e: Emitter, w: Tensor, axes: Axes, kind: DType) -> list[tuple[int, int]]:
    """The tiles with which constant filters of integers can be transformed exactly. Channels that do not fill vectors
    are masked, where there are masks."""
    data = w.const
    if data is None or (w.shape[1] % (2 * e.target.lanes(DType.F32)) and not masks_work(e.target, (kind,))):
        return []
    key = (e.origin, "whole", id(data))
    found = e.pool.kept_choices.get(key)
    if found is None:
        filters = _joined(axes.filters(data))
        exact = {size: True for size in sizes(*filters.shape[2:]) if fits(filters, *size)}
        found = e.pool.kept_choices.setdefault(key, exact)
    return [size for size in found if kind is DType.I16 or LARGER in size or sums_byte_pairs(e.target)]


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


def _joined(filters: np.ndarray) -> np.ndarray:
    """``[taps, N, C, rh, rw]`` as if taps were further channels."""
    taps, n, c, *plane = filters.shape
    return np.moveaxis(filters, 0, 1).reshape(n, taps * c, *plane)


def _packed_words(e: Emitter, w: Tensor, axes: Axes, spec: WinogradSpec) -> tuple[dict[str, int | Ref], int]:
    """U of integers, made once; and the elements of 4 bytes of a tap's."""
    data = w.const
    assert data is not None
    form = spec.nr(e.target), spec.mh, spec.mw
    key = ("winograd words", id(data), *form)

    def make() -> np.ndarray:
        return np.concatenate([pack_transformed(filters, *form).reshape(-1) for filters in axes.filters(data)])

    buffer = e.pool.get(key, make, (data, w.keep))
    return {"u": Ref(buffer, 0)}, buffer.nbytes // 4 // axes.along_depth(w.shape[2:], 1)


def _packed_fixed(e: Emitter, w: Tensor, axes: Axes, spec: WinogradSpec) -> tuple[dict[str, int | Ref], int]:
    """U in fixed point, its scales, and the channels' factors, made once; and the elements of 4 bytes of a tap's."""
    data = w.const
    assert data is not None
    layout = FixedLayout(spec.filterings, w.shape[1], w.shape[0], spec.nr(e.target))
    key = ("winograd fixed", id(data), spec.mh, spec.mw, spec.stride, layout.nr)
    filters = axes.filters(data)
    size = -(-layout.nbytes // LINE) * LINE if spec.deep else layout.nbytes
    buffer, fresh = e.pool.reserve(key, size * len(filters), DType.U8, (data, w.keep))
    if fresh:
        assert buffer.const is not None
        most = largest_weights(filters)
        for tap, one in enumerate(filters):
            pack_fixed(one, layout, buffer.const[tap * size :], most)
        e.pool.filled(buffer)
    found: dict[str, int | Ref] = {"u": Ref(buffer, 0), "scales": Ref(buffer, layout.scales)}
    return {**found, "factors": Ref(buffer, layout.factors)}, size // 4


class _Conv:
    """One convolution with everything that a plan needs to be emitted: its results are ``shape``, along whose spatial
    dimensions windows move by ``strides``, and of which ``axes`` tell; ``windows`` are those of the weights."""

    def __init__(
        self, e: Emitter, product: Product, w: Tensor, work: Work, axes: Axes, windows: Axes, shape: st.Ints,
        strides: st.Ints,
    ) -> None:  # fmt: skip
        acc, out = DType.I32 if product.a.dtype.is_int else DType.F32, product.c.dtype
        if product.epilogue.body is None and out is not acc:
            product = replace(product, epilogue=Epilogue(body_of([acc], lambda b, v: b.cast(v, out))))
        self.e, self.product, self.w, self.work, self.axes = e, product, w, work, axes
        self.windows, self.shape, self.strides = windows, shape, strides

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
            work.c % (2 * lanes if work.fixed or a.dtype.is_int else lanes) != 0,
            work.n % lanes != 0,
            c.dtype,
            epilogue.body,
            epilogue.kinds,
            a.dtype,
            fixed=work.fixed,
            inner_product=plan.inner_product,
            stride=work.stride,
            deep=work.taps > 1,
            grouped=work.groups > 1,
            fits=epilogue.fits,
        )
        n_tiles = work.images * -(-work.depths // plan.depths) * -(-work.oh // plan.mh) * -(-work.ow // plan.mw)
        row_x, col_x = self.axes.plane(a.place.strides[2:], 0)
        row_y, col_y = self.axes.plane(c.place.strides[2:], 0)
        weights, u_tap = self._weights(spec)
        args: dict[str, int | Ref] = {
            "x": e.ref(a.place, a.dtype),
            **weights,
            "y": e.ref(c.place, c.dtype),
            "tiles": e.records(self._tiles(plan)),
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
        if spec.deep:
            args |= self._third(plan, u_tap)
        if spec.grouped:
            args |= {"groups": work.groups, "u_group": u_tap * work.taps}
        for i, (kind, operand) in enumerate(epilogue.operands):
            args[f"op{i}"] = e.ref(operand.place, operand.dtype)
            if kind in PER_PIXEL:
                args[f"row{i}"], args[f"col{i}"] = self.axes.plane(operand.strides[2:], 0)
                if spec.deep:
                    args[f"deep{i}"] = self.axes.along_depth(operand.strides[2:], 0)
        blocks = work.groups * spec.blocks(n_tiles, plan.group, work.n, plan.n_block)
        flops = 2 * work.groups * work.images * work.oh * work.ow * work.n * work.c * work.rh * work.rw
        flops *= work.depths * work.taps
        e.command(spec, args, blocks, blocks if room_of(flops) < SMALL else 1, flops)

    def _third(self, plan: Plan, u_tap: int) -> dict[str, int | Ref]:
        """The arguments :data:`~.records.DEEP`."""
        e, work = self.e, self.work
        tile = depth_tile(plan.depths, work.taps, work.step, work.dilation)
        deep_x, deep_y = (self.axes.along_depth(at.place.strides[2:], 0) for at in (self.product.a, self.product.c))
        return {
            "slices": e.offsets(np.array(tile.slices, np.int64)),
            "n_slices": len(tile.slices),
            "taps": e.offsets(np.array(tile.taps, np.int64)),
            "n_taps": work.taps,
            "depths": plan.depths,
            "deep_x": deep_x,
            "deep_y": deep_y,
            "u_tap": u_tap,
        }

    def _tiles(self, plan: Plan) -> OffsetTable:
        """The table of tiles, see :class:`MNN.backends.cpu.winograd.spec.WinogradSpec`."""
        work, axes, operands = self.work, self.axes, self.product.epilogue.operands
        images = [self.shape[a] for a in (0, *(2 + a for a in axes.others))]
        moved = (1, *self.strides)
        outputs = plan.depths, plan.mh, plan.mw
        extents = (*images, *(-(-n // m) for n, m in zip((work.depths, work.oh, work.ow), outputs, strict=True)))
        alone = (0,) * len(images)

        def begin(strides: st.Ints, steps: Sequence[int]) -> Column:
            """Its first element of a tensor, along which windows move by ``steps``."""
            at = [s * step for s, step in zip((strides[0], *strides[2:]), steps, strict=True)]
            plane = axes.along_depth(at[1:], 0), *axes.plane(at[1:], 0)
            return Column(
                (at[0], *(at[1 + a] for a in axes.others), *(s * m for s, m in zip(plane, outputs, strict=True)))
            )

        def reach(side: int, size: int, step: int, more: int) -> Column:
            """From its first result to its last along a side, in ``step`` each, and ``more``: less where images end."""
            steps = [-step * outputs[side] if axis == side else 0 for axis in range(3)]
            return Column((*alone, *steps), (size - 1) * step + more, (outputs[side] - 1) * step + more)

        ones = (1,) * len(moved)
        words = {
            "x": begin(self.product.a.place.strides, moved),
            "last_row": reach(1, work.oh, work.stride, work.rh - 1),
            "last_column": reach(2, work.ow, work.stride, work.rw - 1),
            "y": begin(self.product.c.place.strides, ones),
            "rows": reach(1, work.oh, 1, 1),
            "columns": reach(2, work.ow, 1, 1),
        }
        if work.taps > 1:
            words["last_slice"] = reach(0, work.depths, work.step, (work.taps - 1) * work.dilation)
            words["depths"] = reach(0, work.depths, 1, 1)
        nothing = Column((*alone, 0, 0, 0))
        for i, (kind, operand) in enumerate(operands):
            words[f"op{i}"] = begin(operand.strides, ones) if kind in PER_PIXEL else nothing
        return OffsetTable(extents, tuple([words[name] for name in tile_record(len(operands), work.taps > 1)]))

    def _weights(self, spec: WinogradSpec) -> tuple[dict[str, int | Ref], int]:
        """U and what belongs to it, made once; and the elements of 4 bytes from one tap's to the next."""
        e, w, work = self.e, self.w, self.work
        if spec.acc is DType.I32:
            return _packed_words(e, w, self.windows, spec)
        if spec.fixed:
            return _packed_fixed(e, w, self.windows, spec)
        form = spec.mh, spec.mw, spec.rh, spec.rw, spec.nr(e.target), spec.stride
        head = HEAD if spec.inner_product else 0
        made = WinogradWeightsSpec(*form)
        size = made.size(work.c, work.n, head)
        if w.const is None:
            buffer = e.allocate(DType.F32, (work.taps, size), (0, 1)).buffer
            self._transform(replace(made, in_rows=True), buffer, head, columns_innermost(e, w, DType.F32))
            return {"u": Ref(buffer, 0)}, size
        key = ("winograd", id(w.const), *form, head)
        known = e.pool.known(key)
        if known is not None:
            return {"u": Ref(known, 0)}, size
        buffer, fresh = e.pool.reserve(key, size * work.taps * work.groups, DType.F32, (w.const, w.keep))
        if fresh:
            with e.collect() as commands:
                self._transform(made, buffer, head, e.place(w))
                if head:
                    vectors = spec.nv * made.panels(work.n) * work.taps * work.groups
                    e.command(
                        InnerProductPackSpec(), {"b": Ref(buffer, 0), "k": work.c, "vectors": spec.nv}, vectors, 1
                    )
            buffer.setup += commands
        return {"u": Ref(buffer, 0)}, size

    def _transform(self, made: WinogradWeightsSpec, buffer: Buffer, head: int, place: Place) -> None:
        """Emits the transformation of filters that lie at ``place``, group by group, tap by tap along a third axis."""
        e, work = self.e, self.work
        size = made.size(work.c, work.n, head)
        w_n, w_c, *rest = place.strides
        w_h, w_w = self.windows.plane(rest, 0)
        step, third = min(_STEP, work.c), self.windows.along_depth(rest, 0)
        for number in range(work.groups * work.taps):
            group, tap = divmod(number, work.taps)
            at = place._replace(offset=place.offset + group * work.n * w_n + tap * third)
            args: dict[str, int | Ref] = {"w": e.ref(at, DType.F32), "u": Ref(buffer, 4 * number * size)}
            args |= {"c": work.c, "n": work.n, "head": head, "step": step}
            args |= {"w_n": w_n, "w_c": w_c, "w_h": w_h, "w_w": w_w}
            e.command(made, args, made.blocks(work.c, work.n, step), 1)
