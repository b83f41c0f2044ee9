"""Parameters, buffers and constants of a program of torch.export, of archives old and new."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.frontends.torch.archive import Archive
from MNN.frontends.torch.element_types import PAIRS, exported_type
from MNN.frontends.torch.exported.json_access import Record, parse
from MNN.frontends.torch.unpickle import StoredTensor, load

_NEW = (
    ("data/weights/model_weights_config.json", "data/weights"),
    ("data/constants/model_constants_config.json", "data/constants"),
)
_OLD = (
    "serialized_state_dict.pt",
    "serialized_state_dict.json",
    "serialized_constants.pt",
    "serialized_constants.json",
)


class Tensors:
    """Tensors by their names in the module."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._described: dict[str, tuple[Record, str]] = {}
        self._pickled: dict[str, Any] = {}
        for config, folder in _NEW:
            if archive.has(config):
                entries = parse(archive.read(config), f"{archive.name}, '{config}'").entries("config")
                self._described |= {name: (entry, folder) for name, entry in entries.items()}
        for part in _OLD:  # torch.save within the archive
            if archive.has(part):
                found = load(Archive(archive.read(part, 1 << 40)), "data.pkl", "data")
                self._pickled |= found if isinstance(found, dict) else {}

    def is_complex(self, name: str) -> bool:
        """Whether what :meth:`find` gives are pairs."""
        pickled = self._pickled.get(name)
        if isinstance(pickled, StoredTensor):
            return pickled.storage.is_complex
        entry = self._described.get(name)
        return entry is not None and not entry[0].flag("use_pickle") and _dtype(entry[0]) in PAIRS

    def find(self, name: str) -> np.ndarray:
        """Raises :class:`FormatError` for what is missing, :class:`UnsupportedError` for what is no plain tensor."""
        if name in self._pickled:
            found = self._pickled[name]
            if isinstance(found, StoredTensor):
                return found.array()
            raise UnsupportedError(f"'{name}' is no plain tensor; replace it by one before exporting")
        if name not in self._described:
            raise FormatError(f"{self._archive.name}: the tensor '{name}' is missing; export the model again")
        entry, folder = self._described[name]
        path = f"{folder}/{entry.text('path_name')}"
        if entry.flag("use_pickle"):
            found = load(Archive(self._archive.read(path, 1 << 40)), "data.pkl", "data")
            if not isinstance(found, StoredTensor) or found.storage.is_complex:
                raise UnsupportedError(f"'{name}' is no plain tensor; replace it by one before exporting")
            return found.array()
        sizes, strides, offset = _placed(entry)
        dtype = PAIRS.get(_dtype(entry))
        if dtype is None:
            dtype = exported_type(_dtype(entry), f"tensor '{name}'")
        else:
            sizes, strides, offset = [*sizes, 2], [*[2 * s for s in strides], 1], 2 * offset
        where = f"{self._archive.name}, tensor '{name}'"
        return self._archive.tensor(self._archive.stored(path), dtype, sizes, strides, offset, where)

    def place(self, name: str) -> Place | None:
        """Where a tensor lies; None for one that is pickled."""
        entry, folder = self._described.get(name, (None, ""))
        if entry is None or name in self._pickled or entry.flag("use_pickle"):
            return None
        sizes, strides, offset = _placed(entry)
        return Place(f"{folder}/{entry.text('path_name')}", _dtype(entry), tuple(sizes), tuple(strides), offset)

    def memory(self, place: Place, where: str) -> np.ndarray:
        """All elements of the memory that a tensor lies in, as numbers of its type."""
        dtype, data = exported_type(place.dtype, where), self._archive.stored(place.part)
        return self._archive.tensor(data, dtype, [len(data) // dtype.numpy.itemsize], [1], 0, where)


class Place(NamedTuple):
    """Where the elements of a tensor lie: tensors of one ``part`` of the archive share memory."""

    part: str
    dtype: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def _placed(entry: Record) -> tuple[list[int], list[int], int]:
    """Sizes, strides and offset, in elements."""
    meta = entry.record("tensor_meta")
    sizes, strides = ([_number(r) for r in meta.records(key)] for key in ("sizes", "strides"))
    return sizes, strides, _number(meta.record("storage_offset"))


def _dtype(entry: Record) -> int:
    return entry.record("tensor_meta").integer("dtype")


def _number(size: Record) -> int:
    return size.integer("as_int")
