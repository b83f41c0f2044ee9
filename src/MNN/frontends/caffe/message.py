"""Messages of Caffe's files, the same from text and from binary: fields by name, as often as the file has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from MNN.errors import FormatError

Field: TypeAlias = "Message | str | int | float | bool | bytes | np.ndarray"
"""Names of enumerations and words are strings; an array stands for many numbers of a binary file."""
T = TypeVar("T")
_WORDS = {"true": True, "True": True, "t": True, "false": False, "False": False, "f": False}


class Message:
    """Fields by name. Optional fields that are given several times have their last value, as in protobuf.

    ``where`` is what errors call the message. ``strange``: numbers of fields that the format's description lacks.
    """

    __slots__ = ("_read", "fields", "strange", "where")

    def __init__(self, where: str) -> None:
        self.where = where
        self.fields: dict[str, list[Field]] = {}
        self.strange: set[int] = set()
        self._read: set[str] = set()

    def add(self, name: str, value: Field) -> None:
        """Appends a field."""
        self.fields.setdefault(name, []).append(value)

    def has(self, name: str) -> bool:
        """Whether a field is there."""
        self._read.add(name)
        return name in self.fields

    def unread(self) -> list[str]:
        """Fields, and numbers of unknown ones, that nobody has asked for."""
        return sorted(self.fields.keys() - self._read) + [f"number {n}" for n in sorted(self.strange)]

    # -- one value ----------------------------------------------------------------------------------------------------

    def message(self, name: str) -> Message:
        """A message inside, an empty one when it is absent."""
        found = self.messages(name)
        return found[-1] if found else Message(f"{self.where}, {name}")

    def integer(self, name: str, default: int = 0) -> int:
        return self._last(name, default, _integer, "an integer")

    def number(self, name: str, default: float = 0.0) -> float:
        return self._last(name, default, _number, "a number")

    def flag(self, name: str, default: bool = False) -> bool:
        return self._last(name, default, _flag, "true or false")

    def text(self, name: str, default: str = "") -> str:
        """A string or a word, such as the name of an enumeration."""
        return self._last(name, default, _text, "a text")

    # -- all values ---------------------------------------------------------------------------------------------------

    def messages(self, name: str) -> list[Message]:
        return self._all(name, _message, "a message")

    def integers(self, name: str) -> list[int]:
        return [int(n) for part in self._arrays(name, _integer, "an integer") for n in part]

    def numbers(self, name: str) -> list[float]:
        return [float(n) for part in self._arrays(name, _number, "a number") for n in part]

    def texts(self, name: str) -> list[str]:
        return self._all(name, _text, "a text")

    def array(self, name: str, dtype: type[np.generic]) -> np.ndarray:
        """All numbers of a field as an array of one dimension; what a binary file holds in one piece is not copied."""
        parts = self._arrays(name, _number, "a number")
        if len(parts) == 1 and isinstance(parts[0], np.ndarray):
            return parts[0]
        if not parts:
            return np.zeros(0, dtype)
        return np.concatenate([np.asarray(p, dtype) for p in parts])

    def data(self, name: str) -> bytes:
        return self._last(name, b"", lambda v: v if isinstance(v, bytes) else None, "bytes")

    # -- how ----------------------------------------------------------------------------------------------------------

    def _last(self, name: str, default: T, convert: Callable[[Field], T | None], kind: str) -> T:
        self._read.add(name)
        found = self.fields.get(name)
        if not found:
            return default
        value = found[-1]
        if isinstance(value, np.ndarray) and value.size:
            value = value[-1].item()
        return self._converted(name, value, convert, kind)

    def _all(self, name: str, convert: Callable[[Field], T | None], kind: str) -> list[T]:
        self._read.add(name)
        return [self._converted(name, v, convert, kind) for v in self.fields.get(name, ())]

    def _arrays(self, name: str, convert: Callable[[Field], Any], kind: str) -> list[Sequence[Any]]:
        """Runs of numbers: arrays as they are, others together."""
        self._read.add(name)
        parts: list[Any] = []
        for value in self.fields.get(name, ()):
            if isinstance(value, np.ndarray):
                parts.append(value)
                continue
            if not parts or isinstance(parts[-1], np.ndarray):
                parts.append([])
            parts[-1].append(self._converted(name, value, convert, kind))
        return parts

    def _converted(self, name: str, value: Field, convert: Callable[[Field], T | None], kind: str) -> T:
        found = convert(value)
        if found is None:
            shown = "a message" if isinstance(value, Message) else repr(value)[:60]
            raise FormatError(f"{self.where}: field '{name}' is {shown}, expected {kind}")
        return found


def _message(value: Field) -> Message | None:
    return value if isinstance(value, Message) else None


def _text(value: Field) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: Field) -> int | None:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return int(value) if isinstance(value, int) and abs(value) < 1 << 63 else None


def _number(value: Field) -> float | None:
    if isinstance(value, str):
        return {"inf": math.inf, "infinity": math.inf, "nan": math.nan}.get(value.lower())
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return None
    return float(value) if isinstance(value, (int, float)) else None


def _flag(value: Field) -> bool | None:
    if isinstance(value, str):
        return _WORDS.get(value)
    return bool(value) if isinstance(value, int) and value in (0, 1) else None
