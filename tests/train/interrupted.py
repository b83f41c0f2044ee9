"""A training that tests end at any moment: ``python -m tests.train.interrupted CHECKPOINT``."""

from __future__ import annotations

import hashlib
import sys
import time

import numpy as np

import MNN

F, nn, optim = MNN.expr, MNN.nn, MNN.optim
ROWS = 7
RNG = np.random.default_rng(2)
X = RNG.normal(size=(60, 6)).astype(np.float32)
Y = np.abs(X[:, :3]).argmax(1).astype(np.int32)
BATCHES = -(-len(X) // ROWS)


class Net(nn.Module):
    """Statistics that are kept, and numbers that depend on the step."""

    def __init__(self, width):
        super().__init__()
        self.first, self.norm, self.drop = nn.linear(6, width), nn.batch_norm(width, 2), nn.dropout(0.2)
        self.last = nn.linear(width, 3)

    def forward(self, x):
        return self.last(self.drop(F.relu(self.norm(self.first(x)))))


class Slow(MNN.data.Dataset):
    """Samples that take a moment, and are other ones in every pass."""

    number = 0

    def __init__(self, seconds):
        self.seconds = seconds

    def begin_pass(self, number):
        self.number = number

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return [X[index] + np.float32(0.01 * self.number)], [Y[index]]


def data():
    return MNN.data.ArrayDataset(X, Y)


def run(checkpoint, seconds, processes):
    """What is reached after some epochs, as a text."""
    nn.seed(3)
    model = Net(30)
    made = optim.AdamW(model, 3e-3, accumulate=2, clip_norm=1.0, average=0.9, loss_scale="dynamic", threads=1)
    loader = MNN.data.DataLoader(Slow(seconds), ROWS, seed=5, num_workers=2 * processes, processes=processes)
    found = MNN.train.fit(model, loader, 4, optimizer=made, checkpoint=checkpoint, progress=False)
    numbers = [v.read() for v in model.parameters] + [np.asarray(found.losses)]
    return hashlib.sha256(b"".join(a.tobytes() for a in numbers)).hexdigest()


if __name__ == "__main__":
    print("begun", flush=True)
    print(run(sys.argv[1], 0.01, True), flush=True)
