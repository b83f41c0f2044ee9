"""Vectors of texts, by a trained model that a package carries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError, UnsupportedError
from tests import zoo

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def folder() -> Path:
    found = zoo.path("minilm_weights").parent
    for key in ("minilm_tokenizer", "minilm_config"):
        assert zoo.path(key).parent == found
    return found


def test_alike_texts_are_close(folder: Path) -> None:
    embedder = MNN.llm.load_embedder(folder)
    texts = ["A cat sits on the mat.", "A kitten lies on a rug.", "The stock market fell by two percent today."]
    vectors = embedder.embed(texts)
    assert vectors.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    near = vectors @ vectors.T
    assert near[0, 1] > 0.5 > 0.15 > abs(near[0, 2])
    np.testing.assert_allclose(embedder.embed(texts[1]), vectors[1], atol=1e-4)  # whatever it is computed with
    many = embedder.embed([*texts, *(f"{text} Really {i} times." for i in range(20) for text in texts)])
    np.testing.assert_allclose(many[:3], vectors, atol=1e-4)
    assert embedder.embed("word " * 2000).shape == (384,)


def test_pymnn(folder: Path) -> None:
    llm = MNN.llm.create(str(folder), embedding_model=True)
    with pytest.raises(MNNError, match="call load"):
        llm.txt_embedding("a cat")
    llm.load()
    assert llm.txt_embedding("a cat").shape == [1, 384]
    with pytest.raises(MNNError, match="writes no text"):
        llm.response("hello")
    with pytest.raises(UnsupportedError, match="that write text of the kind 'bert'"):
        MNN.llm.load(folder).answer("hello")
