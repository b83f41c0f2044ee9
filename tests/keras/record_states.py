"""Records what Keras answers, call after call, for recurrent layers that keep their states (``stateful``).

    python -m tests.keras.record_states tests/keras/states.zip [--cases 6] [--seed 0]

Runs where :mod:`tests.keras.record` does. Each case is a ``.keras`` file, an ``.h5`` file, and ``answers.npz``:
``in:CALL`` and ``out:CALL``.
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers

from tests.keras.families import pick, some
from tests.keras.record import randomise
from tests.tensorflow.record import _packed, _write

CALLS = 3


def network(rng: np.random.Generator) -> Any:
    """Layers of all kinds one above the other, some in both directions, some with a mask."""
    given = keras.Input(batch_shape=(some(rng, 1, 3), some(rng, 2, 5), some(rng, 2, 4)))
    x = layers.Masking()(given) if rng.integers(3) == 0 else given
    for last in (False, True):
        kind, units = pick(rng, layers.LSTM, layers.GRU, layers.SimpleRNN), some(rng, 2, 5)
        keys = {"stateful": True, "return_sequences": not last}
        if rng.integers(3) == 0:
            x = layers.RNN([layers.LSTMCell(units), layers.GRUCell(3)], **keys)(x)
        elif rng.integers(3) == 0:
            x = layers.Bidirectional(kind(units, **keys))(x)
        else:
            x = kind(units, go_backwards=bool(rng.integers(4) == 0), **keys)(x)
    return keras.Model(given, x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with zipfile.ZipFile(chosen.out, "w") as archive, tempfile.TemporaryDirectory() as folder:
        for k in range(chosen.cases):
            rng = np.random.default_rng([chosen.seed, k])
            keras.backend.clear_session()
            keras.utils.set_random_seed(k)
            model = network(rng)
            randomise(model, rng)
            for layer in model._flatten_layers():
                for state in keras.tree.flatten(getattr(layer, "states", None) or []):
                    state.assign(np.zeros(state.shape))
            for file in ("model.keras", "model.h5"):
                model.save(Path(folder) / file)
                _write(archive, f"{k}/{file}", (Path(folder) / file).read_bytes())
            answers = {}
            for call in range(CALLS):
                x = rng.normal(0, 1, model.input_shape).astype(np.float32)
                if call == 1:
                    x[:, -1] = 0  # a step that a mask leaves out
                answers |= {f"in:{call}": x, f"out:{call}": np.asarray(model(x))}
            _write(archive, f"{k}/answers.npz", _packed(answers))


if __name__ == "__main__":
    main()
