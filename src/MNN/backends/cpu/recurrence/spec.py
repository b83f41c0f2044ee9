"""Recurrent layers: all steps of a sequence in one call, products with the state and what follows them together.

A tile of the product is all gates of some neighbouring units, so that their new state follows from it at once. The
weights lie in the order in which a step reads them (Appleyard et al., "Optimizing Performance of Recurrent Neural
Networks on GPUs", 2016, have the fusion; the layout is that of any packed matrix product).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from MNN.backends.base.kernel import Arguments
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.products.dot import DOT2
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.register_steps import with_all_registers
from MNN.backends.cpu.products.register_tiles import tiles
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

_MOST_VECTORS = 8
_GROUPS = 4
"""Register tiles of sequences for which a block of weights is read from the first-level cache."""
_IN_FLIGHT = 8
"""Multiply-adds that a processor works on at once."""
_WAITING = 1.25
"""Of a register tile's own latency, that it takes where too few sums are in flight."""
_TURN = 0.25
"""Cycles that a step of a register tile takes beside its products."""
_LOAD_COST = 2.0
"""Of a vector of weights, which come from the second-level cache, in cycles."""


@dataclass(frozen=True)
class RecurrenceSpec(GeneratedSpec):
    """What :class:`MNN.ir.prims.Recurrence` means, for ``dtype`` f32 or f64; with ``weights`` BF16 products of pairs of
    bf16 (see :mod:`MNN.backends.cpu.products.dot`), to which the state is rounded.

    ``quantized`` (f32, no ``first``): ``weights`` is I8, multiplied in groups of four
    (:mod:`MNN.backends.cpu.products.dot8`), or F32 where a target has no such products; see
    :mod:`MNN.backends.cpu.recurrence.code_quantized` for the layout.

    A tile has ``vectors`` vectors of units, all gates of each: ``[vector, gate]``, of which ``columns`` at a time are
    multiplied by ``rows`` sequences in registers, ``deep`` steps of the sums before the next sequences where there are
    more than ``rows``. The weights ``r`` are packed as ``[tile of units, part of its columns, k, column, lane]``, zeros
    past the last unit, with pairs along ``k`` in each lane for bf16, ``r_d`` elements for each direction; those
    of the last gate are in ``q`` where there is a body ``first``. The innermost dimension of
    ``given``, ``y``, parameters and last states is contiguous; the first states have any strides.

    With ``dtype`` I32 all is integers (:mod:`MNN.backends.cpu.recurrence.code_whole`), and ``table{i}`` are ``tables``
    tables of ``body``'s lookups.

    ``signs``: products of bytes are :func:`MNN.backends.cpu.products.dot8.dot_by_signs`; no weight is -128.

    ``work`` has :meth:`planes` planes of ``batch`` rows of ``pitch`` elements (whole tiles) for each direction.
    ``backward`` has a bit for each direction that runs so.

    Blocks: directions times ``ceil(batch / span)`` parts of ``span`` sequences; or, when ``shared``, directions times
    ``parts`` parts of ``share`` tiles, which meet after every step: ``sync`` then has ``phases.words(parts)`` zeros for
    each direction.
    """

    dtype: DType
    weights: DType
    gates: int
    body: Body
    first: Body | None
    parameters: int
    limited: bool
    rows: int
    vectors: int
    columns: int
    shared: bool
    quantized: bool = False
    deep: int = 128
    signs: bool = False
    tables: int = 0

    @property
    def held(self) -> DType:
        """The type in which the next step finds the state."""
        return self.dtype if self.quantized else self.weights

    @property
    def states(self) -> int:
        return len(self.body.outputs)

    @property
    def direct(self) -> int:
        """Gates whose rows are multiplied with the state itself."""
        return self.gates - (self.first is not None)

    def slots(self) -> tuple[str, ...]:
        names = ["given", "given_t", "given_b", "given_d", "y", "y_t", "y_b", "y_d", "r", "r_d"]
        if self.first is not None:
            names += ["q", "q_d"]
        for i in range(self.states):
            names += [f"from{i}", f"from{i}_d", f"from{i}_b", f"from{i}_h", f"to{i}", f"to{i}_d", f"to{i}_b"]
        for i in range(self.parameters):
            names += [f"param{i}", f"param{i}_d"]
        names += ["lengths"] if self.limited else []
        names += [f"table{i}" for i in range(self.tables)]
        names += ["steps", "batch", "hidden", "backward", "work", "pitch"]
        return (*names, *(("sync", "parts", "share") if self.shared else ("span",)))

    def lanes(self, target: Target) -> int:
        return target.lanes(self.dtype)

    def width(self, target: Target) -> int:
        """Units of a tile."""
        return self.vectors * self.lanes(target)

    @property
    def most_rows(self) -> int:
        """Sequences whose sums with one tile are in scratch together."""
        return self.rows * _GROUPS

    def sums_bytes(self, target: Target) -> int:
        return self.most_rows * self.vectors * self.gates * target.vector_bytes

    def planes(self) -> int:
        """The states; what is multiplied now and next; with ``first`` its result and the products before it."""
        return self.states + 2 + (self.gates if self.first is not None else 0)

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        sums = self.sums_bytes(target)
        if not self.quantized:
            return sums
        return sums + args["batch" if self.shared else "span"] * quantized_row(self.weights, args["hidden"], self.signs)

    def arithmetic(self, target: Target) -> str:
        if self.quantized:
            return "int8" if self.weights is DType.I8 else "f32"
        return "bf16" if self.weights is DType.BF16 else super().arithmetic(target)

    def traffic(self, args: Arguments) -> dict[str, int]:
        """Weights once, though every step reads them: from a cache."""
        steps, batch, hidden = (number(args, s) for s in ("steps", "batch", "hidden"))
        size, share = self.dtype.size, hidden * hidden * self.weights.size
        found = {"given": steps * batch * self.gates * hidden * size, "y": steps * batch * hidden * size}
        found["r"] = self.direct * share
        if self.first is not None:
            found["q"] = share
        return found


