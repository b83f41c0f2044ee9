"""Weights of convolution-like operators as numbers: plain, fp16, quantised dense or sparse, inside or outside the file.

The layouts are those of ``Convolution2D.quanParameter`` (table IDSTQuan). A compressed weight is a matrix of rows with
one scale each: rows are output channels, or output channels times blocks (channel-major). Its elements in row order are
the weight in the file's own order: [oc][ic/group][ky][kx], for deconvolutions [ic][oc/group][ky][kx].
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.schema.bitpack import packed_size, unpack_bits
from MNN.schema.external import ExternalSource
from MNN.schema.record import Record

Array = np.ndarray[Any, np.dtype[Any]]

DENSE, SPARSE, HALF, INT8, RAW_FLOAT = 1, 2, 3, 4, 8
#: A sparse float weight may be at most this many times longer than its list of non-zeros (plus a little).
MAX_SPARSE_EXPANSION = 1024


@dataclass(frozen=True)
class DecodedWeight:
    """A weight as stored.

    ``values``: int8 [rows, cols] for quantised weights, float32 or float16 [n] for float ones. A quantised weight is
    ``values * scale + offset`` with ``scale`` and ``offset`` float32 [rows]; ``offset`` is None when symmetric,
    ``scale`` is None where the scales live elsewhere (int8 graphs: ``symmetricQuan``). ``bits``: 2..8, 16 or 32.
    ``blocks``: rows per output channel (1 when not known).
    """

    values: Array
    scale: Array | None
    offset: Array | None
    bits: int
    blocks: int = 1

    @property
    def is_float(self) -> bool:
        """Whether the weight is stored as floats."""
        return bool(self.values.dtype.kind == "f")

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.values.size

    def dequantize(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The weight as float32 [n], in the file's order."""
        if self.is_float:
            return self.values.astype(np.float32, copy=False).reshape(-1)
        if self.scale is None:
            raise MNNError("the weight has no scales of its own; its operator keeps them (int8 convolution)")
        out = self.values.astype(np.float32)
        with np.errstate(all="ignore"):  # scales come from the file and may be anything
            out *= self.scale[:, None]
            if self.offset is not None:
                out += self.offset[:, None]
        return out.reshape(-1)


@dataclass(frozen=True)
class _Parts:
    """The raw pieces of a compressed weight, wherever they were stored."""

    buffer: Array  # uint8
    alpha: Array  # float32 [n], as stored
    index: Array | None


def decode_weight(
    conv: Record, external: ExternalSource | None = None, location: str | None = None, count: int | None = None
) -> DecodedWeight:
    """The weight of a Convolution2D record.

    ``external`` gives the model's external files, ``location`` is ``Op.externalPath``, ``count`` the number of weights
    that the operator needs, checked when given. FormatError when the data is malformed, MNNError when an external file
    is missing.
    """
    quan = conv.quanParameter
    if quan is None:
        decoded = _plain(conv, external, location)
    else:
        decoded = _compressed(conv, quan, external, location)
    if count is not None and decoded.size != count:
        raise FormatError(f"Convolution2D: the weight has {decoded.size} elements, the operator needs {count}")
    return decoded


def decode_bias(conv: Record, external: ExternalSource | None = None, location: str | None = None) -> Array | None:
    """The float bias of a Convolution2D record, or None."""
    place = conv.get("external")
    if place is None or place.size < 2 or conv.get("bias") is not None:
        bias: Array | None = conv.get("bias")
        return bias
    part = 3 if conv.quanParameter is not None else 2
    if place.size <= part or place[part] == 0:
        return None
    return _part(place, part, np.dtype("<f4"), external, location, "Convolution2D")


def read_parts(
    record: Record, dtypes: list[str], external: ExternalSource | None, location: str | None = None
) -> list[Array]:
    """The arrays that a LayerNorm, GroupNorm, Scale or Convolution3D keeps in an external file, in order."""
    place = record.external
    if place is None or place.size < 2:
        raise FormatError(f"{record.table_name}: no external data is named")
    found = range(1, min(place.size, len(dtypes) + 1))
    return [_part(place, i, np.dtype(dtypes[i - 1]), external, location, record.table_name) for i in found]


def _part(
    place: Array, part: int, dtype: np.dtype[Any], external: ExternalSource | None, location: str | None, owner: str
) -> Array:
    if external is None:
        raise MNNError(f"{owner}: the weight lies in an external file, but the model was read from memory")
    numbers = [int(n) for n in place]
    if any(n < 0 for n in numbers):
        raise FormatError(f"{owner}.external: negative numbers in {numbers[:8]}")
    return external.open(location).array(numbers[0] + sum(numbers[1:part]), numbers[part], dtype)


