"""x86-64: SSE4.1, AVX2 with FMA, AVX512. Optional features (VNNI, bf16, fp16, AMX) are carried along when present."""

from __future__ import annotations

import ctypes
import dataclasses
import sys

from MNN.backends.cpu.targets.base import Family, Target, register
from MNN.backends.cpu.targets.host import told

_SSE41 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "ssse3")
_AVX2 = (*_SSE41, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "sse4.2")
_AVX512 = (*_AVX2, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_OPTIONAL = {
    "sse4.1": frozenset({"sse4.2"}),
    "avx2": frozenset({"avxvnni", "avxvnniint8", "avxifma"}),
    "avx512": frozenset(
        {
            "amx-bf16",
            "amx-fp16",
            "amx-int8",
            "amx-tile",
            "avx512bf16",
            "avx512bitalg",
            "avx512fp16",
            "avx512ifma",
            "avx512vbmi",
            "avx512vbmi2",
            "avx512vnni",
            "avx512vpopcntdq",
            "avxvnni",
        }
    ),
}

_BASE = Target(
    name="sse4.1",
    family="x86",
    triple="x86_64-unknown-linux-gnu",
    cpu="x86-64",
    features=tuple(sorted(_SSE41)),
    vector_bytes=16,
    vector_registers=16,
    general_registers=15,
    has_fma=False,
    has_masks=False,
    broadcast_operand=False,
    lane_operand=False,
    fma_per_cycle=1.0,  # a multiply and an add
    fma_latency=7,
)
_TARGETS = {
    "sse4.1": _BASE,
    "avx2": dataclasses.replace(
        _BASE,
        name="avx2",
        features=tuple(sorted(_AVX2)),
        vector_bytes=32,
        has_fma=True,
        fma_per_cycle=2.0,
        fma_latency=4,
    ),
    "avx512": dataclasses.replace(
        _BASE,
        name="avx512",
        features=tuple(sorted(_AVX512)),
        vector_bytes=64,
        vector_registers=32,
        has_fma=True,
        has_masks=True,
        broadcast_operand=True,
        fma_per_cycle=2.0,
        fma_latency=4,
        l2_bytes=1 << 20,
    ),
}


def _choose(found: frozenset[str], bound: str | None) -> Target | None:
    names = [bound] if bound else list(reversed(_TARGETS))
    for name in names:
        target = _TARGETS[name]
        if found.issuperset(target.features):
            features = tuple(sorted(set(target.features) | (_OPTIONAL[name] & found)))
            switches = ("-idivq-to-divl",) if _divides_quickly(found) else ()
            return _rates(dataclasses.replace(target, features=features, tune_switches=switches), found)
    return None


def _divides_quickly(found: frozenset[str]) -> bool:
    """Whether dividing small numbers takes as long in 64 bits as in 32. On other processors each division first looks
    whether 32 bits are enough; here that is a quarter of a convolution's code, and a tenth of the time that kernels are
    compiled in.

    So it is since Ice Lake and Alder Lake, which have AVX512-VBMI2 and AVX-VNNI, and on AMD's cores with AVX2, whose
    dividers take as long as the quotient is (A. Fog, "Instruction tables": DIV r64 and DIV r32)."""
    return found.issuperset({"sse4a", "avx2"}) or not found.isdisjoint({"avx512vbmi2", "avxvnni"})


_HALVES = "halves256"
"""Stands among the features for processors that split a 256-bit operation over units of 128 bits."""
_OPTIMISATION_LEAF, _WIDE_UNITS = 0x8000001A, 0b1100
"""Performance optimisation identifiers ("AMD64 Architecture Programmer's Manual", volume 3, appendix E.4.18): in EAX,
what a floating-point unit takes at once is FP128 (bit 0), FP256 (bit 2) or, since then, FP512 (bit 3)."""


def _splits_256(found: frozenset[str]) -> bool:
    """Whether 256-bit operations are split: cores with SSE4a say so themselves. Under a hypervisor that leaves that
    empty, those are taken for such that have no CLWB, as the first cores with units of 256 bits do."""
    if not found.issuperset({"sse4a", "avx2"}):
        return False
    said = told(_OPTIMISATION_LEAF)
    return not said[0] & _WIDE_UNITS if said is not None and said[0] else "clwb" not in found


def _rates(target: Target, found: frozenset[str]) -> Target:
    """Cores with SSE4a add on units of their own, and fetch far streams themselves. Those of them with AVX512 but
    without AVX-VNNI (the first ones) split a 512-bit operation over units of 256 bits; those that split 256-bit
    operations need a part of the adders for multiply-adds, which have three operands (measured: six of them beside six
    additions of 256 bits take 9.4 cycles)."""
    if "sse4a" not in found:
        return target
    if target.name == "avx2" and _HALVES in found:
        return dataclasses.replace(
            target, fetches_ahead=True, asks_in_vain=True, split_vectors=True, fma_per_cycle=1.0, fma_latency=5
        )
    split = target.name == "avx512" and "avxvnni" not in found
    rate = 1.0 if split else target.fma_per_cycle
    return dataclasses.replace(
        target, separate_adders=True, fetches_ahead=True, split_vectors=split, fma_per_cycle=rate
    )


_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


def _tiles_permitted() -> bool:
    """Asks Linux for the right to use AMX's tile registers, which a process does not have from the start.

    See "Using XSTATE features in user space applications" in the kernel's documentation. The right holds for all
    threads and for forked children.
    """
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    try:
        syscall = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):  # a C library without it
        return False
    syscall.restype = ctypes.c_long
    arguments = map(ctypes.c_long, (_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA))
    return int(syscall(*arguments)) == 0  # old kernels and sandboxes refuse


def _granted(found: frozenset[str]) -> frozenset[str]:
    if _splits_256(found):
        found |= {_HALVES}
    if "amx-tile" in found and not _tiles_permitted():
        return frozenset(f for f in found if not f.startswith("amx-"))
    return found


register(Family("x86", ("x86_64", "amd64"), _TARGETS, _choose, _granted))
