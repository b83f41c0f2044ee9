"""Vectors of texts in OpenAI's form."""

from __future__ import annotations

import base64
import threading
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from MNN.llm.server.errors import wrong
from MNN.llm.server.metrics import Metrics
from MNN.llm.server.requests import Embedding
from MNN.llm.text import Tokenizer


@runtime_checkable
class Embeds(Protocol):
    """A model that gives texts vectors: :class:`MNN.llm.Embedder` is one."""

    tokenizer: Tokenizer
    longest: int

    def embed(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[Any]]: ...


class Embeddings:
    """The vectors of requests, computed one request after the other."""

    def __init__(self, model: Embeds, metrics: Metrics) -> None:
        self._model, self._metrics, self._lock = model, metrics, threading.Lock()

    def answer(self, asked: Embedding) -> dict[str, Any]:
        """The answer to a request. A text beyond the model's longest is cut off."""
        counts = [min(len(ids), self._model.longest) for ids in self._model.tokenizer.encode_batch(asked.texts)]
        with self._lock:
            vectors = self._model.embed(asked.texts)
        if asked.size is not None:
            vectors = _shortened(vectors, asked.size)
        tokens = sum(counts)
        self._metrics.add("mnn_prompt_tokens_total", tokens)
        data = [
            {"object": "embedding", "index": i, "embedding": _form(vector, asked.base64)}
            for i, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": asked.model, "usage": usage}


def _shortened(vectors: np.ndarray[Any, np.dtype[Any]], size: int) -> np.ndarray[Any, np.dtype[Any]]:
    """The first numbers of vectors, of the length 1 again."""
    if size > vectors.shape[1]:
        raise wrong("dimensions", f"the model's vectors have {vectors.shape[1]} numbers, fewer than {size}")
    first = vectors[:, :size]
    return np.asarray(first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-12))


def _form(vector: np.ndarray[Any, np.dtype[Any]], packed: bool) -> str | list[float]:
    if packed:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.astype(np.float64).tolist()
    return numbers
