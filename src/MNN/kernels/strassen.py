"""One level of Strassen's algorithm: seven half-size products where the plain way needs eight.

V. Strassen, "Gaussian Elimination is not Optimal" (1969); that neither sums of B's quarters nor of C's need memory of
their own is from J. Huang, T. Smith, G. Henry and R. van de Geijn, "Strassen's Algorithm Reloaded" (2016). A tile of
C's four quarters lives in the first-level cache while the seven products pass by in registers; a product is added to
the quarters that hold it. B's sums are formed in registers, one addition per load, which processors with separate
adders do for nothing. Only A's sums are written out first (:class:`StrassenSumsSpec`), since its numbers are spread
over vectors one by one and would be added once per column panel.

The rounding error is at most ``sqrt(3)`` times that of a plain sum of the whole depth (root mean square; sums of half
the length, each present in three products on average with twice the variance). It is relative to the largest numbers
of A and B, not to each row's own. Infinities, NaNs and numbers whose sums might overflow would spread between rows:
the kernel of the sums looks for them and the product then takes the plain way, with eight products.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from MNN.ir.dtype import DType
from MNN.ir.scalar import Body
from MNN.kernels import overlay
from MNN.kernels.contract_cost import MEMORY_BYTES_PER_CYCLE, PACKED, step_cycles, tiles
from MNN.kernels.epilogue import operand_slots
from MNN.kernels.lang import F32, I1, I32, Builder, Kernel, Value
from MNN.kernels.spec import KernelSpec
from MNN.kernels.strassen_emit import ROW, emit_strassen
from MNN.kernels.traffic import Arguments, number
from MNN.targets.base import Target

LARGEST = 2.0**40
"""Numbers up to here (of A and of B) cannot overflow on the way where plain sums would not."""
SUM_ROWS = 8
"""Rows of sums in one block, which has one flag."""

DEPTH = 512
"""Most products in one running sum; longer ones are cut, which keeps rounding errors low."""

_QUARTERS = ("11", "12", "21", "22")
_SUMS = ("11+22", "21+22", "11+12", "21-11", "12-22")
# A's factor, B's factor, and the quarters of C that the product belongs to.
_PRODUCTS = (
    ("11+22", "11+22", "+11 +22"),
    ("21+22", "11", "+21 -22"),
    ("11", "12-22", "+12 +22"),
    ("22", "21-11", "+11 +21"),
    ("11+12", "22", "-11 +12"),
    ("21-11", "11+12", "+22"),
    ("12-22", "21+22", "+11"),
)
_USUAL = ((8, 3), (9, 3), (6, 4), (7, 3), (5, 4), (14, 2), (6, 2), (5, 2), (4, 2))
"""Tiles with few addresses and few loads; another one must be better by ``_TOLERANCE``."""
_TOLERANCE = 1.03
PASSED_ON = 3.0
"""Cycles per number of A that another thread wrote: its sums are of quarters that no cut of the work before puts into
one thread's cache, and go to all threads in turn. With two threads the plain product is up to 10 % faster where A is
large beside C (196 rows, depth 1024, 256 columns), and 10 % slower than this one with 3072 columns."""
_USES = 12


@dataclass(frozen=True)
class _Losses:
    """What is lost beside seven products, measured: shares of their time because they begin on rows that are not near
    (``late``; ``few`` is divided by the rows of a half), cycles of a vector that is added to a quarter and that is
    stored, and of a vector of A for all sums, in the second-level cache and beyond it."""

    late: float
    few: float
    use: float
    store: float
    sums: float
    far_sums: float


_LOSSES = {16: _Losses(0.13, 0.0, 1.5, 4.0, 40.0, 65.0)}
"""By floats in a vector. The plain product, which meets its operands in order, loses 0.1."""
_OTHERS = _Losses(0.23, 2.0, 4.0, 10.0, 30.0, 30.0)
"""On AVX2, where the plain one reaches 95 % of the peak, Strassen's way is 3 % slower to 1 % faster."""
_PLAIN = tuple((f"{i}{k}", f"{k}{j}", f"+{i}{j}") for i in "12" for j in "12" for k in "12")


