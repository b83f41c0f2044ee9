"""Puts compiled kernels into memory without LLVM, whose library takes longer to load than all kernels of a model.

A kernel's object is simple: code and read-only numbers in one file, which refer to each other by distances of 32 bits
and to nothing else (System V ABI, AMD64 supplement: ELF64 relocatable files, R_X86_64_PC32 and PLT32). Whatever is not
of that kind is left to LLVM's loader. Code is written first and executable then, never both at once.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Mapping
from typing import NamedTuple

from MNN.backends.base.immortal import immortal
from MNN.backends.cpu.targets.pages import protect

_IDENTITY = b"\x7fELF\x02\x01\x01"
"""64 bits, the lower byte first."""
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMBOLS, _RELOCATIONS, _NO_BITS = 1, 2, 4, 8
_WRITE, _ALLOC, _EXECUTE, _MERGE, _STRINGS = 1, 2, 4, 16, 32
_UNWINDING = 0x70000001
"""Tables for exceptions, which no kernel raises (AMD64 supplement: SHT_X86_64_UNWIND)."""
_PC32, _PLT32 = 2, 4
_LINE = 64
_SECTION, _SYMBOL, _RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")


class _Odd(Exception):  # noqa: N818 - a reason to leave it to LLVM
    """An object that this loader does not know how to place."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class _Object:
    """What of an object file goes into memory."""

    def __init__(self, symbol: str, data: bytes) -> None:
        """Raises :class:`_Odd`, or ``struct.error``, ``IndexError`` and ``ValueError`` for files that are no such
        objects."""
        self.data = data
        kind, machine = struct.unpack_from("<HH", data, 16)
        if data[: len(_IDENTITY)] != _IDENTITY or (kind, machine) != (_RELOCATABLE, _X86_64):
            raise _Odd
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        if size != _SECTION.size or start + count * size > len(data):
            raise _Odd
        self.sections = [_Section(*_SECTION.unpack_from(data, start + i * size)) for i in range(count)]
        self.kept: list[int] = []
        """Numbers of the sections that are needed."""
        for number, section in enumerate(self.sections):
            if section.kind != _NO_BITS and section.offset + section.size > len(data):
                raise _Odd
            if section.flags & _ALLOC and section.size and section.kind != _UNWINDING:
                if section.kind != _PROGBITS or section.flags & ~(_ALLOC | _EXECUTE | _MERGE | _STRINGS):
                    raise _Odd
                self.kept.append(number)
        self.symbols = self._symbols()
        self.entry = self._entry(symbol.encode())

    def _symbols(self) -> list[tuple[int, int, int]]:
        """Name, section and place of every symbol."""
        found = [s for s in self.sections if s.kind == _SYMBOLS]
        if len(found) != 1:
            raise _Odd
        self._names = self.sections[found[0].link]
        rows = range(found[0].offset, found[0].offset + found[0].size, _SYMBOL.size)
        return [(row[0], row[3], row[4]) for row in (_SYMBOL.unpack_from(self.data, at) for at in rows)]

    def _entry(self, symbol: bytes) -> tuple[int, int]:
        """Section and place of the kernel itself."""
        for name, section, place in self.symbols:
            start = self._names.offset + name
            if self.data[start : start + len(symbol) + 1] == symbol + b"\0":
                if section not in self.kept or place >= self.sections[section].size:
                    raise _Odd
                return section, place
        raise _Odd

    def place(self, code: int, numbers: int) -> tuple[dict[int, int], int, int]:
        """Where sections begin, when code and other sections go behind these places; and where both end then."""
        places: dict[int, int] = {}
        for number in self.kept:
            section = self.sections[number]
            step = max(section.alignment, _LINE)
            if step & (step - 1) or step > mmap.PAGESIZE:
                raise _Odd
            if section.flags & _EXECUTE:
                places[number] = -(-code // step) * step
                code = places[number] + section.size
            else:
                places[number] = -(-numbers // step) * step
                numbers = places[number] + section.size
        return places, code, numbers

    def write(self, memory: mmap.mmap, places: Mapping[int, int]) -> None:
        """Puts the sections into memory and fills in the distances between them."""
        for number, at in places.items():
            section = self.sections[number]
            memory[at : at + section.size] = self.data[section.offset : section.offset + section.size]
        for section in self.sections:
            if section.kind != _RELOCATIONS or section.info not in places:
                continue
            start, size = places[section.info], self.sections[section.info].size
            for row in range(section.offset, section.offset + section.size, _RELOCATION.size):
                offset, what, plus = _RELOCATION.unpack_from(self.data, row)
                _, home, value = self.symbols[what >> 32]
                if what & 0xFFFFFFFF not in (_PC32, _PLT32) or home not in places or offset + 4 > size:
                    raise _Odd
                struct.pack_into("<i", memory, start + offset, places[home] + value + plus - start - offset)


def place(objects: Mapping[str, bytes]) -> dict[str, int] | None:
    """Puts objects, each defining the symbol it is listed under, into memory for the process's life: the addresses of
    the symbols. None where that is LLVM's business: on other systems and processors, and for what is not so simple."""
    if not sys.platform.startswith("linux") or sys.maxsize < 1 << 32:
        return None
    try:
        parsed = {symbol: _Object(symbol, data) for symbol, data in objects.items()}
        return _placed(parsed)
    except (_Odd, struct.error, IndexError, ValueError, OSError):
        return None


def _placed(objects: Mapping[str, _Object]) -> dict[str, int]:
    places: dict[str, dict[int, int]] = {}
    code = numbers = 0
    for symbol, found in objects.items():
        places[symbol], code, numbers = found.place(code, numbers)
    first = -(-code // mmap.PAGESIZE) * mmap.PAGESIZE  # numbers lie behind the code, in pages of their own
    memory = mmap.mmap(-1, first + max(numbers, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for symbol, found in objects.items():
        for number, at in places[symbol].items():
            places[symbol][number] = at if found.sections[number].flags & _EXECUTE else at + first
        found.write(memory, places[symbol])
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect(base, first, mmap.PROT_READ | mmap.PROT_EXEC)
    protect(base + first, len(memory) - first, mmap.PROT_READ)
    immortal(memory)  # threads may still stand in this code when Python shuts down
    return {symbol: base + places[symbol][found.entry[0]] + found.entry[1] for symbol, found in objects.items()}


__all__ = ["place"]
