"""How programs lie on disk: pickles of plain data, read back into a short list of classes and nothing else.

Kernels are named by whatever their back end finds them by. Large constants are left out and named: entries of
:class:`~MNN.cache.packed.PackedStore`, or places in a model file.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import io
import pickle
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from MNN.backends.base.backend import Backend
from MNN.backends.base.offset_table import OffsetTable
from MNN.backends.base.program import Buffer
from MNN.cache.packed import SMALLEST, PackedStore
from MNN.ir.symbolic import Expression, Function
from MNN.ir.symbolic import parse as parse_size
from MNN.schema.files import origin

_CLASSES: Mapping[str, Collection[str]] = {
    "MNN.backends.base.program": {
        "Command",
        "Local",
        "Located",
        "Patch",
        "Place",
        "Program",
        "Ref",
        "Slices",
        "StageCall",
    },
    "MNN.backends.base.candidates": {"Choice"},
    "MNN.backends.base.offset_table": {"Column", "OffsetTable"},
    "MNN.backends.base.open_words": {"OpenSizes", "OpenWord"},
    "MNN.backends.base.space": {"MemorySpace"},
    "MNN.ir.dtype": {"DType"},
    "MNN.ir.symbolic": {"parse"},
    "MNN.runtime.info": {"TensorInfo"},
    "MNN.runtime.storage.form": {"restored_buffer"},
    "builtins": {"int"},
}
_DAMAGE = (pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, ImportError, LookupError, MemoryError,
           TypeError, ValueError)  # fmt: skip
"""What unpickling raises for entries that another version of this program wrote."""


class Unfit(Exception):  # noqa: N818 - a reason, for the code around it only
    """A program that cannot be stored, or an entry that does not hold any more."""


@dataclasses.dataclass(frozen=True)
class Elsewhere:
    """Where a large constant lies: in the store under ``name``, or from byte ``offset`` of the file ``name``."""

    name: str
    kind: str
    offset: int


def dump(thing: object, store: PackedStore) -> bytes:
    """The entry for a portable program (see :class:`~MNN.backends.base.backend.Backend`) with what goes along. Raises
    :class:`Unfit`."""
    stream = io.BytesIO()
    try:
        _Writer(stream, store).dump(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise Unfit(str(error)) from error
    return stream.getvalue()


def parse(data: bytes, backend: Backend) -> Any:
    """What :func:`dump` was given, of programs for this back end. Raises :class:`Unfit`."""
    try:
        return _Reader(io.BytesIO(data), backend.stored_classes).load()
    except _DAMAGE as error:
        raise Unfit(str(error)) from error


class _Writer(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, store: PackedStore) -> None:
        super().__init__(stream, protocol=5)
        self._store = store

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, Buffer):
            return restored_buffer, (obj.nbytes, obj.offset, obj.pinned, obj.lent, obj.table, *self._numbers(obj))
        if isinstance(obj, np.integer):
            return int, (int(obj),)
        if isinstance(obj, (Expression, Function)):  # sizes of outputs that follow from others
            return parse_size, (str(obj),)
        if isinstance(obj, enum.Enum):  # Python 3.11.0 to 3.11.3 would have it looked up with getattr
            return type(obj), (obj.value,)
        return NotImplemented

    def _numbers(self, buffer: Buffer) -> tuple[bytes | None, str, str, int]:
        """Numbers (None when they lie elsewhere), element type, and where: a name and an offset, -1 in the store."""
        array = buffer.const
        if buffer.setup or buffer.draft is not None:
            raise Unfit("a constant is not filled yet")
        if array is None:
            return None, "", "", -1
        if array.dtype.hasobject:
            raise Unfit(f"a constant of {array.dtype}")
        kind = array.dtype.str
        if np.dtype(kind) != array.dtype:  # bf16, of which numpy's names know nothing: kernels know what they read
            kind = f"|V{array.dtype.itemsize}"
        if buffer.nbytes < SMALLEST:
            return array.tobytes(), kind, "", -1
        found = None if buffer.stored else origin(array)
        if found is not None and found[0].identity:
            return None, kind, found[0].path, found[1]
        return None, kind, buffer.stored or self._kept(array), -1

    def _kept(self, array: np.ndarray) -> str:
        """The name of a constant in the store, put there when it is not."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        name = hashlib.sha256(b"constant\0" + hashlib.sha256(flat.data).digest()).hexdigest()
        if self._store.find(name) is None:
            draft = self._store.draft(name, flat.size)
            if draft is None:
                raise Unfit("there is no room for a constant")
            draft.numbers[...] = flat
            draft.commit(self._store)
        return name


class _Reader(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, more: Mapping[str, Collection[str]]) -> None:
        super().__init__(stream)
        self._classes = {**_CLASSES, **more}

    def find_class(self, module: str, name: str) -> Any:
        if name not in self._classes.get(module, ()):
            raise Unfit(f"an entry with a {module}.{name}")
        return super().find_class(module, name)


def restored_buffer(
    nbytes: int, offset: int, pinned: bool, lent: bool, table: OffsetTable | None,
    data: bytes | None, kind: str, name: str, place: int,
) -> Buffer:  # fmt: skip
    """A buffer as it was; ``source`` says where to find a large constant's numbers."""
    const = None if data is None else np.frombuffer(data, kind)
    return Buffer(nbytes, const, offset, pinned, Elsewhere(name, kind, place) if name else None, lent=lent, table=table)


__all__ = ["Elsewhere", "Unfit", "dump", "parse"]
