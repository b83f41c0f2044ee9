"""``python -m tests.runtime.states.programs [--cases N] [--first SEED] [--seed SEED]``: random programs on states.

A program is what a user may do with several states of one model: steps of all sizes and batches, forks, going back,
beginning anew, files, filling in, mistakes, two threads. What a state should hold is known from numpy after every step.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from MNN.stateful import State, StatefulModel
from tests.runtime.states.kinds import KINDS, Arrays, Kind

BOUNDS = {"high": 2e-5, "normal": 2e-4, "low": 0.04}
STEPS = 40


class Held:
    """A state, and what it should hold."""

    def __init__(self, state: State, kept: Arrays, batch: int, begun: bool = False) -> None:
        self.state, self.kept, self.batch, self.begun = state, kept, batch, begun

    def length(self, kind: Kind) -> int:
        return self.kept[kind.states[0]].shape[-2] if self.begun else 0


class Program:
    """One model and the states that are worked on."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = rng = np.random.default_rng([7, seed])
        self.kind: Kind = KINDS[seed % len(KINDS)](rng)
        self.precision = str(rng.choice(["high", "normal", "low"]))
        self.bound, self.folder = BOUNDS[self.precision], folder
        self.source, self.workers = self.kind.source(), int(rng.integers(1, 3))
        self.model = self.opened()
        self.held = [self.fresh()]
        self.done: list[str] = []

    def opened(self) -> StatefulModel:
        states = {name: f"{name}.next" for name in self.kind.states}
        return MNN.load(self.source, self.workers, self.precision, states=states, max_length=self.kind.max_length)

    def fresh(self) -> Held:
        batch = int(self.rng.choice([1, 1, 2, 3]))
        return Held(self.model.new_state(), self.kind.begin(batch), batch)

    def run(self) -> None:
        """All steps, the states looked at after every one."""
        for _ in range(STEPS):
            one = self.held[int(self.rng.integers(len(self.held)))]
            name = str(
                self.rng.choice(["step"] * 8 + ["fork", "back", "reset", "file", "fill", "mistake", "threads", "new"])
            )
            self.done.append(name)
            getattr(self, name)(one)
            for held in self.held:
                self.look(held)

    def look(self, held: Held) -> None:
        shapes = {name: held.kept[name].shape for name in self.kind.states} if held.begun else {}
        assert held.state.shapes == shapes
        if self.kind.grows:
            assert held.state.length == held.length(self.kind)
        for name in shapes:
            self.close(held.state[name], held.kept[name], name)

    def close(self, found: np.ndarray, wanted: np.ndarray, what: str) -> None:
        assert found.shape == wanted.shape, f"{what}: {found.shape}, not {wanted.shape}"
        apart = np.abs(found - wanted).max(initial=0)
        limit = self.bound * max(1.0, np.abs(wanted).max(initial=0))
        assert apart <= limit, f"{what}: {apart:.2e} apart, {limit:.2e} allowed"

    def step(self, held: Held) -> None:
        feeds = self.kind.feeds(held.batch, held.kept)
        wanted, held.kept = self.kind.step(held.kept, feeds)
        self.close(self.model.run(self.fed(feeds), state=held.state)["y"], wanted, "y")
        held.begun = True

    def fed(self, feeds: Arrays) -> Arrays:
        """The same numbers, now and then in other places of memory."""
        if self.rng.random() < 0.2:
            return {
                name: np.array(array[..., ::-1])[..., ::-1] if array.ndim else array for name, array in feeds.items()
            }
        return feeds

    def new(self, held: Held) -> None:
        if len(self.held) < 4:
            self.held.append(self.fresh())

    def fork(self, held: Held) -> None:
        kept = {name: array.copy() for name, array in held.kept.items()}
        another = Held(held.state.fork(), kept, held.batch, held.begun)
        self.held = [*self.held[-3:], another]

    def back(self, held: Held) -> None:
        if self.kind.grows:
            length = int(self.rng.integers(held.length(self.kind) + 1))
            held.state.rollback(length)
            held.kept = self.kind.cut(held.kept, length)
        else:
            with pytest.raises(MNNError, match="does not grow"):
                held.state.rollback(0)

    def reset(self, held: Held) -> None:
        held.state.reset()
        held.batch = int(self.rng.choice([1, 2]))
        held.kept, held.begun = self.kind.begin(held.batch), False

    def file(self, held: Held) -> None:
        """Goes on from files, sometimes with the model opened anew."""
        chosen = [held]
        if self.rng.random() < 0.3:
            chosen, model = self.held, self.opened()
        else:
            model = self.model
        for one in chosen:
            one.state.save(self.folder / "state.npz")
            one.state = model.load_state(self.folder / "state.npz")
        self.model = model

    def fill(self, held: Held) -> None:
        name = self.kind.states[0]
        if not held.begun:
            return
        array = self.rng.standard_normal(held.kept[name].shape).astype(np.float32)
        if self.rng.random() < 0.5:
            held.state.fill(name, array)
        else:
            held.state.view(name)[...] = array
        held.kept = {**held.kept, name: array}

    def mistake(self, held: Held) -> None:
        """What is refused leaves everything as it was."""
        feeds = self.kind.feeds(held.batch, held.kept)
        name = str(self.rng.choice(sorted(feeds)))
        wrong = [
            {**feeds, name: feeds[name].astype(np.complex64)}, {**feeds, name: feeds[name][None]},
            {k: v for k, v in feeds.items() if k != name}, {**feeds, "other": feeds[name]},
            {**feeds, self.kind.states[0]: feeds[name]},
        ]  # fmt: skip
        given = wrong[int(self.rng.integers(len(wrong)))]
        with pytest.raises(MNNError):
            self.model.run(given, state=held.state)

    def threads(self, held: Held) -> None:
        """Each state by a thread of its own; or one state by two, of which one may be refused."""
        shared = self.rng.random() < 0.5
        chosen = [held, held] if shared else self.held
        given = [self.kind.feeds(one.batch, one.kept) for one in chosen]
        if shared:
            given[1] = given[0]
        found: list[tuple[int, np.ndarray]] = []
        refusals: list[str] = []

        def work(number: int) -> None:
            try:
                found.append((number, self.model.run(given[number], state=chosen[number].state)["y"]))
            except MNNError as error:
                refusals.append(str(error))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(chosen))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) + len(refusals) == len(chosen)
        assert not refusals or (shared and len(refusals) == 1 and "in use by another thread" in refusals[0]), refusals
        for number, y in found:  # of two on one state, in the order in which they ran
            one = chosen[number]
            wanted, one.kept = self.kind.step(one.kept, given[number])
            one.begun = True
            self.close(y, wanted, "y")


def check(seed: int) -> str:
    """What goes wrong in one program, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        program = Program(seed, Path(folder))
        try:
            program.run()
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - all that it may raise is a finding
            where = f"{type(program.kind).__name__}, {program.precision}, {program.workers} threads"
            return f"seed {seed} ({where}), after {' '.join(program.done)}: {type(error).__name__}: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.runtime.states.programs", description=__doc__)
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    one = options.seed is not None
    seeds = [options.seed] if one else range(options.first, options.first + options.cases)
    problems = [problem for seed in seeds if (problem := check(seed))]
    print("\n".join([*problems, f"{len(seeds)} programs, {len(problems)} wrong"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
