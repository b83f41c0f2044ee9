"""Texts put in order over HTTP, by a model that scores how many words they share with the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import pytest

from MNN.llm.models.families import compares
from MNN.llm.reranker import Reranker
from MNN.llm.text import Tokenizer
from tests.llm.server.running import NAME, served
from tests.llm.server.test_server import ASK, tokenizer

DOCUMENTS = ["rain fell all day", "cats eat mice", "what cats eat", "nothing"]


class Overlap:
    def __init__(self, words: Tokenizer) -> None:
        self.tokenizer, self.longest = words, 100

    def scores(self, query: str, texts: Sequence[str], instruction: str = "") -> np.ndarray:
        asked = set(query.split())
        return np.array([len(asked & set(text.split())) / 4 for text in texts], np.float32)


def test_texts_are_put_in_order() -> None:
    with served(Reranker(Overlap(tokenizer()))) as (url, server):
        body: dict[str, Any] = {"model": NAME, "query": "what do cats eat", "documents": DOCUMENTS}
        answer = httpx.post(f"{url}/v1/rerank", json=body).json()
        assert [r["index"] for r in answer["results"]] == [2, 1, 0, 3]
        assert [r["relevance_score"] for r in answer["results"]] == [0.75, 0.5, 0.0, 0.0]
        assert answer["model"] == NAME
        assert answer["usage"]["total_tokens"] == server.metrics.value("mnn_prompt_tokens_total") > 10
        assert "document" not in answer["results"][0]
        more = {"top_n": 2, "return_documents": True, "documents": [{"text": text} for text in DOCUMENTS]}
        some = httpx.post(f"{url}/v1/rerank", json=body | more).json()["results"]
        assert [r["document"]["text"] for r in some] == ["what cats eat", "cats eat mice"]
        for wrong in (
            {"documents": []}, {"documents": "a"}, {"documents": [{"title": "a"}]}, {"query": ""}, {"query": ["a"]},
            {"top_n": 0}, {"return_documents": 1}, {"model": None},
        ):  # fmt: skip
            response = httpx.post(f"{url}/v1/rerank", json=body | wrong)
            assert (response.status_code, response.json()["error"]["param"]) == (400, next(iter(wrong))), wrong
        for path, more in (("chat/completions", {"messages": ASK}), ("embeddings", {"input": "a"})):
            response = httpx.post(f"{url}/v1/{path}", json={"model": NAME, **more})
            assert response.status_code == 400
            assert "this model compares texts" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "bert", "architectures": ["BertForSequenceClassification"]}, True),
        ({"model_type": "bert", "architectures": ["BertModel"]}, False),
        ({"model_type": "bert"}, False),
        ({"model_type": "qwen3", "architectures": ["Qwen3ForSequenceClassification"]}, False),
    ],
)
def test_which_models_compare(config: dict[str, Any], expected: bool) -> None:
    assert compares(config) is expected
