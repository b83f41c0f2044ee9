"""Vectors of texts, by a trained model that a package carries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.errors import FormatError, MNNError, UnsupportedError
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
    with pytest.raises(UnsupportedError, match="of the kind 'bert' gives texts vectors and writes none"):
        MNN.llm.load(folder).answer("hello")


def _copy(folder: Path, place: Path) -> Path:
    """The model's folder with room for files beside it."""
    for file in folder.iterdir():
        (place / file.name).symlink_to(file)
    return place


def test_folders_of_sentence_transformers(folder: Path, tmp_path: Path) -> None:
    """Whether vectors are normalised is said by the list of modules: of the folder of one that has no files, nothing is
    left where a repository was cloned or fetched."""
    copy, text = _copy(folder, tmp_path), "A cat sits on the mat."
    usual = MNN.llm.load_embedder(folder).embed(text)
    kinds = ["Transformer", "Pooling", "Normalize"]

    def listed(kinds: list[str]) -> None:
        told = [{"idx": i, "name": str(i), "path": "", "type": f"a.models.{kind}"} for i, kind in enumerate(kinds)]
        (copy / "modules.json").write_text(json.dumps(told))

    listed(kinds)
    np.testing.assert_allclose(MNN.llm.load_embedder(copy).embed(text), usual, atol=1e-6)
    listed(kinds[:2])
    longer = MNN.llm.load_embedder(copy).embed(text)
    length = float(np.linalg.norm(longer))
    assert abs(length - 1) > 0.1
    np.testing.assert_allclose(longer / length, usual, atol=1e-5)
    (copy / "1_Pooling").mkdir()
    pooling = copy / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}))
    first = MNN.llm.load_embedder(copy).embed(text)
    assert np.abs(first - longer).max() > 0.1
    pooling.write_text(json.dumps({"pooling_mode": "cls"}))
    np.testing.assert_array_equal(MNN.llm.load_embedder(copy).embed(text), first)
    pooling.write_text(json.dumps({"pooling_mode": "median"}))
    with pytest.raises(UnsupportedError, match=r"pools by 'median'; known are cls, max"):
        MNN.llm.load_embedder(copy)
    pooling.unlink()
    listed([*kinds, "CNN"])
    with pytest.raises(UnsupportedError, match="ends in a module CNN"):
        MNN.llm.load_embedder(copy)
    (copy / "modules.json").write_text('{"no": "list"}')
    with pytest.raises(FormatError, match="is no list of modules"):
        MNN.llm.load_embedder(copy)
