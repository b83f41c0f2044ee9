"""Numbers, sizes and shapes as people read them; used wherever the engine says something."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from MNN.errors import MNNError

_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:b|([kmgt])(i?)b?)|0", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 operator``, ``2 operators``, ``1,200 operators``; ``many`` where the plural is not the noun and an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def nbytes(count: float, enough: bool = False) -> str:
    """Bytes: ``749 B``, ``43.5 kB``, ``1.2 GB`` (powers of ten); ``enough``: not fewer, to be asked for."""
    for unit, size in _UNITS:
        if count >= size * 0.9995:  # what would be rounded to 1000 of the smaller unit
            shown = count / size
            if enough:
                step = 10.0 ** (math.floor(math.log10(shown)) - 2)
                shown = math.ceil(shown / step) * step
            return f"{shown:.3g} {unit}"
    return f"{count:.0f} B"


def dims(shape: Sequence[object] | None) -> str:
    """A shape: ``1x3x8x8``; with spaces where sizes are names, ``batch x 3 x h x w``; or ``scalar``."""
    if shape is None:
        return "unknown shape"
    named = any(isinstance(d, str) for d in shape)
    return (" x " if named else "x").join(map(str, shape)) or "scalar"


def parse_bytes(text: str, what: str) -> int:
    """``"500 MB"``, ``"2GiB"`` or ``"749 B"`` as bytes; for other texts, among them numbers without a unit (3 what?),
    an :class:`MNNError` naming ``what``."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise MNNError(f"{what} is a size such as 500MB or 2GB, not '{text}'")
    number, power, binary = found.groups()
    return int(float(number or 0) * (1024 if binary else 1000) ** _POWERS.get((power or "").lower(), 0))


__all__ = ["dims", "nbytes", "parse_bytes", "plural"]
