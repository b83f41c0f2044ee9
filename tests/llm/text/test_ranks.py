"""Tokens joined by their ranks, against a plain way of doing it."""

from __future__ import annotations

import base64
import json
import random
from itertools import pairwise
from pathlib import Path

import pytest

from MNN.llm.text import load_tokenizer
from MNN.llm.text.pretokenizers import KINDS
from MNN.llm.text.tiktoken import Ranks, read_ranks


def joined(word: bytes, ranks: dict[bytes, int]) -> list[int]:
    """A word's tokens as tiktoken has them: the word if it is one, else the pair of the lowest rank is joined first."""
    if word in ranks:
        return [ranks[word]]
    parts = [bytes([b]) for b in word]
    while True:
        pairs = [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
        if not pairs:
            return [ranks[part] for part in parts]
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@pytest.mark.parametrize("seed", range(4))
def test_ranks(tmp_path: Path, seed: int) -> None:
    """Tokens of random bytes, which joining does not always reach."""
    rng = random.Random(seed)
    letters = "ab é" if seed % 2 else "abc "
    tokens = [bytes([b]) for b in rng.sample(range(256), 256)]
    more = ["".join(rng.choices(letters, k=rng.randint(2, 5))).encode() for _ in range(80)]
    tokens += [token for token in dict.fromkeys(more) if len(token) > 1]
    file = tmp_path / "a.tiktoken"
    file.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(tokens)))
    ranks, kind = {token: i for i, token in enumerate(tokens)}, KINDS["glm4"]
    assert read_ranks(file) == Ranks(tuple(tokens), kind)
    core = read_ranks(file).core()
    plain = Ranks(tuple(bytes([b]) for b in range(256)), kind).core()  # a token a byte: shows where words are cut
    for _ in range(60):
        text = "".join(rng.choices(letters, k=rng.randint(0, 25)))
        data, words = text.encode(), []
        for _, (begin, end) in plain.pre_tokenizer.pre_tokenize_str(text):
            words.append(text[begin:end].encode())
        assert b"".join(words) == data
        assert core.encode(text).ids == [i for word in words for i in joined(word, ranks)]


def test_a_folder_of_kimi(tmp_path: Path) -> None:
    """Its file has a name of its own, and its configuration names what follows the ranks."""
    tokens = [bytes([b]) for b in range(256)] + ["你好".encode(), b"ab"]
    lines = (base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(tokens))
    (tmp_path / "tiktoken.model").write_bytes(b"".join(lines))
    named = {"258": {"content": "[BOS]", "special": True}, "261": {"content": "<|im_end|>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": named}))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocab_size == 262
    given = "[BOS]xab1你好 ab<|im_end|>"
    assert tokenizer.encode(given) == [258, *map(ord, "x"), 257, ord("1"), 256, ord(" "), 257, 261]
    assert tokenizer.decode(tokenizer.encode(given)) == given
