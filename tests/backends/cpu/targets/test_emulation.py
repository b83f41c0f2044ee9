"""Plain code in place of instructions: against numpy on every machine, and the instruction where there is one."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.lang.module import BF16, F32, I8, I16, I32, Kernel, Type
from MNN.backends.cpu.targets import Target, emulation, host_target, named_target
from MNN.errors import UnsupportedError
from tests.backends.cpu.util import ENTRY_TYPE

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86's instructions")

RNG = np.random.default_rng(7)


def integers(dtype: type, count: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    found = RNG.integers(limits.min, limits.max, count, dtype, endpoint=True)
    found[:4] = [limits.min, limits.max, limits.min, limits.max]
    return found


def dot(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    sums = (a.astype(np.int64) * b.astype(np.int64)).reshape(total.size, -1).sum(1)
    return (total + sums).astype(np.int32)


def dot_bf16(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    products = a.astype(np.float32) * b.astype(np.float32)
    return (total + products[1::2]) + products[::2]


def pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(np.int32) * b.astype(np.int32)).reshape(-1, 2).sum(1, dtype=np.int32)


def packed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    both = np.stack([a.reshape(-1, 4), b.reshape(-1, 4)], 1).reshape(-1)
    return np.clip(both, -32768, 32767).astype(np.int16)


def looked_up(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    return table[index & (table.size - 1)]


def normal(count: int) -> np.ndarray:
    return RNG.standard_normal(count).astype(np.float32)


def bf16(count: int) -> np.ndarray:
    return RNG.standard_normal(count).astype(ml_dtypes.bfloat16)


def words(kind: type, other: type) -> Callable[[int], tuple[np.ndarray, ...]]:
    """Sums, and groups of as many numbers as 32 bits hold, for a number of 32-bit lanes."""
    each = 4 // np.dtype(kind).itemsize
    return lambda n: (integers(np.int32, n), integers(kind, each * n), integers(other, each * n))


#: intrinsic without its width: widths, its arguments for a number of 32-bit lanes, the meaning
CASES = {
    "avx512.vpdpbusd": ((128, 256, 512), words(np.uint8, np.int8), dot),
    "avx512.vpdpwssd": ((128, 256, 512), words(np.int16, np.int16), dot),
    "avx2.vpdpbssd": ((128, 256), words(np.int8, np.int8), dot),
    "avx512bf16.dpbf16ps": ((256, 512), lambda n: (normal(n), bf16(2 * n), bf16(2 * n)), dot_bf16),
    "avx512.pmaddw.d": ((512,), lambda n: (integers(np.int16, 2 * n)[::-1].copy(), integers(np.int16, 2 * n)), pairs),
    "avx512.packssdw": ((512,), lambda n: (integers(np.int32, n), integers(np.int32, n) >> 12), packed),
    "avx512.permvar.sf": ((512,), lambda n: (normal(n), integers(np.int32, n)), looked_up),
}
TYPES: dict[str, Type] = {"int8": I8, "uint8": I8, "int16": I16, "int32": I32, "float32": F32, "bfloat16": BF16}


@dataclasses.dataclass(frozen=True)
class Written(KernelSpec):
    """A kernel that is its text."""

    text: str

    def slots(self) -> tuple[str, ...]:
        return ()

    def emit(self, target: Target) -> str:
        return self.text


def computed(name: str, bits: int, target: Target, arrays: tuple[np.ndarray, ...], want: np.ndarray) -> np.ndarray:
    k = Kernel.of([*(f"a{i}" for i in range(len(arrays))), "out"], target)
    values = [k.b.load(TYPES[a.dtype.name].vec(a.size), k.pointer(f"a{i}"), align=1) for i, a in enumerate(arrays)]
    found = k.b.call(TYPES[want.dtype.name].vec(want.size), f"llvm.x86.{name}.{bits}", *values)
    k.b.store(found, k.pointer("out"), align=1)
    out = np.empty_like(want)
    args = np.array([*(a.ctypes.data for a in arrays), out.ctypes.data], np.int64)
    text = k.finish()
    assert ("@plain." in text) == bool(target.emulated)
    (address,) = Library(target).load([Written(text)])
    ENTRY_TYPE(address)(args.ctypes.data, 0, 1, 0)
    return out


@pytest.mark.parametrize("name", CASES)
def test_stand_ins_mean_the_same(name: str) -> None:
    host = host_target()
    widths, operands, meaning = CASES[name]
    for bits in widths:
        arrays = operands(bits // 32)
        want = meaning(*arrays)
        base = dataclasses.replace(named_target("sse4.1"), triple=host.triple)
        plain = dataclasses.replace(base, emulated=("avx512f",))
        np.testing.assert_array_equal(computed(name, bits, plain, arrays, want), want)
        if emulation.stand_in(f"llvm.x86.{name}.{bits}", host.instructions) is None:
            np.testing.assert_array_equal(computed(name, bits, host, arrays, want), want)


def test_what_is_lent_is_chosen_by_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_TARGET", "avx2,+avxvnniint8,+avxifma")
    target = host_target()
    assert target.has("avxvnniint8")
    lent = set(target.emulated)
    assert lent <= {"avxvnniint8", "avxifma"}
    assert not lent.intersection(target.instructions)
    assert not any(f"+{f}" in target.feature_string.split(",") for f in lent)
    monkeypatch.delenv("MNN_TARGET")
    assert target.key() != host_target().key()


def test_a_feature_that_is_there_can_be_emulated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    feature = next((f for f in ("avx512vnni", "avxvnni") if host_target().has(f)), None)
    name = "avx512" if feature == "avx512vnni" else "avx2"
    if feature is not None:
        monkeypatch.setenv("MNN_TARGET", f"{name},-{feature},+{feature}")
        assert feature in host_target().emulated


def test_what_cannot_be_emulated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_TARGET", "avx2,+warp-drive")
    with pytest.raises(UnsupportedError, match="warp-drive cannot be emulated; known: amx-bf16"):
        host_target()
