"""The algorithms that ``mnn bench --tune`` found to be the fastest on this processor, as sessions take them up."""

from __future__ import annotations

import hashlib

from MNN.backends.cpu.targets.base import host_target
from MNN.cache.entries import Cache
from MNN.runtime.config import Config
from MNN.runtime.storage.notes import PART, note_key, read_note

_VERSION = 1


def choices_note(config: Config) -> str:
    """Where the choices for this processor, number of threads and precision are kept."""
    target = host_target()
    sizes = f"{target.l1_bytes} {target.l2_bytes}"
    return note_key("choices", (str(_VERSION), target.key(), sizes, str(config.threads), config.precision))


def known_choices(config: Config) -> dict[str, str]:
    """Algorithms by signature, for :class:`MNN.compiler.options.Options`; none when the cache is off, or when they were
    measured with kernels that have changed since."""
    from MNN.backends.cpu.codegen.library import generator_digest

    note = read_note(choices_note(config)) if config.cache else None
    if note is None or not isinstance(note.get("choices"), dict) or note.get("digest") != generator_digest():
        return {}
    return {s: n for s, n in note["choices"].items() if isinstance(s, str) and isinstance(n, str)}


def choices_mark(config: Config) -> str:
    """A text that changes whenever :func:`known_choices` may; cheap."""
    data = Cache.default(PART).get(choices_note(config)) if config.cache else None
    return "" if data is None else hashlib.sha256(data).hexdigest()
