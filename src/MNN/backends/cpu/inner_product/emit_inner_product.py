"""Matrix products by Winograd's inner products, as a candidate beside the plain way."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.inner_product.cost import Tile, applies, choose_cut, choose_inner_product
from MNN.backends.cpu.inner_product.iteration import Iteration, iteration_of
from MNN.backends.cpu.inner_product.pack import InnerProductPackSpec, sizable
from MNN.backends.cpu.inner_product.spec import InnerProductSpec
from MNN.backends.cpu.loops.emit_elementwise import emit_fill
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.product import Product
from MNN.ir.dtype import DType
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

NAME = "inner products"
_RESULTS = (DType.F32, DType.I16, DType.U16)
"""What sums may be stored as: floats, and the integers of activations of 16 bits."""
_SCREENING = 0.5
"""Cycles for each weight that is brought to size in every run, beside its copy into panels."""


@dataclass(frozen=True)
class _Sized:
    """Weights brought to size, with the sums of products of their pairs ahead of them."""

    iteration: Iteration

    @property
    def head(self) -> int:
        return self.iteration.head

    def whole(self, steps: int) -> int:
        return self.iteration.whole(steps)

    def emit(self, e: Emitter, panels: Ref, count: int, steps: int, nr: int) -> None:
        vectors = nr // e.target.lanes(DType.F32)
        args: dict[str, int | Ref] = {"b": panels, "k": steps, "vectors": vectors}
        e.command(InnerProductPackSpec(self.iteration.split), args, count * vectors, 1)


@contraction_algorithm(NAME, rank=4)
def inner_product_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """The product by inner products; nothing where these do not apply.

    They need f32 weights of sizes that can be evened out, one batch and one tap. Constants are looked at here; states,
    such as parameters that are trained, while the program runs, column by column. Where they are ``settled``, nothing
    is estimated.
    """
    product, weights = work.product, work.weights
    m, n, k = room_of(product.m), product.n, product.k
    if not weights.one_matrix(e, product, _RESULTS) or not applies(e.target, m, n, k):
        return []
    changing = weights.tensor.const is None
    if changing and not _is_state(e, weights):
        return []
    if not changing and not (weights.mixable(e) and weights.satisfy(e, "sizable", sizable)):
        return []
    choice_key = (e.origin, NAME, n, k)
    earlier = e.pool.kept_choices.get(choice_key)
    tile, cycles = choose_inner_product(e.target, m, n, k, earlier, e.threads)
    if earlier is None:
        e.pool.kept_choices.note(choice_key, tile)
    elif settled == NAME:
        cycles = 0.0
    if changing:
        cycles += _SCREENING * n * k
    return [Candidate(NAME, cycles, lambda: _emit(e, product, weights, tile))]


def _emit(e: Emitter, product: Product, weights: Weights, tile: Tile) -> None:
    a, c, epilogue = product.a, product.c, product.epilogue
    m, n, k = product.m, product.n, product.k
    changing = weights.tensor.const is None
    spec = InnerProductSpec(*tile, c.dtype, epilogue.body, epilogue.kinds, changing)
    nr = spec.nr(e.target)
    if changing:
        b_ref, panel = _packed_each_run(e, weights, k, n, tile, nr)
    else:
        b_ref, _, panel, _ = weights.packed(e, nr, 1, prepared=_Sized(iteration_of(e.target, *tile)))
    mb, nb, ub, grain = choose_cut(e.target, room_of(m), n, k, tile, e.threads)
    units = spec.blocks(m, n, ub, nb)
    if e.options.open_sizes and e.threads > 1:  # as many for each thread at every size
        grain = -(-units // e.threads)
    args: dict[str, int | Ref] = {
        "a": e.ref(a.place, a.dtype),
        "b": b_ref,
        "c": e.ref(c.place, c.dtype),
        "rows_a": e.offsets(a.table),
        "rows_c": e.offsets(c.table),
        "k": k,
        "panel": panel,
        "m": m,
        "n": n,
        "mb": mb,
        "nb": nb,
        "ub": ub,
    }
    args |= epilogue.args(e)
    e.command(spec, args, units, grain, 2 * m * n * k)


def _is_state(e: Emitter, weights: Weights) -> bool:
    """Whether weights are one matrix of a state, or a view of one."""
    many = elements(weights.tensor.shape[:-2]) if weights.conv is None else weights.conv[3]
    return many == 1 and e.place(weights.tensor).buffer.lent


def _packed_each_run(e: Emitter, weights: Weights, k: int, n: int, tile: Tile, nr: int) -> tuple[Ref, int]:
    """Address and panel of weights ``[k, n]`` that change: commands in front of the product copy them into panels and
    bring these to size."""
    iteration, place = iteration_of(e.target, *tile), e.place(weights.tensor)
    steps, head, panels = iteration.whole(k), iteration.head + 1, -(-n // nr)
    panel = (head + steps) * nr
    key = weights.tensor, ((-1, nr, head, steps), 0)  # several products may share it, the steps of a sequence
    if key in e.copies:
        return Ref(e.copies[key].buffer, 0), panel
    e.copies[key] = e.allocate(DType.F32, (panels, panel), (0, 1))
    buffer = e.copies[key].buffer
    row, column = place.strides[-2:] if weights.conv is None else place.strides[1::-1]
    for first, count, width in ((0, n // nr, nr), (n // nr, panels - n // nr, n % nr)):
        if count:
            source = Place(place.buffer, place.offset + first * nr * column, (nr * column, row, column))
            begin = first * panel + head * nr
            e.copy(source, Place(buffer, begin, (panel, nr, 1)), (count, k, width), DType.F32)
            emit_fill(e, 0, Place(buffer, begin + width, (panel, nr, 1)), (count, k, nr - width), DType.F32)
    emit_fill(e, 0, Place(buffer, (head + k) * nr, (panel, 1)), (panels, (steps - k) * nr), DType.F32)
    vectors = nr // e.target.lanes(DType.F32)
    args: dict[str, int | Ref] = {"b": Ref(buffer, 0), "k": steps, "vectors": vectors}
    e.command(InnerProductPackSpec(iteration.split, True), args, panels * vectors, 1)
    return Ref(buffer, 0), panel
