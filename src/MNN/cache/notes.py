"""What was measured on this machine and is worth remembering: JSON in the cache folder, by the rules of that cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from MNN.cache.entries import Cache

PART = "measured"


def note_key(kind: str, parts: Sequence[str]) -> str:
    """The name under which a note of this kind is kept: it depends on everything in ``parts``."""
    return f"{kind}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:40]}"


def read_note(key: str) -> Mapping[str, Any] | None:
    """The note, None when there is none, it was tampered with, or the cache is off."""
    data = Cache.default(PART).get(key)
    if data is None:
        return None
    try:
        found = json.loads(data)
    except ValueError:  # not written by this engine
        return None
    return found if isinstance(found, dict) else None


def write_note(key: str, note: Mapping[str, Any]) -> bool:
    """Keeps a note; False when the cache is off or cannot be written (which has been said in a warning then)."""
    cache = Cache.default(PART)
    cache.put(key, json.dumps(note, sort_keys=True).encode())
    return cache.folder is not None
