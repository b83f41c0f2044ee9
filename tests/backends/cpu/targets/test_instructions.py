"""Every instruction against its reference in numpy: its plain code on every machine, itself where there is one; those
of AArch64 under qemu."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.lang.module import BF16, F32, F64, I8, I16, I32, VOID, Kernel, Type
from MNN.backends.cpu.targets import Target, host_target, named_target
from MNN.backends.cpu.targets.base import families
from MNN.backends.cpu.targets.emulation import FEATURES
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.targets.instructions.base import Instruction
from MNN.backends.cpu.targets.instructions.table import INSTRUCTIONS
from tests.backends.cpu import qemu

RNG = np.random.default_rng(7)
Arrays = tuple[np.ndarray, ...]
TYPES: dict[str, Type] = {
    "int8": I8, "uint8": I8, "int16": I16, "int32": I32, "float32": F32, "float64": F64, "bfloat16": BF16,
}  # fmt: skip


def integers(dtype: type, count: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    found = RNG.integers(limits.min, limits.max, count, dtype, endpoint=True)
    found[:4] = [limits.min, limits.max, limits.min, limits.max]
    return found


def normal(count: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(count).astype(dtype)


def special(count: int) -> np.ndarray:
    found = normal(count)
    found[:4] = [1.00390625, np.inf, -np.inf, -0.0][:count]  # the first one lies between two bf16
    return found


def groups(kind: type, other: type) -> Callable[[int], Arrays]:
    """Sums, and groups of as many numbers as 32 bits hold, for a number of bytes."""
    return lambda n: (integers(np.int32, n // 4), *(integers(t, n // np.dtype(t).itemsize) for t in (kind, other)))


#: the operands of an instruction whose first one has a number of bytes
OPERANDS: dict[can.Capability, Callable[[int], Arrays]] = {
    can.DOT4_UNSIGNED: groups(np.uint8, np.int8),
    can.DOT4_SIGNED: groups(np.int8, np.int8),
    can.DOT2_I16: groups(np.int16, np.int16),
    can.PAIRS_I16: lambda n: (integers(np.int16, n // 2)[::-1].copy(), integers(np.int16, n // 2)),
    can.PAIRS_BYTES: lambda n: (integers(np.uint8, n)[::-1].copy(), integers(np.int8, n)),
    can.SIGN_BYTES: lambda n: (integers(np.int8, n)[::-1].copy(), integers(np.int8, n) >> 5),
    can.DOT2_BF16: lambda n: (normal(n // 4), *(normal(n // 2, ml_dtypes.bfloat16) for _ in "ab")),
    can.TO_BF16: lambda n: (special(n // 4),),
    can.TWO_TO_BF16: lambda n: (special(n // 4), normal(n // 4)),
    can.PACK_I32: lambda n: (integers(np.int32, n // 4), integers(np.int32, n // 4) >> 12),
    can.PACK_I16_UNSIGNED: lambda n: (integers(np.int16, n // 2), integers(np.int16, n // 2) >> 7),
    can.PACK_I16_SIGNED: lambda n: (integers(np.int16, n // 2), integers(np.int16, n // 2) >> 7),
    can.PICK_F32: lambda n: (normal(n // 4), integers(np.int32, n // 4)),
    can.PICK_BYTES: lambda n: tuple(integers(np.int8, n) for _ in "abc"),
    can.PICK_WITHIN: lambda n: (integers(np.int8, n), integers(np.int8, n)),
    can.LOOK_UP: lambda n: (integers(np.int8, n), integers(np.int8, n) & np.int8(15)),
    can.SCALE_F32: lambda n: (normal(n // 4), np.linspace(-145, 126, n // 4, dtype=np.float32)),
    can.SCALE_F64: lambda n: (normal(n // 8, np.float64), np.linspace(-1070, 1000, n // 8)),
    can.RECIPROCAL: lambda n: (normal(n // 4),),
    can.LIMIT_SIZE: lambda n: (special(n // 4), np.full(n // 4, 1.5, np.float32)),
}
INEXACT = {can.RECIPROCAL: 2.0**-14, can.DOT2_BF16: 2.0**-20}
"""The largest relative error; AArch64's sums of bf16 are rounded to odd, or not before the end."""
PLAIN = {can.GATHER, can.MASKED_BYTES, can.MASKED_WORDS, can.MOVE_BYTES, can.GREATER, can.SATURATE, can.CONVERT_F16,
         can.ARITHMETIC_F16, can.ASSEMBLY_F32}  # fmt: skip
"""What kernels write as plain LLVM IR or as assembly, and test themselves."""
TILES = {can.TILE_CONFIGURE, can.TILE_RELEASE, can.TILE_ZERO, can.TILE_LOAD, can.TILE_LOAD_PASSING, can.TILE_STORE,
         can.TILE_DOT_BF16, can.TILE_DOT_F16, can.TILE_DOT_U8_I8, can.TILE_DOT_I8_I8, can.TILE_DOT_U8_U8,
         can.TILE_DOT_I8_U8}  # fmt: skip
