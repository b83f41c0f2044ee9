"""This engine's side of :mod:`benchmarks.training`."""

from __future__ import annotations

import sys

import numpy as np

import MNN
from benchmarks.training_networks import NETWORKS
from benchmarks.training_turns import Memory, serve

F = MNN.expr


class Own:
    """One network of ours with a batch; its program is made by the first step."""

    def __init__(self, name: str, threads: int, precision: str) -> None:
        from MNN.train.step import Steps

        make, shape = NETWORKS[name]
        rng = np.random.default_rng(0)
        words = name == "transformer"
        x = rng.integers(0, 1000, shape).astype(np.int32) if words else rng.normal(size=shape).astype(np.float32)
        model = make()
        self.steps = Steps(model, MNN.optim.SGD(model, 0.01, threads=threads, precision=precision), None)
        target = rng.integers(0, 10, shape if words else shape[:1]).astype(np.int32)
        self.batch = (
            [F.const(x, list(shape), dtype=F.int if words else F.float)],
            [F.const(target, list(target.shape), dtype=F.int)],
        )

    def step(self) -> None:
        """One step."""
        self.steps.step(*self.batch)


def main() -> None:
    memory = Memory()
    serve(Own(sys.argv[1], int(sys.argv[2]), sys.argv[3]).step, memory)


if __name__ == "__main__":
    main()
