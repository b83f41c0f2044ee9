"""How well texts answer a question: models that read both together, and put search results in order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Protocol

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.llm.embedder import longest_text
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.language_model import LanguageModel, load
from MNN.llm.models.families import embeds
from MNN.llm.models.weights import Array, Weights
from MNN.llm.text import Tokenizer, load_tokenizer
from MNN.runtime.config import Config, processors
from MNN.runtime.session import Session

BATCH = 32
"""Pairs that are computed at once."""
_HEADS = (
    ("classifier.dense", "classifier.out_proj"),  # RoBERTa and XLM-RoBERTa
    ("bert.pooler.dense", "classifier"),
)
"""What the layers behind the first token's vector are called: one with tanh, and the one that gives the score."""
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
_BEGIN = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_END = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


@dataclass(frozen=True)
class Ranked:
    """A text's place among others: its number among those given, and how well it answers, from 0 to 1."""

    index: int
    score: float
    text: str


class Scores(Protocol):
    """Gives texts scores from 0 to 1 for a question."""

    tokenizer: Tokenizer
    longest: int

    def scores(self, query: str, texts: Sequence[str], instruction: str = INSTRUCTION) -> np.ndarray: ...


class Reranker:
    """Puts texts in the order in which they answer a question."""

    def __init__(self, model: Scores) -> None:
        self.model = model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    @property
    def longest(self) -> int:
        """Tokens that question and text may have together; what is beyond is cut off."""
        return self.model.longest

    def scores(self, query: str, texts: Sequence[str], instruction: str = INSTRUCTION) -> np.ndarray:
        """Scores f32 ``[texts]`` from 0 to 1. ``instruction``: what is looked for, where the model follows such."""
        if isinstance(texts, str):
            raise MNNError("a list of texts is expected, not one text")
        return self.model.scores(query, texts, instruction) if len(texts) else np.zeros(0, np.float32)

    def rank(
        self, query: str, texts: Sequence[str], top: int | None = None, instruction: str = INSTRUCTION
    ) -> list[Ranked]:
        """The texts, the best first, or the ``top`` best ones.

        >>> best = reranker.rank("What do cats eat?", ["Cats eat mice.", "Rain fell."], top=1)  # doctest: +SKIP
        """
        scores = self.scores(query, texts, instruction)
        order = np.argsort(-scores, kind="stable")[:top]
        return [Ranked(int(i), float(scores[i]), texts[int(i)]) for i in order]


class CrossEncoder:
    """An encoder that reads question and text as one, and scores the first token's vector (Nogueira and Cho 2019,
    arXiv:1901.04085). Texts that are too long are cut."""

    def __init__(self, session: Session, tokenizer: Tokenizer, longest: int, weights: Weights) -> None:
        self._session, self.tokenizer, self.longest = session, tokenizer, longest
        found = next((names for names in _HEADS if all(f"{n}.weight" in weights for n in names)), None)
        if found is None:
            raise FormatError("the model has no layers that score pairs of texts; is it one that embeds texts?")
        self._layers = [(_numbers(weights[f"{n}.weight"]), _numbers(weights[f"{n}.bias"])) for n in found]
        outputs = len(self._layers[1][1])
        if outputs not in (1, 2):
            raise FormatError(f"the model sorts texts into {outputs} classes; one score, or two, are expected")

    def scores(self, query: str, texts: Sequence[str], instruction: str = INSTRUCTION) -> np.ndarray:
        pairs = [self.tokenizer.encode_pair(query, text, self.longest) for text in texts]
        order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]))  # little padding
        found = np.zeros(len(pairs), np.float32)
        for begin in range(0, len(order), BATCH):
            part = order[begin : begin + BATCH]
            logits = self._logits([pairs[i] for i in part])
            found[part] = 1 / (1 + np.exp(-logits))
        return found

    def _logits(self, pairs: Sequence[tuple[list[int], list[int]]]) -> np.ndarray:
        longest = max(len(ids) for ids, _ in pairs)
        first = np.array([longest - len(ids) for ids, _ in pairs], np.int64)
        tokens, types = (
            np.array([[0] * int(n) + pair[i] for n, pair in zip(first, pairs, strict=True)], np.int64) for i in (0, 1)
        )
        positions = np.maximum(np.arange(longest) - first[:, None], 0)
        feeds = {"tokens": tokens, "positions": positions, "first": first}
        if "types" in self._session.inputs:
            feeds["types"] = types
        vectors = self._session.run(feeds)["vectors"][np.arange(len(pairs)), first]
        (inner, shift), (outer, last) = self._layers
        made: np.ndarray = np.tanh(vectors @ inner.T + shift) @ outer.T + last
        return made[:, 0] if made.shape[1] == 1 else made[:, 1] - made[:, 0]


class Judge:
    """A model that writes whether a text answers: the share of "yes" beside "no" (Qwen3-Reranker, arXiv:2506.05176)."""

    def __init__(self, model: LanguageModel) -> None:
        self._decoder, self.tokenizer = model.decoder, model.tokenizer
        self.longest = model.max_length
        self._answers = [self._token(word) for word in ("no", "yes")]

    def _token(self, word: str) -> int:
        found = self.tokenizer.id_of(word)
        if found is None:
            raise FormatError(f"the model cannot judge: its vocabulary lacks the word '{word}'")
        return found

    def scores(self, query: str, texts: Sequence[str], instruction: str = INSTRUCTION) -> np.ndarray:
        decoder, tokenizer = self._decoder, self.tokenizer
        end, found = tokenizer.encode(_END, add_special_tokens=False), []
        state = decoder.text()
        for text in texts:  # what they begin with alike, the question included, is computed once
            told = f"{_BEGIN}<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}"
            tokens = tokenizer.encode(told, add_special_tokens=False)
            tokens = tokens[: max(self.longest - len(end), 1)]
            logits = decoder.feed(state, decoder.resume(state, [*tokens, *end]))[-1]
            no, yes = (float(logits[i]) for i in self._answers)
            found.append(1 / (1 + exp(min(no - yes, 700.0))))
        return np.array(found, np.float32)


def load_reranker(
    path: str | os.PathLike[str],
    threads: int | None = None,
    precision: str = "normal",
    bits: int | None = None,
    cache: bool = True,
) -> Reranker:
    """Opens a model that compares texts: a cross-encoder (BERT, RoBERTa, XLM-RoBERTa: bge-reranker and its like), or
    one that writes whether a text answers (Qwen3-Reranker).

    Arguments are those of :func:`MNN.llm.load`. Raises :class:`MNNError` where there is no such model.
    """
    opened = open_model(path)
    if not isinstance(opened, Opened) or not embeds(opened.config):
        return Reranker(Judge(load(path, threads=threads, precision=precision, bits=bits, cache=cache)))
    config = Config(threads=processors() if threads is None else threads, precision=precision, cache=cache)
    return Reranker(_cross_encoder(opened, config, bits))


def _cross_encoder(opened: Opened, config: Config, bits: int | None) -> CrossEncoder:
    pairs = int(opened.config.get("type_vocab_size") or 1) > 1  # type: ignore[call-overload]
    session = opened.encoder(config, bits, pairs)
    return CrossEncoder(session, load_tokenizer(opened.path), longest_text(opened.config), opened.weights())


def _numbers(weight: Array) -> np.ndarray:
    return weight if isinstance(weight, np.ndarray) else weight.dequantize()


__all__ = ["CrossEncoder", "Judge", "Ranked", "Reranker", "load_reranker"]
