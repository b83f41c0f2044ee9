"""An operator whose attributes are the fields of its table, and what writing the others shares with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.frontends.mnn.attributes import fill, is_default
from MNN.frontends.mnn.official.record import Written
from MNN.frontends.mnn.official.registry import official
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.base import operators
from MNN.schema.record import Record

#: Attributes that only say which integer type a result has, of which the official engine has one, and what matters to
#: gradients alone.
_NOTED = frozenset({"outputDataType", "paddingIndex", "slopeAtBounds"})
#: Element types that the official engine does not compute with, and those it has instead.
_OFFICIAL_TYPES = {
    **dict.fromkeys(("DT_INT64", "DT_INT16", "DT_UINT16", "DT_UINT32", "DT_UINT64"), "DT_INT32"),
    **dict.fromkeys(("DT_DOUBLE", "DT_HALF", "DT_BFLOAT16"), "DT_FLOAT"),
}
_FLOATS = (DType.F32, DType.F16, DType.BF16)


def attributes(node: Node, main: Record | None) -> dict[str, Any] | None:
    """Fills ``main``; returns attributes for the notes, or None when some would be lost."""
    known = operators()[node.op]
    attrs = {k: v for k, v in node.attrs.items() if v is not None}
    noted: dict[str, Any] = {k: v for k, v in attrs.items() if isinstance(v, str) and v in _OFFICIAL_TYPES}
    attrs.update({k: _OFFICIAL_TYPES[v] for k, v in noted.items()})
    left = attrs if main is None else fill(main, attrs)
    for key, value in left.items():
        if key in _NOTED:
            noted[key] = node.attrs[key]
        elif not _same(value, known.attributes.get(key)):
            return None
    return noted


def _same(value: object, default: object) -> bool:
    if isinstance(value, (list, tuple, np.ndarray)) or isinstance(default, (list, tuple, np.ndarray)):
        return default is not None and np.array_equal(np.asarray(value), np.asarray(default))
    return value == default


def plain(node: Node, fp16: bool) -> Written | None:
    table_name = official(node.op).table
    needed = table_name is not None and not (
        official(node.op).table_optional
        and all(is_default(table_name, k, v) or k in _NOTED for k, v in node.attrs.items())
    )
    main = Record(table_name) if table_name is not None and needed else None
    noted = attributes(node, main)
    if noted is None:
        return None
    record = Record("Op", type=node.op, main=main)
    return Written(record, list(node.inputs), {"attrs": noted} if noted else {})


def numbers_of(value: Value | None) -> np.ndarray | None:
    """A float constant as f32, or None when it is no constant, or one that f32 cannot hold."""
    if value is None or value.data is None:
        return None
    array = value.array()
    return array.astype(np.float32) if DType.of(array) in _FLOATS else None


def operand_note(value: Value) -> list[Any]:
    dtype = DType.F32 if isinstance(value.data, QuantizedArray) else DType.of(value.data)
    assert value.data is not None
    return [value.name, dtype.value, [int(d) for d in value.data.shape]]
