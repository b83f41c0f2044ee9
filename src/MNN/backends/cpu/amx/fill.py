"""Brings A into the scratch of :class:`MNN.backends.cpu.amx.spec.AmxSpec`, rounded to bf16, split into parts or as it
is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from MNN.backends.cpu.amx import scale as amx_scale
from MNN.backends.cpu.amx.records import REGION, RUNS
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.amx.split import halves_of
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.halves import to_bf16
from MNN.backends.cpu.lang.module import I8, I16, I32, I64, Kernel, Value
from MNN.backends.cpu.lang.parts import parts_of
from MNN.backends.cpu.lang.records import entry, load_record
from MNN.ir.dtype import DType

_LANES = 16
_DEPTH = 2 * _LANES
_AT_ONCE = 4
"""Pixels of a section that are moved in a turn of the loop."""


def region_record(k: Kernel, number: Value) -> dict[str, Value]:
    """The words of a region's record."""
    return load_record(k.b, REGION, entry(k.b, REGION, k.pointer("regions"), number))


class Filling:
    """``rows``: where A's parts lie in the scratch, ``scale``: where their scale does, if they have one."""

    def __init__(self, k: Kernel, spec: AmxSpec, rows: Value, scale: Value) -> None:
        self._k, self._b, self._spec, self._rows, self._scale = k, k.b, spec, rows, scale
        self._plane, self._pitch = k.slot("plane"), k.slot("pitch")
        self._type = storage_type(spec.element)

    def measure(self, a: Value, first: Value) -> None:
        """Finds the scale of a block of ``a``, from the numbers in its regions, the ``first`` and those behind it."""
        k, b = self._k, self._b

        def measured(finite: bool) -> Value:
            with b.loop(0, k.slot("chunks"), carry=[amx_scale.nothing(b)]) as chunk:
                region = region_record(k, first + chunk.index)
                with b.loop(region["first"], region["past"], carry=chunk.carried) as item:
                    source, _, count = self._item(a, item.index)
                    with b.loop(0, count, carry=item.carried) as run:
                        own = b.gep(source, self._type, run.index * k.slot("step"))
                        run.next(self.largest(own, region["k"], run.carried[0], finite))
                    item.next(*run.results)
                chunk.next(*item.results)
            return chunk.results[0]

        amx_scale.store_scale(b, measured, self._scale)

    def largest(self, run: Value, length: Value, largest: Value, finite: bool) -> Value:
        """``largest`` and the magnitudes of the run of ``length`` elements that begins at ``run``."""
        b = self._b

        def load(at: Value, mask: Value | None) -> Value:
            pointer, vector = b.gep(run, self._type, at), self._type.vec(_LANES)
            return b.load(vector, pointer) if mask is None else b.load_masked(vector, pointer, mask)

        return amx_scale.largest_of_run(b, load, length, largest, finite)

    def _item(self, a: Value, number: Value) -> tuple[Value, Value, Value]:
        """Where an item's first run begins in ``a``, where it goes, and how many runs there are."""
        b = self._b
        at = entry(b, RUNS, self._k.pointer("items"), number)
        to = b.gep(self._rows, I8, b.entry(at, RUNS.index("dst")))
        return b.gep(a, self._type, b.entry(at, RUNS.index("src"))), to, b.entry(at, RUNS.index("count"))

    def fill(self, a: Value, region: Mapping[str, Value]) -> None:
        """Zeros, items and moves of a region of ``a``."""
        k, b, spec = self._k, self._b, self._spec
        self.begin()
        with b.loop(0, k.slot("clear_rows")) as row:
            at = b.gep(self._rows, I8, k.slot("clear") + row.index * self._pitch)
            self._clear(at)
        length = region["k"]
        bring = self.of_length(length)
        with b.loop(region["first"], region["past"]) as item:
            source, to, count = self._item(a, item.index)
            with b.loop(0, count) as run:
                run_source = b.gep(source, self._type, run.index * k.slot("step"))
                run_to = b.gep(to, I8, run.index * self._pitch)
                bring(run_source, run_to)
                if spec.lines:
                    self._clear(b.gep(run_to, I16, b.and_(length + (_DEPTH - 1), -_DEPTH)))

        if spec.joined:
            self._join(region["first_move"], region["past_move"])

    def fill_sections(self, a: Value, region: Mapping[str, Value], first: Value, past: Value, beside: Value) -> None:
        """The items of a region of ``a``, put apart by section, from the ``first`` on: pixel by pixel, from a line that
        the first-level cache has behind the first of them."""
        assert self._spec.sections is not None
        b, (_, size) = self._b, self._spec.sections
        step, piece = self._k.slot("step"), self._type.vec(size)
        with b.loop(region["first"], region["past"]) as item:
            source, to, count = self._item(a, item.index)
            fours = b.and_(count, -_AT_ONCE)
            with b.loop(first, past) as section:
                own = b.gep(source, self._type, section.index * size)
                rows = b.gep(to, I8, (section.index - first) * beside)

                def move(ends: Sequence[Value], pixels: int) -> list[Value]:
                    """So many pixels from one end to the other; the ends behind them."""
                    at, end = ends
                    for i in range(pixels):
                        b.store(b.load(piece, at, align=1), b.gep(end, self._type, i * size), align=1)
                        at = b.gep(at, self._type, step)
                    return [at, b.gep(end, self._type, pixels * size)]

                with b.loop(0, fours, _AT_ONCE, carry=[own, rows]) as four:
                    four.next(*move(four.carried, _AT_ONCE))
                with b.loop(fours, count, carry=four.results) as one:
                    one.next(*move(one.carried, 1))
                self._clear(one.results[1])

    def begin(self) -> None:
        """What holds for all runs of a block: the scale."""
        if self._spec.half:
            self._factor = amx_scale.scale_at(self._b, self._scale)

    def of_length(self, length: Value) -> Callable[[Value, Value], None]:
        """What emits the bringing of one run of so many elements, from where it begins in A to where it goes."""
        b = self._b
        whole = b.and_(length, -_DEPTH)
        rest = length - whole
        masks = [b.prefix_mask(b.intrinsic("smax", rest - low, b.const(I64, 0)), _LANES) for low in (0, _LANES)]
        upper = b.select(b.icmp("sgt", rest, _LANES), b.const(I64, _LANES), b.const(I64, 0))  # not past the end

        def bring(source: Value, to: Value) -> None:
            with b.loop(0, whole, _DEPTH) as chunk:
                self._bring(source, to, chunk.index)

            def last() -> None:
                self._bring(source, to, whole, masks, upper)

            if self._spec.a is not DType.BF16X2:
                b.if_(b.icmp("sgt", rest, 0), last)

        return bring

    def _clear(self, to: Value) -> None:
        """64 bytes of zeros in every part's plane."""
        b = self._b
        for part in range(self._spec.parts):
            b.store(b.const(I32.vec(_LANES), 0), b.gep(to, I8, self._plane * part), align=4)

    def _join(self, first: Value, past: Value) -> None:
        """Copies runs of pixels, which lie behind the rows, to where they are parts of rows."""
        k, b, spec = self._k, self._b, self._spec
        width = k.slot("width")
        with b.loop(first, past) as move:
            place = entry(b, RUNS, k.pointer("moves"), move.index)
            source = b.gep(self._rows, I8, b.entry(place, RUNS.index("src")))
            to = b.gep(self._rows, I8, b.entry(place, RUNS.index("dst")))
            count = b.entry(place, RUNS.index("count"))
            with b.loop(0, width, _DEPTH) as at:
                mask = b.prefix_mask(b.intrinsic("smin", width - at.index, b.const(I64, _DEPTH)), _DEPTH)
                shift = at.index * 2
                with b.loop(0, count) as run:
                    for part in range(spec.parts):
                        offset = self._plane * part + shift
                        here = b.gep(source, I8, run.index * k.slot("move_step") + offset)
                        value = b.load_masked(I16.vec(_DEPTH), here, mask)
                        b.store(value, b.gep(to, I8, run.index * self._pitch + offset))

    def _bring(
        self, source: Value, to: Value, at: Value, masks: Sequence[Value] = (), upper: Value | None = None
    ) -> None:
        """32 elements of A (with masks, the last ones and zeros) to their places in every part's plane."""
        b, spec = self._b, self._spec
        pointer, to = b.gep(source, self._type, at), b.gep(to, I16, at)
        if spec.a is DType.BF16X2:  # of whole thirty-twos
            for part in range(spec.parts):
                both = b.load(I16.vec(_DEPTH), b.gep(pointer, I16, part * _DEPTH))
                b.store(both, b.gep(to, I8, self._plane * part))
            return
        halves = []
        for i in range(2):
            if upper is None:
                halves.append(b.load(self._type.vec(_LANES), b.gep(pointer, self._type, i * _LANES)))
            else:
                half = b.load_masked(self._type.vec(_LANES), b.gep(pointer, self._type, upper * i), masks[i])
                halves.append(half)
        if spec.a is DType.BF16 or spec.right is not None:  # as it is
            b.store(b.shuffle(halves[0], halves[1], range(_DEPTH)), to)
            return
        if spec.half:
            for i, x in enumerate(halves):
                for part, value in enumerate(halves_of(b, b.mul(x, self._factor))):
                    b.store(value, b.gep(b.gep(to, I8, self._plane * part), I16, i * _LANES))
            return
        low, high = (parts_of(b, x, spec.parts) for x in halves)
        for part in range(spec.parts):
            b.store(to_bf16(b, low[part], high[part]), b.gep(to, I8, self._plane * part))
