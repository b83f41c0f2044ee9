"""Element types, shapes and tensors between TensorFlow's form and the graph's."""

from __future__ import annotations

import math

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.frontends.tensorflow.messages import Proto, new
from MNN.ir.dtype import DType
from MNN.ir.shape import Shape

DTYPES = {
    1: DType.F32, 2: DType.F64, 3: DType.I32, 4: DType.U8, 5: DType.I16, 6: DType.I8, 7: DType.STR, 9: DType.I64,
    10: DType.BOOL, 11: DType.I8, 12: DType.U8, 13: DType.I32, 14: DType.BF16, 15: DType.I16, 16: DType.U16,
    17: DType.U16, 19: DType.F16, 22: DType.U32, 23: DType.U64, 24: DType.F8E5M2, 25: DType.F8E4M3FN,
    29: DType.I4, 30: DType.U4,
}  # fmt: skip
"""TensorFlow's DataType; the quantised ones are the integers that hold them."""
CODES = {dtype: code for code, dtype in reversed(DTYPES.items())}
COMPLEX = {8: DType.F32, 18: DType.F64}
"""Complex types, and what their parts are."""
RESOURCE, VARIANT = 20, 21
_NAMES = {8: "complex64", 18: "complex128", RESOURCE: "resource", VARIANT: "variant"}
_REF = 100
"""Added to a type: a reference to it (variables of TensorFlow 1)."""
MAX_RANK = 64


def plain_code(code: int) -> int:
    """The code of the type that a reference refers to."""
    return code - _REF if code > _REF else code


def type_name(code: int) -> str:
    """What an element type is called in messages."""
    code = plain_code(code)
    return DTYPES[code].value if code in DTYPES else _NAMES.get(code, f"number {code}")


def dtype_of(code: int, where: str) -> DType:
    """The element type of a code. Raises :class:`UnsupportedError` for those that tensors cannot have here."""
    found = DTYPES.get(plain_code(code))
    if found is None:
        raise UnsupportedError(f"{where}: the element type {type_name(code)} is not supported")
    return found


def known_dtype(code: int) -> DType | None:
    """The element type of a code, or None."""
    return DTYPES.get(plain_code(code))


def shape_of(proto: Proto, name: str) -> Shape | None:
    """A TensorShapeProto as a shape; open sizes are called ``<name>.<axis>``. None when the rank is unknown."""
    if proto.unknown_rank:
        return None
    if len(proto.dim) > MAX_RANK:
        raise FormatError(f"'{name}': a shape of {len(proto.dim)} dimensions, at most {MAX_RANK} are possible")
    return tuple(int(d.size) if d.size >= 0 else f"{name}.{i}" for i, d in enumerate(proto.dim))


_LISTS = {
    DType.F32: "float_val", DType.F64: "double_val", DType.I32: "int_val", DType.U8: "int_val", DType.I16: "int_val",
    DType.I8: "int_val", DType.U16: "int_val", DType.I64: "int64_val", DType.BOOL: "bool_val", DType.U32: "uint32_val",
    DType.U64: "uint64_val", DType.STR: "string_val",
}  # fmt: skip
MAX_FILLED = 1 << 28
"""Most bytes of a constant that is stored as one number and repeated."""


def parts_of(proto: Proto, where: str) -> tuple[np.ndarray, np.ndarray]:
    """The real and the imaginary numbers of a complex TensorProto, which are stored and listed in turns."""
    dtype, found = COMPLEX[proto.dtype], []
    listed = proto.scomplex_val if dtype is DType.F32 else proto.dcomplex_val
    content = np.frombuffer(
        proto.tensor_content[: len(proto.tensor_content) // (2 * dtype.size) * 2 * dtype.size], "V1"
    )
    for side in (0, 1):
        part = new("TensorProto")
        part.dtype = CODES[dtype]
        part.tensor_shape.CopyFrom(proto.tensor_shape)
        if content.size:
            part.tensor_content = content.reshape(-1, 2, dtype.size)[:, side].tobytes()
        else:
            getattr(part, _LISTS[dtype]).extend(listed[side::2])
        found.append(array_of(part, where))
    return found[0], found[1]


def array_of(proto: Proto, where: str) -> np.ndarray:
    """The numbers of a TensorProto. Raises :class:`FormatError` when they do not fit its shape."""
    dtype = dtype_of(proto.dtype, where)
    shape = shape_of(proto.tensor_shape, where)
    if shape is None or any(not isinstance(d, int) for d in shape):
        raise FormatError(f"{where}: a constant of an open shape")
    sizes = [int(d) for d in shape]
    count = math.prod(sizes)
    if proto.tensor_content:
        content = proto.tensor_content
        if dtype is DType.STR or len(content) != count * dtype.size:
            raise FormatError(f"{where}: {len(content)} bytes for {count} numbers of type {dtype.value}")
        return _from_bytes(content, dtype).reshape(sizes)
    return _listed(proto, dtype, count, where).reshape(sizes)


def _from_bytes(content: bytes, dtype: DType) -> np.ndarray:
    little = dtype.numpy.newbyteorder("<") if dtype.numpy.kind in "iuf" else dtype.numpy
    return np.frombuffer(content, little).astype(dtype.numpy, copy=False)


def _listed(proto: Proto, dtype: DType, count: int, where: str) -> np.ndarray:
    """Numbers that are listed one by one; the last one is repeated."""
    if dtype in (DType.F16, DType.BF16):
        found = np.asarray(proto.half_val, np.int64).astype(np.uint16).view(dtype.numpy)
    elif dtype is DType.STR:
        found = np.empty(len(proto.string_val), object)
        found[:] = [text_of(s) for s in proto.string_val]
    elif dtype in _LISTS:
        found = np.asarray(getattr(proto, _LISTS[dtype])).astype(dtype.numpy)
    else:
        raise UnsupportedError(f"{where}: a constant of the element type {dtype.value} listed one by one")
    if found.size > count:
        raise FormatError(f"{where}: {found.size} numbers for a shape of {count}")
    if found.size == count:
        return found
    if count * dtype.size > MAX_FILLED:
        raise FormatError(f"{where}: one number repeated {count} times, at most {MAX_FILLED} bytes are possible")
    fill = found[-1] if found.size else ("" if dtype is DType.STR else dtype.numpy.type(0))
    out = np.full(count, fill, dtype.numpy)
    out[: found.size] = found
    return out


def text_of(data: bytes) -> str:
    """Bytes that are a text in most files."""
    return data.decode("utf-8", "surrogateescape")
