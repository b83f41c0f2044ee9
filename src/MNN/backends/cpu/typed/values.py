"""Values and types of typed functions while they are translated."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import struct
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from MNN.backends.cpu.typed import language
from MNN.backends.cpu.typed.language import Pointer, Record


class TranslationError(Exception):
    """What is not part of the language, with the function and line that have it."""


Kind = type
"""``int``, ``bool``, ``float``, ``type(None)`` or a class of addresses."""
NOTHING: Kind = type(None)
_LLVM = {int: "i64", bool: "i1", float: "double", NOTHING: "void"}


def llvm(kind: Kind) -> str:
    """The LLVM type of values of a kind."""
    return _LLVM.get(kind, "ptr")


@dataclass(frozen=True)
class Value:
    """A value of the code: its text, and what it is."""

    text: str
    kind: Kind

    @property
    def typed(self) -> str:
        return f"{llvm(self.kind)} {self.text}"


@dataclass(frozen=True)
class Signature:
    """What a function takes and gives. ``narrow``: the result has 32 bits where it is made, as the parameters have that
    are among the ``narrowed``."""

    parameters: tuple[Kind, ...]
    result: Kind
    narrow: bool = False
    narrowed: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Field:
    """A field of a record: how far behind its begin, what it is, and what the function is whose address it holds."""

    offset: int
    kind: Kind
    narrow: bool = False
    function: Signature | None = None


def constant(value: object) -> Value:
    """A number of Python's, or no address, as a value."""
    if value is language.NULL:
        return Value("null", Pointer)
    if isinstance(value, bool):
        return Value(str(value).lower(), bool)
    if isinstance(value, (int, enum.Enum)):
        return Value(str(int(value.value if isinstance(value, enum.Enum) else value)), int)
    if isinstance(value, float):
        return Value(f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", float)
    raise TranslationError(f"{value!r} is no number")


def is_constant(value: object) -> bool:
    return value is language.NULL or isinstance(value, (bool, int, float, enum.Enum))


def kind_of(annotation: ast.expr, known: dict[str, Any]) -> tuple[Kind, bool]:
    """What an annotation stands for, and whether it has 32 bits in memory."""
    if isinstance(annotation, ast.Constant) and annotation.value is None:
        return NOTHING, False
    if not isinstance(annotation, ast.Name):
        raise TranslationError(f"{ast.unparse(annotation)} is no type")
    if annotation.id == "Int32":
        return int, True
    found = {"int": int, "bool": bool, "float": float}.get(annotation.id, known.get(annotation.id))
    if found in _LLVM or (isinstance(found, type) and issubclass(found, Pointer)):
        return found, False
    raise TranslationError(f"{annotation.id} is no type")


@functools.cache
def fields(record: Any) -> dict[str, Field]:
    """The fields of a class of :class:`~MNN.backends.cpu.typed.language.Record` by name."""
    known = vars(sys.modules[record.__module__])
    base = record.__base__
    found = dict(fields(base)) if base is not None and issubclass(base, Record) and base is not Record else {}
    for name, text in inspect.get_annotations(record).items():
        offset = record.__dict__.get(name, 8 * len(found))
        annotation = ast.parse(text, mode="eval").body
        if isinstance(annotation, ast.Subscript):  # Callable[[...], ...]
            given, result = annotation.slice.elts  # type: ignore[attr-defined]
            kind, narrow = kind_of(result, known)
            parameters = [kind_of(a, known) for a in given.elts]
            narrowed = frozenset(i for i, (_, is_narrow) in enumerate(parameters) if is_narrow)
            signature = Signature(tuple(k for k, _ in parameters), kind, narrow, narrowed)
            found[name] = Field(offset, Pointer, function=signature)
        else:
            found[name] = Field(offset, *kind_of(annotation, known))
    return found


def refuse(node: ast.AST, why: str) -> NoReturn:
    raise TranslationError(f"line {getattr(node, 'lineno', '?')}: {why}: {ast.unparse(node)}")


__all__ = [
    "NOTHING", "Field", "Kind", "Signature", "TranslationError", "Value", "constant", "fields", "is_constant",
    "kind_of", "llvm", "refuse",
]  # fmt: skip
