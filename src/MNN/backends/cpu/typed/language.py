"""The words of the typed part of Python, as a type checker sees them; :mod:`MNN.backends.cpu.typed.unit` translates.

Values are ``int`` (64 bits, wrapping round), ``bool``, ``float`` (64 bits) and addresses (:class:`Pointer`). Statements
are assignments, ``if``, ``while``, ``for`` over a ``range``, ``break``, ``continue``, ``return`` and calls of other
typed functions. Numbers and functions of the module, or of the function around, are known when it is translated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, ClassVar, NoReturn, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Same = TypeVar("_Same", bound="Pointer")

Int32 = int
"""A field or result of 32 bits with a sign; an ``int`` where it is read."""


def typed(function: _Function) -> _Function:
    """Marks a function that is translated, and not run by Python."""
    function.is_typed = True  # type: ignore[attr-defined]
    return function


def written(body: str) -> Callable[[_Function], _Function]:
    """Marks a function whose ``body`` is LLVM IR, with ``%`` before its parameters' names: for vectors, which the
    language has none of. The block it begins with is called ``begin``."""

    def mark(function: _Function) -> _Function:
        function.body = body  # type: ignore[attr-defined]
        return typed(function)

    return mark


def _read() -> NoReturn:
    raise TypeError("typed functions are translated, not run")


class Pointer:
    """An address; false where it is :data:`NULL`. Called with an address or an ``int`` it is that, seen as this."""

    def __init__(self, place: Pointer | int) -> None:
        del place
        _read()

    def after(self: _Same, count: int) -> _Same:
        """The address that many elements (of a :class:`Pointer`: bytes) behind."""
        del count
        _read()


class _View(Pointer):
    """Elements of one type that lie side by side."""

    memory: ClassVar[str]
    """Their LLVM type in memory."""
    element: ClassVar[type]
    """What they are where they are read."""
    signed: ClassVar[bool] = True


class Words(_View):
    """Numbers of 64 bits."""

    memory, element = "i64", int

    def __getitem__(self, index: int) -> int:
        del index
        _read()

    def __setitem__(self, index: int, value: int) -> None:
        del index, value
        _read()


class Ints(Words):
    """Numbers of 32 bits with a sign."""

    memory = "i32"


class Bytes(Words):
    """Bytes from 0 to 255."""

    memory, signed = "i8", False


class Doubles(_View):
    """Numbers of f64."""

    memory, element = "double", float

    def __getitem__(self, index: int) -> float:
        del index
        _read()

    def __setitem__(self, index: int, value: float) -> None:
        del index, value
        _read()


class Singles(Doubles):
    """Numbers of f32."""

    memory = "float"


class Pointers(_View):
    """Addresses; a subclass may say of what."""

    memory, element = "ptr", Pointer

    def __getitem__(self, index: int) -> Pointer:
        del index
        _read()

    def __setitem__(self, index: int, value: Pointer) -> None:
        del index, value
        _read()


class Record(Pointer):
    """Named fields at an address: 8 bytes each, in order, or where :func:`at` says. Fields that are ``Callable`` are
    addresses of functions, of which the results may be :data:`Int32`."""


def at(offset: int) -> Any:
    """Where a field of a record is, in bytes from its begin."""
    return offset


def numbered(names: Iterable[str]) -> SimpleNamespace:
    """Numbers from 0 on by name: the places of words that are written one by one."""
    return SimpleNamespace(**{name: i for i, name in enumerate(names)})


NULL: Any = Pointer.__new__(Pointer)
"""The address of nothing."""


def words(count: int) -> Words:
    """Room for numbers on the stack, for the time of the call. In a loop, ``count`` is known when it is translated."""
    del count
    _read()


def doubles(count: int) -> Doubles:
    """The same for numbers of f64."""
    del count
    _read()


def singles(count: int) -> Singles:
    """The same for numbers of f32."""
    del count
    _read()


def bytes_(count: int) -> Bytes:
    """The same for bytes."""
    del count
    _read()


def pointers(count: int) -> Pointers:
    """The same for addresses."""
    del count
    _read()


def shifted(number: int, by: int) -> int:
    """A number's 64 bits moved towards the lowest one, with zeros behind them."""
    del number, by
    _read()


def address(pointer: Pointer) -> int:
    """An address as a number."""
    del pointer
    _read()


ROOMS: dict[Any, tuple[type[_View], int]] = {
    words: (Words, 8), doubles: (Doubles, 8), singles: (Singles, 8), bytes_: (Bytes, 64), pointers: (Pointers, 8),
}  # fmt: skip
"""Functions that give room on the stack: what it holds, and its alignment in bytes."""
View = _View

__all__ = [
    "NULL", "ROOMS", "Bytes", "Doubles", "Int32", "Ints", "Pointer", "Pointers", "Record", "Singles", "View", "Words",
    "address", "at", "bytes_", "doubles", "numbered", "pointers", "shifted", "singles", "typed", "words", "written",
]  # fmt: skip
