"""Records what Keras answers for random models of every layer, in both kinds of files.

    python -m tests.keras.record tests/keras/layers.zip [--cases 1] [--seed 0] [--only NAME ...]

Runs where Keras is (an environment of its own: ``pip install tensorflow-cpu==2.21.0``), with the repository as the
working directory. Each case is the files and ``answers.npz``: ``in:NAME`` and ``out:PLACE``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np

import tests.keras.operation_families
import tests.keras.quantized_families
import tests.keras.sequence_families  # noqa: F401 - enters its families
from tests.keras.families import FAMILIES
from tests.tensorflow.record import _packed, _write

OLD_FORM = {
    "BatchNormalization", "Bidirectional", "CallsOfModels", "Conv2D", "MultiHeadAttention",
    "NestedModels", "Operations", "OperationsOneByOne",
    "OperationsOnShapes", "PReLU", "QuantizedInt8", "QuantizedInt4", "RNN", "SeparableConv2D",
    "Sequential", "TimeDistributed",
}  # fmt: skip
"""Families that are recorded as ``.h5`` too."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--cases", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="these alone, put into the archive beside what is there")
    parser.add_argument("--h5", action="store_true", help="all models as .h5 too, not only some")
    chosen = parser.parse_args()
    mode: Literal["a", "w"] = "a" if chosen.only else "w"
    with zipfile.ZipFile(chosen.out, mode) as archive:
        for name in sorted(chosen.only or FAMILIES):
            for k in range(chosen.cases):
                rng = np.random.default_rng([chosen.seed, k, *name.encode()])
                for file, data in recorded(FAMILIES[name], rng).items():
                    if file != "model.h5" or chosen.h5 or name in OLD_FORM:
                        _write(archive, f"{name}/{k}/{file}", data)


def recorded(make: Any, rng: np.random.Generator) -> dict[str, bytes]:
    """The files of a random model with random variables, and its answers."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(int(rng.integers(1 << 30)))
    model = make(rng)
    randomise(model, rng)
    if hasattr(model, "quantise_to"):
        mode, config = model.quantise_to
        model.quantize(mode, config=config)
    arrays = {f"in:{t.name}": random_input(t, rng) for t in flat_inputs(model)}
    given = [arrays[f"in:{t.name}"] for t in flat_inputs(model)]
    structure = getattr(model, "_inputs_struct", None)
    called = given[0] if structure is None else keras.tree.pack_sequence_as(structure, given)
    found = keras.tree.flatten(model(called, training=False))
    answers = arrays | {f"out:{i:03}": np.asarray(v) for i, v in enumerate(found)}
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for file in ("model.keras", "model.h5"):
            try:
                model.save(Path(folder) / file)
            except (NotImplementedError, TypeError):  # ``.h5`` cannot hold all operations
                continue
            files[file] = (Path(folder) / file).read_bytes()
    return files | {"answers.npz": _packed(answers)}


def randomise(model: Any, rng: np.random.Generator) -> None:
    """Numbers for all variables under which a wrong order or a missing one is seen."""
    for w in model.weights:
        if "seed" in w.path or ("normalization" in w.path and w.name in ("mean", "variance", "count")):
            continue  # layers that have learnt from data keep what follows from it beside them
        positive = "variance" in w.path
        w.assign(rng.uniform(0.5, 2, w.shape) if positive else rng.normal(0, 0.5, w.shape))


def flat_inputs(model: Any) -> list[Any]:
    return list(keras.tree.flatten(model.inputs))


def random_input(tensor: Any, rng: np.random.Generator) -> np.ndarray:
    sizes = [3 if i == 0 else (d or 5) for i, d in enumerate(tensor.shape)]
    if tensor.dtype.startswith("int"):
        return rng.integers(0, 3, sizes).astype(tensor.dtype)
    return rng.normal(0, 1, sizes).astype(tensor.dtype)


if __name__ == "__main__":
    main()
