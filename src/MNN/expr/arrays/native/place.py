"""What an entry may stand in for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Place(NamedTuple):
    """A function in Python that an entry may stand in for: which one, for what operator, whether its operands are
    exchanged."""

    usual: Callable[..., Any]
    part: str
    op: str = ""
    reverse: bool = False


__all__ = ["Place"]
