"""Makes the entries and puts them where Python looks for functions of few numbers.

Each takes the place of a function that does the same in Python and is called by it for all that is unusual. One that
gives other numbers than numpy does on a sample, as it might with a version of numpy that keeps things elsewhere, is
left out."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import re
import string
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.targets.base import Target
from MNN.expr.arrays.native import facts
from MNN.expr.arrays.native.choosing_ir import CHOSEN
from MNN.expr.arrays.native.entries_ir import CLIPPED, COMPARING, EACH
from MNN.expr.arrays.native.later_ir import LATER
from MNN.expr.arrays.native.methods import FASTCALL, KEYWORDS, Method, function_of
from MNN.expr.arrays.native.moving_ir import JOINED, MOVED, PART, SHARED
from MNN.expr.arrays.native.operands_ir import OPERANDS
from MNN.expr.arrays.native.pairwise_ir import PAIRWISE
from MNN.expr.arrays.native.parts_ir import PARTS
from MNN.expr.arrays.native.product_ir import PRODUCT
from MNN.expr.arrays.native.programs_ir import COMPUTED, PLACES, PROGRAMS
from MNN.expr.arrays.scalars import SCALARS
from MNN.expr.fused import Deferred, programs
from MNN.expr.fused.functions import Function
from MNN.expr.fused.settings import LAZY
from MNN.expr.var import Var
from MNN.ir.dtype import DType

_SOURCES = {
    "each": EACH, "pairwise": PAIRWISE, "comparing": COMPARING, "clipped": CLIPPED, "shared": SHARED, "moved": MOVED,
    "part": PART, "product": PRODUCT, "joined": JOINED, "chosen": CHOSEN, "computed": COMPUTED,
}  # fmt: skip
_WORDS = (
    "lazy", "few", "var", "at_few", "at_layout", "at_index", "at_unconverted", "none", "zero", "float", "int", "list",
    "tuple", "slice", "array", "retain", "release", "new", "call", "call_named", "real", "whole", "clear", "item",
    "list_item", "tuple_item", "list_size", "tuple_size", "copy", "make", "transpose", "set_base", "later", "f32",
    "i32", "true", "false", "nothing", "scalars", "programs", "tuple_new", "tuple_set", "long", "dict_item", "maker",
    "computed", "computed_record", "kinds",
)  # fmt: skip
"""The common record, word by word; from ``kinds`` on, the element types."""
_OBJECTS: dict[str, Any] = {
    "var": Var, "none": None, "zero": 0, "float": float, "int": int, "list": list, "tuple": tuple, "slice": slice,
    "array": np.ndarray, "later": Deferred, "f32": DType.F32, "i32": DType.I32, "true": True, "false": False,
    "nothing": (),
}  # fmt: skip
"""What the record has the addresses of."""
_SLOTS: dict[str, tuple[type, tuple[str, ...]]] = {
    "V": (Var, ("_few", "_index", "_layout", "_node", "_unconverted")),
    "D": (Deferred, ("array", "arrays", "function", "functions", "like", "operands", "passed", "shape")),
    "F": (Function, ("kind",)),
}
"""Slots by the letter that their places in the code begin with."""
FUNCTION, LEAST, RECORD = range(4 + 2 * len(facts.KINDS), 7 + 2 * len(facts.KINDS))
"""Where the record of an entry has the function that is computed later, from how many numbers on, and itself."""
_UNKNOWN = -1
"""Stands for a function that nobody has asked for."""
Loops = Mapping[int, tuple[int, int]]
"""Inner loops and what is given to them, by the number of the element type."""


@dataclasses.dataclass(frozen=True)
class EntrySpec(KernelSpec):
    """One of the entries: ``PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t n)``, some with the names of
    operands behind. Places in objects of CPython and numpy are in its code, addresses in its record."""

    shaped: ClassVar[bool] = False
    part: str

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        return f"EntrySpec({self.part},{hashlib.sha256(self._text().encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        marked = re.sub(r"^(define internal .*\)) {", r"\1 alwaysinline {", self._text(), flags=re.MULTILINE)
        return toolchain.inlined(marked.replace(*_RECURSIVE), target)

    def _text(self) -> str:
        places = {name: 8 * i for i, name in enumerate(_WORDS)}
        fields = {
            name: getattr(facts, name) for name in ("TYPE", "DATA", "RANK", "EXTENTS", "STRIDES", "ELEMENT", "FLAGS")
        }
        slots = {
            f"{letter}_{name.lstrip('_')}": at
            for letter, (kind, names) in _SLOTS.items()
            for name, at in (facts.slots(kind, names) or {}).items()
        }
        table = {"ARRAY": programs.ARRAY, "SINGLE": programs.SINGLE, "MIX": programs.MIX, "ROW": programs.FIELDS}
        text = _used(PARTS + OPERANDS + LATER + PROGRAMS + _SOURCES[self.part])
        return string.Template(text).substitute(
            places, **fields, **slots, **PLACES, **table, PLACES=programs.PLACES, FUNCTION=FUNCTION, LEAST=LEAST,
            RECORD=RECORD,
            kinds_at=_WORDS.index("kinds"),
        )  # fmt: skip


_RECURSIVE = ("define internal i64 @walk(ptr %c, ptr %s, ptr %node, ptr %like) alwaysinline",
              "define internal i64 @walk(ptr %c, ptr %s, ptr %node, ptr %like)")  # fmt: skip
"""What cannot become part of those that call it, unlike all other functions."""


def _used(text: str) -> str:
    """The functions that the entry needs, without comments."""
    parts: dict[str, str] = {}
    bare = re.sub(r"^ *;.*\n", "", text, flags=re.MULTILINE)
    for part in re.split(r"^(?=define )", bare, flags=re.MULTILINE):
        if (named := re.match(r"define[^@]*@(\w+)", part)) is not None:
            parts[named[1]] = part
    needed, todo = set(), ["kernel"]
    while todo:
        if (name := todo.pop()) not in needed:
            needed.add(name)
            todo += [n for n in re.findall(r"@(\w+)", parts[name]) if n in parts]
    return "".join([part for name, part in parts.items() if name in needed])


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
    record[FUNCTION] = 0 if function is None else id(function)


class Native:
    """What makes entries: the common record, and functions of CPython's that make callables."""

    def __init__(self, addresses: Mapping[str, int], slots: Mapping[str, int], few: int) -> None:
        words = dict.fromkeys(_WORDS, 0)
        words.update({name: id(o) for name, o in _OBJECTS.items()}, scalars=id(SCALARS), maker=id(_maker))
        words.update({name: address for name, address in addresses.items() if name in words})
        words.update({f"at{name}": at for name, at in slots.items()})
        words.update(lazy=LAZY.buffer_info()[0], few=few, programs=programs.TABLE.ctypes.data)
        words["kinds"] = id(facts.KINDS[0])
        self._common = np.array([*words.values(), *(id(kind) for kind in facts.KINDS[1:])], np.int64)
        _KEPT.append(self._common)
        record = np.array([self._common.ctypes.data])
        _KEPT.append(record)
        self._common[_WORDS.index("computed")] = shared_library(True).load([EntrySpec("computed")])[0]
        self._common[_WORDS.index("computed_record")] = id(record)

    @property
    def knows_names(self) -> bool:
        """Whether entries can hand on operands that are given by name."""
        return bool(self._common[_WORDS.index("call_named")])

    def entry(self, part: str, usual: Callable[..., Any], loops: Loops, reverse: bool, most: int,
              later: Later | None = None) -> Any:  # fmt: skip
        """A callable for what ``usual`` does, of ``most`` elements or multiplications; ``later``: a function of f32
        that is computed when its numbers are read, from so many on."""
        (address,) = shared_library(True).load([EntrySpec(part)])
        record = np.zeros(RECORD + 1, np.int64)
        record[:4] = self._common.ctypes.data, id(usual), reverse, most
        for number, found in loops.items():
            record[4 + 2 * number : 6 + 2 * number] = found
        record[RECORD] = id(record)
        if later is not None:
            record[FUNCTION], record[LEAST] = _UNKNOWN, later.least
            _WAITING[id(record)] = later.make
        flags = FASTCALL | (KEYWORDS if part == "shared" else 0)
        name, doc = getattr(usual, "__name__", part).encode(), (usual.__doc__ or "").encode()
        method = Method(name, address, flags, doc)
        _KEPT.extend((usual, record, method, name, doc))
        return function_of(method, record)


def prepared(few: int) -> Native | None:
    """What makes entries in this process; None where CPython or numpy are not as they are known."""
    addresses = facts.functions()
    slots = facts.slots(Var, ("_few", "_layout", "_index", "_unconverted"))
    if addresses is None or slots is None or any(facts.slots(*told) is None for told in _SLOTS.values()):
        return None
    named = getattr(ctypes.pythonapi, "PyObject_Vectorcall", None)
    address = 0 if named is None else ctypes.cast(named, ctypes.c_void_p).value or 0
    return Native({**addresses, "call_named": address}, slots, few)


__all__ = ["EntrySpec", "Later", "Loops", "Native", "prepared"]
