"""Makes the entries and puts them where Python looks for functions of few numbers.

Each takes the place of a function that does the same in Python and is called by it for all that is unusual. One that
gives other numbers than numpy does on a sample, as it might with a version of numpy that keeps things elsewhere, is
left out."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import string
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.targets.base import Target
from MNN.expr.arrays.native import facts
from MNN.expr.arrays.native.choosing_ir import CHOSEN
from MNN.expr.arrays.native.entries_ir import CLIPPED, COMPARING, EACH
from MNN.expr.arrays.native.moving_ir import JOINED, MOVED, PART, SHARED
from MNN.expr.arrays.native.pairwise_ir import PAIRWISE
from MNN.expr.arrays.native.parts_ir import PARTS
from MNN.expr.arrays.native.product_ir import PRODUCT
from MNN.expr.fused.settings import LAZY
from MNN.expr.var import Var

_SOURCES = {
    "each": EACH, "pairwise": PAIRWISE, "comparing": COMPARING, "clipped": CLIPPED, "shared": SHARED, "moved": MOVED,
    "part": PART, "product": PRODUCT, "joined": JOINED, "chosen": CHOSEN,
}  # fmt: skip
_WORDS = (
    "lazy", "few", "var", "at_few", "at_layout", "at_index", "at_unconverted", "none", "zero", "float", "int", "list",
    "tuple", "slice", "array", "retain", "release", "new", "call", "call_named", "real", "whole", "clear", "item",
    "list_item", "tuple_item", "list_size", "tuple_size", "copy", "make", "transpose", "set_base", "kinds",
)  # fmt: skip
"""The common record, word by word; from ``kinds`` on, the element types."""
_FASTCALL, _KEYWORDS = 0x80, 0x02
Loops = Mapping[int, tuple[int, int]]
"""Inner loops and what is given to them, by the number of the element type."""


@dataclasses.dataclass(frozen=True)
class EntrySpec(KernelSpec):
    """One of the entries: ``PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t n)``, some with the names of
    operands behind. Places in objects of CPython and numpy are in its code, addresses in its record."""

    shaped: ClassVar[bool] = True
    part: str

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        return f"EntrySpec({self.part},{hashlib.sha256(self._text().encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        del target
        return self._text()

    def _text(self) -> str:
        places = {name: 8 * i for i, name in enumerate(_WORDS)}
        fields = {
            name: getattr(facts, name) for name in ("TYPE", "DATA", "RANK", "EXTENTS", "STRIDES", "ELEMENT", "FLAGS")
        }
        text = PARTS + _SOURCES[self.part]
        return string.Template(text).substitute(places, **fields, kinds_at=_WORDS.index("kinds"))


_KEPT: list[object] = []
"""What generated code and CPython have the addresses of: for the life of the process."""


class _Method(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Native:
    """What makes entries: the common record, and functions of CPython's that make callables."""

    def __init__(self, addresses: Mapping[str, int], slots: Mapping[str, int], few: int) -> None:
        words = dict.fromkeys(_WORDS, 0)
        objects: dict[str, Any] = {"var": Var, "none": None, "zero": 0, "float": float, "int": int, "list": list,
                                   "tuple": tuple, "slice": slice, "array": np.ndarray}  # fmt: skip
        words.update({name: id(o) for name, o in objects.items()})
        words.update({name: address for name, address in addresses.items() if name in words})
        words.update({f"at{name}": at for name, at in slots.items()})
        words.update(lazy=LAZY.buffer_info()[0], few=few)
        words["kinds"] = id(facts.KINDS[0])
        self._common = np.array([*words.values(), *(id(kind) for kind in facts.KINDS[1:])], np.int64)
        _KEPT.append(self._common)
        make = ctypes.pythonapi.PyCFunction_NewEx
        self._make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ctypes.cast(make, ctypes.c_void_p).value or 0
        )

    @property
    def knows_names(self) -> bool:
        """Whether entries can hand on operands that are given by name."""
        return bool(self._common[_WORDS.index("call_named")])

    def entry(self, part: str, usual: Callable[..., Any], loops: Loops, reverse: bool, most: int) -> Any:
        """A callable for what ``usual`` does, of ``most`` elements or multiplications."""
        (address,) = shared_library(True).load([EntrySpec(part)])
        record = np.zeros(4 + 2 * len(facts.KINDS), np.int64)
        record[:4] = self._common.ctypes.data, id(usual), reverse, most
        for number, found in loops.items():
            record[4 + 2 * number : 6 + 2 * number] = found
        flags = _FASTCALL | (_KEYWORDS if part == "shared" else 0)
        name, doc = getattr(usual, "__name__", part).encode(), (usual.__doc__ or "").encode()
        method = _Method(name, address, flags, doc)
        _KEPT.extend((usual, record, method, name, doc))
        return self._make(ctypes.addressof(method), record, None)


def prepared(few: int) -> Native | None:
    """What makes entries in this process; None where CPython or numpy are not as they are known."""
    addresses, slots = facts.functions(), facts.slots()
    if addresses is None or slots is None:
        return None
    named = getattr(ctypes.pythonapi, "PyObject_Vectorcall", None)
    address = 0 if named is None else ctypes.cast(named, ctypes.c_void_p).value or 0
    return Native({**addresses, "call_named": address}, slots, few)


__all__ = ["EntrySpec", "Loops", "Native", "prepared"]
