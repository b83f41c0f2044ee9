"""A quantised tensor of a GGUF file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from MNN.errors import UnsupportedError
from MNN.ir.quant import QuantizedArray, pack_codes
from MNN.llm.files.gguf.blocks import KINDS, Array, Block, BlockKind
from MNN.llm.files.tensors import CHUNK, Rows, WeightTensor, chosen


class BlockTensor(WeightTensor):
    """Blocks that stay in the map. ``raw``: uint8 ``[rows, bytes of a row]``."""

    def __init__(
        self, raw: Array, kind: BlockKind, shape: tuple[int, ...], name: str, rows: Rows | None = None
    ) -> None:
        self.shape, self.dtype, self.format = shape, np.dtype(np.float32), kind.name
        self._raw, self._kind, self._name, self._rows = raw, kind, name, rows

    @property
    def raw(self) -> Array:
        """The blocks as in the file, uint8 ``[rows, bytes of a row]``."""
        return self._raw if self._rows is None else np.asarray(self._raw[self._rows])

    def numpy(self) -> Array:
        raw = self.raw
        out = np.empty((len(raw), raw.shape[1] // self._kind.bytes * self._kind.size), np.float32)
        for first, parts in self._parts(raw):
            numbers = parts.float32().reshape(-1, out.shape[1])
            out[first : first + len(numbers)] = numbers
        return out.reshape(self.shape)

    def take(self, rows: Rows, shape: tuple[int, ...]) -> BlockTensor:
        return BlockTensor(self._raw, self._kind, shape, self._name, chosen(self._rows, rows))

    def quantized(self) -> QuantizedArray:
        raw = self.raw
        blocks, width, bits = raw.shape[1] // self._kind.bytes, self._kind.width, self._kind.bits
        center = 1 << (bits - 1)
        codes = np.empty((len(raw), blocks * self._kind.size * width // 8), np.uint8)
        scales, offsets = [], []
        for first, parts in self._parts(raw):
            values = parts.values.reshape(-1, blocks * self._kind.size)
            scales.append(parts.scale.reshape(len(values), -1))
            if parts.minimum is not None:
                values = values - np.int8(center)
                with np.errstate(all="ignore"):
                    offsets.append((parts.minimum + parts.scale * np.float32(center)).reshape(len(values), -1))
            codes[first : first + len(values)] = pack_codes(values, width)
        rows = self.shape[0]
        scale = np.concatenate(scales).reshape(rows, -1)
        offset = np.concatenate(offsets).reshape(rows, -1) if offsets else None
        return QuantizedArray(codes.reshape(rows, -1), scale, offset, bits, self.shape, width)

    def _parts(self, raw: Array) -> Iterator[tuple[int, Block]]:
        """The blocks of some rows at a time, with the number of the first row."""
        kind = self._kind
        if kind.take_apart is None:
            known = ", ".join(other.name for other in KINDS.values())
            raise UnsupportedError(
                f"tensor {self._name!r}: numbers of kind {kind.name} cannot be read; take a file with {known}"
            )
        numbers = raw.shape[1] // kind.bytes * kind.size
        step = max(1, CHUNK // max(numbers, 1))
        for first in range(0, len(raw), step):
            blocks = np.ascontiguousarray(raw[first : first + step]).reshape(-1, kind.bytes)
            yield first, kind.take_apart(blocks)
