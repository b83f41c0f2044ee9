"""Train a network on handwritten digits, save it for inference, and read some digits with it.

    python examples/train_digits.py digits.csv.gz [--out digits.mnn] [--epochs 20] [--threads 2] [--checkpoint
    state.npz]

``digits.csv.gz`` is scikit-learn's (``sklearn/datasets/data/digits.csv.gz``): 1,797 rows of 64 pixels from 0 to 16 and
the digit. A fifth of them is held out. With ``--checkpoint``, a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import MNN

F, nn = MNN.expr, MNN.nn


class Net(nn.Module):
    """Two convolutions and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.conv(1, 24, 3, padding=1)
        self.norm = nn.batch_norm(24, momentum=0.9)
        self.second = nn.conv(24, 48, 3, padding=1)
        self.drop = nn.dropout(0.4)
        self.last = nn.linear(48 * 4 * 4, 10)

    def forward(self, x: MNN.expr.Var) -> MNN.expr.Var:
        """Images ``[N, 1, 8, 8]`` to logits ``[N, 10]``."""
        x = F.relu(self.norm(self.first(x)))
        x = F.max_pool(F.relu(self.second(x)), [2, 2], [2, 2])
        x = F.reshape(F.convert(x, F.NCHW), [0, -1])
        logits: MNN.expr.Var = self.last(self.drop(x))
        return logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("digits.mnn"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--checkpoint", type=Path)
    options = parser.parse_args()

    rows = np.loadtxt(options.data, delimiter=",")
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    images, labels = (rows[:, :64] / 16).astype(np.float32).reshape(-1, 1, 8, 8), rows[:, 64].astype(np.int32)
    held = len(rows) // 5

    nn.seed(0)
    model = Net()
    begun = time.perf_counter()
    history = MNN.train.fit(
        model,
        (images[held:], labels[held:]),
        epochs=options.epochs,
        validation=(images[:held], labels[:held]),
        optimizer=MNN.optim.ADAM(model, 3e-3, threads=options.threads),
        schedule=MNN.train.schedules.cosine(3e-3, options.epochs * -(-(len(rows) - held) // 32)),
        checkpoint=options.checkpoint,
    )
    seconds = time.perf_counter() - begun
    print(f"held out: {100 * history.epochs[-1].validation['accuracy']:.2f} % right, after {seconds:.1f} s")

    MNN.train.export(model, options.out, [1, 1, 8, 8], names=["image", "scores"])
    reader = MNN.load(str(options.out), threads=options.threads)
    read = [int(reader.run({"image": image[None]})["scores"].argmax()) for image in images[:10]]
    print("read:", *read)
    print("are: ", *labels[:10])


if __name__ == "__main__":
    main()
