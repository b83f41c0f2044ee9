"""Arrays made from other kinds of data (buffers, files, functions), as another kind of array, and on grids."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, Literal

from numpy.typing import ArrayLike

from MNN.errors import MNNError
from MNN.expr import build, math, shaping
from MNN.expr.arrays.options import check_casting
from MNN.expr.types import ElementType, Ints, dtype, dtype_of
from MNN.expr.var import Var
from MNN.ir.dtype import DType
from MNN.numpy._arrays import array, asarray
from MNN.numpy._at_hand import made
from MNN.numpy._at_hand import untyped as _np

File = str | os.PathLike[str] | IO[Any]


def asanyarray(
    a: ArrayLike, dtype: ElementType | None = None, order: str | None = None, *, copy: bool | None = None
) -> Var:
    """Like :func:`asarray`."""
    return asarray(a, dtype, order, copy=copy)


def ascontiguousarray(a: ArrayLike, dtype: ElementType | None = None, order: str | None = None) -> Var:
    """Like :func:`asarray`, with at least one axis."""
    return array(a, dtype, copy=False, order=order, ndmin=1)


def asfortranarray(a: ArrayLike, dtype: ElementType | None = None) -> Var:
    """Like :func:`asarray`: the memory of a Var is in row-major order."""
    return asarray(a, dtype)


def asfarray(a: ArrayLike, dtype: ElementType = dtype.double) -> Var:
    """An array of ``float``, whatever ``dtype`` says, as in PyMNN."""
    dtype_of(dtype)  # which has to be one
    return build.cast(asarray(a), DType.F32)


def asarray_chkfinite(a: ArrayLike, dtype: ElementType | None = None, order: str | None = None) -> Var:
    """Like :func:`asarray`. Raises :class:`MNNError` for infinities and no-numbers."""
    v = asarray(a, dtype, order)
    if not _np.isfinite(v._array()).all():
        raise MNNError("asarray_chkfinite(): the array holds infinities or no-numbers")
    return v


def asmatrix(data: ArrayLike | str, dtype: ElementType | None = None) -> Var:
    """An array of two axes; text such as ``"1 2; 3 4"`` is read. ``*`` stays the product element by element."""
    if isinstance(data, str):
        try:
            data = [[float(n) if set(n) & set(".eE") else int(n) for n in row.replace(",", " ").split()]
                    for row in data.strip("[]").split(";")]  # fmt: skip
        except ValueError as error:
            raise MNNError(f"matrix(): {data!r} is no matrix: {error}") from error
    v = array(data, dtype, ndmin=2)
    if v.ndim != 2:
        raise MNNError(f"a matrix has two axes, found shape {v.shape}")
    return v


mat = matrix = asmatrix


def asscalar(a: ArrayLike) -> Any:
    """The only element, as a Python number."""
    return build.to_var(a).item()


def require(a: ArrayLike, dtype: ElementType | None = None, requirements: str | Sequence[str] | None = None) -> Var:
    """Like :func:`asarray`: the memory of a Var is contiguous, aligned, its own, and in row-major order.

    ``requirements`` that ask for anything else are refused."""
    wanted = [str(r).upper() for r in ([requirements] if isinstance(requirements, str) else requirements or ())]
    if strange := [r for r in wanted if r not in ("C", "C_CONTIGUOUS", "A", "ALIGNED", "W", "WRITEABLE", "O", "OWNDATA",
                                                  "E", "ENSUREARRAY", "CONTIGUOUS")]:  # fmt: skip
        raise MNNError(f"require(): the memory of a Var is in row-major order and cannot be {', '.join(strange)}")
    return asarray(a, dtype)


def frombuffer(buffer: Any, dtype: ElementType = dtype.float, count: int = -1, offset: int = 0) -> Var:
    """The numbers in bytes, from ``offset`` on; all of them unless ``count`` says how many."""
    kind = dtype_of(dtype)
    try:
        found = _np.frombuffer(buffer, kind.numpy, count, offset)
    except (ValueError, TypeError) as error:
        raise MNNError(f"frombuffer(): {error}") from error
    return build.leaf(found.copy())


def fromfile(file: File, dtype: ElementType = dtype.float, count: int = -1, sep: str = "", offset: int = 0) -> Var:
    """The numbers in a file: binary ones, or text between ``sep``."""
    try:
        return build.leaf(_np.fromfile(file, dtype_of(dtype).numpy, count, sep, offset=offset))
    except (ValueError, OSError) as error:
        raise MNNError(f"fromfile(): {file}: {error}") from error


def fromfunction(function: Callable[..., Any], shape: Ints, dtype: ElementType = dtype.float, **kwargs: Any) -> Var:
    """What a function gives for the coordinates of an array of that shape, one Var per axis."""
    places = _np.indices(tuple(shaping.dims_of(shape)), dtype_of(dtype).numpy)
    return build.to_var(function(*(build.leaf(p) for p in places), **kwargs))


def fromiter(iter: Iterable[Any], dtype: ElementType, count: int = -1) -> Var:
    """The numbers that an iterable gives, at most ``count``."""
    try:
        return build.leaf(_np.fromiter((float(n) if isinstance(n, Var) else n for n in iter), dtype_of(dtype).numpy,
                                       count))  # fmt: skip
    except (ValueError, TypeError) as error:
        raise MNNError(f"fromiter(): {error}") from error


def fromstring(string: str | bytes, dtype: ElementType = dtype.float, count: int = -1, sep: str = "") -> Var:
    """The numbers in text between ``sep``; without one those in bytes, as :func:`frombuffer`."""
    if not sep:
        return frombuffer(string.encode() if isinstance(string, str) else string, dtype, count)
    words = (string.decode() if isinstance(string, bytes) else string).strip()
    parts = words.split(sep if sep.strip() else None)[: None if count < 0 else count]
    try:
        numbers = [_number(p) for p in parts if p.strip()]
        return build.leaf(_np.array(numbers, None if numbers else _np.float64).astype(dtype_of(dtype).numpy))
    except ValueError as error:
        raise MNNError(f"fromstring(): {error}") from error


def _number(text: str) -> int | float:
    try:
        return int(text)  # of which doubles have only 53 bits
    except ValueError:
        return float(text)


def loadtxt(
    fname: Any, dtype: ElementType = dtype.float, comments: str | Sequence[str] | None = "#",
    delimiter: str | None = None, converters: Mapping[int, Callable[[str], Any]] | None = None, skiprows: int = 0,
    usecols: Ints | None = None, unpack: bool = False, ndmin: Literal[0, 1, 2] = 0, encoding: str = "bytes",
    max_rows: int | None = None, *, quotechar: str | None = None,
) -> Var:  # fmt: skip
    """The numbers in a text file (or in lines), a row a line; a number may stand between two ``quotechar``."""
    columns = None if usecols is None else shaping.dims_of(usecols)
    try:
        found = _np.loadtxt(
            fname, dtype_of(dtype).numpy, comments, delimiter, converters, skiprows, columns, unpack, ndmin,
            encoding=None if encoding == "bytes" else encoding, max_rows=max_rows, quotechar=quotechar,
        )  # fmt: skip
    except (ValueError, OSError) as error:
        raise MNNError(f"loadtxt(): {error}") from error
    return build.leaf(_np.ascontiguousarray(found).reshape(found.shape))


def logspace(start: float, stop: float, num: int = 50, endpoint: bool = True, base: float = 10.0,
             dtype: ElementType | None = None, axis: int = 0) -> Var:  # fmt: skip
    """Numbers whose logarithms to ``base`` are evenly spaced from ``start`` to ``stop``."""
    found = _np.logspace(start, stop, num, endpoint, base, axis=axis)
    return build.leaf(found.astype((DType.F32 if dtype is None else dtype_of(dtype)).numpy))


def geomspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: ElementType | None = None,
              axis: int = 0) -> Var:  # fmt: skip
    """Numbers whose ratios are the same, from ``start`` to ``stop``."""
    try:
        found = _np.geomspace(start, stop, num, endpoint, axis=axis)
    except ValueError as error:
        raise MNNError(f"geomspace(): {error}") from error
    return build.leaf(found.astype((DType.F32 if dtype is None else dtype_of(dtype)).numpy))


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Var]:
    """Coordinates of the points of a grid, from those along its axes: first x then y (``xy``), or in the order of the
    axes (``ij``). ``sparse`` ones have size 1 along the other axes. Vars never share memory, whatever ``copy`` says."""
    if indexing not in ("xy", "ij"):
        raise MNNError(f"meshgrid(): indexing is 'xy' or 'ij', found {indexing!r}")
    flat = [build.to_var(x).ravel() for x in xi]
    order = list(range(len(flat)))
    if indexing == "xy" and len(flat) > 1:
        order[:2] = 1, 0
    shaped = [
        shaping.reshape(v, [-1 if at == i else 1 for at in range(len(flat))]) for v, i in zip(flat, order, strict=True)
    ]
    if sparse:
        return shaped
    sizes = [0] * len(flat)
    for v, place in zip(flat, order, strict=True):
        sizes[place] = v.size
    return [shaping.broadcast_to(v, sizes) for v in shaped]


def copyto(dst: Var, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    """Writes ``src`` (broadcast) into ``dst``, where ``where`` is not 0 and ``casting`` allows it."""
    if not isinstance(dst, Var):
        raise MNNError(f"copyto() writes into a Var, found {type(dst).__name__}")
    source = build.to_var(src, dst)
    check_casting([source._kind], dst._kind, casting, "copyto")
    value = build.cast(source, dst._kind)
    dst[...] = math.select(where if where is not True else 1, value, dst)._array()


def fill(self: Var, fill_value: ArrayLike) -> None:
    """Every element of a Var becomes ``fill_value``."""
    copyto(self, fill_value, "unsafe")


def indices(dimensions: Ints, dtype: ElementType = dtype.int, sparse: bool = False) -> Var | tuple[Var, ...]:
    """The coordinates of an array's elements ``[rank, *dimensions]``, or with ``sparse`` one array per axis."""
    dims = tuple(shaping.dims_of(dimensions))
    kind = dtype_of(dtype).numpy
    if sparse:
        return tuple(build.leaf(_np.ascontiguousarray(p)) for p in _np.indices(dims, kind, True))
    return build.leaf(_np.indices(dims, kind))


def ix_(*args: ArrayLike) -> tuple[Var, ...]:
    """Vectors as indices of a grid: each gets size 1 along the others' axes."""
    found = _np.ix_(*(build.to_var(a)._array() for a in args))
    return tuple(made(_np.asarray(f)) for f in found)


__all__ = [
    "asanyarray", "asarray_chkfinite", "ascontiguousarray", "asfarray", "asfortranarray", "asmatrix", "asscalar",
    "copyto", "fill", "frombuffer", "fromfile", "fromfunction", "fromiter", "fromstring", "geomspace", "indices", "ix_",
    "loadtxt", "logspace", "mat", "matrix", "meshgrid", "require",
]  # fmt: skip
