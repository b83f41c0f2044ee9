"""Reading and writing of language models beside other engines, in turns on one machine, with what memory gives.

    python -m benchmarks.language_speed model.gguf --threads 1 --clock cpu \\
        --peer llama.cpp=LLAMA/bin/python --peer openvino=OPENVINO/bin/python --peer mnn=MNN/bin/python:FOLDER

A peer is an engine of :mod:`benchmarks.language_engine`, the Python that has it (environments: ``llama-cpp-python``,
``openvino-genai``, ``MNN``) and, for ``mnn``, the model as a folder; ``own8`` is this one with activations in 8 bits.
Models of random weights in known shapes are made by :mod:`benchmarks.language_random`. With one thread, ``--clock cpu``
counts processor time, which neighbours on the machine change little; with several, only a quiet machine tells anything.

Times are the least of all turns: a prompt of 512 tokens; one of 32 (the first token); and a token behind it, from the
difference that 32 more of them make. The share of memory is what a token reads (the file) beside a sum over an array
that no cache holds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

PROMPT, SHORT, NEW = 512, 32, 32
ASKED = {"prompt": (PROMPT, 1), "first": (SHORT, 1), "more": (SHORT, 1 + NEW)}
_SUMMED = 1 << 28


class Engine:
    """A process that waits for its turn."""

    def __init__(self, python: str, engine: str, model: str, threads: int) -> None:
        file = str(Path(__file__).parent / "language_engine.py")
        given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or "own" in engine}
        begin = time.perf_counter()
        self._process = subprocess.Popen(
            [python, file, engine, model, str(threads)], env=given,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.turn(SHORT, 1)
        self.opened = time.perf_counter() - begin

    def turn(self, prompt: int, new: int) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(prompt, new, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._process.args!r} ended with {self._process.wait()}")
        found: dict[str, float] = json.loads(answer)
        return found


def bandwidth(parts: list[np.ndarray], clock: str) -> float:
    """GB/s of sums over the parts of an array, one for each thread."""
    now: Callable[[], float] = time.process_time if clock == "cpu" else time.perf_counter
    begin = now()
    if len(parts) == 1:
        parts[0].sum()
    else:
        workers = [threading.Thread(target=part.sum) for part in parts]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return sum(part.nbytes for part in parts) / (now() - begin) / 1e9


def measured(
    engines: dict[str, Engine], turns: int, clock: str, threads: int, whole: bool
) -> tuple[dict[str, dict[str, float]], float]:
    """The least seconds of each engine for what is asked, with its memory at the end; and the most that memory gave in
    turns with these. ``whole``: the prompt of 512 tokens, too."""
    least: dict[str, dict[str, float]] = {name: dict.fromkeys(ASKED, float("inf")) for name in engines}
    parts, most = np.array_split(np.ones(_SUMMED // 4, np.float32), threads), 0.0
    for _ in range(turns):
        for name, engine in engines.items():
            for asked, numbers in ASKED.items():
                if asked == "prompt" and not whole:
                    continue
                found = engine.turn(*numbers)
                least[name][asked] = min(least[name][asked], found[clock])
                least[name] |= {key: found[key] for key in ("resident", "peak")}
            most = max(most, *(bandwidth(parts, clock) for _ in range(3)))
    return least, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer", action="append", default=[], help="ENGINE=PYTHON, or ENGINE=PYTHON:MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--writing", action="store_true", help="leaves out the prompt of 512 tokens")
    given = parser.parse_args()
    engines = {name: Engine(sys.executable, name, str(given.model), given.threads) for name in ("own", "own8")}
    for peer in given.peer:
        name, _, rest = peer.partition("=")
        python, _, model = rest.partition(":")
        engines[name] = Engine(python, name, model or str(given.model), given.threads)
    found, memory = measured(engines, given.turns, given.clock, given.threads, not given.writing)
    size = given.model.stat().st_size
    print(f"\n{given.model.name}, {size >> 20} MB, threads {given.threads}, {given.clock} time, load "
          f"{os.getloadavg()[0]:.1f}, memory {memory:.1f} GB/s\n")  # fmt: skip
    print("| engine | prompt, tokens/s | first token, ms | a token, ms | share of memory | MB | MB at most |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, each in found.items():
        token = (each["more"] - each["first"]) / NEW
        share = size / token / 1e9 / memory
        prompt = "" if given.writing else f"{PROMPT / each['prompt']:.0f}"
        print(f"| {name} | {prompt} | {each['first'] * 1e3:.0f} | {token * 1e3:.2f} | "
              f"{100 * share:.0f} % | {each['resident']:.0f} | {each['peak']:.0f} |")  # fmt: skip


if __name__ == "__main__":
    main()
