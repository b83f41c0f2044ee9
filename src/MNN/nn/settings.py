"""Settings of layers and optimisers, checked: a sentence for what is no number, or for what a step cannot be made
with."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from MNN.errors import MNNError, ShapeError

T = TypeVar("T")


class Setting(Generic[T]):
    """An attribute that is checked whenever it is set: when its object is made, and between steps."""

    def __init__(self, check: Callable[[str, object], T]) -> None:
        self._check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, holder: object, owner: type | None = None) -> T:
        if holder is None:
            raise AttributeError(self._name)  # the class has none
        found: T = vars(holder)[self._name]
        return found

    def __set__(self, holder: object, value: object) -> None:
        vars(holder)[self._name] = self._check(self._name, value)


def shown(value: object) -> str:
    """What was found, in a part of a line."""
    return f"{' '.join(repr(value).split()):.60}"


def number(name: str, value: object) -> float:
    """A finite number. Raises :class:`MNNError` for anything else."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(value, (str, bytes)) or not math.isfinite(found):
        raise MNNError(f"{name} is a finite number, found {shown(value)}")
    return found


def not_negative(name: str, value: object) -> float:
    """A finite number that is not negative."""
    found = number(name, value)
    if found < 0:
        raise MNNError(f"{name} must not be negative, found {shown(value)}")
    return found


def share(name: str, value: object) -> float:
    """A number from 0 to below 1: how much of what was there a step keeps."""
    found = number(name, value)
    if not 0 <= found < 1:
        raise MNNError(f"{name} lies between 0 and 1 (less than 1), found {shown(value)}")
    return found


def portion(name: str, value: object) -> float:
    """A number from 0 to 1."""
    found = number(name, value)
    if not 0 <= found <= 1:
        raise MNNError(f"{name} lies between 0 and 1, found {shown(value)}")
    return found


def whole(name: str, value: object) -> int:
    """A whole number of at least 1."""
    found = number(name, value)
    if found < 1 or found != int(found):
        raise MNNError(f"{name} is a whole number of at least 1, found {shown(value)}")
    return int(found)


def whole_or_none(name: str, value: object) -> int | None:
    """A whole number of at least 1, or None."""
    return None if value is None else whole(name, value)


def count(name: str, value: object) -> int:
    """A whole number that is given as one. Raises :class:`MNNError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise MNNError(f"{name} is a whole number, found {shown(value)}")
    return int(value)


def seed(name: str, value: object) -> int:
    """What random numbers begin with: a whole number that is not negative, of 63 bits, as files have it."""
    found = count(name, value)
    if found < 0:
        raise MNNError(f"{name} must not be negative, found {shown(value)}")
    if found >= 1 << 63:
        raise MNNError(f"{name} has at most 63 bits, found {shown(value)}")
    return found


def extent(name: str, value: object) -> int:
    """The size of an axis: a whole number of at least 1 and of at most 31 bits, as files have it."""
    found = count(name, value)
    if not 1 <= found < 1 << 31:
        raise ShapeError(f"{name} is a whole number of at least 1 and of at most 31 bits, found {shown(value)}")
    return found


def flag(name: str, value: object) -> bool:
    """True or False, or a number in their place."""
    if not isinstance(value, (bool, np.bool_, numbers.Integral)):
        raise MNNError(f"{name} is True or False, found {shown(value)}")
    return bool(value)


def truth(name: str, value: object) -> bool:
    """:func:`flag`, of which None is False, as in PyMNN."""
    return value is not None and flag(name, value)


__all__ = [
    "Setting", "count", "extent", "flag", "not_negative", "number", "portion", "seed", "share", "shown", "truth",
    "whole", "whole_or_none",
]  # fmt: skip
