"""From tokens' vectors to one of the text, by what folders of sentence-transformers say; decoders that see both sides,
and those that score (numbers of transformers: ``tests/llm/record.py --decoders``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from MNN.errors import MNNError, UnsupportedError
from MNN.llm.embedder import Embedder
from MNN.llm.judges import Assessor
from MNN.llm.models.families import build, build_encoder, build_vectors, embeds
from MNN.llm.pooling import Pooling
from MNN.llm.text import Tokenizer
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.stateful import StatefulModel
from tests.llm import cases
from tests.llm.check import Arrays
from tests.llm.files.writing import safetensors

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "recorded_vectors.json").read_text(encoding="utf-8")
)
LENGTHS = (17, 40, 3)
EXACT = Config(cache=False, precision="high")


class Words:
    """A tokenizer of one token a word, between two of its own."""

    def encode_batch(self, texts: list[str], add_special_tokens: bool = True) -> list[list[int]]:
        rows = [[3 + len(word) for word in text.split()] for text in texts]
        return [[1, *row, 2] for row in rows] if add_special_tokens else rows

    def encode_pair(self, first: str, second: str, longest: int) -> tuple[list[int], list[int]]:
        return cases.tokens(int(first), int(second)), []


def naive(mode: str, vectors: np.ndarray, skipped: int) -> np.ndarray:
    """What sentence-transformers' documentation says of a kind."""
    own = vectors[skipped:].astype(np.float64)
    if mode in ("cls", "lasttoken"):
        return np.asarray(own[0] if mode == "cls" else own[-1])
    if mode == "max":
        return np.asarray(np.max(own, axis=0))
    weights = np.ones(len(own))
    if mode == "weightedmean":
        weights = 1.0 + np.arange(skipped, len(vectors))
    total = np.sqrt(len(own)) if mode.startswith("mean_sqrt") else weights.sum()
    return np.asarray(np.einsum("n,nw->w", weights, own) / total)


def folder(path: Path, modes: list[str], dense: list[np.ndarray], normal: bool, whole: bool) -> None:
    kinds = ["Transformer", "Pooling", *("Dense" for _ in dense), *(["Normalize"] if normal else [])]
    listed = [{"idx": i, "name": str(i), "path": f"{i}_{kind}", "type": f"a.{kind}"} for i, kind in enumerate(kinds)]
    (path / "modules.json").write_text(json.dumps(listed))
    (path / "1_Pooling").mkdir()
    told: dict[str, Any] = {"pooling_mode": modes if len(modes) > 1 else modes[0], "include_prompt": whole}
    (path / "1_Pooling" / "config.json").write_text(json.dumps(told))
    for i, weight in enumerate(dense, 2):
        place = path / f"{i}_Dense"
        place.mkdir()
        kind = "torch.nn.modules.activation.Tanh" if i == 2 else "torch.nn.modules.linear.Identity"
        (place / "config.json").write_text(json.dumps({"activation_function": kind}))
        parts = {"linear.weight": weight} | ({"linear.bias": weight[:, 0].copy()} if i == 2 else {})
        (place / "model.safetensors").write_bytes(safetensors(parts))