def _plain(conv: Record, external: ExternalSource | None, location: str | None) -> DecodedWeight:
    weight = conv.get("weight")
    place = conv.get("external")
    if weight is None and place is not None and place.size >= 2:
        weight = _part(place, 1, np.dtype("<f4"), external, location, "Convolution2D")
    return DecodedWeight(np.empty(0, np.float32) if weight is None else weight, None, None, 32)


def _gather(conv: Record, quan: Record, external: ExternalSource | None, location: str | None) -> _Parts:
    half = quan.scaleStorage == "FP16"
    buffer = quan.get("buffer")
    place = conv.get("external")
    if buffer is None and place is not None and place.size >= 2:
        owner = "Convolution2D"
        raw = _part(place, 1, np.dtype(np.uint8), external, location, owner)
        alpha = np.empty(0, np.float32)
        if place.size > 2:
            alpha = _part(place, 2, np.dtype("<f2" if half else "<f4"), external, location, owner)
        index = _part(place, 4, np.dtype("<u4"), external, location, owner) if place.size > 4 and place[4] else None
    else:
        raw = np.empty(0, np.uint8) if buffer is None else buffer.view(np.uint8)
        stored = quan.get("alphaFp16" if half else "alpha", np.empty(0, np.uint16 if half else np.float32))
        alpha = stored.view(np.float16) if half else stored
        index = quan.get("index")
    return _Parts(raw, alpha.astype(np.float32, copy=False), index)


def _compressed(conv: Record, quan: Record, external: ExternalSource | None, location: str | None) -> DecodedWeight:
    place = conv.get("external")
    if quan.type == RAW_FLOAT and place is not None and place.size >= 2:
        return DecodedWeight(_part(place, 1, np.dtype("<f4"), external, location, "Convolution2D"), None, None, 32)
    parts = _gather(conv, quan, external, location)
    if parts.index is not None and parts.index.size:
        return DecodedWeight(_sparse_float(quan, parts), None, None, 32)
    if quan.type == HALF:
        if parts.buffer.size % 2:
            raise FormatError(f"IDSTQuan.buffer: {parts.buffer.size} bytes are no whole number of fp16 weights")
        halves = parts.buffer.view("<f2")
        return DecodedWeight(halves if halves.flags.aligned else halves.copy(), None, None, 16)
    # The first files of type 4 say nothing about zero points or factors and are always asymmetric.
    first_int8 = quan.type == INT8 and quan.aMin == 0 and abs(quan.quantScale) < 1e-6
    asymmetric = quan.readType != 0 or first_int8
    if quan.type == DENSE:
        values, bits = _dense(quan, parts.buffer)
    elif quan.type == SPARSE:
        values, bits = _sparse(quan, parts, asymmetric)
    elif quan.type == INT8:
        values, bits = parts.buffer.view(np.int8), 8
    else:
        raise FormatError(f"IDSTQuan: unknown type {quan.type}; expected 1 (dense), 2 (sparse), 3 (fp16) or 4 (int8)")
    return _with_scales(conv, quan, values, bits, parts.alpha, asymmetric, 1.0 if first_int8 else quan.quantScale)


def _with_scales(
    conv: Record, quan: Record, values: Array, bits: int, alpha: Array, asymmetric: bool, factor: float
) -> DecodedWeight:
    channels = max(int(conv.common.outputCount) if conv.common is not None else 0, 0)
    rows = alpha.size // 2 if asymmetric else alpha.size
    if asymmetric and alpha.size % 2:
        raise FormatError(f"IDSTQuan.alpha: {alpha.size} numbers; expected pairs (min, scale)")
    if conv.symmetricQuan is not None and rows <= 1:
        rows = channels if channels and values.size % channels == 0 else 1
        return DecodedWeight(values.reshape(rows, -1), None, None, bits)
    if rows == 0 or values.size % rows:
        raise FormatError(f"IDSTQuan: {values.size} weights do not divide into {rows} rows with a scale each")
    if quan.has_scaleInt:
        factor = 1.0
    with np.errstate(all="ignore"):
        if asymmetric:
            low = -128.0 if quan.aMin == 0 else float(quan.aMin)
            scale = alpha[1::2].copy()
            offset = alpha[0::2] - np.float32(low) * scale if low < 0 else alpha[0::2].copy()
            if factor != 1.0:
                scale, offset = scale * np.float32(factor), offset * np.float32(factor)
        else:
            scale, offset = alpha if factor == 1.0 else alpha * np.float32(factor), None
    blocks = rows // channels if channels and rows % channels == 0 else 1
    return DecodedWeight(values.reshape(rows, -1), scale, offset, bits, max(blocks, 1))


