"""Typed access to JSON, with errors that say where something else was found."""

from __future__ import annotations

import json
from typing import Any

from MNN.errors import FormatError


def parse(data: bytes, where: str) -> Record:
    """The object that a JSON text holds. Raises :class:`FormatError`."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError, MemoryError) as error:
        raise FormatError(
            f"{where} is damaged ({type(error).__name__}: {str(error)[:200]}); export the model again"
        ) from error
    return Record(found, where)


class Record:
    """An object of a JSON text."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise FormatError(f"{where}: an object is expected, not {type(data).__name__}")
        self.data: dict[str, Any] = data
        self.where = where

    def _get(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        found = self.data.get(key)
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is int):
            raise FormatError(f"{self.where}: '{key}' is {type(found).__name__}, expected {what}; is the file damaged?")
        return found

    def record(self, key: str) -> Record:
        return Record(self._get(key, dict, "an object"), self.where)

    def items(self, key: str) -> list[Any]:
        return self._get(key, list, "a list")  # type: ignore[no-any-return]

    def records(self, key: str) -> list[Record]:
        return [Record(v, f"{self.where}, {key}") for v in self.items(key)]

    def text(self, key: str) -> str:
        return self._get(key, str, "a text")  # type: ignore[no-any-return]

    def integer(self, key: str) -> int:
        return self._get(key, int, "an integer")  # type: ignore[no-any-return]

    def flag(self, key: str) -> bool:
        return self._get(key, bool, "true or false")  # type: ignore[no-any-return]

    def entries(self, key: str) -> dict[str, Record]:
        """A mapping of names to objects; empty where it is missing."""
        found = self.data.get(key) or {}
        if not isinstance(found, dict):
            raise FormatError(f"{self.where}: '{key}' is {type(found).__name__}, expected an object")
        return {str(k): Record(v, f"{self.where}, '{k}'") for k, v in found.items()}

    def union(self) -> tuple[str, Any]:
        """The one member that a union has."""
        given = [(k, v) for k, v in self.data.items() if v is not None] or list(self.data.items())
        if len(given) != 1:
            raise FormatError(f"{self.where}: one of several kinds is expected, found {list(self.data)[:4]}")
        return given[0]
