"""How long a step takes that writes a token of several texts, and one behind a long text: numbers of texts in turns.

One thread's processor time, which neighbours of the machine change little; with more threads the time that passes, for
a machine that does nothing else::

    python -m benchmarks.language_texts model.gguf [--activation-bits 8] [--threads 2] [--long 8000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from MNN.llm.engine.opening import open_model
from MNN.llm.engine.paged import PagedDecoder, Work
from MNN.runtime.config import Config

_TOKEN, _BEFORE = 7, 20
_TEXTS = 1, 2, 4, 8, 16
_TURNS, _STEPS = 6, 5


def steps(decoder: PagedDecoder, long: int) -> dict[str, tuple[int, Callable[[], None]]]:
    """By what a step is called, the tokens that it writes, and one such step."""
    texts = [decoder.text() for _ in range(max(_TEXTS))]
    for text in texts:
        decoder.feed(text, [_TOKEN] * _BEFORE)

    def together(count: int) -> Callable[[], None]:
        def step() -> None:
            decoder.step([Work(text, [_TOKEN]) for text in texts[:count]])
            for text in texts[:count]:
                decoder.cut(text, _BEFORE)

        return step

    found = {f"{count}": (count, together(count)) for count in _TEXTS}
    if long:
        longer = decoder.text()
        decoder.feed(longer, [_TOKEN] * long)

        def behind() -> None:
            decoder.feed(longer, [_TOKEN])
            decoder.cut(longer, long)

        found[f"1 behind {long} tokens"] = 1, behind
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--activation-bits", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--long", type=int, default=0, help="tokens of a long text")
    given = parser.parse_args()
    room = max(1024, given.long + 256)
    decoder = open_model(given.model).decoder(Config(given.threads), room, activation_bits=given.activation_bits)
    clock = time.process_time if given.threads == 1 else time.perf_counter
    if not isinstance(decoder, PagedDecoder):
        parser.error(f"{given.model} keeps no pages: its texts go on one by one")
    works = steps(decoder, given.long)
    least = dict.fromkeys(works, float("inf"))
    for turn in range(_TURNS + 1):  # the first one makes plans
        for name, (_, step) in works.items():
            for _ in range(_STEPS):
                begin = clock()
                step()
                seconds = clock() - begin
                if turn:
                    least[name] = min(least[name], seconds)
    print("| texts | ms a step | tokens/s | of one |\n| ---: | ---: | ---: | ---: |")
    for name, seconds in least.items():
        count = works[name][0]
        print(f"| {name} | {seconds * 1e3:.2f} | {count / seconds:.0f} | {count * least['1'] / seconds:.2f} |")


if __name__ == "__main__":
    main()
