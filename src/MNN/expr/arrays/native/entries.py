"""Makes the entries and puts them where Python looks for functions of few numbers.

Each takes the place of a function that does the same in Python and is called by it for all that is unusual. One that
gives other numbers than numpy does on a sample, as it might with a version of numpy that keeps things elsewhere, is
left out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.typed.spec import TypedSpec
from MNN.backends.cpu.typed.unit import is_readable
from MNN.backends.cpu.typed.values import fields
from MNN.expr.arrays.native import facts
from MNN.expr.arrays.native.choosing import chosen
from MNN.expr.arrays.native.elementwise import clipped, comparing, each, entry
from MNN.expr.arrays.native.methods import FASTCALL, KEYWORDS, Method, function_of
from MNN.expr.arrays.native.moving import joined, moved, part, shared
from MNN.expr.arrays.native.objects import LOOPS, SLOTS, UNKNOWN, Common, Entry
from MNN.expr.arrays.native.pairwise import pairwise
from MNN.expr.arrays.native.product import product
from MNN.expr.arrays.native.walking import computed
from MNN.expr.arrays.scalars import SCALARS
from MNN.expr.fused import Deferred, programs
from MNN.expr.fused.functions import Function
from MNN.expr.fused.settings import LAZY
from MNN.expr.var import Var
from MNN.ir.dtype import DType

_PARTS: dict[str, Callable[..., Any]] = {
    "each": entry(each, 1), "pairwise": entry(pairwise, 2), "comparing": entry(comparing, 2),
    "clipped": entry(clipped, 3), "shared": shared, "moved": entry(moved, 2), "part": entry(part, 2),
    "product": entry(product, 3), "joined": entry(joined, 2), "chosen": entry(chosen, 3), "computed": computed,
}  # fmt: skip
_SOURCES = "MNN.expr.arrays.native", "MNN.expr.fused"
_OBJECTS: dict[str, Any] = {
    "var": Var, "none": None, "zero": 0, "float_": float, "int_": int, "list_": list, "tuple_": tuple, "slice_": slice,
    "array": np.ndarray, "later": Deferred, "f32": DType.F32, "i32": DType.I32, "true": True, "false": False,
    "nothing": (),
}  # fmt: skip
"""What the common record has the addresses of."""
_OWN = {name: field.offset // 8 for name, field in fields(Entry).items()}
"""Words of an entry's record."""
_WORDS = tuple(Common.__annotations__)
Loops = Mapping[int, tuple[int, int]]
"""Inner loops and what is given to them, by the number of the element type."""


def _spec(name: str) -> TypedSpec:
    return TypedSpec(f"arrays, {name}", _PARTS[name], True, _SOURCES, repr(list(SLOTS.values())))


_KEPT: list[object] = []
"""What generated code and CPython have the addresses of: for the life of the process."""


_WAITING: dict[int, Callable[[], Function | None]] = {}
"""What makes the functions of records that nobody has asked for."""


class Later(NamedTuple):
    """What makes a function that is computed later, and from how many numbers on it is."""

    make: Callable[[], Function | None]
    least: int


def _maker(record: Any) -> None:
    """Puts the function of an entry into its record."""
    function = _WAITING[id(record)]()
    _KEPT.append(function)
    record[_OWN["function"]] = 0 if function is None else id(function)


class Native:
    """What makes entries: the common record, and functions of CPython's that make callables."""

    def __init__(self, addresses: Mapping[str, int], few: int) -> None:
        words = dict.fromkeys(_WORDS, 0)
        words.update({name: id(o) for name, o in _OBJECTS.items()}, scalars=id(SCALARS), maker=id(_maker))
        words.update({name: address for name, address in addresses.items() if name in words})
        words.update(lazy=LAZY.buffer_info()[0], few=few, programs=programs.TABLE.ctypes.data)
        self._common = np.array([*words.values(), *(id(kind) for kind in facts.KINDS)], np.int64)
        _KEPT.append(self._common)
        record = np.array([self._common.ctypes.data])
        _KEPT.append(record)
        self._common[_WORDS.index("computed")] = shared_library(True).load([_spec("computed")])[0]
        self._common[_WORDS.index("computed_record")] = id(record)

    @property
    def knows_names(self) -> bool:
        """Whether entries can hand on operands that are given by name."""
        return bool(self._common[_WORDS.index("call_named")])

    def entry(self, part: str, usual: Callable[..., Any], loops: Loops, reverse: bool, most: int,
              later: Later | None = None) -> Any:  # fmt: skip
        """A callable for what ``usual`` does, of ``most`` elements or multiplications; ``later``: a function of f32
        that is computed when its numbers are read, from so many on."""
        (address,) = shared_library(True).load([_spec(part)])
        record = np.zeros(max(_OWN.values()) + 1, np.int64)
        record[:LOOPS] = self._common.ctypes.data, id(usual), reverse, most
        for number, found in loops.items():
            record[LOOPS + 2 * number : LOOPS + 2 * number + 2] = found
        record[_OWN["record"]] = id(record)
        if later is not None:
            record[_OWN["function"]], record[_OWN["least"]] = UNKNOWN, later.least
            _WAITING[id(record)] = later.make
        flags = FASTCALL | (KEYWORDS if part == "shared" else 0)
        name, doc = getattr(usual, "__name__", part).encode(), (usual.__doc__ or "").encode()
        method = Method(name, address, flags, doc)
        _KEPT.extend((usual, record, method, name, doc))
        return function_of(method, record)


def prepared(few: int) -> Native | None:
    """What makes entries in this process; None where CPython or numpy are not as they are known."""
    addresses = facts.functions()
    if addresses is None or any(found is None for found in SLOTS.values()) or not is_readable(prepared):
        return None
    named = getattr(ctypes.pythonapi, "PyObject_Vectorcall", None)
    address = 0 if named is None else ctypes.cast(named, ctypes.c_void_p).value or 0
    return Native({**addresses, "call_named": address}, few)


__all__ = ["Later", "Loops", "Native", "prepared"]
