"""all-MiniLM-L6-v2: sentence embeddings (mean of the token states, normalised); WordPiece tokens of BERT."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

import numpy as np

from tests import zoo
from tests.models.task import Array, Run, Task

CAT, KITTEN, STOCK = "A cat sits on the mat.", "A kitten rests on a rug.", "The stock market fell sharply today."
LONG = " ".join([CAT, STOCK] * 12)


@cache
def vocabulary() -> dict[str, int]:
    lines = zoo.path("minilm_vocabulary").read_text(encoding="utf-8").splitlines()
    return {word: k for k, word in enumerate(lines)}


def tokens(text: str) -> list[int]:
    """Lower-case, strip accents, split at spaces and punctuation, then longest-match pieces (Wu et al. 2016)."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    words = vocabulary()
    ids = [words["[CLS]"]]
    for word in re.findall(r"\w+|[^\w\s]", plain):
        ids += _pieces(word, words)
    return [*ids, words["[SEP]"]]


def _pieces(word: str, words: dict[str, int]) -> list[int]:
    found, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        end = next((e for e in range(len(word), start, -1) if prefix + word[start:e] in words), None)
        if end is None:
            return [words["[UNK]"]]
        found.append(words[prefix + word[start:end]])
        start = end
    return found


def batch(*texts: str) -> dict[str, Array]:
    """Padded model inputs, int64 [batch, longest]."""
    rows = [tokens(t) for t in texts]
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask = np.zeros_like(ids)
    for k, row in enumerate(rows):
        ids[k, : len(row)] = row
        mask[k, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def embed(run: Run, *texts: str) -> Array:
    """Unit vectors [texts, 384]."""
    inputs = batch(*texts)
    states = run(inputs)["last_hidden_state"]
    mask = inputs["attention_mask"][..., None].astype(np.float32)
    vectors = (states * mask).sum(1) / mask.sum(1)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def check(run: Run) -> None:
    assert tokens("Unaffable embeddings!") == [vocabulary()[t] for t in PIECES]
    cat, kitten, stock = (embed(run, text)[0] for text in (CAT, KITTEN, STOCK))
    assert abs(float(cat @ kitten) - COSINES[0]) < 0.001, f"cat and kitten: {float(cat @ kitten)}"
    assert abs(float(cat @ stock) - COSINES[1]) < 0.001, f"cat and stock: {float(cat @ stock)}"
    # padding in a batch must not change an embedding, whatever the length
    together = embed(run, CAT, LONG)
    assert float(np.abs(together[0] - cat).max()) < 1e-5


PIECES = ("[CLS]", "una", "##ffa", "##ble", "em", "##bed", "##ding", "##s", "!", "[SEP]")
COSINES = (0.6654, 0.0911)  # of the sentences above, by the trained weights in float32


def feeds() -> list[dict[str, Array]]:
    return [batch(CAT), batch(CAT, LONG), batch(KITTEN, STOCK, LONG)]


TASK = Task("minilm", ("minilm",), check, feeds)
