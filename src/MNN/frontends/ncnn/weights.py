"""The ``.bin`` file: arrays one after another, in the order in which layers ask for them."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError

_HALF, _BYTES, _RAW = 0x01306B47, 0x000D4B38, 0x0002C056
"""What arrays begin with: half precision, 8-bit integers, floats that belong to integers."""


class WeightReader:
    """``take`` is called in the order of the file; ``where`` names the layer in errors."""

    def __init__(self, data: memoryview | bytes, name: str) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._name = name
        self.where = ""

    def plain(self, count: int) -> np.ndarray:
        """``count`` floats."""
        return np.frombuffer(self._bytes(count, 4), "<f4")

    def tagged(self, count: int) -> np.ndarray:
        """``count`` numbers stored as a word before them says: floats, half precision and 8-bit indices of a table give
        floats, 8-bit integers stay such."""
        self._room(count, 0)
        tag = int.from_bytes(self._bytes(1, 4), "little")
        if tag == _HALF:
            return np.frombuffer(self._bytes(count, 2), "<f2").astype(np.float32)
        if tag == _BYTES:
            return np.frombuffer(self._bytes(count, 1), np.int8)
        if tag == _RAW or sum(tag.to_bytes(4, "little")) == 0:
            return self.plain(count)
        table = self.plain(256)
        return np.ascontiguousarray(table[np.frombuffer(self._bytes(count, 1), np.uint8)])

    def finish(self) -> None:
        """Raises :class:`FormatError` when something is left over."""
        left = len(self._data) - self._at
        if left > 3:
            raise FormatError(
                f"{self._name} has {left} bytes more than its layers take; does it belong to another .param file?"
            )

    def _bytes(self, count: int, size: int) -> memoryview:
        length = self._room(count, size)
        start, self._at = self._at, min(self._at + -(-length // 4) * 4, len(self._data))
        return self._data[start : start + length]

    def _room(self, count: int, size: int) -> int:
        left = len(self._data) - self._at
        if count < 1 or count * size > left:
            raise FormatError(
                f"{self.where}: takes {count} weights of {size} bytes, and {self._name} has {left} bytes left; "
                "is it cut off, or does it belong to another .param file?"
            )
        return count * size
