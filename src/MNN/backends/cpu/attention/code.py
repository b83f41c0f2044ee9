"""Code generation of :class:`MNN.backends.cpu.attention.spec.PagedAttentionSpec`."""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.attention.floats import FloatKeys, FloatValues
from MNN.backends.cpu.attention.frame import Frame
from MNN.backends.cpu.attention.pairs import CodedKeys, CodedValues, pairwise
from MNN.backends.cpu.attention.parts import across, greater, lanes_of
from MNN.backends.cpu.attention.spec import PagedAttentionSpec
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.module import F32, I32, I64, Value
from MNN.backends.cpu.math.functions import LOG2_E, exp2
from MNN.backends.cpu.math.functions import tanh as tanh_of
from MNN.backends.cpu.targets.base import Target

_LOWEST = float("-inf")


@generates(PagedAttentionSpec)
def emit_paged_attention(spec: PagedAttentionSpec, target: Target) -> str:
    """The module's text."""
    return _Attending(spec, target).emit()


class _Attending:
    """One emission: the blocks, their pages, and the softmax."""

    def __init__(self, spec: PagedAttentionSpec, target: Target) -> None:
        self.f = Frame(spec, target)
        self.keys = CodedKeys(self.f) if spec.key_bits else FloatKeys(self.f)
        self.values = CodedValues(self.f) if spec.value_bits else FloatValues(self.f)

    def emit(self) -> str:
        f, k, b, spec = self.f, self.f.k, self.f.b, self.f.spec
        with b.loop(k.begin, k.end) as block:
            f.block = block.index
            whole = b.udiv(block.index, spec.parts)
            f.part = block.index - whole * spec.parts
            number = b.udiv(whole, spec.groups)
            f.group = whole - number * spec.groups
            record = b.gep(k.pointer("tiles"), I64, number * 4)
            f.first, tokens, begin, f.position = (b.load(I64, b.gep(record, I64, i)) for i in range(4))
            f.count = tokens * spec.share
            # What does not fit is left out: nothing outside the operands is ever read.
            fits = b.icmp("ule", tokens, spec.tile)
            fits = b.and_(fits, b.icmp("ule", f.first, k.slot("tokens") - tokens))
            fits = b.and_(fits, b.icmp("sge", f.position, 0))
            fits = b.and_(fits, b.icmp("ne", tokens, 0))
            b.if_(fits, lambda begin=begin, tokens=tokens: self._tile(begin, tokens))  # type: ignore[misc]
        return k.finish()

    def _tile(self, begin: Value, tokens: Value) -> None:
        f, k, b, spec = self.f, self.f.k, self.f.b, self.f.spec
        with b.loop(0, f.count) as row:
            self._begin(row.index)
        past = f.position + tokens
        oldest = b.intrinsic("smax", f.position + 1 - k.slot("window"), b.const(I64, 0))
        start, end = b.udiv(oldest, spec.page), b.udiv(past + (spec.page - 1), spec.page)
        if spec.parts > 1:
            some = b.udiv(end - start + (spec.parts - 1), spec.parts)
            start = start + f.part * some
            end = b.intrinsic("smin", start + some, end)
        with b.loop(start, end) as each:
            head = f.head(begin + each.index)
            f.after = f.head(begin + b.intrinsic("smin", each.index + 1, end - 1))
            f.ask_scales()
            base = each.index * spec.page
            known = b.intrinsic("smin", past - base, b.const(I64, spec.page))
            self._each(self.keys.rows, lambda row, rows, part, head=head: self.keys.scores(row, rows, head, part))  # type: ignore[misc]
            self.values.ready(head, known)
            newest, first = base + (spec.page - 1), base + k.slot("window")
            whole = b.and_(b.icmp("sle", newest, f.position), b.icmp("sge", first, past))
            b.choose(
                whole,
                lambda base=base, head=head: self._powers(base, head, False),  # type: ignore[misc]
                lambda base=base, head=head: self._powers(base, head, True),  # type: ignore[misc]
            )
            self._decays()
            with b.loop(0, f.count) as row:
                self._add_up(row.index)
            self._each(
                self.values.rows,
                lambda row, rows, part, head=head, known=known: self.values.mix(row, rows, head, known, part),  # type: ignore[misc]
            )
        with b.loop(0, f.count) as row:
            (self._leave if spec.parts > 1 else self._finish)(row.index)

    def _each(self, most: int, run: Callable[[Value, int, tuple[int, int]], None]) -> None:
        """``run(row, rows, part)`` for all rows of the tile, at most so many at once; ``part``: which it is, of how
        many in a sequence."""
        b, spec, count = self.f.b, self.f.spec, self.f.count

        def some(row: Value, rows: int) -> None:
            parts = -(-rows // most)
            ends = [rows * i // parts for i in range(parts + 1)]
            for i, start in enumerate(ends[:-1]):
                run(row + start, ends[i + 1] - start, (i, parts))

        whole = count - b.urem(count, spec.rows)
        with b.loop(0, whole, spec.rows) as many:
            some(many.index, spec.rows)
        if spec.rest != spec.rows:
            with b.loop(whole, count, spec.rest) as few:
                some(few.index, spec.rest)

    def _begin(self, row: Value) -> None:
        """A row's sums of nothing, and its queries. Scores are exponents of 2 from the start, but for those that are
        capped."""
        f, b, spec = self.f, self.f.b, self.f.spec
        none, highest, total = b.const(f.vector, 0.0), b.const(F32, _LOWEST), b.const(f.vector, 0.0)
        if spec.sunk:  # a score that is there before those of keys, and counts once
            first = b.icmp("eq", f.part, 0)
            highest = b.select(first, b.mul(f.of_head("sinks", row), LOG2_E), highest)
            one = b.icmp("eq", b.lane_numbers(I32, f.lanes), 0)
            once = b.select(one, b.const(f.vector, 1.0), none)
            total = b.select(first, once, none)
        b.store(highest, f.number("highest", row))
        b.store(total, f.spread("total", row))
        b.store(none, f.spread("value_offset", row))
        with b.loop(0, spec.padded, f.lanes) as each:
            b.store(none, b.gep(f.sums(row), F32, each.index))
        self.keys.prepare(row, b.mul(f.k.slot("scale", F32), 1.0 if spec.capped else LOG2_E))

    # -- softmax ----------------------------------------------------------------------------------------------------

    def _powers(self, base: Value, head: Value, masked: bool) -> None:
        """From the scores of all rows to their powers, relative to the largest of this page; ``masked``: some keys are
        not seen. All rows take a step before any takes the next one, which waits for what lanes of a vector give
        together: nothing else would be done meanwhile."""
        for step in (self._row_top, self._row_powers):
            with self.f.b.loop(0, self.f.count) as row:
                step(row.index, base, head, masked)
        self.values.code_powers()

    def _row_top(self, row: Value, base: Value, head: Value, masked: bool) -> None:
        """The scores of a row as they count, and the largest of them."""
        del head
        f, k, b, spec, lanes = self.f, self.f.k, self.f.b, self.f.spec, self.f.lanes
        places, scores = f.scores(row), []
        seen = self._seen(row, base) if masked else None
        slope = b.splat(b.mul(f.of_head("slopes", row), LOG2_E), lanes) if spec.sloped else None
        behind = b.convert("trunc", base - f.position - b.udiv(row, spec.share), I32) if spec.sloped else None
        for j in range(spec.page // lanes):
            place = b.gep(places, F32, j * lanes)
            x = b.load(f.vector, place)
            if spec.capped:
                cap = k.slot("cap", F32)
                x = b.mul(tanh_of(b, b.fdiv(x, b.splat(cap, lanes))), b.splat(b.mul(cap, LOG2_E), lanes))
            if slope is not None and behind is not None:
                away = b.add(b.splat(behind, lanes), b.add(b.lane_numbers(I32, lanes), j * lanes))
                x = b.fma(slope, b.convert("sitofp", away, f.vector), x)
            if seen is not None:
                x = b.select(seen[j], x, b.const(f.vector, _LOWEST))
            if masked or spec.capped or spec.sloped:
                b.store(x, place)
            scores.append(x)
        top = across(b, pairwise(scores, lambda x, y: greater(b, x, y)), lambda x, y: greater(b, x, y))
        b.store(top, f.number("top", row))

    def _row_powers(self, row: Value, base: Value, head: Value, masked: bool) -> None:
        f, b, spec, lanes = self.f, self.f.b, self.f.spec, self.f.lanes
        shift = b.load(F32, f.number("top", row))
        if masked:  # nothing may be seen
            shift = b.select(b.fcmp("oeq", shift, _LOWEST), b.const(F32, 0.0), shift)
        scores = [b.load(f.vector, b.gep(f.scores(row), F32, j)) for j in range(0, spec.page, lanes)]
        powers = [exp2(b, b.sub(x, b.splat(shift, lanes))) for x in scores]
        b.store(pairwise(powers, b.add), f.spread("page_total", row))
        self.values.keep(row, powers, self._seen(row, base) if masked else None, head)

    def _seen(self, row: Value, base: Value) -> list[Value]:
        """Which keys of the page a row sees, in vectors."""
        f, b, spec, lanes = self.f, self.f.b, self.f.spec, self.f.lanes
        here = f.position + b.udiv(row, spec.share) - base  # the last key of the page that is seen, and the first
        last = b.intrinsic("smin", here, b.const(I64, spec.page))
        oldest = b.intrinsic("smax", here + 1 - f.k.slot("window"), b.const(I64, 0))
        last, oldest = (b.splat(b.convert("trunc", n, I32), lanes) for n in (last, oldest))
        found = []
        for j in range(0, spec.page, lanes):
            at = b.add(b.lane_numbers(I32, lanes), j)
            found.append(b.and_(b.icmp("sle", at, last), b.icmp("sge", at, oldest)))
        return found

    def _decays(self) -> None:
        """The running maxima of all rows, and what their sums so far and those of this page are multiplied by."""
        f, b = self.f, self.f.b
        none = b.const(f.vector, 0.0)
        with b.loop(0, f.count, f.lanes) as rows:
            before = b.load(f.vector, f.number("highest", rows.index))
            here = b.load(f.vector, f.number("top", rows.index))
            top = greater(b, here, before)
            b.store(top, f.number("highest", rows.index))
            shift = b.select(b.fcmp("oeq", top, _LOWEST), none, top)  # nothing is seen yet
            b.store(exp2(b, b.sub(before, shift)), f.number("decay", rows.index))
            b.store(exp2(b, b.sub(here, shift)), f.number("share", rows.index))

    def _add_up(self, row: Value) -> None:
        """A row's sums of powers, and of offsets of values."""
        f, b, lanes = self.f, self.f.b, self.f.lanes
        decay, share = (b.splat(b.load(F32, f.number(name, row)), lanes) for name in ("decay", "share"))
        both = [("total", "page_total"), ("value_offset", "page_offset")]
        for so_far, page in both if f.spec.value_bits in (4, 8) else both[:1]:
            old = b.mul(b.load(f.vector, f.spread(so_far, row)), decay)
            b.store(b.fma(b.load(f.vector, f.spread(page, row)), share, old), f.spread(so_far, row))

    def _finish(self, row: Value) -> None:
        f, b, spec = self.f, self.f.b, self.f.spec
        total, more = (across(b, b.load(f.vector, f.spread(name, row)), b.add) for name in ("total", "value_offset"))
        share = b.select(b.fcmp("oeq", total, 0.0), b.const(F32, 0.0), b.fdiv(b.const(F32, 1.0), total))
        lanes = lanes_of(spec.value_size, f.lanes)
        to, source = f.at("out", row), f.sums(row)
        with b.loop(0, spec.value_size, lanes) as each:
            x = b.load(F32.vec(lanes), b.gep(source, F32, each.index))
            if spec.value_bits in (4, 8):
                x = b.add(x, b.splat(more, lanes))
            b.store(b.mul(x, b.splat(share, lanes)), b.gep(to, F32, each.index))

    def _leave(self, row: Value) -> None:
        """What a part of the pages has of a row."""
        f, b, spec = self.f, self.f.b, self.f.spec
        to = b.gep(f.k.pointer("partial"), F32, (f.block * spec.most + row) * spec.partial_row)
        total, more = (across(b, b.load(f.vector, f.spread(name, row)), b.add) for name in ("total", "value_offset"))
        with b.loop(0, spec.padded, f.lanes) as each:
            x = b.load(f.vector, b.gep(f.sums(row), F32, each.index))
            if spec.value_bits in (4, 8):
                x = b.add(x, b.splat(more, f.lanes))
            b.store(x, b.gep(to, F32, each.index))
        b.store(b.load(F32, f.number("highest", row)), b.gep(to, F32, spec.padded))
        b.store(total, b.gep(to, F32, spec.padded + 1))
