"""Models that compare texts, and vectors of models that write them: random ones, against transformers' numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.llm.embedder import Embedder
from MNN.llm.judges import share
from MNN.llm.language_model import LanguageModel
from MNN.llm.models.families import build_encoder, build_pairs, build_vectors
from MNN.llm.reranker import CrossEncoder, Judge, Reranker
from MNN.llm.text import Tokenizer, load_tokenizer
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.stateful import StatefulModel
from tests import zoo
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.test_families import RECORDED, expected

HERE = Path(__file__).parent
PAIRS: list[dict[str, Any]] = json.loads((HERE / "recorded_pairs.json").read_text(encoding="utf-8"))
LENGTHS = (17, 40, 3)
EXACT = Config(cache=False, precision="high")


class Numbers:
    """A tokenizer of texts that are numbers of tokens; a word is one token."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def encode_pair(self, first: str, second: str, longest: int) -> tuple[list[int], list[int]]:
        ids = cases.tokens(self._seed, int(second))
        return ids, [int(i >= len(ids) // 2) for i in range(len(ids))]

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = True) -> list[list[int]]:
        return [[3 + sum(word.encode()) % (cases.VOCABULARY - 3) for word in text.split()] for text in texts]

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return self.encode_batch([text])[0]

    def id_of(self, token: str) -> int | None:
        return {"no": 5, "yes": 9}.get(token)


def tokenizer(seed: int = 0) -> Tokenizer:
    return cast("Tokenizer", Numbers(seed))


@pytest.mark.parametrize("notes", PAIRS, ids=lambda n: f"{n['config']['model_type']}-{n['seed']}")
def test_cross_encoders_like_transformers(notes: dict[str, Any]) -> None:
    weights = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    typed = notes["config"].get("type_vocab_size", 1) > 1
    net = (build_pairs if typed else build_encoder)(notes["config"], weights)
    encoder = CrossEncoder(Session(net.graph, EXACT), tokenizer(notes["seed"]), 64, weights, notes["config"])
    for which in ((0, 1, 2), (1,), (2, 0)):
        found = Reranker(encoder).scores("?", [str(LENGTHS[i]) for i in which])
        wanted = 1 / (1 + np.exp(-np.array(notes["logits"], np.float64)[list(which)]))
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    ranked = Reranker(encoder).rank("?", [str(n) for n in LENGTHS], top=2)
    assert [r.index for r in ranked] == list(np.argsort(notes["logits"])[::-1][:2])
    assert ranked[0].text == str(LENGTHS[ranked[0].index])


def test_no_cross_encoder_is_said() -> None:
    notes = PAIRS[0]
    weights = Arrays({k: v for k, v in cases.weights(notes["shapes"], 0).items() if "classifier" not in k})
    session = Session(build_encoder(notes["config"], weights).graph, EXACT)
    with pytest.raises(FormatError, match="no layers that score pairs"):
        CrossEncoder(session, tokenizer(), 64, weights, {})


@pytest.mark.parametrize("family", ["qwen3", "llama", "gemma2", "qwen3_moe"])
def test_vectors_are_what_logits_are_made_of(family: str) -> None:
    """Of texts alone and padded, against the logits that transformers gave."""
    want = expected(next(n for n in RECORDED if n["config"]["model_type"] == family and n["seed"] == 0))
    weights = Arrays(cases.weights(want.shapes, want.seed))
    bare = Arrays({k.removeprefix("model."): v for k, v in weights.items() if not k.startswith("lm_head")})
    net = build_vectors(want.config, bare)
    model = StatefulModel(Session(net.graph, EXACT, None, net.states), net.states)
    embedder = Embedder(model, tokenizer(), 64, "last")
    rows = [want.prompt[:17], want.prompt, want.prompt[:3]]
    vectors = embedder.vectors(rows)
    table = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    for vector, row in zip(vectors, rows, strict=True):
        logits = vector[-1] @ table.T
        if cap := want.config.get("final_logit_softcapping"):
            logits = cap * np.tanh(logits / cap)
        wanted = want.logits[len(row) - 1]
        np.testing.assert_allclose(logits, wanted, atol=1e-4 * np.abs(want.logits).max())
    one, two = embedder.embed(["a b c d", "a b"])
    np.testing.assert_allclose(embedder.embed("c d", prompt="a b "), one, atol=1e-5)
    assert abs(np.linalg.norm(two) - 1) < 1e-5


def test_a_judge_says_yes_or_no() -> None:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "qwen3" and n["seed"] == 0)
    weights = Arrays(cases.weights(notes["shapes"], 0))
    decoder = decoder_of(dict(notes["config"]), weights, EXACT, max_length=400)
    whole = decoder_of(dict(notes["config"]), weights, EXACT, max_length=400)

    class Model:
        pass

    model = Model()
    model.decoder, model.tokenizer, model.max_length = decoder, Numbers(0), 400  # type: ignore[attr-defined]
    judge = Reranker(Judge(cast("LanguageModel", model)))
    texts = ["one two", "one two three four", "five"]
    found = judge.scores("what?", texts, "Find it")
    for text, score in zip(texts, found, strict=True):
        told = (
            "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
            'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
            f"<Instruct>: Find it\n<Query>: what?\n<Document>: {text}"
        )
        tokens = Numbers(0).encode(told) + Numbers(0).encode(
            "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        )
        logits = whole.feed(whole.text(), tokens)[-1].astype(np.float64)
        part = np.exp(logits[9]) / (np.exp(logits[5]) + np.exp(logits[9]))
        assert abs(part - score) < 1e-5
    assert judge.scores("what?", []).shape == (0,)
    sure = share(np.array([-1e4, -90, 0, 90, 1e4], np.float32))
    assert sure.dtype == np.float32
    np.testing.assert_allclose(sure, [0, 0, 0.5, 1, 1], atol=1e-30)
    with pytest.raises(MNNError, match="a list of texts"):
        judge.rank("what?", "one")


@pytest.mark.real
def test_pairs_of_texts_are_encoded_as_one() -> None:
    from tokenizers import Tokenizer as Theirs

    file = zoo.path("minilm_tokenizer")
    ours, theirs = load_tokenizer(file.parent), Theirs.from_file(str(file))
    theirs.no_padding()
    question, text = "What do cats eat?", "Cats eat mice, and sometimes birds or fish. " * 4
    for longest in (512, 40, 20):
        theirs.enable_truncation(longest, strategy="longest_first")
        want = theirs.encode(question, text)
        ids, types = ours.encode_pair(question, text, longest)
        assert (ids, types) == (want.ids, want.type_ids)
    with pytest.raises(MNNError, match="does not fit into 4"):
        ours.encode_pair(question, text, 4)
