"""Heads of EAGLE, EAGLE-3 and Medusa with random weights: what they propose against plain numpy, and answers that are
those without, greedy or drawn."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.engine.scheduler import Scheduler
from MNN.llm.sampling import Sampler, SamplingOptions
from MNN.llm.speculation.heads import Heads, heads_of, open_heads
from MNN.llm.speculation.together import each_its_own
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.files.writing import safetensors
from tests.llm.speculation import heads as plain
from tests.llm.speculation.test_answers import _unlikely
from tests.llm.speculation.writing import written
from tests.llm.test_families import RECORDED
from tests.llm.test_scheduler import asked, finish

SETTINGS = Config(precision="high", cache=False)
GREEDY = SamplingOptions(temperature=0.0)
EPSILON = 1e-4


@dataclasses.dataclass
class Case:
    """A model in files with heads beside it; ``own``: weights of heads, ``model`` those of the model."""

    opened: Opened
    decoder: PagedDecoder
    heads: Heads
    config: dict[str, Any]
    own: dict[str, np.ndarray]
    model: dict[str, np.ndarray]
    layer: str = ""


def made(place: Path, kind: str, family: str, seed: int) -> Case:
    """A recorded model of a family, made deeper where heads look at many layers, and random heads."""
    rng = np.random.default_rng(seed)
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    config, shapes = dict(notes["config"]), dict(notes["shapes"])
    if kind == "eagle3":
        config["num_hidden_layers"] = 5
        if kinds := config.get("layer_types"):
            config["layer_types"] = [kinds[i % len(kinds)] for i in range(5)]
        inner = {n: s for n, s in shapes.items() if n.startswith("model.layers.0.")}
        shapes |= {n.replace("layers.0.", f"layers.{i}."): s for n, s in inner.items() for i in range(5)}
    model = cases.weights(shapes, seed)
    folder = plain.stored(place / "model", config, model)
    width, words = config["hidden_size"], config["vocab_size"]
    told = {
        "model_type": "llama", "hidden_size": width, "intermediate_size": int(rng.choice([24, 40])),
        "num_attention_heads": 4, "num_key_value_heads": int(rng.choice([1, 2, 4])), "head_dim": 8, "vocab_size": words,
        "num_hidden_layers": 1, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "hidden_act": "silu",
        "max_position_embeddings": 256,
    }  # fmt: skip
    layer = ""
    if kind == "eagle":
        own = plain.random(plain.eagle_shapes(told, int(rng.integers(1, 3)), bool(rng.random() < 0.5)), seed)
    elif kind == "eagle3":
        layer = str(rng.choice(["midlayer", "layers.0"]))
        told["norm_before_residual"] = bool(rng.random() < 0.5)
        few = int(words * 0.7)
        own = plain.random(plain.eagle3_shapes(told, width, layer, few, bool(rng.random() < 0.5)), seed)
        known = np.sort(rng.choice(words, few, replace=False))
        own["d2t"] = known - np.arange(few)
        own["t2d"] = np.isin(np.arange(words), known)
        if layer == "layers.0":  # as the library speculators nests it
            told = {"speculators_model_type": "eagle3", "transformer_layer_config": told, "draft_vocab_size": few}
            told["norm_before_residual"] = told["transformer_layer_config"].pop("norm_before_residual")
    else:
        own = plain.random(plain.medusa_shapes(width, 3, int(rng.integers(1, 3)), words), seed)
        told = {"medusa_num_heads": 3}
    files = open_heads(plain.stored(place / "heads", told, own))
    assert files.kind == kind
    opened = open_model(folder)
    assert isinstance(opened, Opened)
    form = files.wanted(config["num_hidden_layers"])
    decoder = opened.decoder(SETTINGS, 200, kv_bits=32, features=form)
    flat = told | told.get("transformer_layer_config", {})
    return Case(opened, decoder, heads_of(files, opened, SETTINGS, 200), flat, own, model, layer)


def proposed(case: Case, kind: str, text: Any, tokens: list[int], count: int) -> list[int]:
    """The greedy draft, each token from a computation of everything anew."""
    shown = text.features.rows(0, len(tokens) - 1).astype(np.float64)
    if kind == "medusa":
        found = []
        for head in range(min(count, 3)):
            x, at = shown[-1], 0
            while f"{head}.{at}.linear.weight" in case.own:
                y = x @ case.own[f"{head}.{at}.linear.weight"].T + case.own[f"{head}.{at}.linear.bias"]
                x, at = x + y / (1 + np.exp(-y)), at + 1
            found.append(int((x @ case.own[f"{head}.{at}.weight"].T).argmax()))
        return found
    table = case.own.get("embed_tokens.weight", case.model["model.embed_tokens.weight"])
    drafted: list[int] = []
    while len(drafted) < count:
        words = table[[*tokens[1:], *drafted]].astype(np.float64)
        if kind == "eagle3":
            out = plain.eagle3(case.config, case.own, case.layer, words, shown)
            logits = plain._norm(out[-1], case.own["norm.weight"], 1e-5) @ case.own["lm_head.weight"].T
            best = int(logits.argmax())
            drafted.append(best + int(case.own["d2t"][best]))
        else:
            out = plain.eagle(case.config, case.own, words, shown)
            head = case.model.get("lm_head.weight", case.model["model.embed_tokens.weight"])
            drafted.append(int((out[-1] @ head.T).argmax()))
        shown = np.concatenate([shown, out[-1:]])
    return drafted


KINDS = [("eagle", "gemma"), ("eagle3", "llama"), ("medusa", "qwen3"), ("eagle3", "qwen2")]


@pytest.mark.parametrize(("kind", "family"), KINDS)
def test_heads_propose_what_plain_numpy_computes(kind: str, family: str, tmp_path: Path) -> None:
    case = made(tmp_path, kind, family, len(kind + family))
    text, tokens, rng = case.decoder.text(), cases.tokens(3, 24), np.random.default_rng(1)
    for known in (9, 10, 14, 5, 23):  # on, and back to a shorter text
        given = [*tokens[:known], int(rng.integers(1, cases.VOCABULARY))]
        case.decoder.feed(text, case.decoder.resume(text, given)[:-1] or given[known - 1 : known])
        case.decoder.cut(text, known)
        found = case.heads.propose_behind(text, given, 4, GREEDY)
        assert list(found.tokens) == proposed(case, kind, text, given, 4)


@pytest.mark.parametrize(("kind", "family"), KINDS[1:3])
def test_answers_are_those_without(kind: str, family: str, tmp_path: Path) -> None:
    case = made(tmp_path, kind, family, 3)
    bare, prompt = case.opened.decoder(SETTINGS, 200, kv_bits=32), cases.tokens(6, 9)
    answer = written(case.decoder, prompt, 70, case.heads)
    assert answer.tokens == written(bare, prompt, 70).tokens
    assert answer.cost.drafted > 0
    drawn = {"temperature": 0.8, "top_k": 12}
    heads = Heads(case.heads._guesser, case.heads._words, case.heads._count, 0.0)
    answers, drafted = [], 0
    for seed in range(400):
        one = written(case.decoder, prompt, 3, heads, seed=seed, **drawn)
        answers.append(one.tokens)
        drafted += one.cost.drafted
    assert drafted > 200
    sampler, text = Sampler(SamplingOptions(**drawn)), bare.text()  # type: ignore[arg-type]
    first = sampler.probabilities(bare.feed(text, prompt)[-1])
    second = np.zeros_like(first)
    for one in np.flatnonzero(first):
        bare.cut(text, len(prompt))
        second += first[one] * sampler.probabilities(bare.feed(text, [int(one)])[-1])
    for place, chances in enumerate((first, second)):
        assert _unlikely(np.bincount([a[place] for a in answers], minlength=len(chances)), chances) < 4


def test_answers_written_together(tmp_path: Path) -> None:
    case, rng = made(tmp_path, "eagle3", "llama", 8), np.random.default_rng(2)
    scheduler = Scheduler(case.decoder, 3, each_its_own(case.heads))
    beginning, many = rng.integers(1, 40, 30).tolist(), []
    for _ in range(5):
        many.append(asked([*beginning[: int(rng.integers(1, 30))], *rng.integers(1, 40, 5).tolist()], 20))
        scheduler.add([many[-1]])
        scheduler.advance()
    assert not [told for told in finish(scheduler) if told.error]
    for one in many:
        assert one.tokens == written(case.decoder, list(one.prompt), 20).tokens[: len(one.tokens)]
    assert sum(one.cost.drafted for one in many) > 0


def test_pickled_checkpoints_are_read(tmp_path: Path) -> None:
    """A ``pytorch_model.bin`` that torch has written, as EAGLE's first checkpoints are stored."""
    data = Path(__file__).parent / "pickled"
    files = open_heads(data)
    assert (files.kind, sorted(files.tensors)) == ("medusa", ["0.0.linear.bias", "0.0.linear.weight", "0.1.weight"])
    wanted = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(files.tensors["0.1.weight"].float32(), wanted)  # stored in bf16


