"""What the parts of an attention kernel share: the block that is computed, and where its numbers lie."""

from __future__ import annotations

from MNN.backends.cpu.attention.spec import NUMBERS, SPREAD, PagedAttentionSpec
from MNN.backends.cpu.lang.module import F32, I8, I64, Kernel, Value
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_LINE = 64
_SECOND = 2
"""The second-level cache: a core waits for fewer lines of the first than memory has to be asked for at once."""


class Frame:
    """The state of one emission: the kernel, and the values that hold for the current block."""

    group: Value
    part: Value
    """Which part of the pages."""
    block: Value
    first: Value
    """The tile's first row of queries."""
    position: Value
    after: Value
    """The head of keys of the page that follows."""
    count: Value
    """Rows of the tile."""

    def __init__(self, spec: PagedAttentionSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = target.lanes(DType.F32)
        self.vector = F32.vec(self.lanes)

    def head(self, entry: Value) -> Value:
        """Which of all heads of keys is this group's in the page of an entry of the table."""
        k, b, spec = self.k, self.b, self.spec
        place = b.gep(k.pointer("table"), I64, b.intrinsic("umin", entry, k.slot("entries") - 1))
        return b.intrinsic("umin", b.load(I64, place), k.slot("pages") - 1) * spec.groups + self.group

    def at(self, name: str, row: Value) -> Value:
        """Where a row of ``q`` or ``out`` begins."""
        k, b, spec = self.k, self.b, self.spec
        token = b.udiv(row, spec.share)
        head = self.group * spec.share + (row - token * spec.share)
        return b.gep(k.pointer(name), F32, (self.first + token) * k.slot(f"{name}_t") + head * k.slot(f"{name}_h"))

    def of_head(self, name: str, row: Value) -> Value:
        """The number of a row's head among ``slopes`` or ``sinks``."""
        b, spec = self.b, self.spec
        head = self.group * spec.share + b.urem(row, spec.share)
        return b.load(F32, b.gep(self.k.pointer(name), F32, head))

    def ask(self, name: str, head: Value, step: Value, steps: int, part: tuple[int, int]) -> None:
        """Asks for what is read next, a head of a page, little by little: processors do not see what page follows."""
        b, size = self.b, self.spec.head_bytes(name)
        index, parts = part
        each = -(-size // (steps * parts))
        start = b.gep(self.k.pointer(name), I8, head * size)
        place = b.gep(start, I8, (step + index * steps) * each)
        for line in range(0, each, _LINE):
            b.prefetch(b.gep(place, I8, line), _SECOND)

    def ask_scales(self) -> None:
        """Asks for the scales of the page that follows."""
        b, spec = self.b, self.spec
        for name, bits in (("keys", spec.key_bits), ("values", spec.value_bits)):
            if bits:
                size = (1 if bits == 16 else 2) * spec.page
                start = b.gep(self.k.pointer(f"{name}_scales"), F32, self.after * size)
                for line in range(0, 4 * size, _LINE):
                    b.prefetch(b.gep(start, I8, line), _SECOND)

    # -- scratch ----------------------------------------------------------------------------------------------------

    def scores(self, row: Value) -> Value:
        """A row's scores of a page; its powers in their place."""
        return self.b.gep(self.k.scratch, F32, row * self.spec.page)

    def sums(self, row: Value) -> Value:
        spec = self.spec
        return self.b.gep(self.k.scratch, F32, row * spec.padded + spec.most * spec.page)

    def number(self, name: str, row: Value) -> Value:
        """Where a number of a row is; see ``NUMBERS``. Those of neighbouring rows are neighbours."""
        spec, room = self.spec, self.spec.room(self.lanes)
        start = spec.most * (spec.page + spec.padded) + room * NUMBERS.index(name)
        return self.b.gep(self.k.scratch, F32, row + start)

    def spread(self, name: str, row: Value) -> Value:
        """Where a number of a row is that is kept as a vector to be added up at the end; see ``SPREAD``."""
        spec = self.spec
        start = spec.most * (spec.page + spec.padded + self.lanes * SPREAD.index(name))
        return self.b.gep(self.k.scratch, F32, row * self.lanes + (start + spec.room(self.lanes) * len(NUMBERS)))

    def query(self, row: Value) -> Value:
        """Where a row of queries, as keys are multiplied by it, begins."""
        spec, lanes = self.spec, self.lanes
        start = spec.most * (spec.page + spec.padded + lanes * len(SPREAD)) + spec.room(lanes) * len(NUMBERS)
        return self.b.gep(self.k.scratch, F32, row * spec.held + start)

    def scale(self, name: str, head: Value, which: int, at: int) -> Value:
        """Scales (0) or offsets (1) of neighbouring tokens of a page."""
        b, page = self.b, self.spec.page
        kinds = 1 if (self.spec.key_bits if name == "keys" else self.spec.value_bits) == 16 else 2
        place = b.gep(self.k.pointer(f"{name}_scales"), F32, head * (kinds * page) + (which * page + at))
        return b.load(self.vector, place)
