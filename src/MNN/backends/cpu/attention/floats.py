"""Products of queries with keys, and of powers with values, that are kept as floats."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.attention.frame import Frame
from MNN.backends.cpu.attention.parts import lanes_of
from MNN.backends.cpu.attention.spec import tile_of
from MNN.backends.cpu.lang.element import load, storage_type
from MNN.backends.cpu.lang.module import F32, Loop, Value

_UNROLL = 4


class FloatKeys:
    """Scores of a page whose keys are floats."""

    def __init__(self, frame: Frame) -> None:
        self.f = frame
        self.rows, self.wide = tile_of(frame.target)

    def prepare(self, row: Value, scale: Value) -> None:
        """Copies a row of queries times their scale."""
        b, spec = self.f.b, self.f.spec
        lanes = lanes_of(spec.size, self.f.lanes)
        source, to = self.f.at("q", row), self.f.query(row)
        with b.loop(0, spec.size, lanes) as each:
            x = b.mul(b.load(F32.vec(lanes), b.gep(source, F32, each.index)), b.splat(scale, lanes))
            b.store(x, b.gep(to, F32, each.index))

    def scores(self, row: Value, rows: int, head: Value, part: tuple[int, int]) -> None:
        """Products of some queries with all keys of a page, while its values are asked for: or the next one's keys,
        where values are codes and ask for those of the next page themselves."""
        f, b, spec, lanes = self.f, self.f.b, self.f.spec, self.f.lanes
        depth, element = spec.size, storage_type(spec.key_type)
        step = max(n for n in range(1, _UNROLL + 1) if depth % n == 0)
        keys = b.gep(f.k.pointer("keys"), element, head * (depth * spec.page))
        queries = [f.query(row + r) for r in range(rows)]
        wide = self.wide if spec.page // lanes % self.wide == 0 else 2
        columns = spec.page // (wide * lanes)
        next_, where = ("keys", f.after) if spec.value_bits else ("values", head)
        with b.loop(0, columns) as column:
            first = column.index * (wide * lanes)
            zeros = [b.const(f.vector, 0.0)] * (rows * wide)
            with b.loop(0, depth, step, carry=zeros) as each:
                sums = list(each.carried)
                for u in range(step):
                    at = b.gep(keys, element, (each.index + u) * spec.page + first)
                    f.ask(next_, where, column.index * depth + each.index + u, depth * columns, part)
                    right = [load(b, spec.key_type, b.gep(at, element, j * lanes), lanes) for j in range(wide)]
                    for r, query in enumerate(queries):
                        left = b.splat(b.load(F32, b.gep(query, F32, each.index + u)), lanes)
                        for j, x in enumerate(right):
                            sums[r * wide + j] = b.fma(left, x, sums[r * wide + j])
                each.next(*sums)
            for r in range(rows):
                to = b.gep(f.scores(row + r), F32, first)
                for j in range(wide):
                    b.store(each.results[r * wide + j], b.gep(to, F32, j * lanes))


class FloatValues:
    """Sums of a page whose values are floats."""

    def __init__(self, frame: Frame) -> None:
        self.f = frame
        self.rows, self.wide = tile_of(frame.target)

    def ready(self, head: Value, known: Value) -> None:
        """Nothing is needed of a page before it is used."""

    def keep(self, row: Value, powers: Sequence[Value], seen: Sequence[Value] | None, head: Value) -> None:
        """Puts powers of a row where :meth:`mix` finds them."""
        b, to = self.f.b, self.f.scores(row)
        for j, x in enumerate(powers):
            b.store(x, b.gep(to, F32, j * self.f.lanes))

    def code_powers(self) -> None:
        """Powers stay as they are."""

    def mix(self, row: Value, rows: int, head: Value, known: Value, part: tuple[int, int]) -> None:
        """Sums of a page's first ``known`` values, weighted with the powers, added to those of the pages before, while
        the next page's keys are asked for, or its values, where keys are codes and ask for these themselves."""
        f, b, spec, lanes = self.f, self.f.b, self.f.spec, self.f.lanes
        element, width = storage_type(spec.value_type), spec.padded
        values = b.gep(f.k.pointer("values"), element, head * (width * spec.page))
        powers = [f.scores(row + r) for r in range(rows)]
        decays, shares = ([b.load(F32, f.number(n, row + r)) for r in range(rows)] for n in ("decay", "share"))
        sums = [f.sums(row + r) for r in range(rows)]
        wide = min(self.wide, -(-width // lanes))
        columns = -(-width // (wide * lanes))
        whole = width // (wide * lanes) * (wide * lanes)

        def column(at: Value, vectors: int) -> None:
            zeros = [b.const(f.vector, 0.0)] * (rows * vectors)
            with b.loop(0, known, carry=zeros) as each:
                step = each.index * columns + b.udiv(at, wide * lanes)
                f.ask("values" if spec.key_bits else "keys", f.after, step, spec.page * columns, part)
                self._products(each, b.gep(values, element, each.index * width + at), powers, vectors)
            for r in range(rows):
                decay, share = b.splat(decays[r], lanes), b.splat(shares[r], lanes)
                for j in range(vectors):
                    place = b.gep(sums[r], F32, at + j * lanes)
                    more = b.mul(each.results[r * vectors + j], share)
                    b.store(b.fma(b.load(f.vector, place), decay, more), place)

        with b.loop(0, whole, wide * lanes) as many:
            column(many.index, wide)
        if width > whole:
            with b.loop(whole, width, lanes) as few:
                column(few.index, 1)

    def _products(self, each: Loop, place: Value, powers: Sequence[Value], vectors: int) -> None:
        """One token's values, weighted, for all rows."""
        b, spec, lanes = self.f.b, self.f.spec, self.f.lanes
        element = storage_type(spec.value_type)
        right = [load(b, spec.value_type, b.gep(place, element, j * lanes), lanes) for j in range(vectors)]
        sums = []
        for r, row in enumerate(powers):
            left = b.splat(b.load(F32, b.gep(row, F32, each.index)), lanes)
            sums += [b.fma(left, x, each.carried[r * vectors + i]) for i, x in enumerate(right)]
        each.next(*sums)


__all__ = ["FloatKeys", "FloatValues"]
