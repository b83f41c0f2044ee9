"""What the processor at hand can do, as LLVM tells it; remembered, so that a process which compiles nothing need not
load LLVM to ask.

What is remembered goes by what the processor itself says (its CPUID leaves, and which registers the system saves), so
that it holds for no other one, be it emulated or behind the same home folder; and by the version of LLVM.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import mmap
import platform
import sys
from collections.abc import Callable

from MNN.backends.cpu.targets.pages import protect
from MNN.cache.entries import Cache
from MNN.cache.sources import llvm_version

_PART = "measured"
_CPUID = bytes.fromhex(
    "53"  # push rbx
    "4989f8"  # mov r8, rdi
    "89f0"  # mov eax, esi
    "89d1"  # mov ecx, edx
    "0fa2"  # cpuid
    "418900"  # mov [r8], eax
    "41895804"  # mov [r8+4], ebx
    "41894808"  # mov [r8+8], ecx
    "4189500c"  # mov [r8+12], edx
    "5b"  # pop rbx
    "c3"  # ret
)
"""``void(uint32_t out[4], uint32_t leaf, uint32_t part)`` (Intel's manual, volume 2, CPUID)."""
_XGETBV = bytes.fromhex("31c90f01d0c3")  # xor ecx, ecx; xgetbv; ret
_LEAVES = ((0, 0), (1, 0), (7, 0), (7, 1), (7, 2), (0xD, 0), (0xD, 1), (0x19, 0), (0x1E, 1), (0x24, 0),
           (0x80000001, 0), (0x80000008, 0))  # fmt: skip
"""Where features are listed."""
_SAVES = 1 << 27
"""In leaf 1: XGETBV may be used."""
_Registers = tuple[int, int, int, int]


@functools.cache
def processor() -> tuple[frozenset[str], str]:
    """Names of LLVM's features that this machine has, and its triple."""
    key = _key()
    known = Cache.existing(_PART).get(key) if key else None
    if known is not None:
        try:
            features, triple = json.loads(known)
            return frozenset(map(str, features)), str(triple)
        except (ValueError, TypeError):  # not written by this engine
            pass
    import llvmlite.binding as llvm

    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on), llvm.get_process_triple()


def remember() -> None:
    """Keeps what :func:`processor` found for later processes. Called where a cache is wanted."""
    key = _key()
    cache = Cache.existing(_PART)
    if key and cache.folder is None:
        cache = Cache.default(_PART)
    if key and cache.folder is not None and cache.get(key) is None:
        features, triple = processor()
        cache.put(key, json.dumps([sorted(features), triple]).encode())


@functools.cache
def _key() -> str:
    """What tells this processor and this LLVM from others; empty where it does not say."""
    said = _said()
    if said is None:
        return ""
    whole = "\0".join((said.hex(), llvm_version(), platform.machine(), sys.platform))
    return f"processor-{hashlib.sha256(whole.encode()).hexdigest()[:40]}"


def told(leaf: int, part: int = 0) -> _Registers | None:
    """EAX, EBX, ECX and EDX of a leaf of CPUID; None where the processor has no such leaf or cannot be asked."""
    asks = _questions()
    return asks[0](leaf, part) if asks is not None else None


@functools.cache
def _questions() -> tuple[Callable[[int, int], _Registers | None], Callable[[], int]] | None:
    """CPUID and XGETBV as functions; None where code cannot be run, or is not x86-64's."""
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux") or sys.maxsize < 1 << 32:
        return None
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory[: len(_CPUID)], start = _CPUID, len(_CPUID)
        memory[start : start + len(_XGETBV)] = _XGETBV
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        protect(base, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC)
    except OSError:
        return None
    asks = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)(base)

    def cpuid(leaf: int, part: int, code: mmap.mmap = memory) -> _Registers | None:
        out = (ctypes.c_uint32 * 4)()
        asks(ctypes.addressof(out), leaf & 0x80000000, 0)
        if leaf > out[0]:
            return None
        asks(ctypes.addressof(out), leaf, part)
        return out[0], out[1], out[2], out[3]

    return cpuid, ctypes.CFUNCTYPE(ctypes.c_uint32)(base + start)


def _said() -> bytes | None:
    """What the processor says of itself, None where it cannot be asked."""
    asks = _questions()
    if asks is None:
        return None
    cpuid, xgetbv = asks
    said: list[int] = []
    for leaf, part in _LEAVES:
        registers = cpuid(leaf, part)
        if registers is None:
            continue
        eax, ebx, ecx, edx = registers
        if leaf == 1:
            ebx &= 0xFFFF00  # which core it is that answers
            if ecx & _SAVES:
                said.append(xgetbv())
        if leaf == 0xD:
            ebx = 0  # bytes of what is in use just now
        said += [leaf, part, eax, ebx, ecx, edx]
    return b"".join(number.to_bytes(4, "little") for number in said)


__all__ = ["processor", "remember", "told"]
