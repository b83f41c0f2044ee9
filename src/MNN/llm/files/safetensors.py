"""Safetensors files: a length, a JSON header, and the bytes of all tensors, which may neither overlap nor leave gaps.

The format and its rules: https://huggingface.co/docs/safetensors (format, and the limits in its README).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.mapped import Array, map_file, parse_object, read_json
from MNN.llm.files.tensors import PlainTensor, WeightTensor, count
from MNN.schema.files import replacing

HEADER_LIMIT = 100_000_000
"""Bytes of a header, by the format's own rules."""
SIZE_LIMIT = 1 << 62
DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}


def read_safetensors(path: Path) -> dict[str, WeightTensor]:
    """The tensors of one file, in the order of their data. FormatError for what the format forbids."""
    data = map_file(path)
    header, begin = _header(data, path)
    available = data.size - begin
    spans = []
    for name, entry in header.items():
        if name != "__metadata__":
            dtype, shape, first, end = _entry(entry, f"{path}, tensor {name!r}", available)
            spans.append((first, end, name, dtype, shape))
    spans.sort(key=lambda span: span[:2])
    place = 0
    tensors: dict[str, WeightTensor] = {}
    for first, end, name, dtype, shape in spans:
        if first != place:
            what = "overlaps the tensor before it" if first < place else "leaves a gap before it"
            raise FormatError(f"{path}, tensor {name!r}: its data {what}, at byte {first} instead of {place}")
        place = end
        tensors[name] = PlainTensor.of(data[begin + first : begin + end], DTYPES[dtype], shape, dtype)
    if place != available:
        raise FormatError(f"{path} has {available} bytes of data, but its tensors take {place}; download it again")
    return tensors


def notes_of(index: Path | None, files: Sequence[Path]) -> dict[str, Any]:
    """The metadata of files, or of those that an ``index`` names."""
    places = read_json(index).get("weight_map", {}) if index is not None else {}
    held = files if index is None else [index.parent / file for file in sorted(set(places.values()))]
    found: dict[str, Any] = {}
    for file in held:
        notes = _header(map_file(file), file)[0].get("__metadata__")
        found |= notes if isinstance(notes, dict) else {}
    return found


def _header(data: Array, path: Path) -> tuple[dict[str, Any], int]:
    if data.size < 8:
        raise FormatError(f"{path} has {data.size} bytes, too few for a safetensors file; download it again")
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > HEADER_LIMIT:
        raise FormatError(f"{path} is no safetensors file: it claims a header of {length} bytes")
    if length > data.size - 8:
        raise FormatError(f"{path} ends within its header of {length} bytes; download it again")
    text = data[8 : 8 + length].tobytes()
    if not text.startswith(b"{"):
        raise FormatError(f"{path} is no safetensors file: its header does not begin with a brace")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: its header is not text in UTF-8, at byte {8 + error.start}") from error
    return parse_object(decoded, f"{path}: its header"), 8 + length


def _entry(entry: Any, where: str, available: int) -> tuple[str, tuple[int, ...], int, int]:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise FormatError(f"{where}: its entry in the header needs dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not (_sizes(shape) and _sizes(offsets) and len(offsets) == 2 and isinstance(dtype, str)):
        raise FormatError(f"{where}: dtype {dtype!r}, shape {shape!r} and data_offsets {offsets!r} make no tensor")
    if dtype not in DTYPES:
        raise UnsupportedError(f"{where}: numbers of kind {dtype[:40]!r} are not known; known are {', '.join(DTYPES)}")
    first, end = offsets
    needed = count(tuple(shape)) * DTYPES[dtype].itemsize
    if first > end or end > available:
        raise FormatError(f"{where}: its data, bytes {first} to {end}, leaves the {available} bytes that there are")
    if end - first != needed:
        raise FormatError(f"{where}: {dtype} {shape} takes {needed} bytes, but its data has {end - first}")
    return dtype, tuple(shape), first, end


def _sizes(numbers: Any) -> bool:
    """Whether this is a short list of natural numbers."""
    if not isinstance(numbers, list) or len(numbers) > 32:
        return False
    return all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < SIZE_LIMIT for n in numbers)


def read_sharded(index: Path) -> dict[str, WeightTensor]:
    """The tensors of the files that ``*.safetensors.index.json`` lists, each in the file that it names."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise FormatError(f"{index} has no weight_map of tensors to files")
    tensors: dict[str, WeightTensor] = {}
    for file in sorted(set(places.values())):
        if Path(file).name != file or file in (".", "..") or "\\" in file or ":" in file:
            raise FormatError(f"{index} names the file {file!r}; files beside it are expected")
        held = read_safetensors(index.parent / file)
        wanted = [name for name, place in places.items() if place == file]
        missing = [name for name in wanted if name not in held]
        if missing:
            raise FormatError(f"{index}: {file} lacks {missing[0]!r} and {len(missing) - 1} other tensors")
        tensors |= {name: held[name] for name in wanted}
    return tensors


def write_safetensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name, whole or not at all. Raises :class:`MNNError` where it cannot be written."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = [np.ascontiguousarray(array) for array in arrays.values()]
    place = 0
    for name, array in zip(arrays, data, strict=True):
        end = place + array.nbytes
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [place, end]}
        place = end
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with replacing(path) as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for array in data:
            file.write(array.tobytes())
