"""HDF5 files as Keras writes them, by the library that is there: names, attributes and arrays, with bounds."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from MNN.cache.scratch import SMALLEST, apart
from MNN.errors import FormatError, MNNError
from MNN.schema.files import release

EXTRA = 'install it with: pip install "mnn-py[keras]"'
MAX_PARTS = 10_000
"""In how many parts a long list of names may be kept."""
KEPT = 64
"""Groups that are remembered: more than lie within each other."""


class Hdf5:
    """A file in memory; ``name`` is what it is called in errors.

    Raises :class:`MNNError` where no library for HDF5 is installed, and :class:`FormatError` for whatever cannot be
    read.
    """

    def __init__(self, data: memoryview, name: str) -> None:
        self.name = name
        self._size = len(data)
        self._read = 0
        self._kept: dict[str, Any] = {}
        library = _library()
        with self._guarded(""):
            self._root: Any = library.File(io.BufferedReader(_Bytes(data)), "r")

    @contextmanager
    def _guarded(self, path: str) -> Iterator[None]:
        """Libraries for HDF5 raise whatever comes up where a file is damaged."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                yield
        except MNNError:
            raise
        except Exception as error:
            where = f" at '{path[:200]}'" if path else ""
            told = f" ({type(error).__name__}: {str(error)[:200]})" if str(error) else ""
            raise FormatError(
                f"{self.name} is no HDF5 file, or a part of it is missing or damaged{where}: "
                f"download or save it again{told}"
            ) from error

    def _find(self, path: str) -> Any:
        """What lies at a path. The library reads a group's names anew whenever it is asked for the group, so those that
        were used last are kept."""
        found, at = self._root, ""
        for key in filter(None, path.split("/")):
            at = f"{at}/{key}"
            inner = self._kept.pop(at, None)
            if inner is None:
                inner = found.get(key) if hasattr(found, "keys") else None
                if inner is None:
                    return None
            self._kept[at] = found = inner
            if len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return found

    def has(self, path: str) -> bool:
        """Whether a group or an array is there."""
        with self._guarded(path):
            return self._find(path) is not None

    def text(self, path: str, key: str) -> str | None:
        """An attribute that is a text; None where there is none."""
        with self._guarded(path):
            found = self._find(path)
            value = None if found is None or key not in found.attrs else found.attrs[key]
            if isinstance(value, np.ndarray) and value.size == 1:
                value = value.reshape(-1)[0]
            if value is None or isinstance(value, str):
                return value
            if not isinstance(value, bytes):
                raise FormatError(f"{self.name}: the attribute '{key}' is no text")
            return value.decode("utf-8")

    def texts(self, path: str, key: str) -> list[str] | None:
        """An attribute that is a list of texts, in parts ``key0``, ``key1`` where it is long."""
        with self._guarded(path):
            found = self._find(path)
            if found is None:
                return None
            attributes = found.attrs
            if key in attributes:
                return _texts(attributes[key])
            parts: list[str] = []
            for k in range(MAX_PARTS):
                if f"{key}{k}" not in attributes:
                    return parts if k else None
                parts += _texts(attributes[f"{key}{k}"])
            return parts

    def array(self, path: str) -> np.ndarray:
        """An array's numbers. Raises :class:`FormatError` where there is none, or more than the file can hold."""
        with self._guarded(path):
            found = self._find(path)
            if found is None or not hasattr(found, "shape"):
                raise FormatError(f"{self.name}: it has no array '{path[:200]}'")
            dtype = np.dtype(found.dtype)
            size = math.prod(int(n) for n in found.shape) * dtype.itemsize
            self._read += size
            bfloat16 = dtype.kind == "V" and dtype.itemsize == 2 and dtype.names is None
            if (dtype.kind not in "fiub" and not bfloat16) or self._read > 4 * self._size:
                raise FormatError(f"{self.name}: '{path[:200]}' is of {size} bytes and type {dtype}")
            array = np.asarray(found[()])
            if array.shape != tuple(found.shape):
                raise FormatError(f"{self.name}: '{path[:200]}' is not of the shape that it is said to be")
            if bfloat16:  # which Keras writes as two bytes without a meaning
                wide = np.frombuffer(array.tobytes(), "<u2").astype(np.uint32) << 16
                return apart(wide.view(np.float32).reshape(array.shape))
            return apart(np.ascontiguousarray(array, dtype.newbyteorder("=")).reshape(array.shape))


class _Bytes(io.RawIOBase):
    """Bytes in memory or of a mapped file, to be read as a file without a copy of all of it."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        if start + offset < 0:
            raise ValueError(f"no place {start + offset} in a file")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer).cast("B")
        part = self._data[self._at : self._at + len(room)]
        room[: len(part)] = part
        if len(part) > SMALLEST:
            release(np.frombuffer(part, np.uint8))
        self._at += len(part)
        return len(part)


def _texts(value: Any) -> list[str]:
    return [v.decode("utf-8") if isinstance(v, bytes) else str(v) for v in np.asarray(value).reshape(-1)]


def _library() -> Any:
    """pyfive, which is Python alone and so cannot be made to crash; h5py where only that is there."""
    try:
        import pyfive

        return pyfive
    except ImportError:
        try:
            import h5py
        except ImportError as error:
            raise MNNError(
                f"files of Keras hold their numbers as HDF5, and no library for it is there: {EXTRA}"
            ) from error
        return h5py
