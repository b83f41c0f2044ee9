"""How a model keeps the keys and values of what it has read: in pages, in so many bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.errors import MNNError
from MNN.ir.dtype import DType

PAGE = 64
"""Tokens of a page."""
TILE = 8
"""Neighbouring tokens of one text that attention takes together."""
BITS = (32, 16, 8, 4)
"""What keys and values may be kept in: f32, or codes with a scale for each token and head (8 and 4: and an offset)."""
_ROUND, _ROUND_HALVES = 16, 32
"""What sizes of values are rounded up to."""
_TYPES = {32: DType.F32, 16: DType.I16, 8: DType.U8, 4: DType.U8}


@dataclass(frozen=True)
class CacheForm:
    """``keys`` and ``values``: bits of each number (:data:`BITS`). ``pages``: of each pool; ``entries``: of the table
    that says which pages the texts of one run have. ``slots``: for what recurrent layers end with."""

    keys: int = 16
    values: int = 16
    pages: int = 64
    entries: int = 64
    slots: int = 320

    @property
    def codes(self) -> tuple[int, int]:
        """The bits of keys and values that are codes; 0 where they are floats."""
        return tuple([n if n < 32 else 0 for n in (self.keys, self.values)])  # type: ignore[return-value]

    def pools(self, groups: int, size: int, value_size: int) -> list[tuple[str, DType, tuple[int, ...]]]:
        """The pools of a layer, of ``groups`` heads of keys and values of these sizes: what each holds, its type and
        its sizes, in the order of :class:`MNN.ir.prims.CacheWrite`."""
        step = _ROUND_HALVES if self.values == 4 else _ROUND
        held = -(-value_size // step) * step
        pair = {32: 1, 4: 4}.get(self.keys, 2)
        kept = -(-size // pair) * pair
        rows = [n // 2 if bits == 4 else n for n, bits in ((kept, self.keys), (held, self.values))]
        found: list[tuple[str, DType, tuple[int, ...]]] = [
            ("keys", _TYPES[self.keys], (self.pages, groups, rows[0], PAGE)),
            ("values", _TYPES[self.values], (self.pages, groups, PAGE, rows[1])),
        ]
        for name, bits in zip(("key_scales", "value_scales"), self.codes, strict=True):
            if bits:
                found.append((name, DType.F32, (self.pages, groups, 1 if bits == 16 else 2, PAGE)))
        return found


def checked_bits(bits: int | Sequence[int]) -> tuple[int, int]:
    """Bits of keys and values, told as one number for both or as two. Raises :class:`MNNError` for others."""
    both = (bits, bits) if isinstance(bits, int) else tuple(bits)
    if len(both) != 2 or any(n not in BITS for n in both):
        known = ", ".join(map(str, BITS))
        raise MNNError(f"keys and values are kept in {known} bits (one number, or one for each), not in {bits!r}")
    return both[0], both[1]


__all__ = ["BITS", "PAGE", "TILE", "CacheForm", "checked_bits"]
