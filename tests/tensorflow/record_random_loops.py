"""Records random recurrent networks in every form that TensorFlow has for them, with answers.

    python -m tests.tensorflow.record_random_loops OUT.zip [--models N] [--seed S] [--generation 2|3]

Runs where tensorflow and tf_keras are, as ``record.py`` does; ``python -m tests.tensorflow.loops_trial OUT.zip``
judges.
Drawn are the kind of cell, units, activations, biases, direction, what is given back, masks, states that are kept,
Keras 2's order of time first, unrolling, both directions and what joins them, and how many layers there are.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tf_keras

from tests.tensorflow.record import _packed, _write
from tests.tensorflow.record_loops import saved

ACTIVATIONS = ("tanh", "sigmoid", "relu", "linear", "hard_sigmoid", "softsign", "elu", "softplus")


class Drawer:
    """A network of one generation of Keras."""

    def __init__(self, kind: Any, seed: int) -> None:
        self.kind, self.layers = kind, kind.layers
        self.rng = random.Random(seed)
        self.said: list[str] = []

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def cell(self, last: bool, time_major: bool) -> Any:
        r = self.rng
        name = r.choice(("LSTM", "GRU", "SimpleRNN"))
        options: dict[str, Any] = {"units": r.randint(1, 9), "return_sequences": not last or self.maybe(0.5)}
        if self.maybe(0.4):
            options["activation"] = r.choice(ACTIVATIONS)
        if name != "SimpleRNN" and self.maybe(0.4):
            options["recurrent_activation"] = r.choice(ACTIVATIONS)
        options["use_bias"] = self.maybe(0.8)
        options["go_backwards"] = self.maybe(0.25)
        options["unroll"] = self.fixed and self.maybe(0.15)
        options["stateful"] = self.stateful
        if name == "GRU":
            options["reset_after"] = self.maybe(0.6)
        if time_major:
            options["time_major"] = True
        self.said.append(name + "".join(f" {k}={v}" for k, v in options.items() if v not in (False, None)))
        return getattr(self.layers, name)(**options)

    def model(self) -> Any:
        r = self.rng
        self.fixed, self.stateful = self.maybe(0.5), self.maybe(0.15)
        masked, time_major = self.maybe(0.3), self.kind is tf_keras and self.maybe(0.15)
        self.fixed = self.fixed or self.stateful or time_major
        batch = 2 if self.stateful or time_major or self.maybe(0.2) else None
        length, width = r.randint(2, 7) if self.fixed else None, r.randint(1, 6)
        if time_major:
            x = given = self.kind.Input(batch_shape=(length, batch, width))
        elif masked and self.maybe(0.5):
            given = self.kind.Input((length,), batch_size=batch)
            x = self.layers.Embedding(5, width, mask_zero=True)(given)
            self.said.append("embedded")
        else:
            x = given = self.kind.Input((length, width), batch_size=batch)
            if masked:
                x = self.layers.Masking(mask_value=0.0)(x)
                self.said.append("masked")
        count = r.randint(1, 2)
        for i in range(count):
            layer = self.cell(i == count - 1, time_major)
            if not self.stateful and not time_major and self.maybe(0.3):
                merge = r.choice(("concat", "sum", "mul", "ave"))
                self.said.append(f"both {merge}")
                layer = self.layers.Bidirectional(layer, merge_mode=merge)
            x = layer(x)
        if self.maybe(0.2) and not time_major and len(x.shape) == 3:
            x = self.layers.TimeDistributed(self.layers.Dense(3))(x)
        self.masked = masked
        return self.kind.Model(given, x)

    def feed(self, model: Any, rng: np.random.Generator) -> np.ndarray:
        """Numbers, or places in a table; where there is a mask, some steps are masked."""
        given = model.inputs[0]
        shape = [d or n for d, n in zip(given.shape, (2, 5, 1), strict=False)]
        if "embedded" in self.said:
            return rng.integers(0, 5, shape).astype(np.float32)
        data = rng.normal(0, 1, shape).astype(np.float32)
        if self.masked:
            data[rng.random(shape[:2]) < 0.3] = 0
        return data


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--generation", type=int, choices=(2, 3))
    options = parser.parse_args()
    kinds = {2: tf_keras, 3: keras}
    rng = np.random.default_rng(options.seed)
    with zipfile.ZipFile(options.target, "w") as archive:
        for seed in range(options.seed, options.seed + options.models):
            generation = options.generation or 2 + seed % 2
            drawer = Drawer(kinds[generation], seed)
            try:
                with tempfile.TemporaryDirectory() as root, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = drawer.model()
                    name = f"{generation} {seed} {', '.join(drawer.said)}"
                    folder = Path(root) / "net"
                    answers = saved(model, folder, rng, [drawer.feed(model, rng)])
                    if not drawer.stateful:
                        for suffix in (".h5", ".keras")[: 2 if generation == 3 else 1]:
                            model.save(folder / f"model{suffix}")
                    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                        if path.name != "fingerprint.pb":
                            _write(archive, f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
                    _write(archive, f"{name}/answers.npz", _packed(answers))
            except Exception as error:  # noqa: BLE001 - some draws Keras itself refuses
                print(seed, drawer.said, type(error).__name__, str(error)[:150])


if __name__ == "__main__":
    main()
