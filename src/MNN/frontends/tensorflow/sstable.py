"""Reads the sorted tables that TensorFlow's checkpoints keep their index in: LevelDB's format.

https://github.com/google/leveldb/blob/main/doc/table_format.md
"""

from __future__ import annotations

from collections.abc import Iterator

from MNN.errors import FormatError

_FOOTER = 48
_MAGIC = 0xDB4775248B80FB57
_TRAILER = 5
MAX_BLOCKS = 1 << 16


def read_table(data: bytes, name: str) -> dict[bytes, bytes]:
    """All keys and values of a table. Raises :class:`FormatError` naming ``name`` for what is none."""
    return _Table(data, name).entries()


class _Table:
    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name

    def entries(self) -> dict[bytes, bytes]:
        data = self.data
        if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
            raise self._damaged("it does not end as a table does")
        at = len(data) - _FOOTER
        _, at = self._handle(data, at)
        index, _ = self._handle(data, at)
        found: dict[bytes, bytes] = {}
        for count, (_, value) in enumerate(self._block(*index)):
            if count >= MAX_BLOCKS:
                raise self._damaged(f"more than {MAX_BLOCKS} blocks")
            place, _ = self._handle(value, 0)
            found.update(self._block(*place))
        return found

    def _block(self, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
        if offset + size + _TRAILER > len(self.data) or size < 4:
            raise self._damaged(f"a block at {offset} of {size} bytes lies outside of it")
        if self.data[offset + size] != 0:
            raise FormatError(f"{self.name}: its index is compressed; save the model again with TensorFlow 2")
        block = self.data[offset : offset + size]
        restarts = int.from_bytes(block[-4:], "little")
        end = size - 4 - 4 * restarts
        if end < 0:
            raise self._damaged(f"a block of {size} bytes with {restarts} restarts")
        at, key = 0, b""
        while at < end:
            shared, at = self._varint(block, at)
            fresh, at = self._varint(block, at)
            length, at = self._varint(block, at)
            if shared > len(key) or at + fresh + length > end:
                raise self._damaged("an entry lies outside of its block")
            key = key[:shared] + block[at : at + fresh]
            at += fresh
            yield key, block[at : at + length]
            at += length

    def _handle(self, data: bytes, at: int) -> tuple[tuple[int, int], int]:
        offset, at = self._varint(data, at)
        size, at = self._varint(data, at)
        return (offset, size), at

    def _varint(self, data: bytes, at: int) -> tuple[int, int]:
        value = shift = 0
        while at < len(data) and shift < 64:
            byte = data[at]
            value |= (byte & 0x7F) << shift
            at += 1
            if byte < 0x80:
                return value, at
            shift += 7
        raise self._damaged("a number without an end")

    def _damaged(self, why: str) -> FormatError:
        return FormatError(f"{self.name} is no index of a checkpoint, or is damaged: {why}; copy or save it again")
