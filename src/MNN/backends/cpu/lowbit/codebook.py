"""Weights whose whole numbers have few different values: IQ4_NL and IQ4_XS of GGUF, 4-bit floats (MXFP4, NVFP4).

Such numbers take 8 bits in arrays of integers, but there are 16 of them at most. They lie in memory as codes of
:data:`WIDTH` bits, each the number of an entry of a codebook, and kernels look the entries up on the way to the
products: by a permutation of bytes within a register (``pshufb``, ``tbl``), or one of floats (``vpermps``). What is
computed from there on is what weights of :data:`BITS` bits have, number by number. One row waits for memory, of which
it is half as much.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from MNN.backends.base.program import Ref
from MNN.backends.base.record import Record, word
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.lang.module import F32, I8, I32, Builder, Kernel, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.schema.files import release

WIDTH = 4
"""Bits of a code in memory."""
BITS = 8
"""Bits of an entry."""
ENTRIES = 1 << WIDTH
_WORD, _BYTE = 32, 8
_LOW = 0x0F0F0F0F
_CENTER = 1 << (BITS - 1)
_AT_ONCE = 1 << 20
"""Codes that are looked at together: most weights of 8 bits show in the first of them that they have many values."""
CODEBOOK = Record("codebook", word("entries", "i8[16]: what codes stand for", pointer=True))
"""What kernels with a codebook have behind their other arguments."""
Numbers = npt.NDArray[Any]


def slots(codebook: bool) -> tuple[str, ...]:
    """Names of the arguments that come with a codebook."""
    return tuple(CODEBOOK) if codebook else ()


def arguments(e: Emitter, entries: tuple[int, ...]) -> dict[str, int | Ref]:
    """Values of :func:`slots`."""
    if not entries:
        return {}
    return {"entries": e.table(np.array([*entries, *[0] * (ENTRIES - len(entries))], np.int8))}


def entries_of(target: Target, codes: npt.NDArray[np.uint8], k: int, blocks: int, width: int) -> tuple[int, ...]:
    """The values of weights ``codes`` (as :class:`MNN.ir.quant.QuantizedArray` has them, in rows of ``k`` in
    ``blocks``), the least first; none where they have too many, the target looks nothing up, or blocks would not be
    whole words."""
    if width != BITS or not target.can(can.LOOK_UP) or (blocks > 1 and k // blocks * WIDTH % _WORD):
        return ()
    seen = np.zeros(1 << BITS, bool)
    rows = max(_AT_ONCE // max(codes.shape[1], 1), 1)
    for first in range(0, len(codes), rows):
        seen[codes[first : first + rows, :k]] = True
        if np.count_nonzero(seen) > ENTRIES:
            break
    release(codes)  # packing reads them again, when their turn comes
    found = np.flatnonzero(seen)
    return tuple(int(code) - _CENTER for code in found) if found.size <= ENTRIES else ()


def numbered(codes: npt.NDArray[np.uint8], entries: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Rows of codes of 8 bits as the numbers of their entries, two in a byte, the first in its lower half."""
    number = np.zeros(1 << BITS, np.uint8)
    number[np.array(entries) + _CENTER] = np.arange(len(entries))
    found = number[codes]
    if found.shape[1] % 2:
        found = np.pad(found, ((0, 0), (0, 1)))
    pairs: npt.NDArray[np.uint8] = found[:, ::2] | found[:, 1::2] << np.uint8(WIDTH)
    return pairs


def in_floats(target: Target) -> bool:
    """Whether a register holds all entries as floats."""
    return target.vector_bytes * _BYTE >= _WORD * ENTRIES and target.can(can.PICK_F32)


def floats(k: Kernel, target: Target) -> Value:
    """The codebook as :func:`float_of` takes it: as floats, or as :func:`signed_bytes`."""
    b = k.b
    if not in_floats(target):
        return signed_bytes(k, target)
    entries = b.load(I8.vec(ENTRIES), k.pointer("entries"), align=1)
    return b.convert("sitofp", b.convert("sext", entries, I32.vec(ENTRIES)), F32.vec(ENTRIES))


def signed_bytes(k: Kernel, target: Target) -> Value:
    """The codebook in each 16 bytes of a vector."""
    b = k.b
    entries = b.load(I8.vec(ENTRIES), k.pointer("entries"), align=1)
    return b.shuffle(entries, None, [i % ENTRIES for i in range(target.vector_bytes)])


def bytes_of(b: Builder, book: Value, words: Value, high: bool) -> Value:
    """Entries of the lower or the ``high`` half of each byte of words, as words again; ``book`` from
    :func:`signed_bytes`."""
    codes = b.and_(b.lshr(words, WIDTH) if high else words, _LOW)
    small = I8.vec(words.type.lanes * (_WORD // _BYTE))
    return b.bitcast(b.perform(can.LOOK_UP, small, book, b.bitcast(codes, small)), words.type)


def float_of(b: Builder, target: Target, book: Value, words: Value, step: int) -> Value:
    """The entries of the codes at ``step`` of words, as floats."""
    wide = F32.vec(words.type.lanes)
    if in_floats(target):
        return b.perform(can.PICK_F32, wide, book, b.lshr(words, WIDTH * step) if step else words)
    found, up = bytes_of(b, book, words, step % 2 == 1), _WORD - _BYTE * (step // 2 + 1)
    return b.convert("sitofp", b.ashr(b.shl(found, up) if up else found, _WORD - _BYTE), wide)


__all__ = [
    "BITS",
    "CODEBOOK",
    "WIDTH",
    "arguments",
    "bytes_of",
    "entries_of",
    "float_of",
    "floats",
    "numbered",
    "signed_bytes",
    "slots",
]