class _Cursor:
    """Takes pieces from the front of a buffer and says when there is too little."""

    def __init__(self, data: Array) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int, what: str) -> Array:
        if size > self.data.size - self.at:
            raise FormatError(
                f"IDSTQuan.buffer: {what} needs {size} bytes at {self.at}, there are {self.data.size} in all"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str, what: str) -> int:
        number: int = struct.unpack("<" + code, self.take(struct.calcsize(code), what).tobytes())[0]
        return number

    def dims(self, wide: bool) -> list[int]:
        rank = self.number("B", "the rank")
        if not 1 <= rank <= 4:
            raise FormatError(f"IDSTQuan.buffer: {rank} dimensions; expected 1 to 4")
        raw = self.take(rank * (4 if wide else 2), "the shape").tobytes()
        return list(struct.unpack(f"<{rank}{'I' if wide else 'H'}", raw))

    def value_table(self) -> Array:
        return np.sort(self.take(self.number("B", "the table's length") or 256, "the value table").view(np.int8))


def _bits_for(values: int) -> int:
    return max((values - 1).bit_length(), 1)


def _dense(quan: Record, buffer: Array) -> tuple[Array, int]:
    cursor = _Cursor(buffer)
    count = int(np.prod(np.array(cursor.dims(quan.shapeInt32), dtype=object)))
    table = cursor.value_table()
    bits = _bits_for(table.size)
    codes = unpack_bits(cursor.take(packed_size(count, bits), f"{count} weights of {bits} bits"), bits, count)
    return _look_up(table, codes), bits


def _look_up(table: Array, codes: Array) -> Array:
    if codes.size and int(codes.max()) >= table.size:
        raise FormatError(f"IDSTQuan.buffer: index {int(codes.max())} into a table of {table.size} values")
    full = np.zeros(256, np.int8)
    full[: table.size] = table
    return full[codes]


def _sparse(quan: Record, parts: _Parts, asymmetric: bool) -> tuple[Array, int]:
    cursor = _Cursor(parts.buffer)
    dims = cursor.dims(quan.shapeInt32)
    count = int(np.prod(np.array(dims, dtype=object)))
    stored = cursor.number("I", "the number of non-zeros")
    step_bits = cursor.number("B", "the step width")
    if not 1 <= step_bits <= 8:
        raise FormatError(f"IDSTQuan.buffer: steps of {step_bits} bits; expected 1 to 8")
    # A gap longer than a step holds filler entries, so the steps bound the length: check before allocating it.
    if count > (stored + 1) << step_bits:
        raise FormatError(f"IDSTQuan.buffer: {stored} steps of {step_bits} bits cannot span {count} weights")
    steps = unpack_bits(cursor.take(packed_size(stored, step_bits), "the steps"), step_bits, stored)
    table = cursor.value_table()
    bits = _bits_for(table.size)
    codes = unpack_bits(cursor.take(packed_size(stored, bits), "the values"), bits, stored)
    places = np.cumsum(steps, dtype=np.int64)
    if stored and int(places[-1]) >= count:
        raise FormatError(f"IDSTQuan.buffer: a non-zero at {int(places[-1])} of {count} weights")
    values = np.zeros(count, np.int8)
    if asymmetric and dims[0] and parts.alpha.size == 2 * dims[0]:
        values.reshape(dims[0], -1)[:] = _zero_points(parts.alpha, bits)[:, None]
    values[places] = _look_up(np.unique(table), codes)
    return values, bits


def _zero_points(alpha: Array, bits: int) -> Array:
    """The stored number that stands for 0 in each row of a sparse asymmetric weight."""
    low = -(1 << (bits - 1))
    with np.errstate(all="ignore"):
        least, scale = alpha[0::2].astype(np.float64), alpha[1::2].astype(np.float64)
        usable = scale > 1e-6
        ratio = np.where(usable, -least / np.where(usable, scale, 1.0), 0.0)
    zero = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio) + low  # rounds halves away from zero
    if not np.all((zero >= -128) & (zero <= 127)):
        raise FormatError("IDSTQuan.alpha: a zero point lies outside of 8 bits")
    return zero.astype(np.int8)


def _sparse_float(quan: Record, parts: _Parts) -> Array:
    index, alpha, count = parts.index, parts.alpha, int(quan.weightSize)
    assert index is not None
    if index.size != alpha.size:
        raise FormatError(f"IDSTQuan: {index.size} positions for {alpha.size} non-zero weights")
    if count > MAX_SPARSE_EXPANSION * index.size + 65536:
        raise FormatError(f"IDSTQuan.weightSize: {count} weights of which {index.size} are stored is not credible")
    if int(index.max()) >= count:
        raise FormatError(f"IDSTQuan.index: position {int(index.max())} of {count} weights")
    weight = np.zeros(count, np.float32)
    weight[index] = alpha
    return weight
