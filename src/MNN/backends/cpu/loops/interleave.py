"""Interleaving a few rows element by element: planes to pixels of a picture, channel shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen.traffic import covered, number
from MNN.backends.cpu.lang.element import narrow, storage_type
from MNN.backends.cpu.lang.module import F32, Builder, Kernel, Value, int_type
from MNN.backends.cpu.lang.nest import Operand, for_rows, minimum
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_DTYPES = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}
MOST_ROWS = 4
"""Rows beyond which whole transpositions are faster."""


@dataclass(frozen=True)
class InterleaveSpec(KernelSpec):
    """``out[b.., j * rows + i] = in[b.., i, j]`` for elements of ``size`` 1, 2, 4 or 8 bytes and 2 to 4 ``rows``.

    With ``rounded`` (bf16 or f16, ``size`` 2), what is read is f32 and is rounded to it.

    Slots: ``batch0..``, ``cols`` (extent of j), ``band`` (columns per block); ``in``, its batch strides ``in_s{d}``
    and ``in_row`` (stride of i; that of j is 1); ``out`` and ``out_s{d}``. Block index = batch linear index *
    ceil(cols / band) + band number. Input and output must not overlap.
    """

    shaped: ClassVar[bool] = True

    size: int
    rows: int
    batch: int
    rounded: DType | None = None

    def __post_init__(self) -> None:
        if self.rounded not in (None, DType.BF16, DType.F16) or (self.rounded is not None and self.size != 2):
            raise ValueError(f"cannot round to {self.rounded} of {self.size} bytes while interleaving")
        if self.size not in _DTYPES or not 2 <= self.rows <= MOST_ROWS:
            raise ValueError(f"cannot interleave {self.rows} rows of {self.size} bytes an element")

    def operands(self) -> tuple[Operand, Operand]:
        dtype = _DTYPES[self.size]
        return Operand("in", DType.F32 if self.rounded else dtype, "1"), Operand("out", dtype, "1")

    def slots(self) -> tuple[str, ...]:
        source, target = self.operands()
        names = [f"batch{d}" for d in range(self.batch)]
        names += ["cols", "band", *source.slots(self.batch, None), "in_row", *target.slots(self.batch, None)]
        return tuple(names)

    def traffic(self, args: Arguments) -> dict[str, int]:
        batch = [number(args, f"batch{d}") for d in range(self.batch)]
        cols = number(args, "cols")
        found = {}
        for operand, extents, strides in zip(
            self.operands(), ((self.rows, cols), (self.rows * cols,)), ((number(args, "in_row"), 1), (1,)), strict=True
        ):
            outer = [number(args, f"{operand.name}_s{d}") for d in range(self.batch)]
            found[operand.name] = covered((*batch, *extents), (*outer, *strides)) * operand.dtype.size
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
            read = storage_type(self.operands()[0].dtype)
            sources = [b.gep(pointers[0], read, step * i) for i in range(rows)]
            whole = last - b.urem(last - first, b.const(last.type, lanes))

            def move(j: Value, count: int) -> None:
                loaded = [self._load(b, b.gep(s, read, j), count) for s in sources]
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

    def _load(self, b: Builder, pointer: Value, count: int) -> Value:
        """The next elements of a row."""
        if self.rounded is None:
            return b.load(int_type(self.size * 8).vec(count), pointer)
        if count == 1:
            return narrow(b, self.rounded, b.load(F32, pointer))
        half = count // 2
        low, high = (narrow(b, self.rounded, b.load(F32.vec(half), b.gep(pointer, F32, i))) for i in (0, half))
        return b.shuffle(low, high, range(count))


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
