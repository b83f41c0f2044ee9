"""Code generation of :class:`MNN.backends.cpu.attention.spec.PageWriteSpec`."""

from __future__ import annotations

from MNN.backends.cpu.attention.parts import across, greater, lanes_of, largest_f16
from MNN.backends.cpu.attention.spec import PageWriteSpec
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import storage_type, store
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, Kernel, Value
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType


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
            for name, short, size, held, dtype, bits in (
                ("keys", "k", spec.size, spec.size, spec.key_type, spec.key_bits),
                ("values", "v", spec.value_size, spec.padded, spec.value_type, spec.value_bits),
            ):
                start = token * k.slot(f"{short}_t") + group.index * k.slot(f"{short}_g")
                source = b.gep(k.pointer(short), F32, start)
                rows = held // 2 if bits == 4 else held
                element = storage_type(dtype)
                whole = b.gep(k.pointer(name), element, head * (rows * spec.page))
                turned = name == "keys"
                to = b.gep(whole, element, at if turned else at * rows)
                if not bits:
                    self._floats(source, to, size, dtype, turned)
                    continue
                scales = b.gep(k.pointer(f"{name}_scales"), F32, head * (2 * spec.page) + at)
                self._codes(source, to, size, rows, bits, turned, scales)

    def _floats(self, source: Value, to: Value, size: int, dtype: DType, turned: bool) -> None:
        b, lanes, element = self.b, lanes_of(size, self.lanes), storage_type(dtype)
        with b.loop(0, size, lanes) as each:
            value = largest_f16(b, dtype, b.load(F32.vec(lanes), b.gep(source, F32, each.index)))
            place = b.gep(to, element, each.index * self.column if turned else each.index)
            store(b, dtype, value, place, self.column if turned and lanes > 1 else None)

    def _codes(
        self, source: Value, to: Value, size: int, rows: int, bits: int, turned: bool, scales: Value
    ) -> None:  # fmt: skip
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
                self._bytes(coded(each.index, lanes), to, each.index, turned)
            return
        both = max(size - rows, 0)  # of a head whose size was rounded up, the last of the first half stand alone
        lanes = lanes_of(both, self.lanes) if both else 1
        with b.loop(0, both, lanes) as each:
            upper = b.shl(coded(each.index + rows, lanes), 4)
            self._bytes(b.or_(coded(each.index, lanes), upper), to, each.index, turned)
        with b.loop(both, min(rows, size)) as each:
            self._bytes(coded(each.index, 1), to, each.index, turned)

    def _bytes(self, codes: Value, to: Value, at: Value, turned: bool) -> None:
        b, lanes = self.b, codes.type.lanes
        found = b.convert("trunc", codes, I8.vec(lanes))
        if not turned:
            b.store(found, b.gep(to, I8, at))
            return
        for lane in range(lanes):
            one = b.extract(found, lane) if lanes > 1 else found
            b.store(one, b.gep(to, I8, (at + lane) * self.column))
