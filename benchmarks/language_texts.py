"""How long a step takes that writes a token of several texts: one thread, processor time, numbers of texts in turns.

python -m benchmarks.language_texts model.gguf [--activation-bits 8]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from MNN.llm.engine.opening import open_model
from MNN.llm.engine.paged import Work
from MNN.runtime.config import Config

_TOKEN, _BEFORE = 7, 20
_TEXTS = 1, 2, 4, 8, 16
_TURNS, _STEPS = 6, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--activation-bits", type=int)
    given = parser.parse_args()
    decoder = open_model(given.model).decoder(Config(threads=1), 1024, activation_bits=given.activation_bits)
    texts = [decoder.text() for _ in range(max(_TEXTS))]
    for text in texts:
        decoder.feed(text, [_TOKEN] * _BEFORE)
    least = dict.fromkeys(_TEXTS, float("inf"))
    for turn in range(_TURNS + 1):  # the first one makes plans
        for count in _TEXTS:
            for _ in range(_STEPS):
                begin = time.process_time()
                decoder.step([Work(text, [_TOKEN]) for text in texts[:count]])
                seconds = time.process_time() - begin
                if turn:
                    least[count] = min(least[count], seconds)
                for text in texts[:count]:
                    decoder.cut(text, _BEFORE)
    print("| texts | ms a step | tokens/s | of one |\n| ---: | ---: | ---: | ---: |")
    for count, seconds in least.items():
        print(f"| {count} | {seconds * 1e3:.2f} | {count / seconds:.0f} | {count * least[1] / seconds:.2f} |")


if __name__ == "__main__":
    main()
