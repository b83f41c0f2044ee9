"""Texts as vectors: what is alike lies close together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.llm.engine.opening import Opened, open_tensors
from MNN.llm.files.mapped import read_json
from MNN.llm.models.families import embeds, usual
from MNN.llm.pooling import Pooling
from MNN.llm.text import Tokenizer, load_tokenizer
from MNN.runtime.config import Config, processors
from MNN.runtime.session import Session
from MNN.stateful import StatefulModel

BATCH = 32
"""Texts that are computed at once."""
_PADDED = {"roberta": -1, "xlm-roberta": -1, "camembert": -1, "mpnet": 1}
"""Families whose first places are padding's, as many as this number and one more (-1: the token of padding)."""


class Embedder:
    """A model that makes one vector of a text."""

    def __init__(
        self,
        model: Session | StatefulModel,
        tokenizer: Tokenizer,
        longest: int,
        pooling: str | Pooling = "mean",
        normal: bool = True,
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        """``model``: an encoder, or a decoder's vectors. ``pooling``: the ``mean`` of the tokens' vectors, the
        ``first`` or the ``last`` of them, of which ``normal`` ones have the length 1; or what else is done with them.
        ``prompts``: what texts for a purpose begin with, by name."""
        self.model, self.tokenizer, self.longest = model, tokenizer, longest
        self.pooling = Pooling((pooling,), normal) if isinstance(pooling, str) else pooling
        self.prompts = dict(prompts or {})

    def embed(self, texts: Sequence[str] | str, prompt: str = "") -> np.ndarray:
        """The vectors f32 ``[texts, width]``; of a text alone ``[width]``. What is beyond the longest text is cut off.

        ``prompt``: what all texts begin with, or its name among the model's ``prompts``; models that follow
        instructions want one for questions: ``"Instruct: Find what answers the question\\nQuery: "``.

        >>> vectors = embedder.embed(["a cat", "a kitten"])  # doctest: +SKIP
        """
        if isinstance(texts, str):
            found: np.ndarray = self.embed([texts], prompt)[0]
            return found
        before = self.prompts.get(prompt, prompt)
        tokens = [self._cut(ids) for ids in self.tokenizer.encode_batch([before + text for text in texts])]
        vectors: list[np.ndarray] = [_NOTHING] * len(tokens)
        skipped = self._length(before) if before and not self.pooling.whole else 0
        for part in batches([len(ids) for ids in tokens], "length" in self.model.inputs):
            for i, vector in zip(part, self._pooled([tokens[i] for i in part], skipped), strict=True):
                vectors[i] = vector
        return np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)

    def _cut(self, ids: list[int]) -> list[int]:
        if not ids:
            raise MNNError("a text without tokens has no vector")
        return ids if len(ids) <= self.longest else [*ids[: self.longest - 1], ids[-1]]

    def _length(self, before: str) -> int:
        """Tokens that a text begins with, that at its own end left out."""
        whole, bare = (self.tokenizer.encode_batch([before], add_special_tokens=on)[0] for on in (True, False))
        return len(whole) - (whole[-1:] != bare[-1:])

    def _pooled(self, rows: Sequence[Sequence[int]], skipped: int) -> np.ndarray:
        vectors = self.vectors(rows)
        return self.pooling([vectors[i, -len(row) :] for i, row in enumerate(rows)], skipped)

    def vectors(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """The vectors of all tokens of texts, f32 ``[texts, longest, width]``: those of a text are the last ones of its
        row. (Where positions depend on how long a text is, all of them count as being as long as the longest.)"""
        longest = max(map(len, rows))
        first = np.array([longest - len(row) for row in rows], np.int64)
        tokens = np.array([[0] * (longest - len(row)) + list(row) for row in rows], np.int64)
        positions = np.maximum(np.arange(longest) - first[:, None], 0)
        feeds = {"tokens": tokens, "positions": positions, "first": first}
        if "length" in self.model.inputs:
            feeds["length"] = np.array([longest])
        if isinstance(self.model, Session):
            found: np.ndarray = self.model.run(feeds)["vectors"]
            return found
        feeds["rows"] = np.arange(longest)
        found = self.model.run(feeds, state=self.model.new_state())["vectors"]
        return found


def load_embedder(
    path: str | os.PathLike[str],
    threads: int | None = None,
    precision: str = "normal",
    bits: int | None = None,
    cache: bool = True,
) -> Embedder:
    """Opens a model that embeds texts: a .gguf file, or a folder as sentence-transformers or Hugging Face write it. A
    model that writes text gives the vector of a text's last token (Qwen3-Embedding and its like).

    Arguments are those of :func:`MNN.llm.load`. Raises :class:`MNNError` where there is no such model.
    """
    opened = open_tensors(path)
    config = Config(threads=processors() if threads is None else threads, precision=precision, cache=cache)
    encodes = embeds(opened.config)
    pooling = Pooling.of(_folder(opened), "mean" if encodes else "last")
    model = opened.encoder(config, bits) if encodes else opened.vectors(config, bits)
    longest = longest_text(opened.config) if encodes else usual(opened.config).longest
    limit = _optional(_folder(opened) / "sentence_bert_config.json").get("max_seq_length")
    longest = min(longest, limit) if isinstance(limit, int) and limit > 0 else longest
    return Embedder(model, load_tokenizer(opened.path), longest, pooling, prompts=_prompts(opened))


def batches(lengths: Sequence[int], apart: bool) -> Iterator[list[int]]:
    """Which texts of these lengths are computed together, so that there is little padding; none where they are to be
    ``apart`` (where positions depend on how long a text is)."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    for _, alike in groupby(order, lambda i: lengths[i] if apart else 0):
        same = list(alike)
        yield from (same[begin : begin + BATCH] for begin in range(0, len(same), BATCH))


def longest_text(config: Mapping[str, Any]) -> int:
    """How many tokens an encoder has places for."""
    told, kind = usual(config), config.get("model_type")
    places = int(told.number("n_positions", told.number("max_position_embeddings", 512)))
    padding = _PADDED.get(str(kind))
    if padding is None:
        return places
    return places - int(told.number("pad_token_id", 1) if padding < 0 else padding) - 1


def _prompts(opened: Opened) -> Mapping[str, str]:
    """What sentence-transformers' folders say that texts begin with; the default one has the name ""."""
    told = _optional(_folder(opened) / "config_sentence_transformers.json")
    given = told.get("prompts")
    found = {k: v for k, v in given.items() if isinstance(v, str)} if isinstance(given, Mapping) else {}
    name = told.get("default_prompt_name")
    return found | {"": found[name]} if isinstance(name, str) and name in found else found


def _folder(opened: Opened) -> Path:
    return opened.path if opened.path.is_dir() else opened.path.parent


def _optional(file: Path) -> Mapping[str, Any]:
    return read_json(file) if file.is_file() else {}


_NOTHING = np.zeros(0, np.float32)

__all__ = ["Embedder", "batches", "load_embedder", "longest_text"]
