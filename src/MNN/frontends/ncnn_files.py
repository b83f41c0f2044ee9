"""ncnn's files by their first bytes; apart from the front end, so that opening other files stays quick."""

from __future__ import annotations

import struct

MAGIC = 7767517
BINARY = struct.pack("<i", MAGIC)
"""What ``.param.bin`` files begin with."""


def looks_like_ncnn(head: bytes, size: int) -> bool:
    """A ``.param`` or ``.param.bin``."""
    return head[:4] == BINARY or head[:16].split(maxsplit=1)[:1] == [b"%d" % MAGIC]
