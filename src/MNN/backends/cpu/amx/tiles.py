"""The tile registers of AMX: eight of 16 rows by 64 bytes. On targets without them, the same in plain code.

On AMX the intrinsics that name registers are used, with a configuration of our own: the ones for which LLVM allocates
tiles add copies of whole tiles. The plain form keeps the registers in memory; it is there so that kernels can be
tested on every machine, and is not fast. (It does not flush subnormal numbers to zero as AMX does.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from MNN.backends.cpu.lang.element import widen
from MNN.backends.cpu.lang.module import F32, I8, I16, I32, I64, PTR, VOID, Builder, Kernel, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.targets.instructions.capability import Capability
from MNN.ir.dtype import DType

ROWS, ROW_BYTES = 16, 64
TILE_BYTES = ROWS * ROW_BYTES
REGISTERS = 8
_MOVES = {"load": can.TILE_LOAD, "loaddt1": can.TILE_LOAD_PASSING, "store": can.TILE_STORE}

_CONFIG = bytes([1, *[0] * 15, *[ROW_BYTES, 0] * REGISTERS, *[0] * 16, *[ROWS] * REGISTERS, *[0] * 8])
"""Palette 1: every register whole."""


BYTES = {
    can.TILE_DOT_U8_I8: (False, True),
    can.TILE_DOT_I8_I8: (True, True),
    can.TILE_DOT_U8_U8: (False, False),
    can.TILE_DOT_I8_U8: (True, False),
}
"""Products of bytes, and whether those of A and of B are signed."""


def has_tiles(target: Target, product: Capability = can.TILE_DOT_BF16) -> bool:
    """Whether the processor has tiles with such a product (or is to seem so)."""
    return target.can(product)


def state_bytes(target: Target, product: Capability) -> int:
    """Memory that the registers take, where they are memory."""
    return 0 if target.has_instruction(product) else REGISTERS * TILE_BYTES


class Tiles:
    """Emits tile instructions, with one kind of ``product``. ``state`` is memory of :func:`state_bytes`, 64-byte
    aligned."""

    def __init__(self, k: Kernel, target: Target, state: Value, product: Capability = can.TILE_DOT_BF16) -> None:
        self._b, self._state = k.b, state
        self._hard = target.has_instruction(product)
        self._dot = product
        if self._hard:
            text = "".join(f"\\{byte:02X}" for byte in _CONFIG)
            k.module.add(f'@tiles = private unnamed_addr constant [64 x i8] c"{text}", align 64')
        else:
            _soft_move(k, "tile_load", True)
            _soft_move(k, "tile_store", False)
            if product in BYTES:
                _soft_dot_of_bytes(k, *BYTES[product])
            else:
                _soft_dot(k, product is can.TILE_DOT_F16)

    @contextlib.contextmanager
    def configured(self) -> Iterator[None]:
        """Within it the registers can be used. Calls of other functions must not happen there."""
        if self._hard:
            self._b.perform(can.TILE_CONFIGURE, VOID, Value(self._b, "@tiles", PTR))
        yield
        if self._hard:
            self._b.perform(can.TILE_RELEASE, VOID)

    def zero(self, register: int) -> None:
        if self._hard:
            self._b.perform(can.TILE_ZERO, VOID, self._number(register))
            return
        for row in range(ROWS):
            at = self._b.gep(self._state, F32, (register * ROWS + row) * 16)
            self._b.store(self._b.const(F32.vec(16), 0), at, check=False)

    def load(self, register: int, pointer: Value, stride: Value | int, passing: bool = False) -> None:
        """Rows ``stride`` bytes apart; ``passing``: they need not stay in the first-level cache."""
        self._move("loaddt1" if passing and self._hard else "load", register, pointer, stride)

    def spread(self, register: int, row: Value) -> None:
        """The row at an address in all rows of a tile; whoever has it checks the access."""
        self._move("load", register, row, 0, check=False)

    def store(self, register: int, pointer: Value, stride: Value | int) -> None:
        self._move("store", register, pointer, stride)

    def dot(self, c: int, a: int, b: int) -> None:
        """``c[m, n] += a[m, 2k] * b[k, 2n] + a[m, 2k + 1] * b[k, 2n + 1]``: f32 sums of products; of bytes, i32 sums of
        four."""
        numbers = [self._number(r) for r in (c, a, b)]
        if self._hard:
            self._b.perform(self._dot, VOID, *numbers)
        else:
            self._b.call(VOID, "tile_dot", self._state, *numbers)

    def _number(self, register: int) -> Value:
        return self._b.const(I8, register)

    def _move(self, what: str, register: int, pointer: Value, stride: Value | int, check: bool = True) -> None:
        b = self._b
        step = stride if isinstance(stride, Value) else b.const(I64, stride)
        if b.module.checked and check:
            for row in (0, ROWS - 1):
                b.check(b.gep(pointer, I8, step * row), ROW_BYTES)
        if self._hard:
            b.perform(_MOVES[what], VOID, self._number(register), pointer, step)
        else:
            b.call(VOID, f"tile_{what}", self._state, self._number(register), pointer, step)


def _register(b: Builder, state: Value, number: Value) -> Value:
    return b.gep(state, I8, b.convert("zext", number, I64) * TILE_BYTES)


def _soft_move(k: Kernel, name: str, into: bool) -> None:
    b = k.module.function(name, [(PTR, "state"), (I8, "register"), (PTR, "memory"), (I64, "stride")])
    state, number, memory, stride = b.params
    tile = _register(b, state, number)
    with b.loop(0, ROWS) as row:
        inside = b.gep(tile, I8, row.index * ROW_BYTES)
        outside = b.gep(memory, I8, row.index * stride)
        source, to = (outside, inside) if into else (inside, outside)
        b.store(b.load(I32.vec(16), source, check=False, align=1), to, check=False, align=1)
    b.ret()


def _soft_dot(k: Kernel, half: bool) -> None:
    b = k.module.function("tile_dot", [(PTR, "state"), (I8, "c"), (I8, "a"), (I8, "b")])
    state = b.params[0]
    c, left, right = (_register(b, state, number) for number in b.params[1:])
    vector = F32.vec(16)

    def halves(bits: Value) -> tuple[Value, Value]:
        bits = b.splat(bits, 16)
        if half:
            both = (b.convert("trunc", x, I16.vec(16)) for x in (bits, b.lshr(bits, 16)))
            even, odd = (widen(b, DType.F16, x) for x in both)
            return even, odd
        return b.bitcast(b.shl(bits, 16), vector), b.bitcast(b.and_(bits, -0x10000), vector)

    with b.loop(0, ROWS) as row:
        zero = b.const(vector, 0)
        with b.loop(0, 16, carry=[zero, zero]) as step:
            pair = b.load(I32, b.gep(left, I32, row.index * 16 + step.index), check=False)
            pairs = b.load(I32.vec(16), b.gep(right, I32, step.index * 16), check=False)
            even, odd = (b.fma(x, y, z) for x, y, z in zip(halves(pair), halves(pairs), step.carried, strict=True))
            step.next(even, odd)
        at = b.gep(c, F32, row.index * 16)
        total = b.add(b.load(vector, at, check=False), b.add(*step.results))
        b.store(total, at, check=False)
    b.ret()


def _soft_dot_of_bytes(k: Kernel, left_signed: bool, right_signed: bool) -> None:
    b = k.module.function("tile_dot", [(PTR, "state"), (I8, "c"), (I8, "a"), (I8, "b")])
    state = b.params[0]
    c, left, right = (_register(b, state, number) for number in b.params[1:])
    vector = I32.vec(16)

    def byte(four: Value, number: int, signed: bool) -> Value:
        return (b.ashr if signed else b.lshr)(b.shl(four, 24 - 8 * number), 24)

    with b.loop(0, ROWS) as row:
        at = b.gep(c, I32, row.index * 16)
        with b.loop(0, 16, carry=[b.load(vector, at, check=False)]) as step:
            four = b.splat(b.load(I32, b.gep(left, I32, row.index * 16 + step.index), check=False), 16)
            fours = b.load(vector, b.gep(right, I32, step.index * 16), check=False)
            total = step.carried[0]
            for number in range(4):
                product = b.mul(byte(four, number, left_signed), byte(fours, number, right_signed))
                total = b.add(total, product)
            step.next(total)
        b.store(step.results[0], at, check=False)
    b.ret()
