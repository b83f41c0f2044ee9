"""The table of embeddings in a folder of the official engine, of which rows are read from the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.mapped import map_file

_LEGACY = ("weight_offset", "alpha_offset", "alpha_size", "quant_bit", "quant_block", "half")
"""What a list means that older exporters wrote in place of a table with names."""
_LIMIT = 1 << 48


class Embedding:
    """``[vocabulary, width]`` in bf16, or quantised as the last layer's weights are."""

    def __init__(self, file: Path, weights: Path, width: int, tied: object) -> None:
        """``file``: of embeddings of their own; ``weights``: the model's; ``tied``: what the folder's configuration
        says of a table that is the last layer, or None. FormatError for what leaves the file."""
        self.width = width
        self._scales: np.ndarray | None = None
        if tied is None:
            data = map_file(file)
            if data.size % (2 * width):
                raise FormatError(f"{file}: its {data.size} bytes are no rows of {width} numbers of 16 bits")
            self._codes: np.ndarray = data.view(ml_dtypes.bfloat16).reshape(-1, width)
            return
        told = _told(tied, weights)
        bits, block = told["quant_bit"], told["quant_block"] or width
        if bits not in (4, 8):
            raise UnsupportedError(f"{weights}: a table of embeddings in {bits} bits cannot be read, only in 4 and 8")
        source = weights if told["weight_offset"] else file
        data, begin, middle = map_file(source), told["weight_offset"], told["alpha_offset"]
        row, end = width * bits // 8, middle + told["alpha_size"]
        if not 0 <= begin <= middle <= end <= data.size or width % block or (middle - begin) % row:
            raise FormatError(f"{source}: its table of embeddings, {told}, does not fit its {data.size} bytes")
        self._codes, self._bits = data[begin:middle].reshape(-1, row), bits
        kind = np.dtype("<f2") if told["half"] else np.dtype("<f4")
        rows, blocks = len(self._codes), width // block
        numbers = 1 if told["alpha_size"] == rows * blocks * kind.itemsize else 2
        if told["alpha_size"] != rows * blocks * kind.itemsize * numbers:
            raise FormatError(f"{source}: {told['alpha_size']} bytes are no scales for {rows} rows of {blocks} blocks")
        self._scales = data[middle:end].view(np.uint8).reshape(rows, -1)
        self._kind, self._numbers = kind, numbers

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._codes)

    def rows(self, tokens: np.ndarray) -> np.ndarray:
        """The rows of these tokens, f32 ``[n, width]``."""
        if self._scales is None:
            return np.asarray(self._codes[tokens], np.float32)
        codes = self._codes[tokens]
        if self._bits == 4:
            codes = np.stack([codes >> 4, codes & np.uint8(15)], axis=2)
        scales = np.ascontiguousarray(self._scales[tokens]).view(self._kind).astype(np.float32)
        scales = scales.reshape(len(tokens), -1, self._numbers)
        half = np.float32(1 << (self._bits - 1))
        values = codes.reshape(len(tokens), scales.shape[1], -1).astype(np.float32)
        with np.errstate(all="ignore"):  # a file may hold any scale
            if self._numbers == 1:
                found = (values - half) * scales
            else:  # the first number is that of the code in the middle
                found = values * scales[:, :, 1:] + (scales[:, :, :1] - half * scales[:, :, 1:])
        return np.asarray(found.reshape(len(tokens), self.width))


def _told(tied: object, where: Path) -> dict[str, int]:
    if isinstance(tied, list):
        given: Mapping[str, object] = dict(zip(_LEGACY, tied, strict=False))
    else:
        given = tied if isinstance(tied, Mapping) else {}
    told = {name: given.get(name, 0 if name == "half" else None) for name in _LEGACY}
    told["half"] = told["half"] or given.get("alpha_dtype") == "fp16"
    if any(not isinstance(n, int) or not 0 <= n < _LIMIT for n in told.values()):
        raise FormatError(f"{where.parent}: 'tie_embeddings' is {tied!r:.200}, expected its offsets, sizes and bits")
    return {name: int(n) for name, n in told.items()}  # type: ignore[call-overload]
