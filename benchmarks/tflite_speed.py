"""TensorFlow Lite's files beside LiteRT (XNNPACK), on one thread, in turns: ``python -m benchmarks.tflite_speed``.

    python -m benchmarks.tflite_speed [FILE ...] [--runs 30] [--seconds 1] [--only NAME] [--out DIR]

Without files: those of MediaPipe, the wake words and basic-pitch. ``benchmarks/export_tflite.py`` writes architectures
in every number format as ``NAME.FORM.tflite``. LiteRT runs in the environment of the tests (``MNN_LITERT_PYTHON``). A
run takes arrays and gives arrays, in both engines. What is compared is the minimum CPU time of all runs of a process;
each engine has one for each file, and all forms of a network take turns. Errors are the largest difference from LiteRT
over the largest output; where LiteRT's outputs are integers, the largest difference in steps is there too.

What is found is added to ``DIR/results.jsonl``; ``--publish MACHINE`` writes ``docs/tflite-speed.md`` from it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.process_turns import LOOP, minimum_times
from benchmarks.setup_peers import REPOSITORY

PAGE = REPOSITORY / "docs" / "tflite-speed.md"
OPEN = {"melspectrogram": (1, 17280)}
"""Sizes of inputs that are open: a second of sound and a little more."""
FLOAT = "float"
Found = dict[str, object]
_NOISE = """
import json, sys
import numpy as np

shapes = json.loads(sys.argv[2])

def noise(shape, dtype):
    rng, kind = np.random.default_rng(0), np.dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, dtype=kind, endpoint=True)
    return rng.random(shape).astype(kind)
"""
_LITERT = """
from ai_edge_litert.interpreter import Interpreter
model = Interpreter(sys.argv[1], num_threads=1)
for detail, shape in zip(model.get_input_details(), shapes):
    model.resize_tensor_input(detail["index"], shape)
model.allocate_tensors()
feeds = {d["index"]: noise(shape, d["dtype"]) for d, shape in zip(model.get_input_details(), shapes)}
wanted = [d["index"] for d in model.get_output_details()]

def run():
    for index, array in feeds.items():
        model.set_tensor(index, array)
    model.invoke()
    return [model.get_tensor(index) for index in wanted]
"""
_OURS = """
import MNN
model = MNN.load(sys.argv[1], threads=1)
feeds = {n: noise(shape, i.dtype.numpy) for (n, i), shape in zip(model.inputs.items(), shapes)}
run = lambda: model.run(feeds)
"""
_HEAD = """# TensorFlow Lite's files, beside LiteRT

{machine}:
one thread, batch 1, arrays in and arrays out, on noise. LiteRT 2.3 runs XNNPACK. Minimum CPU times in ms of runs in
turns, each engine in a process of its own. *Ratio*: LiteRT's time by this engine's. *Error*: the largest difference
from LiteRT over the largest output; for integers also the largest difference in steps. Measure again with
`python -m benchmarks.tflite_speed`, which says what it needs.

## Published models, and drawn networks of floats

| network | ms | LiteRT | ratio | error |
| --- | ---: | ---: | ---: | ---: |
{floats}

{floats_summary}

## Number formats

What `benchmarks/export_tflite.py` writes of a network: `half` has fp16 weights, `dynamic` 8-bit weights and float
activations, `int8` bytes of both, `int16` 8-bit weights and 16-bit activations. A network's forms were measured in one
run; *float by form* is the time of this engine's float form by that of this form: below 1 the form is slower.

| network | form | ms | LiteRT | ratio | float by form | error | steps |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
{forms}

