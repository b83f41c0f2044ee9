"""The published .tflite models of MediaPipe beside LiteRT (XNNPACK), on one thread, in turns on the same core.

    python -m benchmarks.tflite_models [--runs 30] [--only NAME]

LiteRT runs in the environment of the tests (``MNN_LITERT_PYTHON``). What is compared is the minimum CPU time of all
runs of a process; each engine has one, and they take turns. Errors are the largest difference over the largest output.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from pathlib import Path

import numpy as np

TURNS = 5
_LITERT = """
import sys, time
import numpy as np
from ai_edge_litert.interpreter import Interpreter
model = Interpreter(sys.argv[1], num_threads=1)
model.allocate_tensors()
rng = np.random.default_rng(0)
for detail in model.get_input_details():
    model.set_tensor(detail["index"], rng.random(detail["shape"]).astype(np.float32))
run = model.invoke
"""
_OURS = """
import sys, time
import numpy as np
import MNN
model = MNN.load(sys.argv[1], threads=1)
rng = np.random.default_rng(0)
feeds = {n: rng.random(i.shape).astype(np.float32) for n, i in model.inputs.items()}
run = lambda: model.run(feeds)
"""
_LOOP = """
run(); run()
print("ready", flush=True)
for line in sys.stdin:
    best = 9e9
    for _ in range(int(line)):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    print(best * 1e3, flush=True)
"""


def measure(path: Path, litert: Path, runs: int) -> tuple[float, float]:
    """Milliseconds of ours and of LiteRT."""
    programs = [(sys.executable, _OURS), (str(litert), _LITERT)]
    started = [
        subprocess.Popen(
            [python, "-c", source + _LOOP, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )
        for python, source in programs
    ]  # fmt: skip
    best = [math.inf, math.inf]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready", f"{path} does not run"
    for _ in range(TURNS):
        for i, process in enumerate(started):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{max(runs // TURNS, 1)}\n")
            process.stdin.flush()
            best[i] = min(best[i], float(process.stdout.readline()))
    for process in started:
        process.communicate()
    return best[0], best[1]


def error(path: Path) -> float:
    """The largest difference from LiteRT on noise."""
    import MNN
    from tests.frontends.tflite.litert import Request, answers

    model = MNN.load(path, threads=1)
    rng = np.random.default_rng(0)
    arrays = [rng.random([int(d) for d in i.shape or ()]).astype(np.float32) for i in model.inputs.values()]
    wanted = answers({"model": Request(path.read_bytes(), [arrays])})["model"].outputs[0]
    found = model.run(dict(zip(model.inputs, arrays, strict=True)))
    pairs = zip(found.values(), wanted, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def main() -> None:
    from tests import zoo
    from tests.frontends.tflite.litert import python

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    keys = [k for p in zoo.packages() for k in p.keys if k.startswith("mediapipe_") and not k.endswith("_attention")]
    ratios = []
    print("| model | ms | LiteRT, ms | ratio | error |\n| --- | ---: | ---: | ---: | ---: |")
    for key in keys:
        if given.only not in key:
            continue
        path = zoo.path(key)
        ours, theirs = measure(path, python(), given.runs)
        ratios.append(theirs / ours)
        name = key.removeprefix("mediapipe_")
        print(f"| {name} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} | {error(path):.0e} |", flush=True)
    print(f"\nmean (geometric) {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, lowest {min(ratios):.2f}")


if __name__ == "__main__":
    main()
