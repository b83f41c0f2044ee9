"""Records models whose files hold operators of TensorFlow itself ("Flex" operators), with TensorFlow's answers.

    python -m tests.frontends.tflite.record_flex tests/frontends/tflite/flex.zip [--seed 0]

Runs where tensorflow is, with the repository as the working directory. Each case is ``model.tflite`` and
``answers.npz``: ``in:PLACE`` and ``out:PLACE``, in the order of the signature's names.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf

from tests.tensorflow.record import _packed, _write

layers = keras.layers


def recurrent(rng: np.random.Generator) -> Any:
    """Recurrent layers over batches of any size, which converters write as loops over lists of tensors."""
    words = keras.Input((6,), dtype="int32", name="in0")
    x: Any = layers.Embedding(4, 3, mask_zero=bool(rng.integers(2)))(words)
    for _ in range(int(rng.integers(1, 3))):
        kind = (layers.LSTM, layers.GRU, layers.SimpleRNN)[rng.integers(3)]
        layer = kind(4, return_sequences=True)
        x = layers.Bidirectional(layer)(x) if rng.integers(2) else layer(x)
    model = keras.Model(words, layers.GRU(3)(x))
    for w in model.weights:
        w.assign(rng.normal(0, 0.5, w.shape))
    return model


def growing(in0: Any) -> dict[str, Any]:
    """Arrays that grow while they are written."""
    rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[4])
    _, rows = tf.while_loop(lambda i, _: i < tf.shape(in0)[0], lambda i, o: (i + 1, o.write(i, in0[i] * 2)), [0, rows])
    return {"out0": rows.stack()}


def single(in0: Any) -> dict[str, Any]:
    """Operators that the format does not have, one by one."""
    return {
        "out0": tf.math.softplus(in0) * tf.math.softsign(in0),
        "out1": tf.roll(in0, [1, -2], [0, 1]),
        "out2": tf.math.bincount(tf.cast(tf.abs(in0) * 3, tf.int32), minlength=5, maxlength=5, axis=-1),
        "out3": tf.linalg.band_part(tf.matmul(in0, in0, transpose_b=True), 1, 0),
        "out4": tf.math.xlogy(tf.nn.relu(in0), tf.abs(in0)),
        "out5": tf.sort(in0, axis=0, direction="DESCENDING"),
    }


def models(seed: int) -> Iterator[tuple[str, Any, list[np.ndarray]]]:
    """Names, models and what goes in."""
    for k in range(3):
        rng = np.random.default_rng([seed, k])
        keras.utils.set_random_seed(k)
        yield f"recurrent {k}", recurrent(rng), [rng.integers(0, 4, (3, 6)).astype(np.int32)]
    rng = np.random.default_rng(seed)
    for function in (growing, single):
        module = tf.Module()
        spec = tf.TensorSpec([None, 4], tf.float32, name="in0")
        module.called = tf.function(function, input_signature=[spec])
        yield function.__name__, module, [rng.normal(0, 1, (5, 4)).astype(np.float32)]


def recorded(model: Any, given: list[np.ndarray]) -> tuple[bytes, dict[str, np.ndarray]]:
    """The file, and arrays in and out."""
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(model, keras.Model):
            model.export(folder, verbose=False)
            found = [np.asarray(model(given[0]))]
        else:
            tf.saved_model.save(model, folder, signatures={"serving_default": model.called})
            results = model.called(*map(tf.constant, given))
            found = [np.asarray(results[name]) for name in sorted(results)]
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
        data = converter.convert()
    arrays = {f"in:{i}": v for i, v in enumerate(given)} | {f"out:{i}": v for i, v in enumerate(found)}
    return data, arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with zipfile.ZipFile(chosen.out, "w") as archive:
        for name, model, given in models(chosen.seed):
            data, arrays = recorded(model, given)
            _write(archive, f"{name}/model.tflite", data)
            _write(archive, f"{name}/answers.npz", _packed(arrays))


if __name__ == "__main__":
    main()
