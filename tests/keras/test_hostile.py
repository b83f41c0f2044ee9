"""Files of Keras cut short, changed at random and made to be wrong: a right load or an MNNError, in time and memory."""

from __future__ import annotations

import io
import json
import os
import random
import time
import tracemalloc
import zipfile

import pytest

from MNN.errors import MNNError
from MNN.frontends.keras import load
from tests.keras.coverage import RECORDED
from tests.keras.recorded import Recorded, cases
from tests.tensorflow.test_hostile import damaged

CUTS = 20
MUTATIONS = int(os.environ.get("MNN_KERAS_MUTATIONS", "20"))
"""Of each file."""
SECONDS, BYTES = 10.0, 1 << 30
VICTIMS = {c.file: c for c in cases(RECORDED) if c.name.startswith("RNN")}


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """What is measured is reading, not the first import of the front end."""
    load(VICTIMS["model.keras"].data)


def opened(data: bytes) -> bool:
    """Whether a file is read in time; False for one that is refused."""
    start = time.perf_counter()
    try:
        load(data)
        return True
    except MNNError:
        return False
    finally:
        assert time.perf_counter() - start < SECONDS


def refused_in_little_memory(data: bytes) -> bool:
    tracemalloc.start()
    try:
        return not opened(data) and tracemalloc.get_traced_memory()[1] < BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key", VICTIMS)
def test_damaged_files_are_refused_or_right(key: str) -> None:
    whole, rng = VICTIMS[key].data, random.Random(key)
    assert opened(whole)
    assert not any(opened(whole[: len(whole) * k // CUTS]) for k in range(CUTS))
    for _ in range(MUTATIONS):
        opened(damaged(whole, rng))


def parts(case: Recorded) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(case.data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


ARCHIVE = VICTIMS["model.keras"]


@pytest.mark.parametrize("part", ["config.json", "model.weights.h5", "metadata.json"])
def test_parts_that_are_damaged_are_refused_or_right(part: str) -> None:
    """The archive's own sums are right, so that what is inside is looked at."""
    files, rng = parts(ARCHIVE), random.Random(part)
    for _ in range(MUTATIONS):
        opened(packed(files | {part: damaged(files[part], rng)}))


def test_wild_offsets_in_hdf5_are_refused_or_right() -> None:
    """Eight bytes anywhere made a number that is no place in the file, or one that is large."""
    tracemalloc.start()
    files, rng = parts(ARCHIVE), random.Random(3)
    whole = files["model.weights.h5"]
    for _ in range(MUTATIONS):
        at = rng.randrange(len(whole) // 8) * 8
        wild = rng.choice((2**64 - 2, 2**63, 2**40, len(whole), len(whole) - 8, at, 0)).to_bytes(8, "little")
        opened(packed(files | {"model.weights.h5": whole[:at] + wild + whole[at + 8 :]}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < BYTES


@pytest.mark.parametrize("part", ["config.json", "model.weights.h5"])
def test_archives_that_unpack_without_end_are_refused(part: str) -> None:
    files = parts(ARCHIVE)
    assert refused_in_little_memory(packed(files | {part: bytes(600 << 20)}, zipfile.ZIP_DEFLATED))


def test_configurations_nested_without_end_are_refused() -> None:
    files = parts(ARCHIVE)
    assert refused_in_little_memory(packed(files | {"config.json": b'{"a":' * 100_000}))
    assert refused_in_little_memory(
        packed(files | {"config.json": b'{"class_name": "Functional", "config": ' + b"[" * 100_000})
    )


@pytest.mark.parametrize("value", ["[[1], [1, 2]]", '["a"]', "{}", "null", "[1e400, 10000000000000000000000000]"])
def test_constants_that_are_no_tensors_are_refused(value: str) -> None:
    """Constants that operations are called with, as lists in the configuration."""
    case = next(c for c in cases(RECORDED) if c.name.startswith("OperationsOverWindows"))
    files = parts(case)
    text = files["config.json"].decode()
    constant = json.JSONDecoder().raw_decode(text, text.index('{"value": ', text.index('"class_name": "__')))
    begin = text.index('{"value": ', text.index('"class_name": "__'))
    changed = text[:begin] + '{"value": ' + value + ', "dtype": "int8"}' + text[constant[1] :]
    with pytest.raises(MNNError):
        load(packed(files | {"config.json": changed.encode()}))
