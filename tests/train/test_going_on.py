"""Training that ends too early goes on to the last bit, whatever it is set to and whatever ended it.

``MNN_GOING_ON_SEED=100 MNN_GOING_ON_COUNT=60 python -m pytest tests/train/test_going_on.py`` draws other settings.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from tests.train import interrupted

nn, optim, train = MNN.nn, MNN.optim, MNN.train
FIRST, COUNT = (int(os.environ.get(f"MNN_GOING_ON_{name}", given)) for name, given in (("SEED", "1"), ("COUNT", "3")))


def drawn(r, model):
    """An optimizer with settings of all kinds, and a schedule or none."""
    kind = r.choice(["SGD", "ADAM", "AdamW", "RMSprop", "Lion"])
    options = {
        "accumulate": r.choice([1, 2, 3]), "clip_norm": r.choice([0.0, 0.3]), "clip_value": r.choice([0.0, 0.05]),
        "precision": r.choice(["high", "normal", "low"]), "loss_scale": r.choice([None, 256.0, "dynamic"]),
        "average": r.choice([0.0, 0.9]), "weight_decay": r.choice([0.0, 0.05]), "debug": r.random() < 0.3,
        "groups": [optim.Group([model.last], 0.3, 0.0)] if r.random() < 0.5 else [],
        "activation_memory": r.choice([None, None, 1 << 16]),
    }  # fmt: skip
    if kind == "SGD":
        options |= {"momentum": r.choice([0.0, 0.9])}
        options |= {"nesterov": options["momentum"] > 0 and r.random() < 0.5}
    if kind in ("ADAM", "AdamW"):
        options |= {"amsgrad": r.random() < 0.5}
    if kind == "RMSprop":
        options |= {"momentum": r.choice([0.0, 0.9])}
    if kind in ("SGD", "ADAM"):
        options |= {"regularization_method": r.choice(["L1", "L2", "L1L2"])}
    s = train.schedules
    plans = [None, s.cosine(0.01, 60), s.warmup(s.exponential(0.01, 0.9), 7), s.milestones(0.01, [9, 20], 0.5)]
    return getattr(optim, kind)(model, 0.004, **options), r.choice(plans)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_every_setting(seed, tmp_path):
    """A training that is interrupted in the middle of an epoch, then ended behind another, is the one that is not."""
    at = random.Random(seed).randrange(1, 2 * interrupted.BATCHES)
    path = tmp_path / "state.npz"

    def run(epochs, end=None, checkpoint=None):
        r = random.Random(seed)
        nn.seed(seed + 1000 * path.exists())  # masks of dropout, too, are those of the checkpoint
        model = interrupted.Net(r.choice([8, 17, 40]))
        made, plan = drawn(r, model)

        def rate(step):
            rate.calls += 1
            if rate.calls == end:
                signal.raise_signal(signal.SIGINT)
            return made.learning_rate if plan is None else plan(step)

        rate.calls = 0
        data = MNN.data.DataLoader(interrupted.data(), interrupted.ROWS, seed=seed)
        found = train.fit(model, data, epochs, optimizer=made, schedule=rate, checkpoint=checkpoint, progress=False,
                          validation=(interrupted.X[:20], interrupted.Y[:20]), keep_best=seed % 2 == 0)  # fmt: skip
        with made.averaged() if made.average else pytest.MonkeyPatch().context():
            means = [v.read().copy() for v in model.parameters]
        history = found.losses, [(e.loss, e.metrics, e.validation, e.learning_rate) for e in found.epochs]
        return [v.read() for v in model.parameters] + means, history, made.state()

    wanted, history, state = run(3)
    with pytest.raises(KeyboardInterrupt):
        run(3, at, path)
    run(2, None, path)
    found, later, last = run(3, None, path)
    assert later == history
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert state.keys() == last.keys()
    assert all(np.array_equal(state[n], last[n]) for n in state)


def test_interruptions_of_a_program_and_its_workers(tmp_path):
    """Ctrl-C of a terminal goes to all processes of a program, at any moment, and may come twice."""
    r, path = random.Random(FIRST), tmp_path / "state.npz"
    for turn in range(2):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.train.interrupted", path], text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout.readline() == "begun\n"
        if turn == 0:
            time.sleep(r.uniform(0, 3.0))
            for _ in range(r.randint(1, 2)):
                os.killpg(process.pid, signal.SIGINT)
        said, wrong = process.communicate(timeout=120)
        if said:
            break
        assert process.returncode == -signal.SIGINT
        assert wrong.strip().endswith("KeyboardInterrupt")
        assert "worker" not in wrong
    assert said == interrupted.run(None, 0, False) + "\n"
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


def test_data_that_fail_leave_a_checkpoint(tmp_path):
    """What was trained until then goes on, once the data can be had."""
    path = tmp_path / "state.npz"

    class Broken(interrupted.Slow):
        def __getitem__(self, index):
            if broken and index == 40:
                raise OSError("gone")
            return super().__getitem__(index)

    def run(checkpoint=None):
        nn.seed(1)
        model = interrupted.Net(5)
        loader = MNN.data.DataLoader(Broken(0), interrupted.ROWS, seed=FIRST)
        return train.fit(model, loader, 2, optimizer=optim.SGD(model, 0.1), checkpoint=checkpoint, progress=False)

    broken = True
    with pytest.raises(MNNError, match=r"sample 40 of the dataset cannot be had \(OSError: gone\)"):
        run(path)
    assert path.exists()
    broken = False
    assert run(path).losses == run().losses


class Failing(MNN.data.Dataset):
    """Each sample fails in its own way."""

    def __init__(self, sent=True):
        self.sent = sent

    def __len__(self):
        return 4

    def __setstate__(self, state):
        if not state["sent"]:
            raise RuntimeError("no such class")
        self.__dict__.update(state)

    def __getitem__(self, index):
        if index == 0:
            sys.exit("bye")
        if index == 1:
            raise OwnError("a", "b")
        if index == 2:
            error = ValueError("with a lock")
            error.lock = threading.Lock()
            raise error
        return [np.zeros(2, np.float32)], [np.int32(index)]


class OwnError(MNNError):
    """An error that cannot be sent to another process as it is."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


def test_whatever_a_worker_raises_is_told():
    loader = MNN.data.DataLoader(Failing(), 1, shuffle=False, num_workers=1, processes=True)
    for said in (r"failed in a worker process \(SystemExit: bye\)", "^a and b$", r"ValueError: with a lock\)$"):
        with pytest.raises(MNNError, match=said):
            loader.next()
    assert loader.next()[1][0].read().tolist() == [3]
    loader = MNN.data.DataLoader(Failing(False), 1, num_workers=1, processes=True)
    with pytest.raises(MNNError, match=r"a worker process cannot load the dataset \(RuntimeError: no such class\)"):
        loader.next()


def test_batches_that_are_left_out():
    rows = MNN.data.ArrayDataset(interrupted.X[:23], interrupted.Y[:23])
    for workers in (0, 2):
        loader = MNN.data.DataLoader(rows, 7, num_workers=workers, drop_last=True)
        assert len(loader) == 3
        assert [len(t[0].read()) for _, t in loader] == [7, 7, 7]
        loader.next()
        loader.stop()
        assert [loader.next()[0][0].shape for _ in range(4)] == [[7, 6]] * 4
        assert loader.epoch == 3
    with pytest.raises(MNNError, match="the dataset has 23 samples, fewer than a batch of 24, and drop_last"):
        MNN.data.DataLoader(rows, 24, drop_last=True)
