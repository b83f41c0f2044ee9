"""Choice of targets by features and by MNN_TARGET."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import replace

import llvmlite.binding as llvm
import pytest

from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.inner_product.cost import has_inner_product
from MNN.backends.cpu.lang.module import F32, Kernel
from MNN.backends.cpu.products.register_tiles import step_cycles
from MNN.backends.cpu.targets import families, host_target, named_target, target_names, x86
from MNN.errors import UnsupportedError
from MNN.ir.dtype import DType


def test_lanes_and_keys() -> None:
    avx512, neon = named_target("avx512"), named_target("neon")
    assert (avx512.lanes(DType.F32), avx512.lanes(DType.I8), neon.lanes(DType.F64)) == (16, 64, 2)
    assert len({named_target(n).key() for n in target_names()}) == len(target_names())
    with pytest.raises(UnsupportedError, match=r"unknown target 'z80'.*avx2"):
        named_target("z80")


def test_features_decide_never_names() -> None:
    x86 = families()["x86"]
    avx2 = frozenset(x86.targets["avx2"].features)
    assert x86.choose(frozenset(), None) is None
    best = x86.choose(avx2 | {"avx512f", "avxvnni"}, None)  # AVX512 without BW, DQ, VL is not enough
    assert best is not None
    assert best.name == "avx2"
    assert best.has("avxvnni")
    full = frozenset(x86.targets["avx512"].features) | {"avx512vnni", "amx-tile", "amx-int8"}
    chosen = x86.choose(full, None)
    assert chosen is not None
    assert chosen.has("amx-int8")
    bounded = x86.choose(full, "sse4.1")
    assert bounded is not None
    assert bounded.name == "sse4.1"
    assert not bounded.has("avx2")
    arm = families()["aarch64"].choose(frozenset({"fullfp16", "dotprod", "i8mm"}), None)
    assert arm is not None
    assert (arm.name, arm.has("i8mm")) == ("neon-fp16", True)


def test_environment_lowers_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNN_TARGET", raising=False)
    best = host_target()
    weakest = next(iter(families()[best.family].targets))
    monkeypatch.setenv("MNN_TARGET", weakest)
    assert host_target().name == weakest
    feature = best.features[-1]
    monkeypatch.setenv("MNN_TARGET", f"{weakest},-{feature}")
    if feature in families()[best.family].targets[weakest].features:
        with pytest.raises(UnsupportedError, match=f"lacks: .*{feature}"):
            host_target()
    else:
        assert not host_target().has(feature)
    monkeypatch.setenv("MNN_TARGET", f"{weakest},{feature}")
    with pytest.raises(UnsupportedError, match="features to do without"):
        host_target()
    monkeypatch.setenv("MNN_TARGET", f"{weakest},-warp-drive")
    with pytest.raises(UnsupportedError, match="no warp-drive to do without"):
        host_target()
    monkeypatch.setenv("MNN_TARGET", "altivec")
    with pytest.raises(UnsupportedError, match="MNN_TARGET is 'altivec'"):
        host_target()
    monkeypatch.setenv("MNN_TARGET", "neon" if platform.machine() == "x86_64" else "avx2")
    with pytest.raises(UnsupportedError, match="no target of this machine"):
        host_target()


@pytest.mark.parametrize("name", target_names())
def test_every_target_compiles(name: str) -> None:
    k = Kernel(("x", "y", "n"))
    with k.b.loop(0, k.slot("n"), 4) as loop:
        x = k.b.load(F32.vec(4), k.b.gep(k.pointer("x"), F32, loop.index))
        k.b.store(x + 1.0, k.b.gep(k.pointer("y"), F32, loop.index))
    target = named_target(name)
    data = toolchain.compile_object(k.finish(), target)
    machine = int.from_bytes(data[18:20], "little")
    assert (data[:4], machine) == (b"\x7fELF", {"x86": 62, "aarch64": 183}[target.family])


@pytest.mark.parametrize("permitted", [True, False])
def test_tiles_need_permission(permitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = frozenset({"avx512f", "amx-tile", "amx-bf16", "amx-int8"})
    asked: list[bool] = []
    monkeypatch.setattr(x86, "_tiles_permitted", lambda: asked.append(True) or permitted)
    assert x86._granted(found) == (found if permitted else {"avx512f"})
    assert asked == [True]
    assert x86._granted(frozenset({"avx2"})) == {"avx2"}
    assert asked == [True], "a machine without tiles is not asked"


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="a system call of x86-64 Linux")
def test_asking_for_tiles_where_there_are_none_is_a_refusal() -> None:
    has = llvm.get_host_cpu_features().get("amx-tile", False)
    assert x86._tiles_permitted() in ((True, False) if has else (False,))


@pytest.mark.parametrize(
    ("told", "features", "splits"),
    [
        ((0b0011, 0, 0, 0), ["sse4a"], True),  # FP128
        ((0b0011, 0, 0, 0), ["sse4a", "clwb"], True),
        ((0b0110, 0, 0, 0), ["sse4a"], False),  # FP256
        ((0b1000, 0, 0, 0), ["sse4a"], False),
        ((0, 0, 0, 0), ["sse4a"], True),  # a hypervisor leaves it empty
        ((0, 0, 0, 0), ["sse4a", "clwb"], False),
        (None, ["sse4a", "clwb"], False),
        ((0b0011, 0, 0, 0), [], False),  # others have no such leaf
    ],
)
def test_cores_that_split_256_bits_say_so(
    told: tuple[int, int, int, int] | None, features: list[str], splits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x86, "told", lambda leaf: told if leaf == 0x8000001A else None)
    family = families()["x86"]
    found = family.granted(frozenset([*named_target("avx2").features, *features]))
    target = family.choose(found, None)
    assert target is not None
    assert target.split_vectors == splits
    assert target.fma_per_cycle == (1.0 if splits else 2.0)
    assert target.separate_adders == ("sse4a" in features and not splits)
    assert has_inner_product(target) == target.separate_adders
    assert set(target.features) == set(named_target("avx2").features)  # LLVM hears nothing of it
    half = target.narrowed()
    assert (half.vector_bytes, half.fma_per_cycle) == (16, 2 * target.fma_per_cycle)


@pytest.mark.parametrize(
    ("bound", "features", "quick"),
    [
        (None, [], False),
        (None, ["sse4a"], True),
        ("sse4.1", ["sse4a"], True),
        (None, ["avxvnni"], True),
        ("avx512", named_target("avx512").features, False),
        ("avx512", [*named_target("avx512").features, "avx512vnni"], False),
        ("avx512", [*named_target("avx512").features, "avx512vbmi2"], True),
    ],
)
def test_divisions_look_at_their_numbers_where_that_is_quicker(
    bound: str | None, features: list[str], quick: bool
) -> None:
    target = families()["x86"].choose(frozenset([*named_target("avx2").features, *features]), bound)
    assert target is not None
    ir = "define void @kernel(ptr %p, i64 %a, i64 %b) {\n%q = udiv i64 %a, %b\nstore i64 %q, ptr %p\nret void\n}"
    divisions = re.findall(r"div[lq]", toolchain.assembly(ir, target))
    assert sorted(divisions) == (["divq"] if quick else ["divl", "divq"])


def test_vectors_that_are_split_take_two_loads() -> None:
    whole = replace(named_target("avx2"), fma_per_cycle=1.0, fma_latency=5)
    split = replace(whole, split_vectors=True)
    assert step_cycles(split, DType.F32, 64, 6, 2) == step_cycles(whole, DType.F32, 64, 6, 2) == 12.0
    assert step_cycles(split, DType.F32, 64, 12, 1) > 12.0  # a scalar in all lanes takes a unit that multiplies
    assert step_cycles(split, DType.F32, 64, 1, 8) > step_cycles(whole, DType.F32, 64, 1, 8)
