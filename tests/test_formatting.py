"""Counts, sizes and shapes as people read them."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.formatting import dims, nbytes, parse_bytes, plural


def test_one_is_singular():
    assert [plural(n, "core") for n in (0, 1, 2, 1200)] == ["0 cores", "1 core", "2 cores", "1,200 cores"]
    assert plural(2, "entry", "entries") == "2 entries"


def test_small_files_have_a_size():
    sizes = {
        0: "0 B",
        749: "749 B",
        999: "999 B",
        1000: "1 kB",
        43_456: "43.5 kB",
        999_700: "1 MB",
        1_250_000_000: "1.25 GB",
    }
    assert {n: nbytes(n) for n in sizes} == sizes


def test_sizes_to_be_asked_for_are_enough() -> None:
    for count in [*range(995, 1010), *(int(n) for n in np.exp(np.random.default_rng(3).uniform(0, 30, 3000)))]:
        given = parse_bytes(nbytes(count, enough=True), "size")
        assert count <= given <= max(count + 1, count * 1.011)


def test_named_sizes_stand_apart():
    assert dims((1, 3, 8, 8)) == "1x3x8x8"
    assert dims(("batch", 3, "h", "w")) == "batch x 3 x h x w"
    assert dims(()) == "scalar"
    assert dims(None) == "unknown shape"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("749 b", 749),
        ("0", 0),
        ("500MB", 5 * 10**8),
        ("1.5 GB", 15 * 10**8),
        ("2GiB", 2 << 30),
        ("64k", 64000),
        ("1 kib", 1024),
    ],
)
def test_sizes_are_read(text, count):
    assert parse_bytes(text, "the limit") == count


@pytest.mark.parametrize("text", ["", "MB", "-1", "3", "1000000", "1e9", "2 gigabytes", "nan"])
def test_sizes_that_are_none(text):
    with pytest.raises(MNNError, match="the limit is a size such as 500MB or 2GB"):
        parse_bytes(text, "the limit")