{forms_summary}
"""


def shapes(path: Path) -> list[list[int]]:
    """What the inputs get: 1 where a size is open, or what :data:`OPEN` says."""
    import MNN

    found = [[d if isinstance(d, int) else 1 for d in i.shape or ()] for i in MNN.load(path).inputs.values()]
    return [list(OPEN.get(path.stem, tuple(shape))) for shape in found]


def measure(paths: dict[str, Path], litert: Path, runs: int, seconds: float) -> dict[str, tuple[float, float]]:
    """Milliseconds of ours and of LiteRT for each form of a network; all take turns."""
    programs = [(sys.executable, _OURS), (str(litert), _LITERT)]
    commands = [
        [python, "-c", _NOISE + source + LOOP, str(path), json.dumps(shapes(path))]
        for path in paths.values()
        for python, source in programs
    ]
    times = iter(minimum_times(commands, runs, seconds))
    return {form: (next(times), next(times)) for form in paths}


def errors(path: Path) -> tuple[float, int | None]:
    """The largest difference from LiteRT on noise over the largest output, and in steps where outputs are integers."""
    import MNN
    from tests.frontends.tflite.litert import Request, answers

    model = MNN.load(path, threads=1)
    rng = np.random.default_rng(0)
    arrays = []
    for info, shape in zip(model.inputs.values(), shapes(path), strict=True):
        kind = info.dtype.numpy
        integers = kind.kind in "iu"
        arrays.append((rng.integers(-128, 128, shape) if integers else rng.random(shape)).astype(kind))
    wanted = answers({"model": Request(path.read_bytes(), [arrays])})["model"].outputs[0]
    found = list(model.run(dict(zip(model.inputs, arrays, strict=True))).values())
    away = [
        float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()) for a, b in zip(found, wanted, strict=True)
    ]
    largest = [max(float(np.abs(b.astype(np.float64)).max()), 1e-30) for b in wanted]
    steps = [int(d) for d, b in zip(away, wanted, strict=True) if b.dtype.kind in "iu"]
    return max(d / size for d, size in zip(away, largest, strict=True)), max(steps, default=None)


def published(part: str) -> dict[str, Path]:
    """The .tflite files of the tests' packages whose names have ``part``.

    The mesh with attention is left out: LiteRT lacks an operator of it.
    """
    from tests import zoo

    keys = [key for package in zoo.packages() for key in package.keys if not key.endswith("_attention")]
    files = {
        key: zoo.path(key) for key in keys if key.startswith(("mediapipe_", "wakeword_", "basic_")) and part in key
    }
    return {key.removeprefix("mediapipe_"): path for key, path in files.items() if path.suffix == ".tflite"}


def networks(files: Iterable[Path]) -> dict[str, dict[str, Path]]:
    """Files of networks by name and form, ``NAME.FORM.tflite``; others are floats."""
    found: dict[str, dict[str, Path]] = {}
    for path in files:
        name, _, form = path.stem.partition(".")
        found.setdefault(name, {})[form or FLOAT] = path
    return {name: dict(sorted(forms.items(), key=lambda f: f[0] != FLOAT)) for name, forms in found.items()}


def ratio(found: Found) -> float:
    return float(found["litert"]) / float(found["ms"])  # type: ignore[arg-type]


def row(found: Found, plain: float | None = None) -> str:
    """A row of a table; with ``plain``, the time of the network's float form, one of the second."""
    ms, form = float(found["ms"]), found["form"]  # type: ignore[arg-type]
    cells = [str(found["network"]), f"{ms:.3f}", f"{found['litert']:.3f}", f"**{ratio(found):.2f}**"]
    if plain is not None:
        cells.insert(1, str(form))
        cells.append(f"{plain / ms:.2f}")
    cells.append(f"{found['error']:.0e}")
    if plain is not None:
        cells.append("-" if found["steps"] is None else str(found["steps"]))
    return f"| {' | '.join(cells)} |"


def summary(found: Iterable[Found]) -> str:
    """The geometric mean and the lowest of the ratios."""
    ratios = [ratio(f) for f in found]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{len(ratios)} files: geometric mean {mean:.2f}, lowest {min(ratios):.2f}"


def publish(results: Path, machine: str) -> None:
    """Writes the page from the last result of each file; what stands below its tables stays."""
    lines = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    last = {(str(f["network"]), str(f["form"])): f for f in lines}
    floats = {name: f for (name, form), f in last.items() if form == FLOAT}
    others = [f for (_, form), f in last.items() if form != FLOAT]
    forms = []
    for name, group in itertools.groupby(others, lambda f: f["network"]):
        plain = float(floats[name]["ms"])
        forms += [row(f, plain) for f in group]
    by_form = [
        f"`{form}`: {summary(f for f in others if f['form'] == form)}." for form in sorted({f["form"] for f in others})
    ]
    old = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    below = "".join(f"\n## {part}" for part in old.split("\n## ")[3:])
    text = _HEAD.format(
        machine=machine,
        floats="\n".join(map(row, floats.values())),
        floats_summary=f"{summary(floats.values())}.",
        forms="\n".join(forms),
        forms_summary="  \n".join(by_form),
    )
    PAGE.write_text(text + below, encoding="utf-8")


def main() -> None:
    from tests.frontends.tflite.litert import python

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=200, help="of each engine and file")
    parser.add_argument("--seconds", type=float, default=1.0, help="that end the runs of an engine and file")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=Path("tflite-speed"))
    parser.add_argument("--publish", metavar="MACHINE", help="writes the page, which names the machine so")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    results = given.out / "results.jsonl"
    if given.publish:
        publish(results, given.publish)
        return
    work = partial(measure, litert=python(), runs=given.runs, seconds=given.seconds)
    files = networks(given.files) or {name: {FLOAT: path} for name, path in published(given.only).items()}
    done: list[Found] = []
    for name, paths in files.items():
        times = work(paths)
        for form, path in paths.items():
            ours, theirs = times[form]
            error, steps = errors(path)
            found: Found = {
                "network": name, "form": form, "ms": ours, "litert": theirs, "error": error, "steps": steps,
            }  # fmt: skip
            done.append(found)
            print(row(found, times.get(FLOAT, times[form])[0]), flush=True)
            with results.open("a", encoding="utf-8") as out:
                out.write(json.dumps(found) + "\n")
    print(f"\n{summary(done)}")


if __name__ == "__main__":
    main()