"""Instructions of a state; see ``tests/backends/cpu/amx/test_tiles.py``."""
NAMED = {i.does.name: i.does for i in INSTRUCTIONS}
TESTED = [i for i in INSTRUCTIONS if i.does in OPERANDS]


@dataclasses.dataclass(frozen=True)
class Performed(KernelSpec):
    """One instruction: operands from memory, and the result to memory."""

    does: str
    operands: tuple[tuple[str, int], ...]
    result: tuple[str, int]

    def slots(self) -> tuple[str, ...]:
        return (*(f"a{i}" for i in range(len(self.operands))), "out")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        types = [TYPES[name].vec(count) for name, count in self.operands]
        values = [k.b.load(t, k.pointer(f"a{i}"), align=1) for i, t in enumerate(types)]
        name, count = self.result
        k.b.store(k.b.perform(NAMED[self.does], TYPES[name].vec(count), *values), k.pointer("out"), align=1)
        return k.finish()


def check(instr: Instruction, target: Target) -> None:
    reference = instr.does.reference
    assert reference is not None
    arrays = OPERANDS[instr.does](instr.bits // 8)
    want = reference(*arrays)
    out = np.empty_like(want)
    spec = Performed(instr.does.name, tuple((a.dtype.name, a.size) for a in arrays), (want.dtype.name, want.size))
    text = spec.emit(target)
    assert (f"@{instr.plain_name}(" in text) == bool(target.emulated)
    assert target.emulated or instr.text in text
    slots = {f"a{i}": a.ctypes.data for i, a in enumerate(arrays)} | {"out": out.ctypes.data}
    qemu.call(spec, target, slots, 1, [*arrays, out])
    if instr.does in INEXACT and not target.emulated:
        np.testing.assert_allclose(out.astype(np.float64), want.astype(np.float64), rtol=INEXACT[instr.does], atol=1e-6)
    else:
        np.testing.assert_array_equal(out.view(np.uint8), want.view(np.uint8))


def named(instr: Instruction) -> str:
    return f"{instr.text or instr.does.name}-{instr.bits}"


def family_of(instr: Instruction) -> str:
    return "aarch64" if {"neon", "dotprod", "i8mm", "bf16", "fullfp16"} & instr.needs[0] else "x86"


@pytest.mark.parametrize("instr", TESTED, ids=named)
def test_instructions_compute_their_reference(instr: Instruction) -> None:
    host = host_target()
    if family_of(instr) == host.family:
        if instr.is_there(host.instructions):
            check(instr, host)
    elif family_of(instr) == "aarch64":
        base = named_target("neon")
        check(instr, dataclasses.replace(base, features=tuple(sorted({*base.features, *instr.needs[0]}))))


@pytest.mark.parametrize("instr", [i for i in TESTED if i.plain], ids=named)
def test_plain_code_computes_it_too(instr: Instruction) -> None:
    host = host_target()
    if family_of(instr) == host.family:
        base = dataclasses.replace(named_target("sse4.1"), triple=host.triple)
        needs = tuple(sorted(instr.needs[0]))
        check(instr, dataclasses.replace(base, features=(*base.features, *needs), emulated=needs))


def test_every_instruction_is_tested_somewhere() -> None:
    known = {*OPERANDS, *PLAIN, *TILES, can.PAUSE}
    assert {i.does for i in INSTRUCTIONS} == known
    assert {v for v in vars(can).values() if isinstance(v, can.Capability)} == known
    assert all(i.text for i in TESTED)
    assert all(i.does.reference for i in INSTRUCTIONS if i.does not in {can.PAUSE, can.ASSEMBLY_F32, *TILES})


def test_features_are_ones_that_a_target_may_have() -> None:
    """A misspelt feature would never be found."""
    known = {f for family in families().values() for t in family.targets.values() for f in t.features}
    known |= FEATURES | {"bf16", "i8mm", "avx10.2"}
    assert {f for i in INSTRUCTIONS for need in i.needs for f in need} <= known


def test_what_may_be_lent_has_plain_code() -> None:
    """``MNN_TARGET`` may choose kernels by features that are emulated: what these perform must be possible."""
    optional = {can.TO_BF16, can.TWO_TO_BF16, can.PICK_BYTES, can.SCALE_F32, can.SCALE_F64, can.RECIPROCAL,
                can.LIMIT_SIZE}  # fmt: skip
    for instr in INSTRUCTIONS:
        if instr.text and instr.does not in optional | TILES and all(n & FEATURES for n in instr.needs):
            assert instr.plain is not None, instr


def test_pausing_is_there_on_every_target() -> None:
    for family in families().values():
        for target in family.targets.values():
            k = Kernel.of((), target)
            k.b.perform(can.PAUSE, VOID)
            assert re.search(r"call void @llvm\.(x86|aarch64)\.", k.finish())


def test_a_missing_instruction_is_named() -> None:
    k = Kernel.of(("x",), named_target("sse4.1"))
    x = k.b.load(F32.vec(16), k.pointer("x"))
    with pytest.raises(ValueError, match=r"no instruction of 512 bits for this: 1 / f32 within 2\^-14"):
        k.b.perform(can.RECIPROCAL, x.type, x)
