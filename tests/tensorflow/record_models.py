"""Records small whole models of every kind of file, with TensorFlow's answers.

    python -m tests.tensorflow.record_models tests/tensorflow/models.zip [MODEL ...]

Runs where tensorflow is, as ``record.py`` does. Each model is a folder in the archive, with ``answers.npz`` beside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf

from tests.tensorflow.record import _packed, _write

v1 = tf.compat.v1
layers = keras.layers
KEPT = (".pb", ".index", ".meta", ".keras", ".h5")


def images() -> Any:
    given = keras.Input((12, 12, 3), name="image")
    x = layers.Conv2D(6, 3, strides=2, padding="same")(given)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    x = layers.add([layers.DepthwiseConv2D(3, padding="same")(x), x])
    x = layers.concatenate([layers.MaxPooling2D()(x), layers.AveragePooling2D(2)(x)])
    x = layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="swish")(x)
    return keras.Model(given, layers.Dense(3, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


def sequences() -> Any:
    given = keras.Input((None,), dtype="int32", name="words")
    x = layers.Embedding(20, 5, mask_zero=True)(given)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
    x = layers.GRU(3)(x)
    return keras.Model(given, layers.Dense(2)(x))


def attention() -> Any:
    given = keras.Input((6, 8), name="tokens")
    x = layers.LayerNormalization()(given + layers.MultiHeadAttention(2, 4)(given, given))
    return keras.Model(given, layers.Dense(8, activation="gelu")(x))


def of_keras(make: Callable[[], Any], folder: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A SavedModel, and Keras's own files."""
    keras.utils.set_random_seed(5)
    model = make()
    for w in model.weights:
        if "moving_variance" in w.path:
            w.assign(rng.uniform(0.5, 2, w.shape))
        elif "moving_mean" in w.path:
            w.assign(rng.normal(0, 0.2, w.shape))
    sizes = [2, *(d or 7 for d in model.input_shape[1:])]
    words = model.inputs[0].dtype == "int32"
    x = rng.integers(0, 20, sizes).astype(np.int32) if words else rng.normal(0, 1, sizes).astype(np.float32)
    model.export(str(folder / "saved_model"), verbose=False)
    model.save(folder / "model.keras")
    model.save(folder / "model.h5")
    return {"in": x, "out": model(x, training=False).numpy()}


def of_module(folder: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A module around a model of Keras 3, whose variables TensorFlow saves twice; no node restores those it uses."""
    keras.utils.set_random_seed(6)
    module = tf.Module()
    module.model = keras.Sequential([keras.Input((5,)), layers.Dense(4, activation="tanh"), layers.Dense(2)])
    for w in module.model.weights:
        w.assign(rng.normal(0, 1, w.shape))
    serve = tf.function(lambda x: module.model(x) * 2.0, input_signature=[tf.TensorSpec([None, 5], tf.float32)])
    tf.saved_model.save(module, str(folder / "saved_model"), signatures=serve)
    x = rng.normal(0, 1, (3, 5)).astype(np.float32)
    return {"in": x, "out": serve(tf.constant(x)).numpy()}


def of_session(folder: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A SavedModel and a checkpoint of TensorFlow 1, with variables that are references and a loop in frames."""
    weights = rng.normal(0, 1, (4, 3)).astype(np.float32)
    data = rng.normal(0, 1, (2, 4)).astype(np.float32)
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, 4], name="x")
            w = v1.get_variable("w", initializer=weights, use_resource=False)
            b = v1.get_variable("b", initializer=np.ones(3, np.float32), use_resource=True)
            y = tf.matmul(x, w) + b
            body = lambda i, v: (i + 1, tf.tanh(v) * 2)  # noqa: E731
            y = v1.while_loop(lambda i, v: i < 3, body, [0, y])[1]
            y = v1.cond(tf.reduce_sum(y) > 0, lambda: y + 1, lambda: y - 1)
            y = tf.identity(y, name="y")
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(folder / "model.ckpt"))
            v1.saved_model.simple_save(session, str(folder / "saved_model"), {"x": x}, {"y": y})
            return {"in": data, "out": session.run(y, {x: data})}
    finally:
        v1.enable_control_flow_v2()


def fused(folder: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A frozen graph with an operator that only TensorFlow's optimiser writes."""
    data = rng.normal(0, 1, (1, 6, 6, 3)).astype(np.float32)
    w, b = rng.normal(0, 1, (3, 3, 3, 4)).astype(np.float32), rng.normal(0, 1, 4).astype(np.float32)
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [1, 6, 6, 3], name="x")
        given = [x, tf.constant(w), tf.constant(b)]
        node = v1.NodeDef(name="y", op="_FusedConv2D", input=[t.op.name for t in given])
        node.attr["T"].type = 1
        node.attr["TArgs"].list.type.append(1)
        node.attr["num_args"].i, node.attr["padding"].s = 1, b"SAME"
        node.attr["strides"].list.i.extend([1, 2, 2, 1])
        node.attr["fused_ops"].list.s.extend([b"BiasAdd", b"Relu"])
        proto = graph.as_graph_def()
        proto.node.append(node)
        with tf.Graph().as_default() as whole:
            tf.import_graph_def(proto, name="")
            with v1.Session(graph=whole) as inner:
                out = inner.run("y:0", {"x:0": data})
        del session
    (folder / "frozen.pb").write_bytes(proto.SerializeToString())
    return {"in": data, "out": out}


def main() -> None:
    makers: dict[str, Callable[[Path, np.random.Generator], dict[str, np.ndarray]]] = {
        "images": lambda folder, rng: of_keras(images, folder, rng),
        "sequences": lambda folder, rng: of_keras(sequences, folder, rng),
        "attention": lambda folder, rng: of_keras(attention, folder, rng),
        "module": of_module,
        "session": of_session,
        "fused": fused,
    }
    chosen = sys.argv[2:] or list(makers)  # those named are put into the archive beside what is there
    with zipfile.ZipFile(sys.argv[1], "a" if sys.argv[2:] else "w") as archive, tempfile.TemporaryDirectory() as root:
        for name in chosen:
            folder = Path(root) / name
            folder.mkdir()
            answers = makers[name](folder, np.random.default_rng(7))
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                kept = path.suffix in KEPT or ".data-" in path.name
                if kept and path.name != "fingerprint.pb":
                    _write(archive, f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
            _write(archive, f"{name}/answers.npz", _packed(answers))


if __name__ == "__main__":
    main()
