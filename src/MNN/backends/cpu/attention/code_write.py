"""Code generation of :class:`MNN.backends.cpu.attention.spec.PageWriteSpec`."""

from __future__ import annotations

from MNN.backends.cpu.attention.parts import absolute, across, greater, lanes_of, largest_f16, word_codes
from MNN.backends.cpu.attention.spec import PageWriteSpec
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import storage_type, store
from MNN.backends.cpu.lang.module import F32, I8, I16, I32, I64, Kernel, Value
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.reference.paged import KEY_CODE, KEY_NORM, NOTHING, largest_value


@generates(PageWriteSpec)
def emit_page_write(spec: PageWriteSpec, target: Target) -> str:
    """The module's text."""
    return _Writing(spec, target).emit()


class _Writing:
    """One emission."""

    def __init__(self, spec: PageWriteSpec, target: Target) -> None:
        self.spec = spec
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = target.lanes(DType.F32)
        self.column: Value
        """Of keys: how far neighbouring numbers of a token are apart."""

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        self.column = b.const(I64, spec.page)
        with b.loop(k.begin, k.end) as token:
            place = b.load(I64, b.gep(k.pointer("places"), I64, token.index))
            inside = b.icmp("ult", place, k.slot("pages") * spec.page)
            b.if_(inside, lambda place=place, t=token.index: self._token(place, t))  # type: ignore[misc]
        return k.finish()

    def _token(self, place: Value, token: Value) -> None:
        k, b, spec = self.k, self.b, self.spec
        page = b.udiv(place, spec.page)
        at = place - page * spec.page
        with b.loop(0, spec.groups) as group:
            head = page * spec.groups + group.index
            for name, short, size, kept, dtype, bits in (
                ("keys", "k", spec.size, spec.held, spec.key_type, spec.key_bits),
                ("values", "v", spec.value_size, spec.padded, spec.value_type, spec.value_bits),
            ):
                start = token * k.slot(f"{short}_t") + group.index * k.slot(f"{short}_g")
                source = b.gep(k.pointer(short), F32, start)
                rows = kept // 2 if bits == 4 else kept
                element = storage_type(dtype)
                whole = b.gep(k.pointer(name), element, head * (rows * spec.page))
                turned = name == "keys"
                if not bits:
                    to = b.gep(whole, element, at if turned else at * rows)
                    self._floats(source, to, size, dtype, turned)
                    continue
                pair = b.lshr(at, 1)  # of tokens; keys: pairs of rows
                to = b.gep(whole, element, at * 2 if turned else pair * (2 * rows) + (at - pair * 2))
                scales = b.gep(k.pointer(f"{name}_scales"), F32, head * ((1 if bits == 16 else 2) * spec.page) + at)
                codes = self._words if bits == 16 else self._codes
                codes(source, to, size, rows, bits, turned, scales)

    def _floats(self, source: Value, to: Value, size: int, dtype: DType, turned: bool) -> None:
        b, lanes, element = self.b, lanes_of(size, self.lanes), storage_type(dtype)
        with b.loop(0, size, lanes) as each:
            value = largest_f16(b, dtype, b.load(F32.vec(lanes), b.gep(source, F32, each.index)))
            place = b.gep(to, element, each.index * self.column if turned else each.index)
            store(b, dtype, value, place, self.column if turned and lanes > 1 else None)

    def _words(
        self, source: Value, to: Value, size: int, rows: int, bits: int, turned: bool, scales: Value
    ) -> None:  # fmt: skip
        """Codes of 16 bits; see :func:`MNN.reference.paged.coded`."""
        b = self.b
        lanes = lanes_of(size, self.lanes)
        vector = F32.vec(lanes)
        one, zero = b.const(F32, 1.0), b.const(F32, 0.0)
        with b.loop(0, size, lanes, carry=[b.const(vector, 0.0)]) as each:
            x = absolute(b, b.load(vector, b.gep(source, F32, each.index)))
            each.next(b.select(b.fcmp("ugt", x, each.carried[0]), x, each.carried[0]))  # NaN stays
        largest = across(b, each.results[0], lambda x, y: b.select(b.fcmp("ugt", x, y), x, y))
        some = b.fcmp("uge", largest, NOTHING)
        inverse = b.select(some, b.fdiv(one, largest), zero)
        factor = b.mul(inverse, float(KEY_CODE if turned else largest_value(self.spec.page)))
        if turned:
            with b.loop(0, size, lanes, carry=[b.const(vector, 0.0)]) as each:
                x = b.mul(b.load(vector, b.gep(source, F32, each.index)), b.splat(inverse, lanes))
                each.next(b.fma(x, x, each.carried[0]))
            norm = b.intrinsic("sqrt", across(b, each.results[0], b.add))
            other = b.mul(b.fdiv(b.const(F32, float(KEY_NORM)), norm), inverse)
            factor = b.select(b.and_(some, b.fcmp("ult", other, factor)), other, factor)
        b.store(b.select(some, b.fdiv(one, factor), zero), scales)
        with b.loop(0, size, lanes) as each:
            x = b.load(vector, b.gep(source, F32, each.index))
            self._put(word_codes(b, b.mul(x, b.splat(factor, lanes))), to, each.index, turned, 16)

    def _codes(
        self, source: Value, to: Value, size: int, rows: int, bits: int, turned: bool, scales: Value
    ) -> None:  # fmt: skip
        """Codes of 8 or 4 bits."""
        b, top = self.b, float((1 << bits) - 1)
        lanes = lanes_of(size, self.lanes)
        first = b.load(F32.vec(lanes), source)
        with b.loop(0, size, lanes, carry=[first, first]) as each:
            x = b.load(F32.vec(lanes), b.gep(source, F32, each.index))
            low, high = each.carried
            each.next(b.select(b.fcmp("olt", x, low), x, low), greater(b, x, high))
        low = across(b, each.results[0], lambda x, y: b.select(b.fcmp("olt", x, y), x, y))
        high = across(b, each.results[1], lambda x, y: greater(b, x, y))
        span = high - low
        b.store(b.fdiv(span, top), scales)
        b.store(low, b.gep(scales, F32, self.spec.page))
        inverse = b.select(b.fcmp("ogt", span, 0.0), b.fdiv(b.const(F32, top), span), b.const(F32, 0.0))

        def coded(at: Value, lanes: int) -> Value:
            x = b.load(F32.vec(lanes), b.gep(source, F32, at))
            scaled = b.mul(b.sub(x, b.splat(low, lanes)), b.splat(inverse, lanes))
            return b.convert("fptosi", b.add(scaled, 0.5), I32.vec(lanes))

        if bits == 8:
            with b.loop(0, size, lanes) as each:
                self._put(coded(each.index, lanes), to, each.index, turned, 8)
            return
        both = max(size - rows, 0)  # of a head whose size was rounded up, the last of the first half stand alone
        lanes = lanes_of(both, self.lanes) if both else 1
        with b.loop(0, both, lanes) as each:
            upper = b.shl(coded(each.index + rows, lanes), 4)
            self._put(b.or_(coded(each.index, lanes), upper), to, each.index, turned, 8)
        with b.loop(both, min(rows, size)) as each:
            self._put(coded(each.index, 1), to, each.index, turned, 8)

    def _put(self, codes: Value, to: Value, at: Value, turned: bool, bits: int) -> None:
        """Codes in i32 from number ``at`` of a head on, of a token whose first is at ``to``: those of keys in pairs of
        neighbours, those of values two apart. (Those between are another token's, which another thread may write.)"""
        b, lanes, page = self.b, codes.type.lanes, self.spec.page
        element = I16 if bits == 16 else I8
        if not turned:
            for lane in range(lanes):
                one = b.convert("trunc", b.extract(codes, lane) if lanes > 1 else codes, element)
                b.store(one, b.gep(to, element, (at + lane) * 2))
            return
        if lanes == 1:
            pair = b.lshr(at, 1)
            b.store(b.convert("trunc", codes, element), b.gep(to, element, pair * (2 * page) + (at - pair * 2)))
            return
        both = I32 if bits == 16 else I16
        low, high = (b.shuffle(codes, None, range(i, lanes, 2)) for i in (0, 1))
        pairs = b.or_(b.and_(low, (1 << bits) - 1), b.shl(high, bits))
        for i in range(lanes // 2):
            one = b.extract(pairs, i) if lanes > 2 else pairs
            one = one if both is I32 else b.convert("trunc", one, both)
            b.store(one, b.gep(to, both, (b.lshr(at, 1) + i) * page), align=element.size)
