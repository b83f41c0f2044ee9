"""Texts in the order in which they answer a question, in the form that Jina and Cohere gave it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from MNN.llm.reranker import Ranked
from MNN.llm.server.metrics import Metrics
from MNN.llm.server.requests import Rerank
from MNN.llm.text import Tokenizer


@runtime_checkable
class Ranks(Protocol):
    """A model that compares texts with a question: :class:`MNN.llm.Reranker` is one."""

    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def longest(self) -> int: ...

    def rank(self, query: str, texts: Sequence[str], top: int | None = None) -> list[Ranked]: ...


class Ranking:
    """The answers to requests, computed one request after the other."""

    def __init__(self, model: Ranks, metrics: Metrics) -> None:
        self._model, self._metrics, self._lock = model, metrics, threading.Lock()

    def answer(self, asked: Rerank) -> dict[str, Any]:
        """The answer to a request. Texts beyond the model's longest are cut off."""
        query, *texts = (len(ids) for ids in self._model.tokenizer.encode_batch([asked.query, *asked.documents]))
        tokens = sum(min(query + text, self._model.longest) for text in texts)
        with self._lock:
            ranked = self._model.rank(asked.query, asked.documents, asked.top)
        self._metrics.add("mnn_prompt_tokens_total", tokens)
        results: list[dict[str, Any]] = [{"index": one.index, "relevance_score": one.score} for one in ranked]
        if asked.shown:
            for result, one in zip(results, ranked, strict=True):
                result["document"] = {"text": one.text}
        return {"object": "list", "model": asked.model, "results": results, "usage": {"total_tokens": tokens}}


__all__ = ["Ranking", "Ranks"]
