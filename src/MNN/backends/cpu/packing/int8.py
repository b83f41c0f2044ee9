"""Constant weights of 8-bit products, packed once in groups of four or pairs (see
:mod:`MNN.backends.cpu.products.dot8`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from MNN.backends.base.program import Buffer
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.packing.byte_pairs import multiplies_pairs, pack_byte_pairs, pays, shift_of
from MNN.backends.cpu.products.dot8 import DOT4, moved, pack_dot4, pack_int16
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.schema.files import release

_VECTORS, _PANELS = 2, 4
"""Vectors of a panel by which it is decided whether bytes are multiplied in pairs, and how many panels."""
Conv = tuple[tuple[int, ...], int, int, int]
"""Kernel, channels in and out per group, groups."""


def signed_parts(tensor: Tensor) -> int:
    """How many i8 tensors the weights are the sum of: more than one where a zero point took them out of i8's range.

    Products are summed over all parts, as if the kernel had so many times the taps.
    """
    data = tensor.const
    if data is None or tensor.dtype is DType.I8 or not data.size:
        return 1
    return max(-(-int(data.max()) // 127), -(-int(data.min()) // -128), 1)


def packed_dot4(
    e: Emitter, tensor: Tensor, conv: Conv | None, run: int, parts: int, nr: int, a: DType
) -> tuple[Buffer, int, int]:
    """The packed weights for a left side of type ``a`` read in runs of ``run`` values, and the elements of one matrix
    and of one panel."""
    data = tensor.const
    assert data is not None
    shift = moved(e.target, a)
    if conv is None:
        k, n = tensor.shape[-2:]
    else:
        kernel, per_in, n, _ = conv
        k = int(np.prod(kernel, dtype=np.int64)) * per_in
    panel = nr * DOT4 + parts * (k // run) * -(-run // DOT4) * nr * DOT4
    buffer = e.pool.get(
        ("quads", id(data), nr, conv, run, shift, parts),
        lambda: pack_dot4(_matrices(data, conv, parts), nr, run, shift).reshape(-1),
        (data, tensor.keep),
    )
    return buffer, -(-n // nr) * panel, panel


def packed_int16(e: Emitter, tensor: Tensor, conv: Conv | None, run: int, nr: int) -> tuple[Buffer, int, int]:
    """The weights packed in pairs of 16 bits (:func:`MNN.backends.cpu.products.dot8.pack_int16`), as
    :func:`packed_dot4`."""
    data = tensor.const
    assert data is not None
    k, n = tensor.shape[-2:] if conv is None else (int(np.prod(conv[0], dtype=np.int64)) * conv[1], conv[2])
    panel = (k // run) * -(-run // 2) * nr * 2
    buffer = e.pool.get(
        ("words", id(data), nr, conv, run),
        lambda: pack_int16(_matrices(data, conv, 1, np.int16), nr, run).reshape(-1),
        (data, tensor.keep),
    )
    return buffer, -(-n // nr) * panel, panel


def taken_in_pairs(e: Emitter, tensor: Tensor, rows: int, run: int, columns: int, conv: bool = False) -> bool:
    """Whether products of bytes with weights, of a convolution or ``[..., K, N]``, are taken in pairs
    (:func:`~.byte_pairs.multiplies_pairs`) and that pays, by some of the columns; remembered."""
    data = tensor.const
    if data is None or not data.size or not multiplies_pairs(e.target, tensor, rows, run, columns):
        return False
    key = (e.origin, "in pairs", id(data))
    found = e.pool.kept_choices.get(key)
    if found is None:
        nr = _VECTORS * e.target.lanes(DType.I32)
        some = data[: _PANELS * nr] if conv else data.reshape(-1, *data.shape[-2:])[0, :, : _PANELS * nr]
        matrix = _matrices(some, (tensor.shape[2:], tensor.shape[1], len(some), 1), 1)[0] if conv else some
        found = e.pool.kept_choices.setdefault(key, pays(matrix, run, nr))
        release(data)  # packing reads it again, when its turn comes
    return bool(found)


def packed_byte_pairs(
    e: Emitter, tensor: Tensor, conv: Conv | None, run: int, nr: int, a: DType, light: bool
) -> tuple[Buffer, int, int]:
    """The weights packed for sums of pairs of bytes (:mod:`MNN.backends.cpu.packing.byte_pairs`), as
    :func:`packed_dot4`."""
    data, shift = tensor.const, shift_of(a)
    assert data is not None
    n, matrices = (tensor.shape[-1], elements(tensor.shape[:-2])) if conv is None else conv[2:]
    buffer = e.pool.get(
        ("byte pairs", id(data), nr, conv, run, shift, light),
        lambda: pack_byte_pairs(_matrices(data, conv, 1).reshape(matrices, -1, n), run, nr, shift, light).reshape(-1),
        (data, tensor.keep),
    )
    size = buffer.nbytes // matrices
    return buffer, size, size // -(-n // nr)


def _matrices(
    data: npt.NDArray[np.generic], conv: Conv | None, parts: int, kind: type[np.signedinteger[Any]] = np.int8
) -> npt.NDArray[Any]:
    """The weights as matrices ``[..., parts * K, N]`` of i8 (or ``kind``)."""
    if conv is not None:
        _, per_in, per_out, groups = conv
        split = data.reshape(groups, per_out, per_in, -1)  # to groups, taps, channels in, channels out
        data = split.transpose(0, 3, 2, 1).reshape(groups, -1, per_out)
    if parts == 1:
        return data.astype(kind)
    rest, found = data.astype(np.int32), []
    for _ in range(parts):
        found.append(np.clip(rest, -128, 127))
        rest = rest - found[-1]
    return np.concatenate(found, axis=-2).astype(kind)


__all__ = ["packed_byte_pairs", "packed_dot4", "packed_int16", "signed_parts", "taken_in_pairs"]
