"""Records SavedModels that remember, and what TensorFlow answers in a row of calls.

    python -m tests.tensorflow.record_states tests/tensorflow/states.zip

Runs where tensorflow is, as ``record.py`` does. Answers are ``in:STEP`` and ``out:STEP:NAME``.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

from tests.tensorflow.record import _packed, _write

KEPT = (".pb", ".index")
STEPS = 4


class Counter(tf.Module):
    """Counts calls and adds up what it is given; what is read before a change is what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.count = tf.Variable(5, dtype=tf.int32)
        self.total = tf.Variable(tf.zeros(3))
        self.weight = tf.Variable([[1.0, 2.0, 0.5]] * 3)

    @tf.function(input_signature=[tf.TensorSpec([3], name="x")])
    def step(self, x: Any) -> dict[str, Any]:
        before = self.total.read_value()
        self.total.assign_add(tf.linalg.matvec(self.weight, x))
        self.count.assign_add(1)
        self.total.assign_sub(x * tf.cast(self.count, tf.float32))
        return {"before": before, "after": self.total * 1.0, "count": self.count + 0}


class Stream(tf.Module):
    """A convolution over a stream: the end of each part goes before the next one; the change is within a function."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = tf.Variable(np.full((1, 2, 3), 0.5, np.float32))
        self.filter = tf.Variable(np.random.default_rng(2).normal(0, 1, (3, 3, 2)).astype(np.float32))

    @tf.function
    def _push(self, x: Any) -> Any:
        whole = tf.concat([self.kept, x], 1)
        self.kept.assign(whole[:, -2:])
        return whole

    @tf.function(input_signature=[tf.TensorSpec([1, 5, 3], name="x")])
    def step(self, x: Any) -> dict[str, Any]:
        return {"y": tf.nn.conv1d(self._push(x), self.filter, 1, "VALID")}


class Switch(tf.Module):
    """A variable that changes in a branch alone."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([], name="x")])
    def step(self, x: Any) -> dict[str, Any]:
        if x > 0:
            self.kept.assign(x)
        return {"y": self.kept + 0.0}


def main() -> None:
    rng = np.random.default_rng(4)
    with zipfile.ZipFile(sys.argv[1], "w") as archive, tempfile.TemporaryDirectory() as root:
        for make in (Counter, Stream, Switch):
            name, model = make.__name__.lower(), make()
            folder = Path(root) / name
            tf.saved_model.save(model, str(folder), model.step)
            answers = {}
            for step in range(STEPS):
                x = rng.normal(0, 1, model.step.input_signature[0].shape).astype(np.float32)
                answers[f"in:{step}"] = x
                answers |= {f"out:{step}:{key}": v.numpy() for key, v in model.step(tf.constant(x)).items()}
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                if (path.suffix in KEPT or ".data-" in path.name) and path.name != "fingerprint.pb":
                    _write(archive, f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
            _write(archive, f"{name}/answers.npz", _packed(answers))


if __name__ == "__main__":
    main()
