"""Settings of optimisers, checked: a sentence for what is no number, and for what a step cannot be made with."""

from __future__ import annotations

import math

from MNN.errors import MNNError


def number(name: str, value: object) -> float:
    """A finite number. Raises :class:`MNNError` for anything else."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(value, str) or not math.isfinite(found):
        raise MNNError(f"{name} is a finite number, found {value!r}")
    return found


def not_negative(name: str, value: object) -> float:
    """A finite number that is not negative."""
    found = number(name, value)
    if found < 0:
        raise MNNError(f"{name} must not be negative, found {value!r}")
    return found


def share(name: str, value: object) -> float:
    """A number from 0 to below 1: how much of what was there a step keeps."""
    found = number(name, value)
    if not 0 <= found < 1:
        raise MNNError(f"{name} lies between 0 and 1 (less than 1), found {value!r}")
    return found


def whole(name: str, value: object) -> int:
    """A whole number of at least 1."""
    found = number(name, value)
    if found < 1 or found != int(found):
        raise MNNError(f"{name} is a whole number of at least 1, found {value!r}")
    return int(found)


__all__ = ["not_negative", "number", "share", "whole"]
