"""Records what Keras 2 answers, in both kinds of its files.

    python -m tests.keras.record_old tests/keras/old_models.zip [--seed 0] [--only NAME]

Runs where Keras 2 is (an environment of its own: ``pip install tensorflow-cpu==2.21.0 tf_keras==2.21.0``), with the
repository as the working directory. Calls of TensorFlow's functions become layers in such models. With ``--only``, one
is added to those that are recorded.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
import tf_keras as keras
from tf_keras.src.layers.rnn.cudnn_gru import CuDNNGRU
from tf_keras.src.layers.rnn.cudnn_lstm import CuDNNLSTM

layers = keras.layers


def calls() -> Any:
    """Models within models, called more than once: a graph, and rows of layers that know their input or do not."""
    given, x = keras.Input((6,)), keras.Input((6,))
    block = keras.Model(given, [layers.Dense(6, activation="relu")(given), layers.Dense(5)(given)], name="block")
    row = keras.Sequential([keras.Input((6,)), layers.Dense(6), layers.BatchNormalization()], name="row")
    late = keras.Sequential([layers.Dense(6), layers.ReLU()], name="late")
    first, last = block(x), block(row(x))
    return keras.Model(x, [first[1], last[1], late(row(x)), late(last[0]), row(late(row(x))), first[0]])


def functions() -> Any:
    x, y = keras.Input((4, 6)), keras.Input((4, 6))
    found = [tf.argmax(x, -1), tf.argsort(x), tf.atan2(x, y), tf.cumsum(x, 1), tf.math.erf(x), tf.math.log1p(tf.abs(x))]
    found += [tf.nn.log_softmax(x), tf.reduce_logsumexp(x, 1), tf.math.squared_difference(x, y), tf.norm(x, axis=-1)]
    found += [
        tf.one_hot(tf.argmax(x, -1), 6),
        tf.ones_like(x) * y,
        tf.pad(x, [[0, 0], [1, 0], [0, 2]]),
        tf.add_n([x, y]),
    ]
    found += [tf.repeat(x, 2, axis=1), tf.reverse(x, [1]), tf.roll(x, 1, 1), tf.slice(x, [0, 1, 2], [-1, 2, 3])]
    found += [tf.strided_slice(x, [0, 0, 0], [2, 3, 4]), tf.math.top_k(x, 2)[0], tf.unstack(x, axis=1)[2]]
    found += [tf.tensordot(x, np.ones((6, 3), np.float32), 1), tf.matmul(x, y, transpose_b=True)]
    found += [tf.clip_by_value(x, -0.5, 0.5), x + tf.broadcast_to(y[:, :1], tf.shape(x))]
    return keras.Model([x, y], found)


def pictures() -> Any:
    x = keras.Input((6, 7, 3))
    found = [tf.nn.avg_pool2d(x, 2, 2, "SAME"), tf.nn.max_pool2d(x, 3, 2, "VALID"), tf.image.flip_left_right(x)]
    found += [tf.image.rgb_to_grayscale(x), tf.nn.conv2d(x, np.ones((3, 2, 3, 2), np.float32), 1, "SAME")]
    found += [
        layers.CenterCrop(5, 9)(x),
        layers.RandomCrop(4, 5)(x),
        layers.Resizing(4, 9, crop_to_aspect_ratio=True)(x),
    ]
    return keras.Model(x, found)


def cudnn() -> Any:
    return _recurrent(CuDNNLSTM, CuDNNGRU)


def _recurrent(lstm: Any, gru: Any) -> Any:
    x = keras.Input((None, 3))
    y = layers.Bidirectional(lstm(4, return_sequences=True, name="a"), name="both")(x)
    return keras.Model(x, [lstm(2, go_backwards=True, name="b")(y), gru(5, return_sequences=True, name="c")(y)])


def answered(model: Any, name: str, folder: Path) -> Any:
    """The model that answers: layers for cuDNN run on its machines alone, and the usual ones load their weights."""
    if name != "cudnn":
        return model
    twin = _recurrent(layers.LSTM, lambda n, **more: layers.GRU(n, reset_after=True, **more))
    model.save_weights(folder / "weights.h5")
    twin.load_weights(folder / "weights.h5")
    return twin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    chosen = parser.parse_args()
    makers = [m for m in (calls, functions, pictures, cudnn) if chosen.only in (None, m.__name__)]
    with zipfile.ZipFile(chosen.out, "a" if chosen.only else "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for make in makers:
            rng = np.random.default_rng([chosen.seed, *make.__name__.encode()])
            keras.backend.clear_session()
            model = make()
            for w in model.weights:
                w.assign(rng.uniform(0.5, 2, w.shape) if "variance" in w.name else rng.normal(0, 0.5, w.shape))
            given = [rng.normal(0, 1, [3, *(d or 6 for d in t.shape[1:])]).astype(np.float32) for t in model.inputs]
            with tempfile.TemporaryDirectory() as folder:
                answering = answered(model, make.__name__, Path(folder))
                found = tf.nest.flatten(answering(given if len(given) > 1 else given[0], training=False))
                arrays = {f"in:{t.name}": a for t, a in zip(model.inputs, given, strict=True)}
                packed = io.BytesIO()
                np.savez_compressed(packed, **arrays, **{f"out:{i:03}": v.numpy() for i, v in enumerate(found)})
                archive.writestr(f"{make.__name__}/0/answers.npz", packed.getvalue())
                for file in ("model.keras", "model.h5"):
                    model.save(Path(folder) / file)
                    archive.write(Path(folder) / file, f"{make.__name__}/0/{file}")


if __name__ == "__main__":
    main()
