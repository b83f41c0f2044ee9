"""Memory spaces: where the numbers of a buffer lie, and whose addresses mean something there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemorySpace:
    """Memory that one kind of machine reads and writes; the addresses of another space mean nothing there."""

    name: str


HOST = MemorySpace("host")
"""This process's own memory, where numpy's arrays lie."""

__all__ = ["HOST", "MemorySpace"]