@dataclass(frozen=True)
class StrassenSumsSpec(KernelSpec):
    """Sums of the quarters of A ``[m, 2k]`` (rows ``lda`` apart): five matrices ``[half, k]`` with rows ``lds`` apart.

    The upper rows are ``[0, half)``, the lower ones ``[m - half, m)``. Sum ``i`` begins at ``s + i * half * lds``.
    Block ``b`` does rows ``[8 b, 8 b + 8)`` and sets ``flags[b]`` (i32) to 1 when it meets a number that is not
    below ``LARGEST`` in size, else to 0. f32 only; ``k`` is a multiple of the vector's lanes.
    """

    shaped: ClassVar[bool] = True

    def slots(self) -> tuple[str, ...]:
        return tuple("a s flags lda lds k m half".split())

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, lanes = k.b, target.lanes(DType.F32)
        vector, bits = F32.vec(lanes), I32.vec(lanes)
        width, half, lda, lds = k.slot("k"), k.slot("half"), k.slot("lda"), k.slot("lds")
        lower = (k.slot("m") - half) * lda
        size = half * lds
        with b.loop(k.begin, k.end) as block:
            first = block.index * SUM_ROWS
            last = b.intrinsic("smin", first + SUM_ROWS, half)
            with b.loop(first, last, carry=[b.const(bits, 0)]) as row:
                top = b.gep(k.pointer("a"), F32, row.index * lda)
                bottom = b.gep(top, F32, lower)
                to = b.gep(k.pointer("s"), F32, row.index * lds)
                with b.loop(0, width, lanes, carry=row.carried) as at:
                    pointers = {"1": b.gep(top, F32, at.index), "2": b.gep(bottom, F32, at.index)}
                    quarters: dict[str, Value] = {}
                    largest = at.carried[0]
                    for name in _QUARTERS:
                        pointer = pointers[name[0]]
                        x = b.load(vector, pointer if name[1] == "1" else b.gep(pointer, F32, width))
                        largest = b.intrinsic("umax", largest, _size(b, x))
                        quarters[name] = x
                    out = b.gep(to, F32, at.index)
                    for i, name in enumerate(_SUMS):
                        x, y = quarters[name[:2]], quarters[name[3:]]
                        b.store(b.add(x, y) if name[2] == "+" else b.sub(x, y), out)
                        if i + 1 < len(_SUMS):
                            out = b.gep(out, F32, size)
                    at.next(largest)
                row.next(*at.results)
            b.store(_any_large(b, row.results[0]), b.gep(k.pointer("flags"), I32, block.index))
        return k.finish()


@dataclass(frozen=True)
class LargeSpec(KernelSpec):
    """Looks for numbers that are not below ``LARGEST`` in size among ``count`` f32 numbers ``x``.

    Block ``b`` looks at ``[b * chunk, (b + 1) * chunk)`` and sets ``flags[b]`` (i32) to 1 or 0. ``count`` and ``chunk``
    are multiples of the vector's lanes.
    """

    shaped: ClassVar[bool] = True

    def slots(self) -> tuple[str, ...]:
        return tuple("x flags count chunk".split())

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, lanes = k.b, target.lanes(DType.F32)
        with b.loop(k.begin, k.end) as block:
            first = block.index * k.slot("chunk")
            last = b.intrinsic("smin", first + k.slot("chunk"), k.slot("count"))
            with b.loop(first, last, lanes, carry=[b.const(I32.vec(lanes), 0)]) as at:
                x = b.load(F32.vec(lanes), b.gep(k.pointer("x"), F32, at.index))
                at.next(b.intrinsic("umax", at.carried[0], _size(b, x)))
            b.store(_any_large(b, at.results[0]), b.gep(k.pointer("flags"), I32, block.index))
        return k.finish()


def _size(b: Builder, x: Value) -> Value:
    """Bits that are ordered like the sizes of floats, with infinity and NaN above the rest."""
    return b.and_(b.bitcast(x, I32.vec(x.type.lanes)), 0x7FFFFFFF)


def _any_large(b: Builder, sizes: Value) -> Value:
    lanes = sizes.type.lanes
    large = b.icmp("uge", sizes, int(np.float32(LARGEST).view(np.int32)))
    found = large if lanes == 1 else b.call(I1, f"llvm.vector.reduce.or.v{lanes}i1", large)
    return b.convert("zext", found, I32)


@dataclass(frozen=True)
class StrassenSpec(KernelSpec):
    """``C[m, n] = epilogue(A @ B)`` in f32 for packed B (``pack_b``) and evenly spaced rows of A.

    ``products`` is a table made by :func:`product_table`, of ``n_products`` entries of Strassen's way and ``n_plain``
    of the plain one, which is taken when any of the ``n_flags`` i32 ``flags`` (of A) or ``n_b_flags`` ``b_flags`` is
    set. ``s`` are A's sums, ``k`` is half of the depth. The columns are ``panels`` panels in ``pairs`` =
    ceil(panels / 2) pairs. C and operands are addressed as in ``ContractSpec`` without batches, and may be the same
    memory as there. Block ``im * ceil(pairs / nb) + in`` computes rows ``[im*mb, ...)`` of both halves in the pairs
    ``[in*nb, ...)``.
    """

    shaped: ClassVar[bool] = True

    mr: int
    nv: int
    out: DType = DType.F32
    epilogue: Body | None = None
    operands: tuple[str, ...] = field(default=())
    a: ClassVar[DType] = DType.F32
    b: ClassVar[DType] = DType.F32
    acc: ClassVar[DType] = DType.F32

    def nr(self, target: Target) -> int:
        """Columns of a tile."""
        return self.nv * target.lanes(self.acc)

    def slots(self) -> tuple[str, ...]:
        base = "a s b c rows_c products n_products n_plain flags n_flags b_flags n_b_flags lda lds".split()
        base += "panel panels pairs k m half n mb nb".split()
        return (*base, *operand_slots(self.operands))

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """A tile of every quarter of C."""
        del args
        return 4 * self.mr * self.nr(target) * self.acc.size

    def in_place(self, args: Arguments) -> overlay.Pairs:
        return overlay.of_product(self.operands, self.epilogue, self.out, args, number(args, "m"))

    def emit(self, target: Target) -> str:
        return emit_strassen(self, target)


