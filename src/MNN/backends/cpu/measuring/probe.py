"""Kernels that measure a processor: the rate of its multiply-adds, of reading memory, and how fast workers wake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.amx.split import ARITHMETIC, OF_BYTES, PRODUCTS
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS, TILE_BYTES, Tiles, has_tiles, state_bytes
from MNN.backends.cpu.lang.module import BF16, F16, F32, I8, I32, I64, VOID, Kernel, Type, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.targets.instructions.capability import Capability

_UNROLLED = 4
_STREAMS = 8
_TILE_SUMS = 4
"""Registers of sums; as many hold factors."""


@dataclass(frozen=True)
class Product:
    """An instruction that multiplies and adds: the types of its sums and factors, and what sums
    groups of products; None for plain arithmetic."""

    sums: Type
    factors: Type
    does: Capability | None
    parts: int = 0
    """Of tiles: into how many parts their factors are split (see :mod:`MNN.backends.cpu.amx.split`)."""

    @property
    def operations(self) -> int:
        """Multiplications and additions of one instruction; with parts, of those that count."""
        if self.parts:
            return 2 * ROWS * ROWS * self.factors.lanes // len(PRODUCTS[self.parts])
        return 2 * self.factors.lanes


def products(target: Target) -> dict[str, Product]:
    """The multiply-add instructions of a target by the element type of their factors."""
    size = target.vector_bytes
    f32 = F32.vec(size // 4)
    found = {"f32": Product(f32, f32, None)}
    if target.can(can.ARITHMETIC_F16):
        half = F16.vec(size // 2)
        found["f16"] = Product(half, half, None)
    if target.can(can.DOT2_BF16):
        found["bf16"] = Product(f32, BF16.vec(size // 2), can.DOT2_BF16)
    for does in (can.DOT4_UNSIGNED, can.DOT4_SIGNED):
        if target.can(does):
            found["int8"] = Product(I32.vec(size // 4), I8.vec(size), does)
    for (parts, fp16), name in ARITHMETIC.items():
        dot, kind = (can.TILE_DOT_F16, F16) if fp16 else (can.TILE_DOT_BF16, BF16)
        if has_tiles(target, dot):
            found[name] = Product(f32, kind.vec(size // 2), dot, parts)
    if has_tiles(target, can.TILE_DOT_U8_I8):
        found[OF_BYTES] = Product(I32.vec(size // 4), I8.vec(size), can.TILE_DOT_U8_I8, 1)
    return found


@dataclass(frozen=True)
class ProductSpec(KernelSpec):
    """Every block does ``n`` times ``steps`` independent multiply-adds in registers, of the kind ``product``.

    The factors are loaded from ``data``, so that nothing is known about them; one sum is stored to ``data`` at the end.
    """

    shaped: ClassVar[bool] = True

    product: str

    def slots(self) -> tuple[str, ...]:
        return ("data", "n")

    def sums(self, target: Target) -> int:
        """How many sums there are, to hide the latency of the instruction."""
        return _TILE_SUMS if products(target)[self.product].parts else min(24, target.vector_registers - 4)

    def steps(self, target: Target) -> int:
        """Multiply-adds per turn of the loop."""
        return self.sums(target) * _UNROLLED

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        kind = products(target)[self.product]
        data = k.pointer("data")
        if kind.parts:
            assert kind.does is not None
            self._tiles(k, target, kind.does)
            return k.finish()
        x, y = (b.load(kind.factors, b.gep(data, kind.factors, i)) for i in range(2))
        zero = b.const(kind.sums, 0)

        def step(total: Value) -> Value:
            return b.fma(x, y, total) if kind.does is None else b.perform(kind.does, kind.sums, total, x, y)

        with b.loop(k.begin, k.end) as block:
            del block
            with b.loop(0, k.slot("n"), carry=[zero] * self.sums(target)) as turn:
                totals = list(turn.carried)
                for _ in range(_UNROLLED):
                    totals = [step(t) for t in totals]
                turn.next(*totals)
            whole = turn.results[0]
            for total in turn.results[1:]:
                whole = b.add(whole, total)
            b.store(whole, b.gep(k.scratch, kind.sums, 0))
        return k.finish()

    def _tiles(self, k: Kernel, target: Target, product: Capability) -> None:
        b, tiles = k.b, Tiles(k, target, k.scratch, product)
        with tiles.configured(), b.loop(k.begin, k.end) as block:
            del block
            for register in range(_TILE_SUMS):
                tiles.zero(register)
            for register in range(_TILE_SUMS, 2 * _TILE_SUMS):
                tiles.load(register, k.pointer("data"), 0)  # all rows are the same
            with b.loop(0, k.slot("n")):
                for _ in range(_UNROLLED):
                    for register in range(_TILE_SUMS):
                        tiles.dot(register, _TILE_SUMS + register // 2, _TILE_SUMS + 2 + register % 2)
            tiles.store(0, k.scratch, ROW_BYTES)

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        kind = products(target)[self.product]
        if kind.does is None or not kind.parts:
            return target.vector_bytes
        return max(TILE_BYTES, state_bytes(target, kind.does))


@dataclass(frozen=True)
class ReadSpec(KernelSpec):
    """Block ``b`` reads the ``bytes`` bytes from ``data + b * region`` on, ``repeat`` times over.

    ``bytes`` is a multiple of :meth:`unit`.
    """

    shaped: ClassVar[bool] = True

    def slots(self) -> tuple[str, ...]:
        return ("data", "region", "bytes", "repeat")

    @staticmethod
    def unit(target: Target) -> int:
        return _STREAMS * target.vector_bytes

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        return target.vector_bytes

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        vector = I32.vec(target.vector_bytes // 4)
        zeros = [b.const(vector, 0)] * _STREAMS
        with b.loop(k.begin, k.end) as block:
            start = b.gep(k.pointer("data"), I8, block.index * k.slot("region"))
            with b.loop(0, k.slot("repeat"), carry=zeros) as again:
                with b.loop(0, k.slot("bytes"), self.unit(target), carry=again.carried) as line:
                    at = b.gep(start, I8, line.index)
                    values = [b.load(vector, b.gep(at, vector, i), target.vector_bytes) for i in range(_STREAMS)]
                    line.next(*[b.xor(t, v) for t, v in zip(line.carried, values, strict=True)])
                again.next(*line.results)
            whole = again.results[0]
            for part in again.results[1:]:
                whole = b.xor(whole, part)
            b.store(whole, k.scratch)
        return k.finish()


@dataclass(frozen=True)
class MeetSpec(KernelSpec):
    """Every block adds 1 to the i64 at ``counter`` and waits until it is ``wanted``, at most ``patience`` looks."""

    shaped: ClassVar[bool] = True

    def slots(self) -> tuple[str, ...]:
        return ("counter", "wanted", "patience")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        counter = k.pointer("counter")
        with b.loop(k.begin, k.end) as block:
            del block
            b.emit(I64, f"atomicrmw add ptr {counter.text}, i64 1 seq_cst, align 8")

            def look(looks: Value) -> tuple[Value, list[Value]]:
                seen = b.emit(I64, f"load atomic i64, ptr {counter.text} acquire, align 8")
                if target.can(can.PAUSE):
                    b.perform(can.PAUSE, VOID)
                early = b.icmp("slt", seen, k.slot("wanted"))
                return b.and_(early, b.icmp("slt", looks, k.slot("patience"))), [looks + 1]

            b.do_while([b.const(I64, 0)], look)
        return k.finish()
