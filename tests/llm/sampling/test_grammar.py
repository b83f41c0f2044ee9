"""Answers that fit a grammar: random tokens, of those that are allowed, make texts that do."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.llm.sampling import Sampler, SamplingOptions
from MNN.llm.sampling.grammar import Grammar
from MNN.llm.text import Tokenizer, load_tokenizer
from tests import zoo

pytestmark = pytest.mark.real
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"enum": ["cat", "dög"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["name", "age", "kind", "tags"],
    "additionalProperties": False,
}


@functools.cache
def tokenizer() -> Tokenizer:
    return load_tokenizer(zoo.path("smollm2_gguf"))


def written(grammar: Grammar, seed: int, most: int = 300) -> str:
    """Text of random tokens."""
    rng, sampler = np.random.default_rng(seed), Sampler(SamplingOptions(seed=seed))
    tokens: list[int] = []
    words = tokenizer().vocab_size + 10  # tables of models have more rows
    while len(tokens) < most:
        token = sampler.next(rng.standard_normal(words).astype(np.float32), tokens, grammar.allowed(words))
        grammar.take(token)
        if token in tokenizer().stop_ids:
            break
        tokens.append(token)
    return tokenizer().decode(tokens)


@pytest.mark.parametrize("seed", range(6))
def test_json_schema(seed: int) -> None:
    found = json.loads(written(Grammar.of_schema(SCHEMA, tokenizer()), seed))
    assert set(found) == {"name", "age", "kind", "tags"}
    assert isinstance(found["name"], str)
    assert 0 <= found["age"] <= 150
    assert found["kind"] in ("cat", "dög")
    assert len(found["tags"]) <= 3
    assert all(isinstance(tag, bool) for tag in found["tags"])


def test_lark() -> None:
    for seed in range(4):
        text = written(Grammar.of_lark('start: ("ab" | "cd")+ "!"', tokenizer()), seed)
        assert text.endswith("!")
        assert text[:-1].replace("ab", "").replace("cd", "") == ""


def test_grammars_that_cannot_be_used() -> None:
    for schema in ({"type": "nothing"}, {"type": "object", "properties": 5}):
        with pytest.raises(MNNError, match="grammar cannot be used"):
            Grammar.of_schema(schema, tokenizer())
    with pytest.raises(MNNError, match="schema cannot be used"):
        Grammar.of_schema({"a": object()}, tokenizer())
    with pytest.raises(MNNError, match="grammar cannot be used"):
        Grammar.of_lark("start: unknown", tokenizer())
