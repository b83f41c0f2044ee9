"""How long a token takes that a language model writes, beside llama.cpp: in turns, one thread each, processor time.

Processor time of one thread is that of the work alone, so that a machine with neighbours does not change it much; the
least of all turns counts. llama.cpp runs in an environment of its own (``pip install llama-cpp-python``)::

    python -m benchmarks.language_writing model.gguf --peer PEER/bin/python --context 16 3000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_TOKEN = 7
_TURNS, _STEPS = 5, 5
_LLAMA = """
import sys, time
from llama_cpp import Llama
model = Llama(sys.argv[1], n_ctx=int(sys.argv[2]) + 256, n_threads=1, n_threads_batch=1, n_batch=512, verbose=False)
model.eval([7] * int(sys.argv[2]))
for line in sys.stdin:
    least = 1e9
    for _ in range(int(line)):
        begin = time.process_time()
        model.eval([7])
        least = min(least, time.process_time() - begin)
    print(least, flush=True)
"""


class _Peer:
    """llama.cpp in a process that waits for its turn."""

    def __init__(self, python: Path, model: Path, context: int) -> None:
        command = [python, "-c", _LLAMA, model, str(context)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(_STEPS, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def own(model: Path, context: int) -> Callable[[], float]:
    """A turn of this engine: seconds of a token behind so many."""
    from MNN.llm.engine.opening import open_model
    from MNN.runtime.config import Config

    decoder = open_model(model).decoder(Config(threads=1), context + 256)
    text = decoder.text()
    decoder.feed(text, [_TOKEN] * context)

    def turn() -> float:
        least = float("inf")
        for _ in range(_STEPS):
            begin = time.process_time()
            decoder.feed(text, [_TOKEN])
            least = min(least, time.process_time() - begin)
        return least

    return turn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer", type=Path, required=True, help="the Python that has llama_cpp")
    parser.add_argument("--context", type=int, nargs="+", default=[16], help="tokens before those that are written")
    given = parser.parse_args()
    for context in given.context:
        turns = {"this engine": own(given.model, context), "llama.cpp": _Peer(given.peer, given.model, context).turn}
        least = {name: min(turn() for _ in range(2)) for name, turn in turns.items()}  # plans, and caches
        for _ in range(_TURNS):
            least = {name: min(least[name], turn()) for name, turn in turns.items()}
        ours, theirs = least["this engine"], least["llama.cpp"]
        print(f"| {given.model.name} | {context} | {ours * 1e3:.2f} | {theirs * 1e3:.2f} | {theirs / ours:.2f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
