"""Memory that programs are lent, which outlives their runs: where the states of a model lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class LentBlocks:
    """A block of the host's memory for each of a program's states, in the order of ``Program.states``.

    Programs know the blocks that they were lent last by this object, so it is made once and kept."""

    __slots__ = ("addresses", "blocks")

    def __init__(self, blocks: Sequence[NDArray[np.uint8]]) -> None:
        self.blocks = tuple(blocks)
        self.addresses: NDArray[np.int64] = np.array([block.ctypes.data for block in blocks], np.int64)
        """Where they begin, in bytes."""


__all__ = ["LentBlocks"]
