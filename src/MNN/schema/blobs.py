"""Constants: ``Blob`` tables to numpy arrays and back."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.schema.external import ExternalSource
from MNN.schema.record import Record

Array = np.ndarray[Any, np.dtype[Any]]

MAX_RANK = 32

#: DataType -> (numpy type, the vectors that may hold it, most usual first). ``uint8s`` of a wider type holds raw bytes.
_HOLDERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "DT_FLOAT": (np.float32, ("float32s",)),
    "DT_DOUBLE": (np.float64, ("uint8s", "float32s")),
    "DT_INT32": (np.int32, ("int32s",)),
    "DT_QINT32": (np.int32, ("int32s",)),
    "DT_INT64": (np.int64, ("int64s", "int32s")),
    "DT_UINT8": (np.uint8, ("uint8s",)),
    "DT_QUINT8": (np.uint8, ("uint8s",)),
    "DT_INT8": (np.int8, ("int8s",)),
    "DT_QINT8": (np.int8, ("int8s",)),
    "DT_BOOL": (np.bool_, ("int32s", "uint8s", "int8s")),
    "DT_INT16": (np.int16, ("int32s", "uint8s")),
    "DT_UINT16": (np.uint16, ("int32s", "uint8s")),
    "DT_HALF": (np.float16, ("uint8s",)),
    "DT_BFLOAT16": (ml_dtypes.bfloat16, ("uint8s",)),
}
_TYPES: dict[np.dtype[Any], str] = {
    np.dtype(kind): name for name, (kind, _) in _HOLDERS.items() if not name.startswith("DT_Q")
}


def blob_to_array(blob: Record, external: ExternalSource | None = None, location: str | None = None) -> Array:
    """The constant as an array of its own shape and dtype (a read-only view where the file's form allows).

    ``external`` gives the model's external files and ``location`` is ``Op.externalPath``. Strings come as an object
    array of str. FormatError when dims and data do not fit, UnsupportedError for element types that are not known.
    """
    kind = blob.dataType
    dims = [int(d) for d in blob.get("dims", ())]
    if len(dims) > MAX_RANK or any(d < 0 for d in dims):
        raise FormatError(f"Blob: dims {dims[:MAX_RANK]} are not a shape of at most {MAX_RANK} dimensions")
    count = math.prod(dims)
    if kind == "DT_STRING":
        strings = np.array(blob.get("strings", []), dtype=object)
        return _shaped(strings, dims, count)
    if kind not in _HOLDERS:
        raise UnsupportedError(
            f"Blob: constants of type {kind} are not supported; expected one of {', '.join(_HOLDERS)}"
        )
    dtype, holders = _HOLDERS[kind]
    place = blob.get("external")
    if place is not None and place.size:
        return _shaped(_external(np.dtype(dtype), place, external, location), dims, count)
    for holder in holders:
        data = blob.get(holder)
        if data is not None and data.size:
            return _shaped(_as(data, holder, np.dtype(dtype), count), dims, count)
    if count:
        raise FormatError(f"Blob: shape {dims} of {kind} has no data in {' or '.join(holders)}")
    return np.empty(dims, dtype)


def _external(dtype: np.dtype[Any], place: Array, external: ExternalSource | None, location: str | None) -> Array:
    if external is None:
        raise MNNError("the constant lies in an external file, but the model was read from memory; read it from a path")
    if place.size != 2:
        raise FormatError(f"Blob.external: expected [offset, bytes], found {place.size} numbers")
    offset, length = (int(n) for n in place)
    raw = external.open(location)
    if dtype.kind == "b":
        stored = raw.array(offset, length, np.int32)
        flags: Array = stored != 0
        return flags
    return raw.array(offset, length, dtype)


def _as(data: Array, holder: str, dtype: np.dtype[Any], count: int) -> Array:
    if data.dtype == dtype:
        return data
    if dtype.kind == "b":
        flags: Array = data != 0
        return flags
    if holder == "uint8s":
        if data.size != count * dtype.itemsize:
            raise FormatError(f"Blob: {data.size} raw bytes for {count} elements of {dtype}")
        view = data.view(dtype)
        return view if view.flags.aligned else view.copy()
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if data.size and not limits.min <= int(data.min()) <= int(data.max()) <= limits.max:
            raise FormatError(f"Blob: values {data.min()}..{data.max()} do not fit {dtype}")
    return data.astype(dtype)


def _shaped(data: Array, dims: list[int], count: int) -> Array:
    if data.size != count:
        raise FormatError(f"Blob: shape {dims} needs {count} elements, found {data.size}")
    return data.reshape(dims)


def array_to_blob(array: Array, data_format: str = "NCHW") -> Record:
    """A Blob holding ``array`` with its own shape and dtype.

    Types that the official engine knows are stored as it stores them (fp16 and bf16 as raw bytes, bool and 16-bit
    integers widened to 32 bits). It has no 64-bit numbers: int64 and float64 kept here are read by this engine only;
    cast them first for a file meant for both.
    """
    array = np.asarray(array)
    if array.ndim > MAX_RANK:
        raise MNNError(f"a constant of {array.ndim} dimensions; the format holds at most {MAX_RANK}")
    blob = Record("Blob", dims=np.array(array.shape, dtype=np.int64), dataFormat=data_format)
    if array.dtype.kind in "OUS":
        blob.dataType = "DT_STRING"
        blob.strings = [
            s.decode("utf-8", "surrogateescape") if isinstance(s, bytes) else s for s in array.ravel().tolist()
        ]
        return blob
    if array.dtype.newbyteorder("=") not in _TYPES:
        raise UnsupportedError(
            f"constants of type {array.dtype} have no form in .mnn; cast to one of {', '.join(map(str, _TYPES))}"
        )
    kind = _TYPES[array.dtype.newbyteorder("=")]
    holder = _HOLDERS[kind][1][0]
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype != flat.dtype.newbyteorder("<"):
        flat = flat.astype(flat.dtype.newbyteorder("<"))
    blob.dataType = kind
    setattr(blob, holder, flat.view(np.uint8) if holder == "uint8s" else flat)
    return blob
