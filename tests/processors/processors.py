"""What users' processors have, as values of ``MNN_TARGET`` for the machine at hand: what it lacks is emulated.

Features that a processor is not to have are taken away, so that every machine tests the same choices.
"""

from __future__ import annotations

import platform

from MNN.backends.cpu.targets.base import _host_target, families
from MNN.backends.cpu.targets.emulation import FEATURES
from MNN.backends.cpu.targets.host import processor

_AVX512 = ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_ZEN4 = (*_AVX512, "avx512bf16", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni")
_TILES = (*_ZEN4, "amx-bf16", "amx-int8", "amx-tile", "avx512fp16", "avxvnni")

_X86 = {
    "sse4.1": ("sse4.1", ()),
    "avx2": ("avx2", ()),
    "avx2 with VNNI": ("avx2", ("avxvnni",)),
    "avx2 with VNNI of signed bytes": ("avx2", ("avxvnni", "avxvnniint8", "avxifma")),
    "avx512": ("avx512", _AVX512),
    "avx512 with VNNI and bf16": ("avx512", _ZEN4),
    "AMX": ("avx512", _TILES),
    "AMX with fp16": ("avx512", (*_TILES, "amx-fp16")),
}


def processors() -> dict[str, str]:
    """By name, what ``MNN_TARGET`` is for each; the machine's own, whatever it is, has an empty text, and stands for
    the one of them that it is."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return {"own": ""}
    texts = {name: _text(target, features) for name, (target, features) in _X86.items()}
    own = _host_target(None)
    return {"own": "", **{name: text for name, text in texts.items() if _host_target(text) != own}}


def _text(target: str, features: tuple[str, ...]) -> str:
    have = families()["x86"].granted(processor()[0])
    surplus = sorted((FEATURES & have) - set(features))
    return ",".join([target, *(f"-{f}" for f in surplus), *(f"+{f}" for f in features if f not in have)])
