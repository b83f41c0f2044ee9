"""How well texts answer a question: models that read both together, and put search results in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import erf, sqrt
from typing import Protocol

import numpy as np

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.embedder import batches, longest_text
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.files.mapped import read_json
from MNN.llm.judges import INSTRUCTION, Assessor, Judge, classifies, share
from MNN.llm.language_model import load
from MNN.llm.models.families import embeds, usual
from MNN.llm.models.weights import Array, Weights
from MNN.llm.text import Tokenizer, load_tokenizer
from MNN.runtime.config import Config, processors
from MNN.runtime.session import Session


@dataclass(frozen=True)
class _Head:
    """What makes a score of a text's vector: a layer ``inner`` with an activation and perhaps a ``norm`` behind it, and
    one that gives the score; by their names."""

    inner: str
    outer: str = "classifier"
    activation: Callable[[np.ndarray], np.ndarray] = np.tanh
    norm: str = ""


def _relu(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.maximum(x, 0)
    return found


def _gelu(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = 0.5 * x * (1 + np.vectorize(erf, [x.dtype])(x / sqrt(2)))
    return found


_HEADS = (
    _Head("classifier.dense", "classifier.out_proj"),  # RoBERTa, XLM-RoBERTa, CamemBERT and MPNet
    *(_Head(f"{prefix}.pooler.dense") for prefix in ("bert", "new", "gte", "nomic_bert")),
    _Head("pre_classifier", activation=_relu),  # DistilBERT
    _Head("head.dense", activation=_gelu, norm="head.norm"),  # ModernBERT
)


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

    def __init__(
        self, session: Session, tokenizer: Tokenizer, longest: int, weights: Weights, config: Mapping[str, object]
    ) -> None:
        self._session, self.tokenizer, self.longest = session, tokenizer, longest
        found = next((h for h in _HEADS if all(f"{n}.weight" in weights for n in (h.inner, h.outer))), None)
        if found is None:
            raise FormatError("the model has no layers that score pairs of texts; is it one that embeds texts?")
        activation = config.get("classifier_activation", "gelu")
        if found.norm and activation != "gelu":
            raise UnsupportedError(f"scores behind the activation {activation!r} are not known; known is 'gelu'")
        self._head, self._epsilon = found, usual(config).number("norm_eps", 1e-5)
        self._mean = bool(found.norm) and config.get("classifier_pooling", "cls") == "mean"
        names = [f"{name}.{kind}" for name in (found.inner, found.norm, found.outer) for kind in ("weight", "bias")]
        self._numbers = {name: _numbers(weights[name]) for name in names if name in weights}
        outputs = len(self._numbers[f"{found.outer}.weight"])
        if outputs not in (1, 2):
            raise FormatError(f"the model sorts texts into {outputs} classes; one score, or two, are expected")

    def scores(self, query: str, texts: Sequence[str], instruction: str = INSTRUCTION) -> np.ndarray:
        pairs = [self.tokenizer.encode_pair(query, text, self.longest) for text in texts]
        found = np.zeros(len(pairs), np.float32)
        for part in batches([len(ids) for ids, _ in pairs], "length" in self._session.inputs):
            logits = self._logits([pairs[i] for i in part])
            found[part] = share(logits)
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
        if "length" in self._session.inputs:
            feeds["length"] = np.array([longest])
        vectors = self._session.run(feeds)["vectors"]
        if self._mean:
            texts = np.stack([row[n:].mean(0) for row, n in zip(vectors, first, strict=True)])
        else:
            texts = vectors[np.arange(len(pairs)), first]
        made = self._scored(texts)
        return made[:, 0] if made.shape[1] == 1 else made[:, 1] - made[:, 0]

    def _scored(self, x: np.ndarray) -> np.ndarray:
        """What the head makes of vectors ``[texts, width]``: ``[texts, 1 or 2]``."""
        head = self._head
        x = head.activation(self._linear(x, head.inner))
        if head.norm:
            x = x - x.mean(1, keepdims=True)
            x = x / np.sqrt((x * x).mean(1, keepdims=True) + self._epsilon) * self._numbers[f"{head.norm}.weight"]
            x = x + self._numbers.get(f"{head.norm}.bias", _NONE)
        return self._linear(x, head.outer)

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        found: np.ndarray = x @ self._numbers[f"{name}.weight"].T + self._numbers.get(f"{name}.bias", _NONE)
        return found


def load_reranker(
    path: str | os.PathLike[str],
    threads: int | None = None,
    precision: str = "normal",
    bits: int | None = None,
    cache: bool = True,
) -> Reranker:
    """Opens a model that compares texts: a cross-encoder (an encoder of any family with a layer for scores behind it:
    bge-reranker and its like), a decoder with such a layer (``...ForSequenceClassification``), or one that writes
    whether a text answers (Qwen3-Reranker).

    Arguments are those of :func:`MNN.llm.load`. Raises :class:`MNNError` where there is no such model.
    """
    opened = open_model(path)
    config = Config(threads=processors() if threads is None else threads, precision=precision, cache=cache)
    if not isinstance(opened, Opened) or not embeds(opened.config):
        if isinstance(opened, Opened) and classifies(opened.config):
            tokenizer, longest = load_tokenizer(opened.path), usual(opened.config).longest
            vectors = opened.vectors(config, bits)
            return Reranker(Assessor(vectors, tokenizer, longest, opened.weights(), opened.config))
        return Reranker(Judge(load(path, threads=threads, precision=precision, bits=bits, cache=cache)))
    return Reranker(_cross_encoder(opened, config, bits))


def _cross_encoder(opened: Opened, config: Config, bits: int | None) -> CrossEncoder:
    session = opened.encoder(config, bits, _takes_types(opened))
    longest = longest_text(opened.config)
    return CrossEncoder(session, load_tokenizer(opened.path), longest, opened.weights(), opened.config)


def _takes_types(opened: Opened) -> bool:
    """Whether the model is told which of the two texts a token is of: one that knows kinds is, unless its tokenizer
    gives none (what transformers calls TokenizersBackend does so only where that is said)."""
    if int(opened.config.get("type_vocab_size") or 1) < 2:  # type: ignore[call-overload]
        return False
    file = (opened.path if opened.path.is_dir() else opened.path.parent) / "tokenizer_config.json"
    told = read_json(file) if file.is_file() else {}
    names = told.get("model_input_names")
    return "token_type_ids" in names if isinstance(names, list) else told.get("tokenizer_class") != "TokenizersBackend"


_NONE = np.zeros((), np.float32)
"""What is added where a layer adds nothing."""


def _numbers(weight: Array) -> np.ndarray:
    return weight if isinstance(weight, np.ndarray) else weight.dequantize()


__all__ = ["CrossEncoder", "Judge", "Ranked", "Reranker", "load_reranker"]
