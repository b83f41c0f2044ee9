from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from MNN.backends.base.arena import (
    LARGE_PAGE,
    MOST_SHARED,
    Arena,
    Room,
    Scratch,
    aligned_bytes,
    in_large_pages,
    sparse_zeros,
)
from MNN.errors import RunError


def test_blocks_are_aligned_and_as_long_as_asked() -> None:
    for nbytes in (0, 1, 63, 64, 65, 1000):
        for alignment in (64, 128, 4096):
            block = aligned_bytes(nbytes, alignment, zero=True)
            assert block.nbytes == nbytes
            assert nbytes == 0 or block.ctypes.data % alignment == 0
            assert not block.any()


def flags(address: int) -> str:
    """What Linux notes of the memory around an address."""
    ours = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            ours = int(found[1], 16) <= address < int(found[2], 16)
        elif ours and line.startswith("VmFlags:"):
            return line
    raise AssertionError("nothing is there")


def test_zeros_for_large_pages_begin_where_these_do() -> None:
    for nbytes in (1, LARGE_PAGE // 2 - 1, LARGE_PAGE // 2, LARGE_PAGE - 1, LARGE_PAGE, 5 * LARGE_PAGE + 77):
        block = sparse_zeros(nbytes)
        assert block.nbytes == nbytes
        assert not block.any()
        assert block.ctypes.data % LARGE_PAGE == 0 or nbytes < LARGE_PAGE // 2
        block[...] = 1  # all of it may be written to


def test_large_pages_hold_what_was_there() -> None:
    block, rng = sparse_zeros(3 * LARGE_PAGE + 100), np.random.default_rng(0)
    written = rng.integers(0, 256, block.size - LARGE_PAGE, np.uint8)
    block[: written.size] = written
    in_large_pages(block, LARGE_PAGE, 3 * LARGE_PAGE)
    np.testing.assert_array_equal(block[: written.size], written)
    assert not block[written.size :].any()
    if Path("/sys/kernel/mm/transparent_hugepage").exists():
        wanted = [" hg" in flags(block.ctypes.data + i * LARGE_PAGE) for i in range(4)]
        assert wanted == [False, True, True, False]


def test_views_share_the_block() -> None:
    arena = Arena(256)
    floats = arena.view(64, (4, 8), np.float32)
    assert floats.ctypes.data == arena.at(64)
    floats[...] = 1.5
    assert (arena.view(64, (32,), np.float32) == 1.5).all()
    assert arena.view(64, (2, 8), np.float32, strides=(64, 4)).tolist() == floats[::2].tolist()
    assert arena.view(64, (3, 8), np.float32, strides=(0, 4)).shape == (3, 8)
    assert arena.view(256, (0, 5), np.float64).size == 0


def test_views_keep_the_memory() -> None:
    view = Arena(1 << 20).view(0, (1 << 20,), np.uint8)
    view[...] = 7
    other = Arena(1 << 20).view(0, (1 << 20,), np.uint8)
    other[...] = 8
    assert (view == 7).all()


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (65,), None),
        (-64, (1,), None),
        (2, (1,), None),
        (252, (2,), None),
        (0, (-1, 4), None),
        (0, (2, 8), (256, 4)),
        (0, (2, 8), (-32, 4)),
        (0, (2, 8), (3, 4)),
        (0, (2, 8), (4,)),
        (256, (1,), None),
    ],
)
def test_views_outside_of_the_block_are_refused(
    offset: int, shape: tuple[int, ...], strides: tuple[int, ...] | None
) -> None:
    with pytest.raises(ValueError, match=r"offset|shape|strides|bytes"):
        Arena(256).view(offset, shape, np.float32, strides)


def test_addresses_outside_of_the_block_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        Arena(256).at(257)


def test_too_much_memory_is_an_error_of_the_user() -> None:
    with pytest.raises(RunError, match="MiB of working memory"):
        Arena(1 << 60)


def test_scratch_grows_and_what_was_given_stays() -> None:
    scratch = Scratch()
    small = scratch.of(100)
    assert np.shares_memory(scratch.of(50), small)
    small[:] = 7
    large = scratch.of(1000)
    assert large.nbytes >= 1000
    large[:] = 1
    assert (small == 7).all()
    assert np.shares_memory(scratch.of(100), large)


def test_those_that_run_at_the_same_time_have_scratch_of_their_own() -> None:
    room = Room()
    assert room.scratch() is room.scratch(0)
    assert not np.shares_memory(room.scratch(0).of(64), room.scratch(1).of(64))


@pytest.mark.skipif(os.name != "posix", reason="memory is only asked for ahead where that takes none")
def test_larger_programs_find_the_memory_of_smaller_ones() -> None:
    room = Room()
    small = room.block(1 << 20)
    assert room.block(16 << 20) is small
    assert room.block(MOST_SHARED) is not small
    shared = room.block(1 << 20)
    alone = room.block(MOST_SHARED + 1)
    assert alone is not shared
    assert alone is not room.block(MOST_SHARED + 1)
    assert room.block(1 << 20) is shared
