"""Interleaving a few rows element by element: planes to pixels of a picture, channel shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from MNN.ir.dtype import DType
from MNN.kernels.lang import Builder, Kernel, Value, int_type
from MNN.kernels.nest import Operand, for_rows, minimum
from MNN.kernels.spec import KernelSpec
from MNN.kernels.traffic import Arguments, covered, number
from MNN.targets.base import Target

_DTYPES = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}
MOST_ROWS = 4
"""Rows beyond which whole transpositions are faster."""


@dataclass(frozen=True)
class InterleaveSpec(KernelSpec):
    """``out[b.., j * rows + i] = in[b.., i, j]`` for elements of ``size`` 1, 2, 4 or 8 bytes and 2 to 4 ``rows``.

    Slots: ``batch0..``, ``cols`` (extent of j), ``band`` (columns per block); ``in``, its batch strides ``in_s{d}``
    and ``in_row`` (stride of i; that of j is 1); ``out`` and ``out_s{d}``. Block index = batch linear index *
    ceil(cols / band) + band number. Input and output must not overlap.
    """

    shaped: ClassVar[bool] = True

    size: int
    rows: int
    batch: int

    def __post_init__(self) -> None:
        if self.size not in _DTYPES or not 2 <= self.rows <= MOST_ROWS:
            raise ValueError(f"cannot interleave {self.rows} rows of {self.size} bytes an element")

    def operands(self) -> tuple[Operand, Operand]:
        dtype = _DTYPES[self.size]
        return Operand("in", dtype, "1"), Operand("out", dtype, "1")

    def slots(self) -> tuple[str, ...]:
        source, target = self.operands()
        names = [f"batch{d}" for d in range(self.batch)]
        names += ["cols", "band", *source.slots(self.batch, None), "in_row", *target.slots(self.batch, None)]
        return tuple(names)

    def traffic(self, args: Arguments) -> dict[str, int]:
        batch = [number(args, f"batch{d}") for d in range(self.batch)]
        cols = number(args, "cols")
        found = {}
        for name, extents, strides in (
            ("in", (self.rows, cols), (number(args, "in_row"), 1)),
            ("out", (self.rows * cols,), (1,)),
        ):
            outer = [number(args, f"{name}_s{d}") for d in range(self.batch)]
            found[name] = covered((*batch, *extents), (*outer, *strides)) * self.size
        return found

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, rows = k.b, self.rows
        element, lanes = int_type(self.size * 8), max(1, target.vector_bytes // self.size)
        cols, band, step = k.slot("cols"), k.slot("band"), k.slot("in_row")

        def run(pointers: list[Value], chunk: Value | None) -> None:
            assert chunk is not None
            first = chunk * band
            last = minimum(k, cols, first + band)
            sources = [b.gep(pointers[0], element, step * i) for i in range(rows)]
            whole = last - b.urem(last - first, b.const(last.type, lanes))

            def move(j: Value, count: int) -> None:
                loaded = [b.load(element.vec(count), b.gep(s, element, j)) for s in sources]
                to = b.gep(pointers[1], element, j * rows)
                parts = loaded if count == 1 else interleave(b, loaded)
                for i, part in enumerate(parts):
                    b.store(part, b.gep(to, element, i * count))

            if lanes > 1:
                with b.loop(first, whole, lanes) as main:
                    move(main.index, lanes)
            with b.loop(whole if lanes > 1 else first, last) as rest:
                move(rest.index, 1)

        for_rows(k, [k.slot(f"batch{d}") for d in range(self.batch)], (cols + (band - 1)) // band, self.operands(), run)
        return k.finish()


def interleave(b: Builder, vectors: Sequence[Value]) -> list[Value]:
    """As many vectors that hold the elements of all in turn."""
    rows, lanes = len(vectors), vectors[0].type.lanes
    found = []
    for v in range(rows):
        places = [divmod(v * lanes + lane, rows) for lane in range(lanes)]  # element and row of every lane
        both = [r * lanes + j if r < 2 else -1 for j, r in places]
        merged = b.shuffle(vectors[0], vectors[1], both)
        for r in range(2, rows):
            picked = [lanes + j if own == r else lane for lane, (j, own) in enumerate(places)]
            merged = b.shuffle(merged, vectors[r], picked)
        found.append(merged)
    return found
