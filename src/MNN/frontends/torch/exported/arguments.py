"""Arguments of nodes in programs of torch.export, as handlers take them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from MNN.errors import FormatError, UnsupportedError
from MNN.frontends.torch.element_types import PAIRS, ComplexType, exported_type
from MNN.frontends.torch.exported.json_access import Record

PLAIN = {
    "as_int": int, "as_float": (int, float, str), "as_string": str, "as_bool": bool, "as_none": bool, "as_ints": list,
    "as_floats": list, "as_bools": list, "as_strings": list, "as_int_lists": list, "as_float_lists": list,
}  # fmt: skip
_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
_NAMED = {"as_sym_int": "as_int", "as_sym_float": "as_float", "as_sym_bool": "as_bool"}
_LISTS = {"as_sym_ints": "as_int", "as_sym_floats": "as_float", "as_sym_bools": "as_bool"}


def number(value: Any) -> Any:
    """A float; JSON has infinities as texts."""
    if isinstance(value, str):
        if value not in _FLOATS:
            raise FormatError(f"'{value[:40]}' is no number")
        return _FLOATS[value]
    return value


class Arguments:
    """``lookup`` gives what a name stands for, ``graph`` keeps a subgraph for the operator that takes it."""

    def __init__(self, lookup: Callable[[str], Any], where: str) -> None:
        self._lookup = lookup
        self._where = where

    def read(self, argument: Record) -> Any:
        """A value, a number, plain data, a list of those, or a :class:`Record` of a subgraph."""
        kind, value = argument.union()
        if kind == "as_none":
            return None
        if kind in PLAIN:
            return self._plain(kind, value)
        if kind == "as_tensor":
            return self._lookup(Record(value, self._where).text("name"))
        if kind == "as_tensors":
            return [self._lookup(Record(v, self._where).text("name")) for v in self._list(value)]
        if kind == "as_nested_tensors":
            return [
                [self._lookup(Record(v, self._where).text("name")) for v in self._list(row)]
                for row in self._list(value)
            ]
        if kind in _NAMED:
            return self._named(Record(value, self._where), _NAMED[kind])
        if kind in _LISTS:
            return [self._named(Record(v, self._where), _LISTS[kind]) for v in self._list(value)]
        if kind in ("as_optional_tensors", "as_optional_tensor"):
            rows = self._list(value) if kind.endswith("s") else [value]
            found = [self._optional(Record(v, self._where)) for v in rows]
            return found if kind.endswith("s") else found[0]
        if kind == "as_scalar_type":
            code = Record({"v": value}, self._where).integer("v")
            return ComplexType(PAIRS[code]) if code in PAIRS else exported_type(code, self._where)
        if kind == "as_complex":
            given = Record(value, self._where)
            return complex(*(float(number(given.data.get(k))) for k in ("real", "imag")))
        if kind == "as_memory_format":
            return value if value in (2, 3) else None  # channels last, as TorchScript numbers it too
        if kind in ("as_layout", "as_device"):
            return None
        if kind == "as_graph":
            return Record(value, self._where).record("graph")
        if kind == "as_operator":
            return str(value)
        raise UnsupportedError(f"{self._where}: an argument of the kind {kind} is not supported")

    def _list(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise FormatError(f"{self._where}: a list is expected; is the file damaged?")
        return value

    def _plain(self, kind: str, value: Any) -> Any:
        if not isinstance(value, PLAIN[kind]):  # type: ignore[arg-type]
            raise FormatError(f"{self._where}: {kind} holds {type(value).__name__}; is the file damaged?")
        if kind == "as_float":
            return float(number(value))
        if kind == "as_int" and abs(value) >= 1 << 63:
            raise FormatError(f"{self._where}: an integer of more than 64 bits")
        if kind in ("as_ints", "as_bools") and not all(isinstance(v, int) and abs(v) < 1 << 63 for v in value):
            raise FormatError(f"{self._where}: {kind} holds something else; is the file damaged?")
        return [float(number(v)) for v in value] if kind == "as_floats" else value

    def _named(self, given: Record, plain: str) -> Any:
        kind, value = given.union()
        if kind == "as_name":
            return self._lookup(str(value))
        return self._plain(plain, value)

    def _optional(self, given: Record) -> Any:
        kind, value = given.union()
        return None if kind == "as_none" else self._lookup(Record(value, self._where).text("name"))


def names_of(outputs: list[Record]) -> list[str | list[str] | None]:
    """The names of a node's results, a list of names for a result that is a list of tensors."""
    found: list[str | list[str] | None] = []
    for output in outputs:
        kind, value = output.union()
        if kind == "as_tensor":
            found.append(Record(value, output.where).text("name"))
        elif kind in _NAMED:
            held, name = Record(value, output.where).union()
            found.append(str(name) if held == "as_name" else None)
        elif kind == "as_tensors":
            found.append([Record(v, output.where).text("name") for v in value])
        elif kind == "as_optional_tensors":
            rows = [Record(v, output.where).union() for v in value]
            found.append([Record(v, output.where).text("name") if k == "as_tensor" else "" for k, v in rows])
        elif kind == "as_optional_tensor":
            held, inner = Record(value, output.where).union()
            found.append(Record(inner, output.where).text("name") if held == "as_tensor" else None)
        else:
            found.append(None)
    return found
