"""A small random model run by this engine, against what transformers computed for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.ir.quant import QuantizedArray
from MNN.llm.engine.embeddings import tables_of
from MNN.llm.engine.paged import PagedDecoder, Work
from MNN.llm.models.cache import CacheForm
from MNN.llm.models.families import build, build_encoder
from MNN.llm.models.rotary import switch
from MNN.llm.models.weights import Array, Weights
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.stateful import StatefulModel
from tests.llm.cases import tokens, weights

TOLERANCE = 1e-4
"""Of the largest logit."""
FIRST = 16
"""Words of a text."""


class Arrays(dict[str, np.ndarray]):
    """Weights at hand."""

    def shape(self, name: str) -> tuple[int, ...]:
        return self[name].shape


@dataclass
class PlainTable:
    """A table of embeddings at hand."""

    numbers: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    def rows(self, index: np.ndarray) -> np.ndarray:
        return self.numbers[index]


@dataclass
class Expected:
    """``logits [prompt, vocabulary]``; ``padded``: of the beginnings of the prompt in a batch padded on the left, the
    last rows of each; ``written``: the greedy continuation of the first 12 tokens."""

    config: dict[str, Any]
    shapes: dict[str, list[int]]
    seed: int
    prompt: list[int]
    logits: np.ndarray
    padded: list[np.ndarray]
    written: list[int]
    lengths: tuple[int, ...] = (17, 40, 3)

    def notes(self) -> dict[str, Any]:
        """All but the arrays."""
        names = ("config", "shapes", "seed", "prompt", "written")
        return {name: getattr(self, name) for name in names}


def decoder_of(
    config: dict[str, Any], data: Weights, settings: Config, max_length: int | None = None, bits: int = 32
) -> PagedDecoder:
    cache = CacheForm(bits, bits)
    net = build(config, data, cache=cache)
    session = Session(net.graph, settings, None, net.states)
    tables = {name: table_of(data[name]) for name in net.embeddings.split(" ")}
    return PagedDecoder(session, net.states, cache, tables_of(tables, net.embeddings), max_length, switch(config))


@dataclass
class Encoded:
    """``vectors [tokens, width]`` of texts of these ``lengths``, the beginnings of one."""

    config: dict[str, Any]
    shapes: dict[str, list[int]]
    seed: int
    vectors: list[np.ndarray]
    lengths: tuple[int, ...] = (17, 40, 3)


def table_of(weight: Array) -> PlainTable:
    return PlainTable(weight.dequantize() if isinstance(weight, QuantizedArray) else weight)


def check_encoder(expected: Encoded) -> float:
    """The largest error of all vectors. Raises AssertionError where it is too large."""
    net = build_encoder(expected.config, Arrays(weights(expected.shapes, expected.seed)))
    session = Session(net.graph, Config(precision="high", cache=False))
    worst = 0.0
    alone = "length" in session.inputs  # positions depend on it
    for which in ((0,), (1,), (2,)) if alone else ((0, 1, 2), (1,), (2,), (0, 2)):
        longest = max(expected.lengths[i] for i in which)
        first = np.array([longest - expected.lengths[i] for i in which])
        rows = np.array([[0] * n + tokens(expected.seed, longest - n) for n in first])
        places = np.maximum(np.arange(longest) - first[:, None], 0)
        feeds = {"tokens": rows, "positions": places, "first": first} | ({"length": [longest]} if alone else {})
        found = session.run(feeds)["vectors"]
        for vectors, i in zip(found, which, strict=True):
            wanted = expected.vectors[i]
            worst = max(worst, _error(f"text {i} of {which}", vectors[-len(wanted) :], wanted))
    return worst


def check_briefly(expected: Expected) -> float:
    """The prompt in two pieces alone: for families whose states, texts and batches are those of others."""
    decoder = decoder_of(
        expected.config, Arrays(weights(expected.shapes, expected.seed)), Config(precision="high", cache=False)
    )
    text, found = decoder.text(), []
    for low, high in ((0, 25), (25, 40)):
        found += decoder._run([Work(text, expected.prompt[low:high], high - low)], 40)
    return _error("the prompt in two pieces", np.concatenate(found), expected.logits)


def check(expected: Expected, whole: bool = True) -> float:
    """The largest error of all logits. Raises AssertionError where it is too large or the text is another one. Not
    ``whole``: without padded batches, and of the text the first words alone."""
    data, config = Arrays(weights(expected.shapes, expected.seed)), expected.config
    decoder = decoder_of(config, data, Config(precision="high", cache=False))
    worst = _error("the whole prompt", decoder.feed(decoder.text(), expected.prompt, every=True), expected.logits)
    text, found = decoder.text(), []
    for low, high in ((0, 7), (7, 29), (29, 30), (30, 31), (31, 40)):
        found += decoder._run([Work(text, expected.prompt[low:high], high - low)], 40)
    worst = max(worst, _error("the prompt in pieces", np.concatenate(found), expected.logits))
    if whole:
        worst = max(worst, _padded(expected, data))
    text, written = decoder.text(), []
    logits = decoder.feed(text, expected.prompt[:12])
    for _ in expected.written if whole else expected.written[:FIRST]:
        written.append(int(logits[-1].argmax()))
        if written[-1] != expected.written[len(written) - 1]:
            top = np.sort(logits[-1])
            gap = float(top[-1] - top[-2]) / float(abs(top).max())
            assert gap < TOLERANCE, f"another token at {len(written)}: the gap to the next one was {gap}"
            break  # a tie
        logits = decoder.feed(text, written[-1:])
    return worst


def _padded(expected: Expected, data: Arrays) -> float:
    net = build(expected.config, data, padded=True)
    model = StatefulModel(Session(net.graph, Config(precision="high", cache=False), None, net.states), net.states)
    longest = max(expected.lengths)
    first = np.array([longest - n for n in expected.lengths])
    padded = np.array([[0] * (longest - n) + expected.prompt[:n] for n in expected.lengths])
    positions = np.maximum(np.arange(longest)[None] - first[:, None], 0)
    worst = 0.0
    for cut in (longest, 5):  # at once, then in two pieces
        found, state = [], model.new_state()
        for low, high in ((0, cut), (cut, longest)):
            if low == high:
                continue
            feeds = {"tokens": padded[:, low:high], "positions": positions[:, low:high], "first": first}
            feeds["rows"] = np.arange(high - low)
            if "length" in model.inputs:
                feeds["length"] = np.array([longest])
            found.append(model.run(feeds, state=state)["logits"])
        logits = np.concatenate(found, 1)
        for i, wanted in enumerate(expected.padded):
            worst = max(worst, _error(f"row {i} of a padded batch", logits[i, -len(wanted) :], wanted))
    return worst


def _error(what: str, found: np.ndarray, wanted: np.ndarray) -> float:
    error = float(np.abs(found - wanted).max() / np.abs(wanted).max())
    assert error <= TOLERANCE, f"{what}: error {error:.1e} of the largest logit"
    return error