@pytest.mark.parametrize("seed", range(12))
def test_kinds_of_pooling(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
    modes = [str(mode) for mode in rng.permutation(known)[: int(rng.integers(1, 4))]]
    width, normal, whole = int(rng.integers(3, 9)), bool(rng.integers(2)), bool(rng.integers(2))
    sizes = [width * len(modes), *rng.integers(2, 8, int(rng.integers(0, 3))).tolist()]
    pairs = zip(sizes[1:], sizes[:-1], strict=True)
    dense = [rng.normal(size=size).astype(np.float32) for size in pairs]
    folder(tmp_path, modes, dense, normal, whole)
    skipped = int(rng.integers(0, 3))
    texts = [rng.normal(size=(int(n), width)).astype(np.float32) for n in rng.integers(4, 20, 3)]
    wanted = np.stack([np.concatenate([naive(m, one, 0 if whole else skipped) for m in modes]) for one in texts])
    for i, weight in enumerate(dense):
        wanted = wanted @ weight.T
        wanted = np.tanh(wanted + weight[:, 0]) if i == 0 else wanted
    if normal:
        wanted = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    found = Pooling.of(tmp_path, "mean")(texts, skipped)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_layers_behind_the_length_1_are_refused(tmp_path: Path) -> None:
    folder(tmp_path, ["mean"], [np.eye(4, dtype=np.float32)], True, True)
    listed = json.loads((tmp_path / "modules.json").read_text())
    listed.insert(2, listed[-1] | {"idx": 4})  # the vector has the length 1 before and behind the layer
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(UnsupportedError, match="Dense behind Normalize"):
        Pooling.of(tmp_path, "mean")


def test_what_texts_begin_with_is_left_out() -> None:
    """All but the tokenizer's own token at the end of that alone."""
    notes = RECORDED["vectors"][0]
    session = Session(
        build_encoder(notes["config"], Arrays(cases.weights(notes["shapes"], notes["seed"]))).graph, EXACT
    )
    tokenizer = cast("Tokenizer", Words())
    whole = Embedder(session, tokenizer, 64, Pooling(normal=False))
    part = Embedder(session, tokenizer, 64, Pooling(normal=False, whole=False))
    tokens = whole.vectors([[1, 4, 5, 8, 9, 2]])[0]
    np.testing.assert_allclose(whole.embed("aaaaa bbbbbb", "a bb "), tokens.mean(0), atol=1e-5)
    np.testing.assert_allclose(part.embed("aaaaa bbbbbb", "a bb "), tokens[3:].mean(0), atol=1e-5)


@pytest.mark.parametrize("notes", RECORDED["vectors"], ids=lambda n: f"{n['config']['model_type']}-{n['seed']}")
def test_both_sides(notes: dict[str, Any]) -> None:
    """Alone and in padded batches, with windows; as a writer of text such a model is refused."""
    data = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    assert embeds(notes["config"])
    embedder = Embedder(Session(build_encoder(notes["config"], data).graph, EXACT), cast("Tokenizer", Words()), 64)
    apart = "length" in embedder.model.inputs
    for which in ((0,), (2,)) if apart else ((0, 1, 2), (2,)):
        found = embedder.vectors([cases.tokens(notes["seed"], LENGTHS[i]) for i in which])
        for vectors, i in zip(found, which, strict=True):
            wanted = np.array(notes["found"][i])
            assert np.abs(vectors[-3:] - wanted).max() <= 1e-4 * np.abs(wanted).max()
    with pytest.raises(UnsupportedError, match="load_embedder opens it"):
        build(notes["config"], data)


@pytest.mark.parametrize("notes", RECORDED["scores"], ids=lambda n: n["config"]["model_type"])
def test_decoders_that_score(notes: dict[str, Any]) -> None:
    data = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    net = build_vectors(notes["config"], data)
    model = StatefulModel(Session(net.graph, EXACT, None, net.states), net.states)
    assessor = Assessor(model, cast("Tokenizer", Words()), 64, data, notes["config"])
    wanted = 1 / (1 + np.exp(-np.array(notes["found"])[:, 0]))
    for which in ((0, 1, 2), (2,)):
        found = assessor.scores(str(notes["seed"]), [str(LENGTHS[i]) for i in which])
        np.testing.assert_allclose(found, wanted[list(which)], atol=1e-5)
    del data["score.weight"]
    with pytest.raises(MNNError, match="no layer 'score'"):
        Assessor(model, cast("Tokenizer", Words()), 64, data, notes["config"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation_function": "torch.nn.modules.activation.Mish"}, "the activation 'Mish' are not known"),
        ({"use_residual": True}, "with a residual are not known"),
        ({"module_input_name": "token_embeddings"}, "layers of 'token_embeddings' are not known"),
    ],
)
def test_layers_that_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder(tmp_path, ["mean"], [np.ones((2, 3), np.float32)], True, True)
    (tmp_path / "2_Dense" / "config.json").write_text(json.dumps(change))
    with pytest.raises(UnsupportedError, match=message):
        Pooling.of(tmp_path, "mean")
