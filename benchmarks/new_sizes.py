"""What a new size of the inputs costs beyond the same size again: lengths of sentences, caches that grow, images.

    python -m benchmarks.new_sizes                 # all of them
    python -m benchmarks.new_sizes --publish       # the table goes to docs/new-sizes.md

What is timed is everything but the native call that computes, which takes the same whether a size is new or not, and
varies by more than what is looked for: checking inputs, finding the plan, making one where there is none, writing what
follows from sizes, results. A size is run twice. The first size is told apart, as it holds loading the model and a plan
that fixed sizes have, too; the mean over all others holds the planning for ranges, kernels being compiled already, and
at a second start reading these plans. Times are those that the processor spent on this thread: of other processes,
only what they take of its caches is in them. Nothing is compared with other engines here: they compute every size
alike, or plan it anew.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx

import MNN
from MNN.backends.cpu.native_loop.native import NativeProgram
from MNN.runtime.storage.background import finish

from .cached_decoder import cached_decoder
from .models import find
from .records import machine
from .setup_peers import REPOSITORY, work_folder

PAGE = REPOSITORY / "docs" / "new-sizes.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
Feeds = dict[str, np.ndarray]


class Measured(NamedTuple):
    """Milliseconds of this thread: besides computing at a new size, and at the same again; and of computing."""

    new: list[float]
    again: list[float]
    computing: list[float]


class Clock:
    """Milliseconds spent in native calls while it is entered."""

    def __init__(self) -> None:
        self.native = 0.0

    def __enter__(self) -> Clock:
        self._run = NativeProgram.run

        def timed(program: NativeProgram, threads: int = 1) -> None:
            start = time.thread_time()
            try:
                self._run(program, threads)
            finally:
                self.native += 1e3 * (time.thread_time() - start)

        NativeProgram.run = timed  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        NativeProgram.run = self._run  # type: ignore[method-assign]


class Case(NamedTuple):
    """A model, and what is measured of it."""

    load: Callable[[], MNN.Model]
    measure: Callable[[MNN.Model], Measured]


@contextmanager
def empty_cache(folder: Path) -> Iterator[None]:
    """Nothing is known from before; kernels that this process has compiled stay in its memory."""
    before = os.environ.get("MNN_CACHE_DIR")
    os.environ["MNN_CACHE_DIR"] = tempfile.mkdtemp(dir=folder)  # models that are still there may write to it later
    try:
        yield
    finally:
        finish()
        os.environ.pop("MNN_CACHE_DIR")
        if before is not None:
            os.environ["MNN_CACHE_DIR"] = before


def starts(case: Case, folder: Path) -> tuple[Measured, Measured]:
    """A first start, without any plans, and a second one."""
    with empty_cache(folder):
        case.measure(case.load())
    with empty_cache(folder):
        first = case.measure(case.load())
        finish()
        return first, case.measure(case.load())


def measured(model: MNN.Model, feeds: Iterable[Feeds], rewind: Callable[[int], object] = lambda run: None) -> Measured:
    """What each of the feeds costs, new and again, besides computing; and what computing takes. ``rewind`` is called
    before each run with the number of its feeds."""
    found = Measured([], [], [])
    with Clock() as clock:
        for number, given in enumerate(feeds):
            for times in (found.new, found.again):
                rewind(number)
                before, start = clock.native, time.thread_time()
                model.run(given)
                native = clock.native - before
                times.append(1e3 * (time.thread_time() - start) - native)
            found.computing.append(native)
    return found


def sentences(name: str, work: Path, count: int) -> Case:
    """A network at ``count`` lengths from 3 to 509, in random order."""

    def feeds(model: MNN.Model) -> Iterator[Feeds]:
        rng = np.random.default_rng(1)
        for length in rng.permutation(np.arange(3, 510))[:count]:
            shape = (1, int(length))
            tokens = rng.integers(0, 1000, shape)
            both = {"attention_mask": np.ones(shape, np.int64), "token_type_ids": np.zeros(shape, np.int64)}
            yield {"input_ids": tokens, **{k: v for k, v in both.items() if k in model.inputs}}

    return Case(lambda: MNN.load(find(name, work).path), lambda model: measured(model, feeds(model)))


def tokens(folder: Path, count: int) -> Case:
    """A decoder of 24 layers that reads token after token, with a cache that is one longer each time."""
    path = folder / "decoder.onnx"
    onnx.save(cached_decoder(), path)

    def feeds(model: MNN.Model) -> Iterator[Feeds]:
        rng = np.random.default_rng(1)
        for length in range(3, 3 + count):
            past = rng.standard_normal((1, 2, length, 64)).astype(np.float32)
            yield {n: past if n.startswith("past") else np.array([[7]]) for n in model.inputs}

    return Case(lambda: MNN.load(path), lambda model: measured(model, feeds(model)))


def steps(folder: Path, count: int) -> Case:
    """The same decoder that keeps its caches itself: a step at a new length, and the same step again."""
    path = folder / "stateful.onnx"
    onnx.save(cached_decoder(), path)
    states = {f"past_{n}{i}": f"present_{n}{i}" for i in range(24) for n in "kv"}

    def measure(model: MNN.Model) -> Measured:
        def rewind(length: int) -> None:  # for both runs, so that caches of the processor hold the same code
            model.state.rollback(min(length, model.state.length))

        return measured(model, [{"tokens": np.array([[7]])}] * count, rewind)

    return Case(lambda: MNN.load(path, states=states), measure)


def images(folder: Path, work: Path, count: int) -> Case:
    """ResNet-50 at images of random heights and widths."""
    found, path = onnx.load(find("resnet50", work).path), folder / "images.onnx"
    for axis, name in ((2, "height"), (3, "width")):
        found.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    onnx.save(found, path)

    def feeds(model: MNN.Model) -> Iterator[Feeds]:
        rng = np.random.default_rng(1)
        (name,) = model.inputs
        for height, width in rng.integers(160, 320, (count, 2)).tolist():
            yield {name: rng.standard_normal((1, 3, height, width)).astype(np.float32)}

    return Case(lambda: MNN.load(path), lambda model: measured(model, feeds(model)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--publish", action="store_true", help=f"write the table to {PAGE.name}")
    parser.add_argument("--only", default="", help="cases whose names hold this")
    parser.add_argument("--work", type=Path, default=None, help="folder of exported models")
    arguments = parser.parse_args()
    if arguments.publish and arguments.only:
        parser.error("a table is published whole")
    work = work_folder(arguments.work)
    columns = ["what", "first size", "new: median", "new: mean", "second start: mean", "again: median", "computing"]
    lines = [f"| {' | '.join(columns)} |", f"| --- |{' ---: |' * (len(columns) - 1)}"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases: dict[str, Callable[[], Case]] = {
            "decoder of 24 layers, 500 tokens": lambda: tokens(folder, 500),
            "the same with states, 500 tokens": lambda: steps(folder, 500),
            "MiniLM, 500 lengths": lambda: sentences("real:minilm", work, 500),
            "BERT base, 100 lengths": lambda: sentences("bert_base", work, 100),
            "ResNet-50, 50 sizes of images": lambda: images(folder, work, 50),
        }
        for label, case in cases.items():
            if arguments.only not in label:
                continue
            found, second = starts(case(), folder)
            numbers = [
                found.new[0], statistics.median(found.new[1:]), statistics.fmean(found.new[1:]),
                statistics.fmean(second.new[1:]), statistics.median(found.again), statistics.median(found.computing),
            ]  # fmt: skip
            lines.append(f"| {label} | {' | '.join(f'{n:.3f}' if n < 1 else f'{n:.1f}' for n in numbers)} |")
            print(lines[-1], flush=True)
    if arguments.publish:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        table = "\n".join([*lines, "", f"One thread; {machine()['processor']}."])
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
