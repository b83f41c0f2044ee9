"""One flatbuffer table in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.schema.coerce import coerce, items
from MNN.schema.tables import MNN, Field, Kind, Table


class Record:
    """A table of the .mnn schema: ``Record("Op", name="conv1", type="Convolution", main=Record("Convolution2D"))``,
    or of another one: ``Record(schema.table("Operator"))``.

    Fields are attributes. A field that was not set gives the schema's default: the default number, the name of the
    default enum value, and None for strings, vectors, tables and unions. Setting None removes a field. Values are
    checked and brought to one form when they are set:

    - enum: the name of the value (a number that has no name stays a number);
    - vector of scalars: a one-dimensional numpy array of the field's type (views into the file when read from one,
      and read-only then); arrays of more dimensions are flattened, numbers that do not fit raise;
    - string: str; vector of strings: list[str]; table or union: Record (its table name says which member);
      vector of tables: list[Record].

    Two records are equal when they mean the same: an unset field equals its default, an empty vector equals none, and
    a NaN equals a NaN.
    """

    __slots__ = ("__weakref__", "_spec", "_values")
    _spec: Table
    _values: dict[str, Any]
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, kind: str | Table, /, **fields: Any) -> None:
        object.__setattr__(self, "_spec", MNN.table(kind) if isinstance(kind, str) else kind)
        object.__setattr__(self, "_values", {})
        for name, value in fields.items():
            setattr(self, name, value)

    @classmethod
    def trusted(cls, kind: str | Table, values: dict[str, Any]) -> Record:
        """A record over values that are in their final form already (used by the reader and by copies)."""
        record = cls.__new__(cls)
        object.__setattr__(record, "_spec", MNN.table(kind) if isinstance(kind, str) else kind)
        object.__setattr__(record, "_values", values)
        return record

    @property
    def table(self) -> Table:
        """The table of the schema."""
        return self._spec

    @property
    def table_name(self) -> str:
        """Name of the table in the schema."""
        return self._spec.name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            return self._field(name).default

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._field(name)
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = _coerced(f"{self._spec.name}.{name}", field, value)

    def __delattr__(self, name: str) -> None:
        self._field(name)
        self._values.pop(name, None)

    def _field(self, name: str) -> Field:
        field = self._spec.fields.get(name)
        if field is None:
            import difflib  # only for the message

            near = difflib.get_close_matches(name, self._spec.fields, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(self._spec.fields) or 'none'}"
            raise AttributeError(f"table {self._spec.name} has no field {name!r}{hint}")
        return field

    def has(self, name: str) -> bool:
        """Whether the field is set (present in the file)."""
        self._field(name)
        return name in self._values

    def get(self, name: str, otherwise: Any = None) -> Any:
        """The field's value when it is set, else ``otherwise`` (not the schema's default)."""
        self._field(name)
        return self._values.get(name, otherwise)

    def present(self) -> Iterator[tuple[Field, Any]]:
        """The fields that are set, with their values, in slot order."""
        for name, field in self._spec.fields.items():
            if name in self._values:
                yield field, self._values[name]

    def copy(self) -> Record:
        """A shallow copy: same arrays and sub-records, own set of fields (lists are copied)."""
        values = {k: list(v) if isinstance(v, list) else v for k, v in self._values.items()}
        return Record.trusted(self._spec, values)

    def __reduce__(self) -> tuple[Any, ...]:
        return Record.trusted, (self.table_name if self._spec.schema is MNN else self._spec, self._values)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._spec.fields]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        if self._spec is not other._spec:
            return False
        return all(
            _same(field, self._values.get(name, field.default), other._values.get(name, field.default))
            for name, field in self._spec.fields.items()
            if name in self._values or name in other._values
        )

    def __repr__(self) -> str:
        return _show(self, 3)


def _coerced(where: str, field: Field, value: Any) -> Any:
    """``value`` in the form that a record holds; FormatError when it does not fit."""
    if field.kind in (Kind.TABLE, Kind.UNION):
        return _member(where, field, value)
    if field.kind is Kind.TABLES:
        return [_member(f"{where}[{i}]", field, item) for i, item in enumerate(items(where, value))]
    return coerce(where, field, value)


def _member(where: str, field: Field, value: Any) -> Record:
    if not isinstance(value, Record):
        raise FormatError(f"{where}: expected a Record, found {type(value).__name__}")
    if field.kind is Kind.UNION:
        if value.table_name not in field.schema.union_tags(field.target):
            raise FormatError(f"{where}: {value.table_name} is not a member of the union {field.target}")
    elif value.table_name != field.target:
        raise FormatError(f"{where}: expected a Record of {field.target}, found {value.table_name}")
    return value


def _same(field: Field, a: Any, b: Any) -> bool:
    if a is b:
        return True
    if field.kind is Kind.VECTOR:
        size_a, size_b = 0 if a is None else a.size, 0 if b is None else b.size
        if size_a != size_b:
            return False
        return size_a == 0 or bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if field.kind in (Kind.ENUMS, Kind.STRINGS, Kind.TABLES):
        return bool((a or []) == (b or []))
    return bool(a == b) or (isinstance(a, float) and a != a and b != b)


def _show(value: Any, depth: int) -> str:
    if isinstance(value, Record):
        if depth == 0:
            return f"{value.table_name}(...)"
        inside = ", ".join(f"{field.name}={_show(item, depth - 1)}" for field, item in value.present())
        return f"{value.table_name}({inside})"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.tolist()}" if value.size <= 8 else f"{value.dtype}[{value.size}]"
    if isinstance(value, list):
        shown = ", ".join(_show(item, depth) for item in value[:4])
        return f"[{shown}]" if len(value) <= 4 else f"[{shown}, ... {len(value)} in all]"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
