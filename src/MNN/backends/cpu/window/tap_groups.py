"""The code of windows whose taps are taken in pairs (:mod:`MNN.backends.cpu.window.tap_pairs`): groups of channels,
their totals, and what becomes of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import I8, Kernel, Value
from MNN.backends.cpu.products.epilogue import Epilogue
from MNN.backends.cpu.products.packed_bytes import packed_of_words, packed_words, saturated_end
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.backends.cpu.window.tap_pairs import SMALLEST, HalfGroup
from MNN.ir.dtype import DType

_FOUR = 4
"""Vectors of totals of a group, and channels that these have next to each other."""


class TapGroups:
    """All channels of a tile. ``operands``: the addresses of the epilogue's operands; ``lanes``: those of the widest
    vectors of 32 bits."""

    def __init__(
        self, k: Kernel, spec: WindowSpec, epilogue: Epilogue, operands: Sequence[Sequence[Value]], lanes: int
    ) -> None:
        self.k, self.b, self.spec, self.epilogue, self.operands, self.lanes = k, k.b, spec, epilogue, operands, lanes
        self.end = saturated_end(spec.epilogue)
        self.dtypes: tuple[DType, ...] = spec.epilogue.args[1:] if spec.epilogue is not None else ()

    def emit(self, columns: Mapping[int, Value], pixels: int, to: Sequence[Value]) -> None:
        """``columns``: the addresses of the input's; ``to``: those of the results of ``pixels`` windows."""
        b, count = self.b, self.k.slot("c")
        widest = _FOUR * self.lanes
        whole = b.and_(count, -widest)
        with b.loop(0, whole, widest) as group:
            self._group(columns, pixels, to, group.index, group.index, self.lanes)
        if self.spec.cut:
            with b.loop(whole, count, SMALLEST) as group:  # the last one reaches back where it would reach past the end
                channel = b.intrinsic("smin", group.index, count - SMALLEST)
                self._group(columns, pixels, to, channel, group.index, SMALLEST // _FOUR)

    def _group(
        self,
        columns: Mapping[int, Value],
        pixels: int,
        to: Sequence[Value],
        channel: Value,
        place: Value,
        lanes: int,
    ) -> None:
        """A group from ``channel`` on, the weights of which are those of the ``place``-th channel in groups."""
        b, k, spec = self.b, self.k, self.spec
        taps = {p: [p * spec.sx + kx * spec.dx for kx in range(spec.kw)] for p in range(pixels)}
        half_group = HalfGroup(k, columns, taps, lanes, spec.shift)
        weights = b.gep(k.pointer("taps"), I8, place * k.slot("tap_bytes"))
        found: list[list[Value]] = [[] for _ in range(pixels)]
        for half in (0, 1):
            totals, weights = half_group.emit(half, channel, weights, spec.odd, spec.planes)
            shared = [self._operands(2 * half + v, channel, lanes) for v in (0, 1)] if self.end is not None else []
            for pixel, own in enumerate(found):
                two = totals[2 * pixel : 2 * pixel + 2]
                if self.end is not None:
                    value = self.end.value
                    two = [self.epilogue.before(value, x, args, lanes) for x, args in zip(two, shared, strict=True)]
                    two = [packed_words(b, two[0], two[1], self.end)]
                own += two
        places = [b.gep(pointer, storage_type(spec.out), channel) for pointer in to]
        if self.end is not None:
            for at, words in zip(places, found, strict=True):
                self.epilogue.store(packed_of_words(b, words[0], words[1], self.end), at, None)
            return
        for v in range(_FOUR):
            first = channel + v * lanes
            args = [
                self.epilogue.load(lines[0], dtype, None if kind == "1" else first, lanes, None)
                for kind, dtype, lines in zip(spec.operands, self.dtypes, self.operands, strict=True)
            ]
            for at, vectors in zip(places, found, strict=True):
                result = self.epilogue.apply(self._in_order(vectors, v), args, lanes)
                self.epilogue.store(result, b.gep(at, storage_type(spec.out), v * lanes), None)

    def _operands(self, number: int, channel: Value, lanes: int) -> list[Value]:
        """Operands for one of a group's vectors of totals, which has four of every 16 channels."""
        found = []
        for kind, dtype, lines in zip(self.spec.operands, self.dtypes, self.operands, strict=True):
            if kind == "1":
                found.append(self.epilogue.load(lines[0], dtype, None, lanes, None))
                continue
            parts = [
                self.epilogue.load(lines[0], dtype, channel + (SMALLEST * part + _FOUR * number), _FOUR, None)
                for part in range(lanes // _FOUR)
            ]
            found.append(parts[0] if len(parts) == 1 else self.b.shuffle(parts[0], parts[1], range(2 * _FOUR)))
        return found

    def _in_order(self, vectors: Sequence[Value], number: int) -> Value:
        """Of a group's totals the ``number``-th vector of neighbouring channels."""
        parts = vectors[0].type.lanes // _FOUR
        if parts == 1:
            return vectors[number]
        first, second = (divmod(parts * number + i, _FOUR) for i in (0, 1))
        lanes = [_FOUR * first[0] + i for i in range(_FOUR)]
        lanes += [vectors[0].type.lanes + _FOUR * second[0] + i for i in range(_FOUR)]
        return self.b.shuffle(vectors[first[1]], vectors[second[1]], lanes)


__all__ = ["TapGroups"]
