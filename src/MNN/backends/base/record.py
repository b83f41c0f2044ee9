"""Records: words in memory that Python writes and native code reads, each with a name, a place and what it holds.

One description serves both sides: Python takes offsets and rows from it, generated code its loads
(:mod:`MNN.backends.cpu.lang.records`, or as names in a text of LLVM IR).

>>> DOT2 = Record("pair", word("where", "address of the numbers", pointer=True), word("count", "how many there are"))
>>> DOT2["count"], DOT2.size, DOT2.row(count=3, where=4096)
(8, 16, [4096, 3])
>>> DOT2.names("$pair_")
{'$pair_where': 0, '$pair_count': 8, '$pair_words': 2}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

WORD = 8
"""Bytes of a word."""


@dataclass(frozen=True)
class Word:
    """A word of a record: ``what`` it holds, whether that is an address to follow, and where it lies (None: behind the
    one before), in bytes. ``bytes`` is not 0 where it is an area, of so many."""

    name: str
    what: str
    pointer: bool = False
    at: int | None = None
    bytes: int = 0


def word(name: str, what: str, *, pointer: bool = False, at: int | None = None, size: int = 0) -> Word:
    return Word(name, what, pointer, at, size)


class Record(Mapping[str, int]):
    """Words by name; as a mapping, the offset of each in bytes."""

    def __init__(self, name: str, *words: Word, unit: int = WORD) -> None:
        """``unit``: bytes of a word (8, or 4 for tables of i32). Raises ``ValueError`` for words that share a name or
        memory, or do not begin at a multiple of a word."""
        self.name, self.unit = name, unit
        self.words: dict[str, Word] = {w.name: w for w in words}
        self._offsets: dict[str, int] = {}
        end = 0
        for w in words:
            at = end if w.at is None else w.at
            size = w.bytes or unit
            if w.name in self._offsets or at < end or at % unit or size % unit or (w.pointer and unit != WORD):
                raise ValueError(f"record {name}: word {w.name} of {size} bytes cannot lie at {at}, after {end}")
            self._offsets[w.name] = at
            end = at + size
        self.size = end
        """Bytes of the record."""

    def __getitem__(self, name: str) -> int:
        return self._offsets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        return f"Record({self.name}, {self._offsets}, {self.size})"

    @property
    def count(self) -> int:
        """Words of the record, unnamed ones included."""
        return self.size // self.unit

    def index(self, name: str) -> int:
        """The number of a word."""
        return self._offsets[name] // self.unit

    def row(self, **values: int) -> list[int]:
        """The record as words; ``ValueError`` where ``values`` are not those of all its names."""
        if values.keys() != self._offsets.keys():
            raise ValueError(f"record {self.name} has words {', '.join(self)}; given are {', '.join(values)}")
        found = [0] * self.count
        for name, value in values.items():
            found[self.index(name)] = value
        return found

    def names(self, prefix: str) -> dict[str, int]:
        """Offsets for a text of LLVM IR: ``<prefix><name>`` each, and the number of words as ``<prefix>words``."""
        found = {f"{prefix}{name}": offset for name, offset in self._offsets.items()}
        return found | {f"{prefix}words": self.count}


__all__ = ["WORD", "Record", "Word", "word"]
