"""The numbers of constants: from bytes to arrays, those in less than a byte, sparse ones and strings too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.schema.record import Record

MAX_ELEMENTS = 1 << 40
_DENSER = 1024
"""How many times more elements than bytes a sparse constant may have."""

DTYPES: dict[str, DType] = {
    "FLOAT32": DType.F32, "FLOAT16": DType.F16, "BFLOAT16": DType.BF16, "FLOAT64": DType.F64, "INT8": DType.I8,
    "UINT8": DType.U8, "INT16": DType.I16, "UINT16": DType.U16, "INT32": DType.I32, "UINT32": DType.U32,
    "INT64": DType.I64, "UINT64": DType.U64, "BOOL": DType.BOOL, "STRING": DType.STR, "INT4": DType.I8,
    "UINT4": DType.U8, "INT2": DType.I8, "COMPLEX64": DType.F32, "FLOAT8_E4M3FN": DType.F8E4M3FN,
    "FLOAT8_E5M2": DType.F8E5M2,
}  # fmt: skip
"""Integers of 2 and 4 bits take a byte each here; complex numbers are pairs along one more axis."""
_NUMPY: dict[str, np.dtype[np.generic]] = {
    **{kind: dtype.numpy for kind, dtype in DTYPES.items() if dtype is not DType.STR},
    "COMPLEX64": np.dtype(np.complex64), "COMPLEX128": np.dtype(np.complex128),
}  # fmt: skip
_BITS = {"INT4": 4, "UINT4": 4, "INT2": 2}


def constant(tensor: Record, shape: Sequence[int], raw: np.ndarray, where: str) -> np.ndarray:
    """The array of a constant tensor of ``shape`` with the bytes ``raw``: a view of them where they are aligned.

    Raises :class:`FormatError` when there are more or fewer than the shape says, :class:`UnsupportedError` for types
    without constants (resources).
    """
    kind = str(tensor.type)
    if kind == "STRING":
        return strings(raw, shape, where)
    count = 1
    for size in shape:
        count *= size
    if tensor.sparsity is not None:
        flat = _numbers(kind, raw, None, where)
        return dense(tensor.sparsity, flat, shape, where)
    return _numbers(kind, raw, count, where).reshape(tuple(shape))


def _numbers(kind: str, raw: np.ndarray, count: int | None, where: str) -> np.ndarray:
    """``count`` numbers, or as many as there are."""
    bits = _BITS.get(kind)
    if bits is not None:
        return _unpacked(raw, bits, kind.startswith("INT"), count, where)
    dtype = _NUMPY.get(kind)
    if dtype is None:
        raise UnsupportedError(f"{where}: constants of type {kind}")
    if raw.size % dtype.itemsize or (count is not None and raw.size != count * dtype.itemsize):
        raise FormatError(f"{where}: {raw.size} bytes of {kind} are not its {count} elements; is the model damaged?")
    if dtype == np.bool_:  # a byte other than 0 and 1 must not become a numpy bool
        return np.asarray(raw != 0)
    aligned = raw.ctypes.data % dtype.alignment == 0
    found: np.ndarray = np.asarray(raw.view(dtype) if aligned else np.frombuffer(raw.tobytes(), dtype))
    if dtype.kind == "c":
        pairs: np.ndarray = found.view(np.float32 if dtype.itemsize == 8 else np.float64).reshape(-1, 2)
        return pairs
    return found


def _unpacked(raw: np.ndarray, bits: int, signed: bool, count: int | None, where: str) -> np.ndarray:
    """Numbers of less than a byte, the first in the lowest bits."""
    per = 8 // bits
    count = raw.size * per if count is None else count
    if raw.size != -(-count // per):
        raise FormatError(f"{where}: {raw.size} bytes are not {count} numbers of {bits} bits; is the model damaged?")
    parts = (raw[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8((1 << bits) - 1)
    flat: np.ndarray = parts.reshape(-1)[:count].astype(np.uint8)
    if not signed:
        return flat
    half = np.uint8(1 << (bits - 1))
    return np.asarray((flat ^ half).view(np.int8) - half.view(np.int8))


def strings(raw: np.ndarray, shape: Sequence[int], where: str) -> np.ndarray:
    """Strings: their number, the places where each begins and the last ends, then the text."""
    count = int.from_bytes(raw[:4].tobytes(), "little", signed=True) if raw.size >= 4 else -1
    expected = 1
    for size in shape:
        expected *= size
    head = 4 * (count + 2)
    if count != expected or head > raw.size:
        raise FormatError(f"{where}: its {raw.size} bytes are not {expected} strings; is the model damaged?")
    places = np.frombuffer(raw[4:head].tobytes(), "<i4")
    if (np.diff(places) < 0).any() or places[0] < head or places[-1] > raw.size:
        raise FormatError(f"{where}: its strings lie outside of its {raw.size} bytes; is the model damaged?")
    text = raw.tobytes()
    found = np.empty(count, object)
    for i in range(count):
        found[i] = text[places[i] : places[i + 1]].decode("utf-8", "surrogateescape")
    return found.reshape(tuple(shape))


def dense(sparsity: Record, values: np.ndarray, shape: Sequence[int], where: str) -> np.ndarray:
    """A sparse constant in full.

    The format (of TACO, Kjolstad et al. 2017, "The tensor algebra compiler"): the dimensions, and those within blocks,
    are levels of a tree in ``traversal_order``; a dense level has all its children, a compressed one (CSR) those
    that its segments and indices list. ``values`` are the leaves in order.
    """
    wrong = FormatError(f"{where}: its sparse form does not fit the shape {list(shape)}; is the model damaged?")
    order = [int(v) for v in sparsity.traversal_order] if sparsity.traversal_order is not None else []
    blocks = [int(v) for v in sparsity.block_map] if sparsity.block_map is not None else []
    levels = sparsity.dim_metadata or []
    rank, count = len(shape), 1
    for size in shape:
        count *= size
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order) or count > _DENSER * values.size:
        raise wrong
    if any(not 0 <= axis < rank for axis in blocks) or len(set(blocks)) < len(blocks):
        raise wrong
    sizes = list(shape) + [0] * len(blocks)
    for level, axis in zip(levels, order, strict=True):
        if axis >= rank:
            size, inside = int(level.dense_size), blocks[axis - rank]
            if level.format != "DENSE" or size < 1 or sizes[inside] % size:
                raise wrong
            sizes[axis] = size
            sizes[inside] //= size
    nodes = [np.zeros(1, np.int64)]  # coordinates of the tree's nodes: the level so far, one array an axis
    axes: list[int] = []
    for level, axis in zip(levels, order, strict=True):
        above = nodes[0].size
        if level.format == "DENSE":
            size = sizes[axis]
            if level.dense_size != size or above * size > max(count, 1):
                raise wrong
            parent, index = np.repeat(np.arange(above), size), np.tile(np.arange(size), above)
        else:
            segments, indices = (_listed(v) for v in (level.array_segments, level.array_indices))
            if segments.size != above + 1 or (np.diff(segments) < 0).any() or segments[0] != 0:
                raise wrong
            if segments[-1] != indices.size or (indices.size and not 0 <= indices.min() <= indices.max() < sizes[axis]):
                raise wrong
            parent, index = np.repeat(np.arange(above), np.diff(segments)), indices
        nodes = [line[parent] for line in nodes] + [index]
        axes.append(axis)
    if nodes[0].size != values.size:
        raise wrong
    place = [np.zeros(values.size, np.int64) for _ in shape]
    for axis, index in zip(axes, nodes[1:], strict=True):
        if axis < rank:
            inside = rank + blocks.index(axis) if axis in blocks else -1
            place[axis] += index * (sizes[inside] if inside >= 0 else 1)
        else:
            place[blocks[axis - rank]] += index
    out = np.zeros(tuple(shape), values.dtype)
    out[tuple(place)] = values
    return out


def _listed(vector: Record | None) -> np.ndarray:
    """The numbers of a vector that comes in three widths."""
    found = None if vector is None else vector.values
    return np.zeros(0, np.int64) if found is None else np.asarray(found, np.int64)
