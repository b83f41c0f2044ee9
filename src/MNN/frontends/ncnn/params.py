"""A layer's parameters: numbers, lists and texts by the ids 0 to 31."""

from __future__ import annotations

import struct
from collections.abc import Iterable

MAX_ID = 32
"""Parameters have ids below this."""
Number = int | float
_BITS = 1 << 23
"""Old tools write floats as the integers that have their bits; from here on these are no denormal numbers."""


class Raw(int):
    """The 32 bits of a number that is an int or a float, as who reads it takes it (binary files do not say)."""

    def to_float(self) -> float:
        return float(struct.unpack("<f", struct.pack("<I", self & 0xFFFFFFFF))[0])

    def to_int(self) -> int:
        return int(struct.unpack("<i", struct.pack("<I", self & 0xFFFFFFFF))[0])


class Params:
    """What is not given has the default that the reader of it names."""

    def __init__(self, found: dict[int, Number | list[Number] | str]) -> None:
        self._found = found

    def integer(self, key: int, default: int = 0) -> int:
        value = self._found.get(key, default)
        return _int(value[0] if isinstance(value, list) and value else value, key)

    def real(self, key: int, default: float = 0.0) -> float:
        value = self._found.get(key, default)
        return _float(value[0] if isinstance(value, list) and value else value, key)

    def ints(self, key: int) -> list[int]:
        """A list of ints; empty when absent."""
        return [_int(v, key) for v in _listed(self._found.get(key, []))]

    def floats(self, key: int) -> list[float]:
        """A list of floats; empty when absent."""
        return [_float(v, key) for v in _listed(self._found.get(key, []))]

    def text(self, key: int) -> str:
        value = self._found.get(key, "")
        return value if isinstance(value, str) else ""

    def has(self, key: int) -> bool:
        return key in self._found

    def flag(self, key: int, default: bool = False) -> bool:
        return self.integer(key, int(default)) != 0


def _listed(value: Number | list[Number] | str) -> Iterable[Number | str]:
    return value if isinstance(value, list) else [value]


def _int(value: object, key: int) -> int:
    if isinstance(value, Raw):
        return value.to_int()
    if isinstance(value, (int, float)) and float(value).is_integer():
        return int(value)
    raise ValueError(f"parameter {key} is {value!r}, expected an integer")


def _float(value: object, key: int) -> float:
    if isinstance(value, Raw) or (isinstance(value, int) and abs(value) >= _BITS):
        return Raw(value).to_float()
    if isinstance(value, (int, float)):
        return float(value)
    raise ValueError(f"parameter {key} is {value!r}, expected a number")
