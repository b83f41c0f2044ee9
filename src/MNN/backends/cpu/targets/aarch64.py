"""AArch64 with NEON; half precision, dot products and 8-bit matrix products are carried along when present."""

from __future__ import annotations

import dataclasses

from MNN.backends.cpu.targets.base import Family, Target, register

_BASE = Target(
    name="neon",
    family="aarch64",
    triple="aarch64-unknown-linux-gnu",
    cpu="generic",
    features=("neon",),
    vector_bytes=16,
    vector_registers=32,
    general_registers=29,
    has_fma=True,
    has_masks=False,
    broadcast_operand=False,
    lane_operand=True,
    fma_per_cycle=2.0,
    loads_per_cycle=2.0,
    fma_latency=4,
    tune_switches=("+slow-paired-128",),  # two loads take no longer, and the first one's data come sooner
    tune="cortex-a55",  # cores that reorder lose nothing by it, cores that do not gain up to a third
)
_TARGETS = {
    "neon": _BASE,
    "neon-fp16": dataclasses.replace(_BASE, name="neon-fp16", features=("dotprod", "fullfp16", "neon")),
}
_OPTIONAL = frozenset({"bf16", "dotprod", "fp16fml", "i8mm"})


def _choose(found: frozenset[str], bound: str | None) -> Target | None:
    found = found | {"neon"}  # part of the base architecture; some systems do not list it
    for name in [bound] if bound else list(reversed(_TARGETS)):
        target = _TARGETS[name]
        if found.issuperset(target.features):
            extra = _OPTIONAL & found if name != "neon" else frozenset()
            return dataclasses.replace(target, features=tuple(sorted(set(target.features) | extra)))
    return None


register(Family("aarch64", ("aarch64", "arm64"), _TARGETS, _choose))
