"""How much the perplexity of a language model rises in each form of its weights, with rows as they are and in 8 bits.

    python -m benchmarks.language_forms MODEL TEXT [--tokens 1000]

MODEL's weights, as floats, are the beginning; every matrix is rounded to the form, the last layer too. Blocks of GGUF's
forms are those that its plain rounding makes (a minimum and a scale, or the largest size). Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from MNN.ir.quant import FEWEST_ROW_BITS, QuantizedArray
from MNN.llm.engine.loaded import quantize, with_rounding
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.files import Weights, open_weights, read_config
from MNN.llm.models.cache import PAGE, CacheForm
from MNN.llm.models.families import build, usual
from MNN.llm.models.weights import Array
from MNN.llm.quality import perplexity
from MNN.llm.text import load_tokenizer
from MNN.runtime.config import Config
from MNN.runtime.session import Session

FORMS: dict[str, tuple[int, int, bool]] = {
    "8 bits, symmetric, blocks of 32 (Q8_0)": (8, 32, True),
    "8 bits, symmetric, whole rows": (8, 0, True),
    "4 bits, offsets, blocks of 32 (Q4_1)": (4, 32, False),
    "4 bits, symmetric, blocks of 32 (Q4_0)": (4, 32, True),
    "4 bits, offsets, blocks of 64": (4, 64, False),
    "3 bits, offsets, blocks of 32": (3, 32, False),
    "3 bits, symmetric, blocks of 32": (3, 32, True),
    "2 bits, offsets, blocks of 16": (2, 16, False),
}
"""Bits, neighbours that share a scale (0: a row), and whether without offsets."""


class Rounded:
    """Weights in a form."""

    def __init__(self, tensors: Weights, form: tuple[int, int, bool] | None, rounds: bool) -> None:
        self._tensors, self._form, self._rounds = tensors, form, rounds

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def __getitem__(self, name: str) -> Array:
        data = np.ascontiguousarray(self._tensors[name].float32())
        if self._form is None or data.ndim != 2:
            return data
        bits, block, symmetric = self._form
        bits = max(bits, 8) if "embed" in name or "lm_head" in name else bits
        found: QuantizedArray = quantize(data, bits, block or data.shape[1], symmetric)
        return with_rounding(found, name, FEWEST_ROW_BITS if self._rounds else 0)


def measured(model: Path, tokens: list[int]) -> Iterator[tuple[str, float, float]]:
    """Each form's name, and its perplexity with rows as they are and with rows in 8 bits."""
    config, tensors = read_config(model), open_weights(model)
    for name, form in {"floats": None, **FORMS}.items():
        found = []
        for rounds in (False, True) if form is not None else (False,):
            cache = CacheForm(16, 16, pages := -(-len(tokens) // PAGE) + 1, pages)
            net = build(config, Rounded(tensors, form, rounds), cache=cache)
            settings = Config(threads=2, precision="high", cache=False)
            session = Session(net.graph, settings, None, net.states)
            decoder = PagedDecoder(session, net.states, cache, tensors[net.embeddings], usual(config).longest)
            found.append(perplexity(decoder, tokens).value)
        yield name, found[0], found[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokens", type=int, default=1000, help="how many of the text's tokens count")
    given = parser.parse_args()
    tokens = load_tokenizer(given.model).encode(given.text.read_text(encoding="utf-8"))[: given.tokens]
    print("| weights | perplexity | | rows in 8 bits, too | |\n| --- | ---: | ---: | ---: | ---: |")
    base = 0.0
    for name, plain, rounded in measured(given.model, tokens):
        base = base or plain
        more = [f"{100 * (value / base - 1):+.2f} %" for value in (plain, rounded)]
        print(f"| {name} | {plain:.3f} | {more[0]} | {rounded:.3f} | {more[1]} |", flush=True)


if __name__ == "__main__":
    main()
