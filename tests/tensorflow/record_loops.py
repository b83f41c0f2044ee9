"""Records recurrent layers as SavedModels and files for TensorFlow Lite hold them, as while loops, with answers.

    python -m tests.tensorflow.record_loops tests/tensorflow/loops.zip

Runs where tensorflow and tf_keras are, as ``record.py`` does. Models of Keras 3 and 2; a name that ends in
``stays`` is of a loop that is no layer of the kind that becomes an operator. The first word is the operator.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tests.tensorflow.record import _packed, _write


def models(kind: Any) -> Iterator[tuple[str, Any]]:
    """Names and models made with one generation of Keras."""
    lstm, sequential, given = kind.layers.LSTM, kind.Sequential, kind.Input
    gru, plain = kind.layers.GRU, kind.layers.SimpleRNN
    yield "GRU last", sequential([given((5, 3)), gru(4)])
    yield "GRU all", sequential([given((None, 3)), gru(4, return_sequences=True, use_bias=False)])
    yield "GRU before", sequential([given((None, 3)), gru(4, return_sequences=True, reset_after=False)])
    yield "GRU swapped", sequential([given((None, 3)), gru(5, activation="sigmoid", recurrent_activation="tanh")])
    yield "GRU both", sequential([given((None, 3)), kind.layers.Bidirectional(gru(4, return_sequences=True))])
    yield "GRU hard stays", sequential([given((None, 3)), gru(4, recurrent_activation="hard_sigmoid")])
    yield "RNN all", sequential([given((None, 3)), plain(4, return_sequences=True, go_backwards=True)])
    yield "RNN last", sequential([given((6, 3)), plain(4, activation="relu", use_bias=False)])
    yield "LSTM last", sequential([given((5, 3)), lstm(4)])
    yield "LSTM long", sequential([given((40, 3)), lstm(4)])
    yield "LSTM all", sequential([given((None, 3)), lstm(4, return_sequences=True, use_bias=False)])
    yield "LSTM backwards", sequential([given((None, 3)), lstm(4, return_sequences=True, go_backwards=True)])
    both = kind.layers.Bidirectional(lstm(4, return_sequences=True))
    yield "LSTM stacked", sequential([given((None, 3)), both, lstm(3, activation="relu")])
    yield "LSTM hard stays", sequential([given((None, 3)), lstm(4, recurrent_activation="hard_sigmoid")])
    x, h, c = given((None, 3), batch_size=2), given((4,), batch_size=2), given((4,), batch_size=2)
    yield (
        "LSTM states", kind.Model([x, h, c], lstm(4, return_sequences=True, return_state=True)(x, initial_state=[h, c]))
    )  # fmt: skip
    one = given((None, 3), batch_size=1)
    yield "LSTM one", kind.Model(one, lstm(4, return_sequences=True)(one))
    yield "GRU one", kind.Model(one, gru(4)(one))


def saved(
    model: Any, folder: Path, rng: np.random.Generator, feeds: list[np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Writes a model with random weights; gives inputs and answers."""
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.6, weight.shape))
    if feeds is None:
        feeds = [rng.normal(0, 1, [2, *(d or 7 for d in v.shape[1:])]).astype(np.float32) for v in model.inputs]
    specs = [tf.TensorSpec(v.shape, name=f"in{i}") for i, v in enumerate(model.inputs)]

    def serve(*given: Any) -> dict[str, Any]:
        found = model(list(given) if len(given) > 1 else given[0], training=False)
        return {f"out{i}": v for i, v in enumerate(found if isinstance(found, list | tuple) else [found])}

    sizes = [2 if v.shape[0] is None else v.shape[0] for v in model.inputs]
    feeds = [f[:n] for f, n in zip(feeds, sizes, strict=True)]
    module = tf.Module()
    module.held = [v if isinstance(v, tf.Variable) else v.value for v in model.variables]  # Keras 3 wraps them
    module.serve = tf.function(serve, input_signature=specs)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
    fixed = [tf.TensorSpec(f.shape, name=f"in{i}") for i, f in enumerate(feeds)]
    frozen = convert_variables_to_constants_v2(tf.function(serve, input_signature=fixed).get_concrete_function())
    if len(feeds) == 1:  # in the converter's files several outputs lose their names
        file = tf.lite.TFLiteConverter.from_concrete_functions([frozen]).convert()
        (folder / "model.tflite").write_bytes(file)
    answers = {k: v.numpy() for k, v in module.serve(*map(tf.constant, feeds)).items()}
    return answers | {f"in{i}": f for i, f in enumerate(feeds)}


def main() -> None:
    rng = np.random.default_rng(11)
    with zipfile.ZipFile(sys.argv[1], "w") as archive, tempfile.TemporaryDirectory() as root:
        for generation, kind in ((3, keras), (2, tf_keras)):
            for name, model in models(kind):
                folder = Path(root) / f"{generation} {name}"
                answers = saved(model, folder, rng)
                for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                    if path.name != "fingerprint.pb":
                        _write(archive, f"{folder.name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
                _write(archive, f"{folder.name}/answers.npz", _packed(answers))


if __name__ == "__main__":
    main()
