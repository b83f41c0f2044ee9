"""Steps of training against torch, eager and compiled, turn by turn in one run: the least wall time of a step.

    python -m benchmarks.training [--only mlp,lenet] [--rounds 4] [--threads 1] [--low] [--cpu] [--no-compile]
        [--memory]

Batches of 32, fp32 (``high``; ``--low``: bf16, torch by autocast), gradient descent with momentum. Every side is a
process of its own that waits while another works. ``--cpu``: what a process takes of processors, where others work
too. ``--memory``: the largest resident memory of a process while it makes steps, less what it has once its framework is
imported, in MiB. torch runs in the environment of the tests' exports; torch.compile needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests import zoo
from tests.export_env import python

STEPS = {"mlp": 50, "lenet": 20, "transformer": 2, "resnet18": 2, "mobilenetv2": 2}
ROOT = Path(__file__).parents[1]


class Side:
    """A process that makes steps of one network when it is told to."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def steps(self, count: int) -> tuple[float, float, float, float]:
        """The least seconds of some steps, by the clock and by its threads, the seconds that the first one took, and
        the largest memory in MiB."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        least, spent, first, memory = map(float, self._process.stdout.readline().split())
        return least, spent, first, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(STEPS))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--low", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    theirs = [str(python(zoo.cache_folder())), "-m", "benchmarks.training_torch"]
    ours = [sys.executable, "-m", "benchmarks.training_own"]
    sides = {"this engine": ours, "eager": [*theirs, "eager"]}
    if not options.no_compile:
        sides["compiled"] = [*theirs, "compiled"]
    unit = "MiB" if options.memory else "ms"
    print(f"| network | {' | '.join(f'{name}, {unit}' for name in sides)} | best of torch / this | first step, s |")
    print("| --- |" + " ---: |" * (len(sides) + 2))
    for name in options.only.split(","):
        running = [
            Side([*command, name, str(options.threads), "low" if options.low else "high"]) for command in sides.values()
        ]
        least = [float("inf")] * len(running)
        first = [0.0] * len(running)
        for _ in range(options.rounds):
            for i, side in enumerate(running):
                seconds, spent, first[i], memory = side.steps(STEPS[name])
                least[i] = min(least[i], memory if options.memory else 1000 * (spent if options.cpu else seconds))
        for side in running:
            side.__exit__(None, None, None)
        ratio = min(least[1:]) / least[0]
        numbers = " | ".join(f"{x:.4g}" for x in least)
        print(f"| {name} | {numbers} | {ratio:.2f} | {' / '.join(f'{s:.1f}' for s in first)} |", flush=True)


if __name__ == "__main__":
    main()
