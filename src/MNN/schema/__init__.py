"""The .mnn wire format: tables as data, verifying reader, writer, JSON form, weights and external data.

Everything a model file says is held in :class:`~MNN.schema.record.Record` objects, one per flatbuffer table. The
schema itself is data (``tables.json``), so that reader, writer, JSON form and tests share one definition.
"""

from MNN.schema.json_form import from_json, to_json
from MNN.schema.reader import read_net
from MNN.schema.record import Record
from MNN.schema.writer import write_net

__all__ = ["Record", "from_json", "read_net", "to_json", "write_net"]
