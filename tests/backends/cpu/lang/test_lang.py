"""The kernel language itself: control flow, literals, bounds checks of checked builds."""

from __future__ import annotations

import dataclasses
import doctest

import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.lang import module as lang
from MNN.backends.cpu.lang.declarations import checked_build
from MNN.backends.cpu.lang.module import F32, I32, I64, PTR, Builder, Kernel, Value, literal
from MNN.backends.cpu.targets.base import Target
from tests.backends.cpu.util import ENTRY_TYPE, TARGETS


@dataclasses.dataclass(frozen=True)
class ProbeSpec(KernelSpec):
    """One access of n elements of x, written to y."""

    kind: str

    def slots(self) -> tuple[str, ...]:
        return ("x", "y", "n")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, x, y, n = k.b, k.pointer("x"), k.pointer("y"), k.slot("n")
        t = F32.vec(8)
        if self.kind == "load":
            with b.loop(0, n, 8) as loop:
                b.store(b.load(t, b.gep(x, F32, loop.index)), y)
        elif self.kind == "masked":
            b.store(b.load_masked(t, x, b.prefix_mask(n, 8)), y)
        elif self.kind == "masked, far away":
            b.store(b.load_masked(t, b.gep(x, F32, 1 << 20), b.prefix_mask(n, 8)), y)
        elif self.kind == "store":
            b.store(b.load(F32, x), b.gep(y, F32, n - 1))
        elif self.kind == "masked store":
            b.store_masked(b.const(t, 1.0), y, b.prefix_mask(n, 8))
        else:
            lanes = b.mul(b.lane_numbers(I64, 8), b.splat(n, 8))
            pointers = b.emit(PTR.vec(8), f"getelementptr float, ptr {x.text}, {lanes!r}")
            b.store(b.load_gather(t, pointers), y)
        return k.finish()


def probe(kind: str, n: int) -> int:
    x, y = np.arange(16, dtype=np.float32), np.zeros(8, np.float32)
    table = np.array([0, 2, x.ctypes.data, x.ctypes.data + x.nbytes, y.ctypes.data, y.ctypes.data + y.nbytes], np.int64)
    with checked_build():
        address = Library(TARGETS[-1]).load([ProbeSpec(kind)])[0]
    args = np.array([x.ctypes.data, y.ctypes.data, n, table.ctypes.data], np.int64)
    ENTRY_TYPE(address)(args.ctypes.data, 0, 1, None)
    return int(table[0])


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [("load", 16, 17), ("masked", 8, None), ("store", 8, 9), ("masked store", 8, None), ("gather", 2, 3)],
)
def test_checked_builds_stop_bad_accesses(kind: str, good: int, bad: int | None) -> None:
    assert probe(kind, good) == 0
    assert probe(kind, 1) == 0
    if bad is not None:
        assert probe(kind, bad) > 0
    assert probe("store", 0) > 0  # below the start


def test_accesses_of_no_bytes_are_made_nowhere() -> None:
    assert probe("masked, far away", 0) == 0
    assert probe("masked, far away", 1) > 0


@dataclasses.dataclass(frozen=True)
class FlowSpec(KernelSpec):
    """y[0] = sum of i over even i < n; y[1] = collatz steps of n; y[2] = n < 5 ? 1 : 2."""

    def slots(self) -> tuple[str, ...]:
        return ("y", "n")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, y, n = k.b, k.pointer("y"), k.slot("n")
        zero = b.const(I64, 0)
        with b.loop(0, n, carry=[zero]) as loop:
            even = b.icmp("eq", loop.index % 2, 0)
            (term,) = b.if_else(even, lambda: [loop.index], lambda: [zero])
            loop.next(loop.carried[0] + term)
        b.store(loop.results[0], y)

        def step(value: Value, count: Value) -> tuple[Value, list[Value]]:
            odd = b.icmp("ne", value % 2, 0)
            value = b.select(odd, value * 3 + 1, value // 2)
            return b.icmp("ne", value, 1), [value, count + 1]

        b.store(b.do_while([n, zero], step)[1], b.gep(y, I64, 1))
        (pick,) = b.if_else(b.icmp("slt", n, 5), lambda: [b.const(I64, 1)], lambda: [b.const(I64, 2)], likely=True)
        b.store(pick, b.gep(y, I64, 2))
        return k.finish()


def test_control_flow() -> None:
    y = np.zeros(3, np.int64)
    function = ENTRY_TYPE(Library(TARGETS[0]).load([FlowSpec()])[0])
    for n, want in ((7, [12, 16, 2]), (2, [0, 1, 1])):
        args = np.array([y.ctypes.data, n], np.int64)
        function(args.ctypes.data, 0, 1, None)
        assert y.tolist() == want


def test_literals_and_type_errors() -> None:
    assert literal(I32, 2**32 - 1) == "-1"
    assert literal(F32.vec(4), 1.0) == "splat (float 0x3FF0000000000000)"
    assert literal(F32.vec(4), 0.0) == "zeroinitializer"
    assert literal(F32.vec(4), -0.0) == "splat (float 0x8000000000000000)"
    assert literal(F32, 0.1) == "0x3FB99999A0000000"  # rounded to f32 first
    assert F32.vec(4) is F32.vec(4)
    b: Builder = Kernel(("x",)).b
    with pytest.raises(TypeError, match="differ"):
        b.add(b.const(I32, 1), b.const(I64, 1))
    with pytest.raises(TypeError, match=r"without next"), b.loop(0, 4, carry=[b.const(I64, 0)]):
        pass


def test_doctest() -> None:
    assert doctest.testmod(lang).failed == 0
