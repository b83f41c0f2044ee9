"""Matrix products by Winograd's inner products, as a candidate beside the plain way."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.inner_product.cost import Tile, applies, choose_cut, choose_inner_product
from MNN.backends.cpu.inner_product.iteration import Iteration, iteration_of
from MNN.backends.cpu.inner_product.pack import InnerProductPackSpec, sizable
from MNN.backends.cpu.inner_product.spec import InnerProductSpec
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.product import Product
from MNN.ir.dtype import DType
from MNN.ir.traced import room_of

NAME = "inner products"


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

    They need constant f32 weights of sizes that can be evened out, one batch and one tap. Where they are ``settled``,
    nothing is estimated.
    """
    product, weights = work.product, work.weights
    m, n, k = room_of(product.m), product.n, product.k
    if not weights.taken_once(e, product) or not applies(e.target, m, n, k):
        return []
    if not weights.mixable(e) or not weights.satisfy(e, "sizable", sizable):
        return []
    choice_key = (e.origin, NAME, n, k)
    earlier = e.pool.kept_choices.get(choice_key)
    tile, cycles = choose_inner_product(e.target, m, n, k, earlier, e.threads)
    if earlier is None:
        e.pool.kept_choices.note(choice_key, tile)
    elif settled == NAME:
        cycles = 0.0
    return [Candidate(NAME, cycles, lambda: _emit(e, product, weights, tile))]


def _emit(e: Emitter, product: Product, weights: Weights, tile: Tile) -> None:
    a, c, epilogue = product.a, product.c, product.epilogue
    m, n, k = product.m, product.n, product.k
    spec = InnerProductSpec(*tile, c.dtype, epilogue.body, epilogue.kinds)
    nr = spec.nr(e.target)
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
