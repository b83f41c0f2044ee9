"""How long work says how far it is."""

from __future__ import annotations

from typing import Protocol


class ReportProgress(Protocol):
    """Takes what is being done now, and which step of how many; ``total`` is 0 where nobody knows."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None: ...


def silent(text: str, done: int = 0, total: int = 0) -> None:
    """Says nothing."""
    del text, done, total


__all__ = ["ReportProgress", "silent"]