@functools.lru_cache(maxsize=256)
def product_table(
    m: int, half: int, lda: int, lds: int, k: int, nr: int, panels: int, panel: int
) -> tuple[npt.NDArray[np.int64], int, int]:
    """The entries of ``StrassenSpec.products`` (see ``strassen_emit.ENTRY``) and how many are Strassen's and plain.

    ``k`` is half of the depth; panels of B lie ``panel`` elements apart.
    """
    parts = -(-k // DEPTH)
    cuts = [k * i // parts for i in range(parts + 1)]
    raw = {q: (int(q[0]) - 1) * (m - half) * lda + (int(q[1]) - 1) * k for q in _QUARTERS}
    right = {q: (int(q[0]) - 1) * k * nr + (int(q[1]) - 1) * (panels // 2) * panel for q in _QUARTERS}

    def entries(left: str, factor: str, uses: str) -> list[list[int]]:
        found = []
        summed = left in _SUMS
        b_first, b_second = right[factor[:2]], right[factor[-2:]]
        mode = 0 if len(factor) == 2 else 1 if factor[2] == "+" else 2
        targets = [[_QUARTERS.index(u[1:]), 1 if u[0] == "+" else -1] for u in uses.split()]
        flat = [x for t in targets for x in t] + [0, 0] * (2 - len(targets))
        for at, past in itertools.pairwise(cuts):
            a = (_SUMS.index(left) * half * lds if summed else raw[left]) + at
            first = b_first + at * nr
            found.append([int(summed), a, first, b_second - b_first, mode, past - at, len(targets), *flat])
        return found

    strassen = [e for p in _PRODUCTS for e in entries(*p)]
    plain = [e for p in _PLAIN for e in entries(*p)]
    table = np.array(strassen + plain, np.int64)
    assert table.shape[1] == ROW
    table.flags.writeable = False
    return table, len(strassen), len(plain)


@functools.lru_cache(maxsize=4096)
def _step(target: Target, k: int, mr: int, nv: int) -> float:
    sums, plain = (step_cycles(target, DType.F32, of, mr, nv) for of in (k // 2, k))  # sums of A, and A itself
    return (5 * sums + 2 * plain) / 7


@functools.lru_cache(maxsize=1024)
def choose_strassen(
    target: Target, m: int, n: int, k: int, earlier: tuple[int, int] | None = None, threads: int = 1
) -> tuple[tuple[int, int], float]:
    """The best register tile for a product of ``m`` x ``n`` with ``k`` products per sum, and the cycles of all threads.

    The one taken ``earlier``, for another ``m``, is kept while it is close to the best.

    The tiles are those of the plain product. On top of seven eighths of its FMAs come: B's additions where the FMA
    units do them, the quarters of C that every product is added to, and A's sums.
    """
    lanes = target.lanes(DType.F32)
    half, depth = -(-m // 2), k // 2
    lost = _LOSSES.get(lanes, _OTHERS)
    late = lost.late + lost.few / half  # B, from far away, hides worse behind few rows
    near = 2.25 * 4 * m * k <= 1.5 * target.l2_bytes  # A and its sums, part by part
    sums = half * depth / lanes * (lost.sums if near else lost.far_sums) + (1 - 1 / threads) * m * k * PASSED_ON
    best, best_cycles, kept = (1, 1), float("inf"), float("inf")
    for mr, nv in tiles(target, half):
        registers, panels = mr * nv, -(-n // (nv * lanes))
        rows, pairs = -(-half // mr), -(-panels // 2)
        count = threads * min(-(-rows // threads) * pairs, rows * -(-pairs // threads))
        adds = 0.0 if target.separate_adders else 5 / 7 * nv / target.fma_per_cycle
        step = _step(target, k, mr, nv) + adds
        parts = -(-depth // DEPTH)
        work = 7 * depth * step + parts * (7 * 60 + _USES * registers * lost.use) + 4 * registers * lost.store + 60
        memory = panels * nv * lanes * k * 4 / MEMORY_BYTES_PER_CYCLE
        cycles = max(count * work, memory) + late * count * work + sums
        if (mr, nv) not in _USUAL:
            cycles *= _TOLERANCE
        if (mr, nv) == earlier:
            kept = cycles
        if cycles < best_cycles:
            best, best_cycles = (mr, nv), cycles
    if earlier is not None and kept <= PACKED * best_cycles:
        return earlier, kept
    return best, best_cycles
