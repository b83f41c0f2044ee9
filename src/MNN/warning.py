"""Warnings that point at the user's line, however deep inside of the engine they arise."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from types import FrameType

_INSIDE = os.path.dirname(os.path.abspath(__file__)) + os.sep, "<frozen importlib", contextlib.__file__
"""Where files of this package begin, and of what calls its functions for it."""


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warns of ``text`` at the innermost line that is outside of this package: the one that called into it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _inside(frame):
        frame = frame.f_back
    if frame is None:  # a thread or a command of the engine's own
        warnings.warn(text, kind, stacklevel=2)
        return
    names = frame.f_globals
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, kind, frame.f_code.co_filename, frame.f_lineno, names.get("__name__"), registry)


def _inside(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_INSIDE)


__all__ = ["warn"]
