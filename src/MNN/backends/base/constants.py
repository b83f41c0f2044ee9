"""Constants in the form kernels want: made once per session, shared by its plans, and kept on disk when they are large.

What is kept on disk goes by a name that says what it is made from: where in which model file the source lies (as long
as that file is as it was, see :func:`MNN.schema.files.identity`), or a hash of its numbers when it lies in no file;
how it is packed; for which processor; and the source of the code that packs.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

import numpy as np

from MNN.backends.base.kept_choices import KeptChoices
from MNN.backends.base.program import Buffer
from MNN.cache.packed import SMALLEST, PackedStore
from MNN.cache.sources import source_digest
from MNN.ir.dtype import DType
from MNN.ops.core.folding import FoldCache
from MNN.schema.files import origin, release

_PACKERS = ("MNN.backends", "MNN.compiler")
_LINE = 64
_MOST_SPREAD, _SAMPLE = 2.0**14, 1 << 12
_LEAST_WEIGHTS = 0.75
"""Of the weights of a product, those that are not zero, where its sums may be mixed up with others."""
_LARGEST_NUMBER = 1 << 31
"""Numbers in a key beyond this are identities of objects, which mean nothing to another process."""

Key = tuple[object, ...]


class ConstantPool:
    """Constants in the form kernels want (packed weights, offset tables), shared by all plans of a session.

    Each lives as long as some plan uses it. With a ``store`` and the key of the ``target`` they are for, large ones are
    looked up there before they are made.
    """

    def __init__(self, store: PackedStore | None = None, target: str = "") -> None:
        self._made: WeakValueDictionary[Key, Buffer] = WeakValueDictionary()
        self.folds = FoldCache()
        self._tables: WeakValueDictionary[bytes, Buffer] = WeakValueDictionary()
        self._named: WeakValueDictionary[Key, Buffer] = WeakValueDictionary()
        self.store = store or PackedStore(None)
        self._target = target
        self.kept_choices = KeptChoices()

    def even(self, key: Key, numbers: np.ndarray) -> bool:
        """Whether no number is so much larger than the others that a fast algorithm would drown them in its rounding.

        Winograd's and Strassen's methods add numbers before they multiply them, so that their errors follow the largest
        factor, where those of plain sums follow each product. In the trained nets that the tests run, weights are at
        most 11,000 times the median of their layer (Silero's voice detector; 34 in the others); a damaged or an extreme
        number, or one that is none (NaN, infinity), can leave nothing. ``key`` names what the answer is remembered for.
        """
        found = self.kept_choices.get(key)
        if found is None:
            largest = max(float(numbers.max(initial=0)), -float(numbers.min(initial=0)))
            sample = np.abs(numbers.reshape(-1)[:: max(numbers.size // _SAMPLE, 1)])
            sample = np.sort(sample[sample > 0])  # np.median would import modules that nothing else needs
            found = largest == 0 or (sample.size > 0 and largest <= _MOST_SPREAD * float(sample[sample.size // 2]))
            release(numbers)  # packing reads it again, when its turn comes
            self.kept_choices[key] = found
        return bool(found)

    def mixable(self, key: Key, numbers: np.ndarray) -> bool:
        """Whether the weights of a product are even, and sums may have errors that follow the norm of a row of the left
        side, as where different numbers of a row are added before they are multiplied.

        Not where weights pick what they sum, being mostly zeros (a bank of filters, one of many): loud numbers beside
        quiet ones would be heard in all results. Nor where all weights have one sign: what is never negative in plain
        sums may be given to a logarithm (SwiftF0's bands). ``key`` as for :meth:`even`.
        """
        found = self.kept_choices.get(key)
        if found is None:
            sample = numbers.reshape(-1)[:: numbers.size // _SAMPLE | 1]  # odd, so that it meets all columns
            some = np.count_nonzero(sample) >= _LEAST_WEIGHTS * sample.size
            found = some and float(sample.min(initial=0)) < 0 < float(sample.max(initial=0))
            self.kept_choices[key] = found
        return bool(found) and self.even((*key[:1], "even", *key[2:]), numbers)

    def get(self, key: Key, make: Callable[[], np.ndarray], source: object = None) -> Buffer:
        """The buffer for ``key``, made when no plan holds it. ``source`` (whose id may be in the key) lives as long."""
        buffer = self._made.get(key)
        if buffer is None:
            array = np.ascontiguousarray(make())
            buffer = self._made[key] = Buffer(array.nbytes, const=array, source=source, key=key)
        return buffer

    def known(self, key: Key) -> Buffer | None:
        """The buffer for ``key`` when some plan holds it."""
        return self._made.get(key)

    def reserve(self, key: Key, count: int, dtype: DType, source: object) -> tuple[Buffer, bool]:
        """Room for ``count`` elements under ``key``, and whether it is new, zeros that have to be filled.

        ``source``: the array that it is made from, or a tuple of arrays and of what else has to live as long. Keys
        may hold ids of these arrays, numbers below 2^31, texts, enum members and tuples.
        """
        buffer = self._made.get(key)
        if buffer is not None:
            return buffer, False
        nbytes = count * dtype.size
        name = self._name(key, count, dtype, source) if nbytes >= SMALLEST and self.store.folder is not None else ""
        found = self.store.find(name) if name else None
        if found is not None and found.nbytes == nbytes:
            buffer = self._made[key] = Buffer(
                nbytes, const=found.view(dtype.numpy), source=source, stored=name, key=key
            )
            return buffer, False
        draft = self.store.draft(name, nbytes) if name else None
        room = _zeros(nbytes) if draft is None else draft.numbers
        room = room.view(dtype.numpy)
        buffer = self._made[key] = Buffer(nbytes, const=room, source=source, draft=draft, key=key)
        return buffer, True

    def filled(self, buffer: Buffer) -> None:
        """Called when what was reserved holds its numbers: stores them, and lets go of what they were made from."""
        buffer.setup.clear()
        if buffer.draft is not None:
            assert buffer.const is not None
            kind, draft = buffer.const.dtype, buffer.draft
            buffer.const = None  # nothing else may hold the memory that is written to
            numbers = draft.commit(self.store)
            buffer.const, buffer.stored, buffer.draft = numbers.view(kind), draft.name, None
        for array in _arrays(buffer.source):
            release(array)

    def table(self, values: np.ndarray) -> Buffer:
        """A table of numbers, shared when equal, and gone with the last plan that uses it."""
        data = np.ascontiguousarray(values)
        key = hashlib.blake2b(data.tobytes(), person=data.dtype.str.encode()).digest()
        buffer = self._tables.get(key)
        if buffer is None:
            buffer = self._tables[key] = Buffer(data.nbytes, const=data)
        return buffer

    def named_table(self, key: Key, make: Callable[[], np.ndarray]) -> Buffer:
        """A table that is known by what it holds in short, so that its numbers need not be compared."""
        buffer = self._named.get(key)
        if buffer is None:
            data = np.ascontiguousarray(make())
            buffer = self._named[key] = Buffer(data.nbytes, const=data)
        return buffer

    def _name(self, key: Key, count: int, dtype: DType, source: object) -> str:
        """What the store calls a constant; empty when its key says nothing to other processes."""
        sources = {id(a): a for a in _arrays(source)}
        try:
            parts = [_text(part, sources) for part in key]
        except TypeError:
            return ""
        whole = "\0".join((*parts, str(count), dtype.value, self._target, source_digest(_PACKERS)))
        return hashlib.sha256(whole.encode()).hexdigest()


def _zeros(nbytes: int) -> np.ndarray:
    """Bytes that begin at a cache line, so that vectors and tiles do not straddle two."""
    block = np.zeros(nbytes + _LINE, np.uint8)
    start = -block.ctypes.data % _LINE
    return block[start : start + nbytes]


def _arrays(source: object) -> Iterator[np.ndarray]:
    if isinstance(source, np.ndarray):
        yield source
    elif isinstance(source, tuple):
        for part in source:
            yield from _arrays(part)


def _text(part: object, sources: dict[int, np.ndarray]) -> str:
    """A part of a key in words that mean the same in every process. Raises ``TypeError`` when there are none."""
    if isinstance(part, tuple):
        return "(" + ",".join(_text(p, sources) for p in part) + ")"
    if isinstance(part, enum.Enum):
        return str(part.value)
    if isinstance(part, int) and part in sources:
        return _content(sources[part])
    if part is None or isinstance(part, (str, float)) or (isinstance(part, int) and abs(part) < _LARGEST_NUMBER):
        return repr(part)
    raise TypeError(f"{part!r} means nothing to another process")


def _content(array: np.ndarray) -> str:
    """What an array holds: by its place in an unchanged file, else by its numbers."""
    kind = array.dtype.name if array.dtype.kind == "V" else array.dtype.str  # bf16 and fp8 are bytes to numpy
    form = f"{kind}{array.shape}"
    if array.ndim == 2 and not array.flags.c_contiguous and array.T.flags.c_contiguous:
        return f"{_content(array.T)} turned"
    found = origin(array)
    if found is not None and found[0].identity:
        return f"{form} at {found[1]} of {found[0].identity}"
    digest = hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()
    release(array)
    return f"{form} of {digest}"
