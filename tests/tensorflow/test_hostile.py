"""Files of TensorFlow cut short and changed at random: a right load or an MNNError, in time, and nothing else."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from MNN.errors import MNNError
from MNN.frontends.tensorflow import load
from tests.tensorflow.test_models import unpacked

CUTS = 20
MUTATIONS = int(os.environ.get("MNN_TENSORFLOW_MUTATIONS", "60"))
"""Of each file."""
SECONDS = 10.0
TARGETS = {
    "session": ("model.ckpt.meta", "model.ckpt.meta"),
    "session ": ("model.ckpt.index", "model.ckpt.meta"),
    "session  ": ("saved_model/saved_model.pb", "saved_model"),
    "sequences": ("saved_model/saved_model.pb", "saved_model"),
    "sequences ": ("saved_model/variables/variables.index", "saved_model"),
    "fused": ("frozen.pb", "frozen.pb"),
}
"""Models, the file that is damaged, and what is opened."""


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, taken out, put in or doubled."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(out))
        kind = rng.randrange(4)
        if kind == 0:
            out[at] = rng.randrange(256)
        elif kind == 1:
            del out[at : at + rng.randrange(1, 9)]
        elif kind == 2:
            out[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        else:
            out[at:at] = out[at : at + rng.randrange(1, 200)]
        if not out:
            return b"\0"
    return bytes(out)


@pytest.mark.parametrize("key", TARGETS)
def test_damaged_files_are_refused_or_right(key: str, tmp_path: Path) -> None:
    folder, _ = unpacked(key.strip(), tmp_path)
    victim, opened = (folder / part for part in TARGETS[key])
    whole, rng = victim.read_bytes(), random.Random(key)
    before = sorted(p for p in tmp_path.rglob("*"))
    refused = 0
    cuts = [whole[: len(whole) * k // CUTS] for k in range(CUTS)]
    for data in (*cuts, *(damaged(whole, rng) for _ in range(MUTATIONS))):
        victim.write_bytes(data)
        start = time.perf_counter()
        try:
            load(opened)
        except MNNError:
            refused += 1
        assert time.perf_counter() - start < SECONDS
    assert refused >= CUTS // 2
    assert sorted(p for p in tmp_path.rglob("*")) == before
