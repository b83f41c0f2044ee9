"""Runs in the environment that has Keras: networks of drawn blocks, in every kind of file.

``python -m tests.keras.random_networks FOLDER FIRST COUNT`` writes for so many seeds ``SEED.keras``, ``SEED.h5``, the
SavedModel ``SEED.saved``, ``SEED.float.tflite`` and its forms ``dynamic`` (8-bit weights) and ``int8``, and
``SEED.npz``: inputs ``x`` and Keras' answers ``y``. What a converter refuses is left out, and where one ends the
process, the command is to be started again with the next seed. Networks whose answers are no numbers, or all alike,
are left out.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tests.keras.random_blocks import IMAGES, SEQUENCES, activated, activation
from tests.keras.record import randomise

_LAYERS = keras.layers
_LARGEST = 40_000


def network(r: random.Random) -> keras.Model:
    """Blocks one after the other from one or two inputs, and a head that may join them."""
    tails = []
    inputs = []
    for i in range(r.choice([1, 1, 1, 2])):
        pictures = r.random() < 0.6
        kinds = IMAGES if pictures else SEQUENCES
        sizes = (
            (r.randint(5, 24), r.randint(5, 24), r.choice([1, 3, 4, 8]))
            if pictures
            else (r.randint(4, 20), r.randint(2, 12))
        )
        x = keras.Input(sizes, name=f"x{i}")
        inputs.append(x)
        for _ in range(r.randint(2, 6)):
            y = kinds[r.choice(sorted(kinds))](x, r)
            if 0 in y.shape[1:] or int(np.prod(y.shape[1:])) > _LARGEST:
                break
            x = y
        tails.append(headed(x, r))
    made = tails[0] if len(tails) == 1 else _LAYERS.Concatenate()([_LAYERS.Flatten()(t) for t in tails])
    return keras.Model(inputs, made)


def headed(x: Any, r: random.Random) -> Any:
    """A classifier, or the features as they are."""
    kind = r.randint(0, 3)
    if kind == 0:
        return x
    if kind == 1 and int(np.prod(x.shape[1:])) < 3000:
        return _LAYERS.Dense(r.randint(1, 20), activation=activation(r))(_LAYERS.Flatten()(x))
    pools = (_LAYERS.GlobalAveragePooling2D, _LAYERS.GlobalMaxPooling2D)
    if len(x.shape) == 3:
        pools = (_LAYERS.GlobalAveragePooling1D, _LAYERS.GlobalMaxPooling1D)
    return _LAYERS.Dense(r.randint(2, 20), activation="softmax")(activated(r.choice(pools)()(x), r))


def tflite(model: keras.Model, form: str, noise: Any) -> bytes:
    """The model for one sample as a .tflite file."""
    signature = [tf.TensorSpec((1, *t.shape[1:]), t.dtype, name=t.name) for t in model.inputs]

    @tf.function(input_signature=signature)
    def call(*x: Any) -> Any:
        return model(list(x) if len(x) > 1 else x[0], training=False)

    frozen = convert_variables_to_constants_v2(call.get_concrete_function())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if form != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "int8":

        def samples() -> Iterator[list[np.ndarray]]:
            for _ in range(3):
                yield noise()

        converter.representative_dataset = samples
    return converter.convert()


def written(folder: Path, seed: int) -> str:
    """Writes what belongs to a seed; says what there is."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    model = network(r)
    randomise(model, rng)
    for w in model.weights:  # numbers keep their size through many layers
        if len(w.shape) > 1:
            w.assign(np.asarray(w) * 2 / np.sqrt(max(np.prod(w.shape[:-1]), 1)))

    def noise(batch: int = 1) -> list[np.ndarray]:
        return [rng.normal(0, 1, (batch, *t.shape[1:])).astype(np.float32) for t in model.inputs]

    given = noise()
    answer = np.asarray(model(given if len(given) > 1 else given[0], training=False))
    if not np.isfinite(answer).all() or np.ptp(answer) < 1e-6:
        return "of no use"
    arrays = {f"x{i}": a for i, a in enumerate(given)} | {"y": answer}
    np.savez(folder / f"{seed}.npz", **arrays)  # type: ignore[arg-type]
    said = []
    for ending in ("keras", "h5"):
        try:
            model.save(folder / f"{seed}.{ending}")
        except (NotImplementedError, TypeError):
            said.append(f"no {ending}")
    model.export(folder / f"{seed}.saved", verbose=False)
    for form in ("float", "dynamic", "int8"):
        path = folder / f"{seed}.{form}.tflite"
        try:
            path.write_bytes(tflite(model, form, noise))
        except Exception as error:  # noqa: BLE001 - the converter says in many ways that it cannot
            said.append(f"no {form}: {str(error)[:150]}")
    return ", ".join(said)


def main() -> None:
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        try:
            print(seed, written(folder, seed), flush=True)
        except Exception as error:  # noqa: BLE001 - a network that Keras itself does not build
            print(seed, "not built:", str(error)[:200], flush=True)
            shutil.rmtree(folder / f"{seed}.saved", ignore_errors=True)


if __name__ == "__main__":
    main()
