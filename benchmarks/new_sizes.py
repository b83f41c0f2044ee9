"""What a new size of the inputs costs beyond the same size again: lengths of sentences, caches that grow, images.

    python -m benchmarks.new_sizes                 # all of them
    python -m benchmarks.new_sizes --publish       # the table goes to docs/new-sizes.md

A size is run three times; what it costs to be new is the first time less the smaller of the others. Computing takes
much longer than that and varies by more, so medians are given beside the means, which planning for the first sizes of a
range is part of. Nothing is compared with other engines here: they compute every size alike, or plan it anew.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx

import MNN

from .cached_decoder import cached_decoder
from .models import find
from .records import machine
from .setup_peers import REPOSITORY, work_folder

PAGE = REPOSITORY / "docs" / "new-sizes.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
Feeds = dict[str, np.ndarray]


def measured(model: MNN.Model, feeds: Iterator[Feeds]) -> tuple[list[float], list[float]]:
    """Milliseconds that each of the feeds costs to be new, and that it takes again."""
    new, again = [], []
    for given in feeds:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            model.run(given)
            times.append(1e3 * (time.perf_counter() - start))
        again.append(min(times[1:]))
        new.append(times[0] - again[-1])
    return new, again


def sentences(name: str, work: Path, count: int) -> tuple[list[float], list[float]]:
    """A network at ``count`` lengths from 3 to 509, in random order."""
    model, rng = MNN.load(find(name, work).path), np.random.default_rng(1)

    def feeds() -> Iterator[Feeds]:
        for length in rng.permutation(np.arange(3, 510))[:count]:
            shape = (1, int(length))
            tokens = rng.integers(0, 1000, shape)
            both = {"attention_mask": np.ones(shape, np.int64), "token_type_ids": np.zeros(shape, np.int64)}
            yield {"input_ids": tokens, **{k: v for k, v in both.items() if k in model.inputs}}

    return measured(model, feeds())


def tokens(count: int) -> tuple[list[float], list[float]]:
    """A decoder of 24 layers that reads token after token, with a cache that is one longer each time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decoder.onnx"
        onnx.save(cached_decoder(), path)
        model, rng = MNN.load(path), np.random.default_rng(1)

        def feeds() -> Iterator[Feeds]:
            for length in range(3, 3 + count):
                past = rng.standard_normal((1, 2, length, 64)).astype(np.float32)
                yield {n: past if n.startswith("past") else np.array([[7]]) for n in model.inputs}

        return measured(model, feeds())


def images(work: Path, count: int) -> tuple[list[float], list[float]]:
    """ResNet-50 at images of random heights and widths."""
    found = onnx.load(find("resnet50", work).path)
    for axis, name in ((2, "height"), (3, "width")):
        found.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "open.onnx"
        onnx.save(found, path)
        model = MNN.load(path)
        (name,) = model.inputs
        sizes = rng.integers(160, 320, (count, 2))
        return measured(
            model, ({name: rng.standard_normal((1, 3, h, w)).astype(np.float32)} for h, w in sizes.tolist())
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--publish", action="store_true", help=f"write the table to {PAGE.name}")
    parser.add_argument("--work", type=Path, default=None, help="folder of exported models")
    arguments = parser.parse_args()
    work = work_folder(arguments.work)
    cases: dict[str, Callable[[], tuple[list[float], list[float]]]] = {
        "decoder of 24 layers, 500 tokens": lambda: tokens(500),
        "MiniLM, 500 lengths": lambda: sentences("real:minilm", work, 500),
        "BERT base, 500 lengths": lambda: sentences("bert_base", work, 500),
        "ResNet-50, 50 sizes of images": lambda: images(work, 50),
    }
    lines = ["| what | new: median, ms | new: mean, ms | again: median, ms |", "| --- | --- | --- | --- |"]
    for label, case in cases.items():
        new, again = case()
        middle, mean, usual = statistics.median(new), statistics.fmean(new), statistics.median(again)
        lines.append(f"| {label} | {middle:.2f} | {mean:.2f} | {usual:.1f} |")
        print(lines[-1], flush=True)
    if arguments.publish:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        table = "\n".join([*lines, "", f"One thread; {machine()['processor']}."])
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