def test_what_is_no_head(tmp_path: Path) -> None:
    with pytest.raises(MNNError, match="holds no heads"):
        open_heads(tmp_path)
    case = made(tmp_path, "eagle3", "llama", 4)
    llama = plain.stored(tmp_path / "other", {"model_type": "llama"}, case.model)
    with pytest.raises(FormatError, match="holds no heads that draft"):
        open_heads(llama)
    files = open_heads(tmp_path / "heads")
    with pytest.raises(FormatError, match="look at the layers"):
        files.wanted(2)
    wide = dict(case.own) | {"fc.weight": np.zeros((8, 6), np.float32)}
    (tmp_path / "heads" / "model.safetensors").write_bytes(safetensors(wide))
    with pytest.raises(FormatError, match="take 6 numbers of each token"):
        case.opened.decoder(SETTINGS, 200, features=open_heads(tmp_path / "heads").wanted(5))
    wrong = dict(case.own) | {"d2t": case.own["d2t"] + 100}
    (tmp_path / "heads" / "model.safetensors").write_bytes(safetensors(wrong))
    with pytest.raises(FormatError, match="beyond the 48 tokens"):
        heads_of(open_heads(tmp_path / "heads"), case.opened, SETTINGS, 200)
    (tmp_path / "heads" / "config.json").write_text(json.dumps({"hidden_size": 8}))
    with pytest.raises(FormatError):
        heads_of(open_heads(tmp_path / "heads"), case.opened, SETTINGS, 200)
