"""The .mnn wire format: tables as data, verifying reader, writer, JSON form, weights and external data.

Everything a model file says is held in :class:`~MNN.schema.record.Record` objects, one per flatbuffer table. The
schema itself is data (``tables.json``), so that reader, writer, JSON form and tests share one definition.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from MNN.schema.json_form import from_json as from_json
    from MNN.schema.json_form import to_json as to_json
    from MNN.schema.reader import read_net as read_net
    from MNN.schema.record import Record as Record
    from MNN.schema.writer import write_net as write_net

_FROM = {
    "Record": "record",
    "from_json": "json_form",
    "read_net": "reader",
    "to_json": "json_form",
    "write_net": "writer",
}


def __getattr__(name: str) -> Any:
    """Parts are imported when they are first used: who opens a file with stored plans needs none of them."""
    if name not in _FROM:
        raise AttributeError(f"module 'MNN.schema' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(f"MNN.schema.{_FROM[name]}"), name)
    return value


__all__ = ["Record", "from_json", "read_net", "to_json", "write_net"]