def group_size(weights: DType) -> int:
    """How many products of the state with weights of this type are summed at once."""
    return {DType.BF16: DOT2, DType.I8: DOT4}.get(weights, 1)


def steps_of(weights: DType, hidden: int) -> int:
    """Steps of the sum over ``hidden`` values of the state."""
    return -(-hidden // group_size(weights))


QUANTIZED_HEAD = 64
"""Bytes in front of a quantised state: its scale (f32) and zero point (i32)."""


def quantized_size(weights: DType, signs: bool) -> int:
    """Bytes of a number of a quantised state; of two where how large it is stands beside it."""
    return (2 if signs else 1) if weights is DType.I8 else 4


def quantized_row(weights: DType, hidden: int, signs: bool) -> int:
    """Bytes of a sequence's quantised state, whole cache lines."""
    return QUANTIZED_HEAD + -(-hidden * quantized_size(weights, signs) // 64) * 64


def parts_of(sums: int) -> int:
    """In how many parts the sums of a tile are, each for every second or fourth step, so that enough are in flight."""
    return 1 if sums >= _IN_FLIGHT else 2 if 2 * sums >= _IN_FLIGHT else 4


def choose_tile(
    target: Target, dtype: DType, batch: int, hidden: int, gates: int, parts: int = 1, last: int = 0
) -> tuple[int, int, int]:
    """Rows, vectors and columns of a tile, of which sums are of ``dtype``: the fewest estimated cycles for a step of
    the largest of ``parts`` parts. ``last`` of the gates are multiplied apart from the others."""
    lanes, best = target.lanes(dtype), (float("inf"), 1, 0, 0)
    vectors = -(-hidden // lanes)
    room = with_all_registers(target) if dtype is DType.F32 else target
    for mr, columns in tiles(room, batch, dtype):
        latency = _WAITING * target.fma_latency / parts_of(mr * columns)
        issue = max(mr * columns / target.fma_per_cycle, latency, (mr + columns) / target.loads_per_cycle)
        groups = -(-batch // mr)
        first = -(-groups // _GROUPS)
        cycles = first * max(issue, columns * _LOAD_COST) + (groups - first) * issue + _TURN
        for nv in range(1, min(vectors, _MOST_VECTORS) + 1):
            if nv * (gates - last) % columns == 0 and nv * last % columns == 0:
                most = -(-vectors // nv)
                share = -(-most // parts) * nv * gates // columns
                best = min(best, (share * cycles, nv, -columns, -mr))
    return -best[3], best[1], -best[2]
