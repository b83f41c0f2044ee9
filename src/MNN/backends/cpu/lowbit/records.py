"""What :class:`MNN.backends.cpu.lowbit.spec.CompressedSpec` has behind the arguments of a contraction."""

from __future__ import annotations

from MNN.backends.base.record import Record, word

COMPRESSED = Record(
    "compressed weights",
    word("blocks", "blocks of each column that have a scale of their own"),
    word("groups", "groups of words of codes in a block (:mod:`.planes`)"),
)

__all__ = ["COMPRESSED"]
