"""Contractions: matrix products and convolutions by implicit GEMM, from one generator.

A tile of ``mr`` rows by ``nv`` vectors of the result lives in registers for the whole sum. Every step of the sum
loads ``nv`` vectors of B and one scalar per row of A, which is spread over a vector (NEON takes a lane of a register).
Rows of A are found through a table of offsets and the windows of a convolution through a second table (taps), so that
no im2col copy is made: with channels innermost, one tap is one contiguous run of A.

Rows are not copied either. With at most 8 rows in flight they cannot evict each other from an 8-way first-level cache,
even at the worst strides (multiples of 4096 bytes), and tiles of 8x3, 6x4 or 7x3 vectors need fewer loads per FMA
than tall ones. Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), is the base of the
loop order: a panel of B (k x NR) is used by all rows of a block while the block of A stays in the second-level cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import Arguments
from MNN.backends.base.record import Record
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.tables import batch_record
from MNN.backends.cpu.codegen.traffic import number, table, union
from MNN.backends.cpu.gemm.records import CONTRACTION, ROUTED_ROWS, TAP_SPANS
from MNN.backends.cpu.gemm.rotated_groups import Rotated
from MNN.backends.cpu.gemm.row_pairs import columns_of_pairs
from MNN.backends.cpu.packing import weights24
from MNN.backends.cpu.products.dot import DOT2
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.epilogue import OPERAND_KINDS, check_epilogue, operand_bytes, operand_slots
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

_INT_SOURCES = (DType.I8, DType.U8)
LIGHT_ROWS = 4
"""Rows whose values of A are looked at together."""


@dataclass(frozen=True)
class ContractSpec(GeneratedSpec):
    """``C[m, n] = epilogue(sum over taps t, k of A[rows_a[m] + taps[t] + k] * B[t, k, n], operands...)``, batched.

    For batch ``z``, row ``m``, column ``n``, with NR = nv * lanes(acc)::

        acc = sum_{t < n_taps} sum_{kk < k}
              A[rows_a[m] + taps[t] + kk] * B[(n / NR) * panel + (t*k + kk) * ldb + n % NR]
        C[rows_c[m] + n] = epilogue(acc, op_n[n], op_mn[rows_i[m] + n], op_m[rows_i[m]], op_1[0])

    Its arguments are the record :data:`~.records.CONTRACTION`. B is packed
    (:func:`MNN.backends.cpu.products.register_tiles.pack_b`: ldb = NR, columns padded with zeros) or plain rows of n
    contiguous columns (panel = NR, ldb = the row's stride).

    Block ``((z * ceil(m / mb)) + im) * ceil(n / nb) + in`` computes rows ``[im*mb, ...)`` of columns ``[in*nb, ...)``;
    units of blocks are dealt out in order (:mod:`MNN.backends.cpu.products.work_ranges`). Accumulation is in ``acc``;
    the epilogue (``None``: a conversion) takes the sum as its argument 0 and the operands, of the kinds in
    ``operands``, as the rest, and gives one value of dtype ``out``.

    With ``group`` 2 (see :mod:`MNN.backends.cpu.products.dot`) a and b are bf16 and two products are summed at once.
    Packed B is then ``B[(n / NR) * panel + (t * ceil(k / 2) + kk / 2) * ldb + (n % NR) * 2 + kk % 2]`` (ldb = 2 NR,
    zeros where k is odd); plain B is as above, with one tap, and is always packed by the kernel itself.

    The same with a and b i16 and sums in i32, with packed B only (:func:`MNN.backends.cpu.products.dot8.pack_int16`,
    x86).

    With ``group`` 4 a is i8 or u8 and b i8; panels of packed B begin with the sums' starts, see
    :func:`MNN.backends.cpu.products.dot8.pack_dot4` (ldb = 4 NR).

    With ``acc`` f16 (a and b too) the sums are of f16 for a few steps and f32 otherwise, see
    :mod:`MNN.backends.cpu.gemm.code_half`; the epilogue takes f32.
    """

    shaped: ClassVar[bool] = True
    arguments: ClassVar[Record] = CONTRACTION

    a: DType
    b: DType
    acc: DType
    out: DType
    mr: int
    nv: int
    b_packed: bool = True
    epilogue: Body | None = None
    operands: tuple[str, ...] = field(default=())
    group: int = 1
    many_rows: bool = field(default=False, kw_only=True)
    """Whether a panel of B is short beside the rows that use it, see
    :func:`MNN.backends.cpu.gemm.code.many_rows`; a matter of speed alone."""
    narrow: bool = field(default=False, kw_only=True)
    """Vectors of half the processor's width, see :func:`MNN.backends.cpu.products.register_tiles.narrower`."""
    w24: bool = field(default=False, kw_only=True)
    """Whether B is of 24 bits, packed by :func:`MNN.backends.cpu.packing.weights24.pack_weights24` (b i8, in bytes;
    ldb is not looked at)."""

    routed: bool = field(default=False, kw_only=True)
    """Whether each row takes one of several matrices B, see :mod:`MNN.backends.cpu.gemm.routed_rows`: blocks are those
    of its units, ``b`` is packed and has one batch, and there are no operands."""

    beside: int = field(default=0, kw_only=True)
    """How many of the last steps some rows take after others, whose results are finished meanwhile, see
    :mod:`MNN.backends.cpu.gemm.code_beside`: with ``group`` 4 and k in whole groups, at least so many; 0: none."""

    def __post_init__(self) -> None:
        floats = {DType.F32: (DType.F32, DType.F16, DType.BF16), DType.F64: (DType.F64,), DType.F16: (DType.F16,)}
        int16 = (DType.I16,) if self.group == DOT2 and self.b_packed else ()
        ints = {DType.I32: (DType.I32, *_INT_SOURCES, *int16), DType.I64: (DType.I64,)}
        allowed = {**floats, **ints}.get(self.acc, ())
        if self.w24:
            if (self.a, self.b, self.acc) != (DType.F32, DType.I8, DType.F32) or not self.b_packed or self.narrow:
                raise ValueError("weights of 24 bits are bytes, packed, for f32 in whole vectors")
            allowed = (DType.F32, DType.I8)
        if self.a not in allowed or self.b not in allowed:
            raise ValueError(f"no contraction of {self.a.value} x {self.b.value} with sums in {self.acc.value}")
        pairs = self.group == DOT2 and self.a is self.b and self.a in (DType.BF16, *int16)
        dot4 = self.group == DOT4 and self.a in _INT_SOURCES and self.b is DType.I8 and self.acc is DType.I32
        if self.group != 1 and not pairs and not dot4:
            raise ValueError(f"no groups of {self.group} for {self.a.value} x {self.b.value}")
        if self.mr < 1 or self.nv < 1 or not set(self.operands) <= set(OPERAND_KINDS):
            raise ValueError(f"bad tile {self.mr}x{self.nv} or operand kinds {self.operands}")
        if self.narrow and self.acc is not DType.F32:
            raise ValueError(f"no sums of {self.acc.value} in vectors of half the width")
        if self.routed and (not self.b_packed or self.operands):
            raise ValueError("rows that choose a matrix take packed ones, and no operands behind the sums")
        bytes_ = dot4 and self.b_packed and self.epilogue is not None and not self.routed
        if self.beside < 0 or (self.beside and not bytes_):
            raise ValueError("results are finished beside products of bytes with packed ones")
        if self.rows_in_pairs and (not bytes_ or self.mr % 2):
            raise ValueError("rows share vectors in pairs, for products of bytes with packed ones and results behind")
        if self.spans and (
            not self.a is self.b is self.acc is DType.F32 or not self.b_packed or self.routed or self.in_lanes
        ):
            raise ValueError("tiles take some of the taps alone of packed matrices of f32")
        if self.in_lanes and (not self.b_packed or (self.acc is not DType.I32 or self.group == 1) != self.rotated):
            raise ValueError("groups lie in lanes of sums of several products of integers")
        if self.rotated and (not self.in_lanes or not self.a is self.b is self.acc is DType.F32):
            raise ValueError("sums of groups are rotated in f32")
        if self.byte_pairs and (not dot4 or not self.b_packed or self.beside or self.rows_in_pairs or self.in_lanes):
            raise ValueError("pairs of bytes are summed of packed ones, in whole rows")
        if self.light and (not self.byte_pairs or self.mr != LIGHT_ROWS):
            raise ValueError(f"values of A are looked at for pairs of bytes, {LIGHT_ROWS} rows at a time")
        check_epilogue(self.epilogue, self.operands, self.sums, self.out)

    spans: bool = field(default=False, kw_only=True)
    """Whether each tile of rows takes some of the taps alone, see :mod:`MNN.backends.cpu.gemm.tap_spans`: with f32 and
    packed B."""

    fits: bool = field(default=False, kw_only=True)
    """Whether i32 has all numbers that the epilogue bounds before it rounds them to 8 bits, see
    :func:`MNN.backends.cpu.products.packed_bytes.fits`."""

    rows_in_pairs: bool = field(default=False, kw_only=True)
    """Whether rows share the last of the ``nv`` vectors, of which a tile has half as columns, see
    :mod:`MNN.backends.cpu.gemm.row_pairs`: with ``group`` 4, packed B, an epilogue, k in whole groups and an even
    number of rows."""

    byte_pairs: bool = field(default=False, kw_only=True)
    """Whether sums are of pairs of bytes: with ``group`` 4, k of at least so many, and B packed by
    :func:`MNN.backends.cpu.packing.byte_pairs.pack_byte_pairs` (ldb is not looked at)."""

    light: bool = field(default=False, kw_only=True)
    """Whether values of A may tell that sums of pairs fit, see :mod:`MNN.backends.cpu.gemm.byte_pairs.code_light`: with
    ``byte_pairs``, tiles of :data:`LIGHT_ROWS` rows, k of at least eight, and B packed for it."""

    channels: tuple[int, int] = field(default=(0, 0), kw_only=True)
    """In and out of each of the small groups that columns belong to
    (:mod:`MNN.backends.cpu.products.lane_groups`; 0: there are none): with ``group`` 4, or 2 and integers, packed B and
    one panel. A run of A holds the ``k`` channels of all groups, and every column of B has those of its own."""

    rotations: tuple[int, int] = field(default=(0, 0), kw_only=True)
    """How many groups of ``channels`` a panel has, and how many vectors of sums are rotated and added up for one of
    results (:mod:`MNN.backends.cpu.gemm.rotated_groups`; 0: columns are those of sums of integers): with f32, and
    B packed by :meth:`~MNN.backends.cpu.gemm.rotated_groups.Rotated.pack`. A run of A has the ``k`` channels of
    all panels; blocks are of whole panels."""

    @property
    def numbers_decide(self) -> bool:
        return self.routed or self.light

    @property
    def rotated(self) -> bool:
        """Whether sums of groups are rotated."""
        return self.rotations[0] > 0

    def panel_of_groups(self, target: Target) -> Rotated:
        """The panel of rotated groups."""
        return Rotated(*self.channels, *self.rotations, target.lanes(self.acc))

    @property
    def in_lanes(self) -> bool:
        """Whether columns belong to groups of channels."""
        return self.channels[0] > 0

    @property
    def ends_in_parts(self) -> bool:
        """Whether there are such last steps."""
        return self.beside > 0 and not self.rows_in_pairs

    @property
    def sums(self) -> DType:
        """The type of finished sums."""
        return DType.F32 if self.acc is DType.F16 else self.acc

    def nr(self, target: Target) -> int:
        """Columns of a tile."""
        if self.rows_in_pairs:
            return columns_of_pairs(target, self.nv)
        return self.nv * target.lanes(self.acc) // (2 if self.narrow else 1)

    def slots(self) -> tuple[str, ...]:
        more = ROUTED_ROWS if self.routed else TAP_SPANS if self.spans else ()
        return (*self.arguments, *more, *operand_slots(self.operands))

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """A tile of sums; for plain B also one packed panel, for pairs of bytes where its groups are in a row of A."""
        nr = self.nr(target)
        tile = self.mr * (self.nv * target.lanes(self.acc) if self.rows_in_pairs else nr) * self.sums.size
        steps = -(-args["k"] // self.group) * self.group
        starts = nr * self.acc.size if self.group == DOT4 else 0
        panel = 0 if self.b_packed else args["n_taps"] * steps * nr * self.b.size + starts
        if self.byte_pairs:  # of i32, and as many for what is too much in them
            panel = 2 * args["n_taps"] * steps
        if self.light:  # of each tile a count, and eights of values with their numbers; in whole lines
            eights = args["n_taps"] * -(-args["k"] // 8)
            panel += 64 + -(-args["mb"] // LIGHT_ROWS) * (2 * 64 + eights * (8 * LIGHT_ROWS + 4))
        return tile + panel

    def blocks(self, m: int, n: int, n_batch: int, ub: int, nb: int) -> int:
        """The size of the index space: units of ``ub`` rows and ``nb`` columns."""
        return n_batch * -(-m // ub) * -(-n // nb)

    def arithmetic(self, target: Target) -> str:
        grouped = {DOT2: "int16" if self.a is DType.I16 else "bf16", DOT4: "int8"}.get(self.group)
        return grouped or ("f16" if self.acc is DType.F16 else "f32")

    def traffic(self, args: Arguments) -> dict[str, int]:
        if self.routed:
            return routed_traffic(self, args)
        n_taps, k, m, n, n_batch = (number(args, slot) for slot in ("n_taps", "k", "m", "n", "n_batch"))
        words = batch_record(len(self.operands)).count
        batch = table(args, "batch", n_batch * words, np.int64).reshape(n_batch, words)
        different = [np.unique(batch[:, i]) for i in range(words)]
        depth = self.channels[0] if self.in_lanes else k
        starts = np.unique(table(args, "rows_a", m)[:, None] + table(args, "taps", n_taps))
        found = {
            "a": union((starts[:, None] + different[0]).reshape(-1), k) * self.a.size,
            "b": different[1].size * n_taps * depth * n * (weights24.BYTES if self.w24 else self.b.size),
            "c": n_batch * m * n * self.out.size,
        }
        return found | operand_bytes(self.operands, self.epilogue, different[3:], m, n)

    def in_place(self, args: Arguments) -> overlay.Pairs:
        if self.routed:
            return ()
        m, n_batch = number(args, "m"), number(args, "n_batch")
        return overlay.of_product(self.operands, self.epilogue, self.out, args, m, n_batch)


def routed_traffic(spec: ContractSpec, args: Arguments) -> dict[str, int]:
    """What is known of routed rows before they are: the rows, and one matrix for each, or all of them."""
    k, m, n = (number(args, slot) for slot in ("k", "m", "n"))
    matrices = min(m, number(args, "matrices"))
    return {"a": m * k * spec.a.size, "b": matrices * number(args, "matrix"), "c": m * n * spec.out.size}
