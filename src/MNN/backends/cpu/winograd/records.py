"""The arguments of the kernels of :mod:`MNN.backends.cpu.winograd.spec`, and what their tables hold."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from MNN.backends.base.record import Record, word

PER_PIXEL = ("mn", "m")
"""Kinds of operands that differ from pixel to pixel."""
WINOGRAD = Record(
    "convolution by tiles",
    word("x", "the input", pointer=True),
    word("u", "the transformed weights", pointer=True),
    word("y", 'the result: the memory of an "mn" operand addressed alike, or of nothing that is read', pointer=True),
    word("tiles", "n_tiles records tile_record()", pointer=True),
    word("n_tiles", "tiles of all samples"),
    word("group", "tiles of a block"),
    word("c", "channels of x"),
    word("n", "channels of y, the columns of products"),
    word("n_block", "columns of a block, a multiple of a panel's"),
    word("chunk", "channels of a partial sum, at least 1; c and more: one sum"),
    word("row_x", "elements of x from one row of pixels to the next"),
    word("col_x", "and from one pixel to the next"),
    word("row_y", "elements of y from one row of pixels to the next"),
    word("col_y", "and from one pixel to the next"),
)
FIXED = Record(
    "behind WINOGRAD with fixed",
    word("scales", "f32: what sums are multiplied by, see FixedLayout", pointer=True),
    word("factors", "f32: what channels are multiplied by, see FixedLayout", pointer=True),
)
DEEP = Record(
    "behind these with deep",
    word(
        "slices",
        "i32: for each place among a tile's slices, which one lies there, counted along the axis",
        pointer=True,
    ),
    word("n_slices", "slices of the input that a tile takes"),
    word("taps", "i32: for each tap, the place of the slice that a tile's first results take", pointer=True),
    word("n_taps", "taps along the axis"),
    word("depths", "results along the axis of a tile"),
    word("deep_x", "elements of x from one slice to the next"),
    word("deep_y", "elements of y from one slice to the next"),
    word("u_tap", "elements (of 4 bytes) of u, and of scales, from what belongs to one tap to the next"),
)
GROUPED = Record(
    "behind these with grouped",
    word("groups", "groups of channels, each with c and n of its own, which lie one behind the other"),
    word("u_group", "elements (of 4 bytes) of u from one group's to the next"),
)
WEIGHTS = Record(
    "transform of weights",
    word("w", "the weights", pointer=True),
    word("u", "the transformed ones", pointer=True),
    word("c", "channels of the input"),
    word("n", "and of the result"),
    word("head", "rows in front of those of a panel"),
    word("step", "channels of a block"),
    word("w_n", "elements of w from one channel of the result to the next"),
    word("w_c", "from one channel of the input to the next"),
    word("w_h", "from one row of a window to the next"),
    word("w_w", "and from one column of it to the next"),
)
MOST_ROWS = 16
"""Of a register tile of inner products."""
NOTES = Record(
    "notes",  # on a tile of rows of V, for inner products (f32, one for each row)
    word("begin", "what sums begin with", size=4 * MOST_ROWS),
    word("inverse", "what they are multiplied by", size=4 * MOST_ROWS),
    word("plain", "whether the tile is multiplied plainly, in the first", size=4 * MOST_ROWS),
    unit=4,
)


@functools.cache
def tile_record(operands: int, deep: bool = False) -> Record:
    """Where a tile lies, for an epilogue with so many operands (i32; places count elements)."""
    third = (
        word("last_slice", "its last slice of inputs that there is; those beyond repeat it"),
        word("depths", "its slices of outputs that there are"),
    )
    return Record(
        "tile",
        word("x", "its first input"),
        word("last_row", "its last row of inputs that there is; those beyond repeat it"),
        word("last_column", "its last column"),
        word("y", "its first output"),
        word("rows", "its rows of outputs that there are; others are not stored"),
        word("columns", "its columns"),
        *(third if deep else ()),
        *(word(f"op{i}", f"its first element of operand {i}, if that is PER_PIXEL") for i in range(operands)),
        unit=4,
    )


def operand_arguments(kinds: Sequence[str], deep: bool = False) -> Record:
    """The arguments of the epilogue's operands, behind all others."""
    words = []
    for i, kind in enumerate(kinds):
        words.append(word(f"op{i}", f"operand {i} of the epilogue", pointer=True))
        if kind in PER_PIXEL:
            words.append(word(f"row{i}", "its elements from one row of pixels to the next"))
            words.append(word(f"col{i}", "and from one pixel to the next"))
            words += [word(f"deep{i}", "and from one slice to the next")] if deep else []
    return Record("operands", *words)


__all__ = [
    "DEEP",
    "FIXED",
    "GROUPED",
    "MOST_ROWS",
    "NOTES",
    "PER_PIXEL",
    "WEIGHTS",
    "WINOGRAD",
    "operand_arguments",
    "tile_record",
]
