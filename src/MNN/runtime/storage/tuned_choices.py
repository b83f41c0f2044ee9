"""The algorithms that ``mnn bench --tune`` found to be the fastest on this processor, as sessions take them up."""

from __future__ import annotations

import hashlib

from MNN.backends.base.registry import backend
from MNN.cache.entries import Cache
from MNN.cache.notes import PART, note_key, read_note
from MNN.runtime.config import Config

_VERSION = 2


def choices_note(config: Config) -> str:
    """Where the choices for this processor, number of threads and precision are kept."""
    device = backend(config.backend, config.cache).device()
    return note_key("choices", (str(_VERSION), config.backend, device, str(config.threads), config.precision))


def known_choices(config: Config) -> dict[str, str]:
    """Algorithms by signature, for :class:`MNN.backends.base.options.Options`; none when the cache is off, or when they
    were measured with kernels that have changed since."""
    note = read_note(choices_note(config)) if config.cache else None
    if note is None or not isinstance(note.get("choices"), dict) or note.get("digest") != generators(config):
        return {}
    return {s: n for s, n in note["choices"].items() if isinstance(s, str) and isinstance(n, str)}


def generators(config: Config) -> str:
    """A text that changes with the code whose choices are remembered."""
    return backend(config.backend, config.cache).generators()


def choices_mark(config: Config) -> str:
    """A text that changes whenever :func:`known_choices` may; cheap."""
    data = Cache.default(PART).get(choices_note(config)) if config.cache else None
    return "" if data is None else hashlib.sha256(data).hexdigest()
