"""What tells one model from another: a digest of its files' bytes, wherever these lie and whatever they are called.

Reading 2 GB takes seconds, so a file is read for it when its digest is first asked for, and never when a model is
opened; then it is remembered in the cache folder for as long as nobody writes to the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from MNN.cache.notes import note_key, read_note, write_note
from MNN.errors import MNNError
from MNN.ir.graph import Graph
from MNN.schema.files import identity, open_regular

_HASH = "sha256"
_CHUNK = 1 << 20


@runtime_checkable
class FromFiles(Protocol):
    """What reads a graph from files."""

    def digest(self, files: Mapping[str, str]) -> str:
        """That of the model, all of whose other ``files`` are known, with their identities when they were read."""


def digest_of(*parts: object) -> str:
    """One digest of several things that ``repr`` tells apart."""
    return hashlib.new(_HASH, repr(parts).encode()).hexdigest()


def file_digest(path: str, mark: str) -> str:
    """That of a file's bytes. ``mark``: its identity when it was opened, empty where that could not be told.

    Raises :class:`MNNError` when it has been written to since then, and when it cannot be read."""
    with open_regular(Path(path)) as file:
        now = identity(os.fstat(file.fileno()))
        if mark and now != mark:
            raise MNNError(f"{path} has been written to since the model was opened; open it anew")
        key = note_key("digest", (now,))
        known = read_note(key) if now else None
        if known is not None and isinstance(known.get(_HASH), str):
            return str(known[_HASH])
        total = hashlib.new(_HASH)
        while chunk := file.read(_CHUNK):
            total.update(chunk)
    found = total.hexdigest()
    if now:
        write_note(key, {_HASH: found})
    return found


def graph_digest(graph: Graph) -> str:
    """That of a graph which was made in memory: of the bytes that a file of it would have."""
    from MNN.frontends.mnn import net_of
    from MNN.schema import write_net

    return hashlib.new(_HASH, write_net(net_of(graph))).hexdigest()


__all__ = ["FromFiles", "digest_of", "file_digest", "graph_digest"]
