"""Saved states: files that do not fit, and those that are damaged."""

from __future__ import annotations

import io
import pathlib

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from tests.runtime.states.models import CACHES, DECODER


def test_damaged_files_are_refused(tmp_path: pathlib.Path) -> None:
    """Bytes that are others, or missing: a sentence, or arrays that are the state's."""
    model, path, rng = MNN.load(DECODER, states=CACHES), tmp_path / "state.npz", np.random.default_rng(2)
    model.run({"tokens": np.array([[1, 2, 3]])})
    model.state.save(path)
    good = path.read_bytes()
    plain = io.BytesIO()
    np.save(plain, np.zeros(3))
    damaged = [b"", b"text", plain.getvalue(), *(good[:n] for n in rng.integers(0, len(good), 40))]
    for _ in range(120):
        data = bytearray(good)
        for at in [*rng.integers(0, len(good), 2), len(good) - 1 - int(rng.integers(0, 200))]:
            data[int(at)] = int(rng.integers(0, 256))
        damaged.append(bytes(data))
    refusals = []
    for data in damaged:
        path.write_bytes(data)
        try:
            model.load_state(path)
        except MNNError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(str(path) in text for text in refusals)
    with pytest.raises(MNNError, match="cannot write"):
        model.state.save(tmp_path)
    with pytest.raises(MNNError, match="cannot write"):
        model.state.save(tmp_path / "nowhere" / "state.npz")


def test_files_that_do_not_fit_are_refused(tmp_path: pathlib.Path) -> None:
    model = MNN.load(DECODER, states=CACHES)
    (tmp_path / "not.npz").write_bytes(b"no")
    with pytest.raises(MNNError, match="no saved state"):
        model.load_state(tmp_path / "not.npz")
    np.savez(tmp_path / "other.npz", past_k0=np.zeros(3))
    with pytest.raises(MNNError, match="not this model's states"):
        model.load_state(tmp_path / "other.npz")
    np.savez(tmp_path / "type.npz", **{name: np.zeros((1, 2, 4, 16)) for name in CACHES})  # type: ignore[arg-type]
    with pytest.raises(MNNError, match="is float64"):
        model.load_state(tmp_path / "type.npz")
