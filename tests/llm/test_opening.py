"""Models in folders, against the same weights at hand; weights that are quantised while they are read."""

from __future__ import annotations

import json
import pkgutil
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import MNN
from MNN.backends.cpu.lowbit.int8 import is_wide, sums_bytes
from MNN.backends.cpu.targets import host_target
from MNN.errors import MNNError
from MNN.llm.engine.loaded import LoadedWeights, quantize
from MNN.llm.engine.opening import open_model
from MNN.llm.language_model import LanguageModel
from MNN.runtime.config import Config
from MNN.runtime.storage.background import finish
from tests.cli.conftest import run_command
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.files.writing import safetensors
from tests.llm.test_families import RECORDED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "qwen3")
    arrays = cases.weights(notes["shapes"], notes["seed"])
    (tmp_path / "model.safetensors").write_bytes(safetensors(arrays))
    (tmp_path / "config.json").write_text(json.dumps(notes["config"]))
    return tmp_path


def _logits(folder: Path, cache: bool = False, bits: int | None = None) -> np.ndarray:
    decoder = open_model(folder).decoder(Config(cache=cache), bits=bits)
    return decoder.feed(decoder.text(), cases.tokens(3, 20), every=True)


def test_folders(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    notes = next(n for n in RECORDED if n["config"] == config)
    decoder = decoder_of(config, Arrays(cases.weights(notes["shapes"], notes["seed"])), Config(cache=False), bits=16)
    wanted = decoder.feed(decoder.text(), cases.tokens(3, 20), every=True)
    np.testing.assert_array_equal(_logits(folder), wanted)
    np.testing.assert_array_equal(_logits(folder / "config.json"), wanted)


def test_a_second_start_reads_no_weights(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    import os
    import time

    for file in folder.iterdir():
        if file.is_file():
            os.utime(file, (1.7e9, 1.7e9))
    time.sleep(2.2)  # a file that was written a moment ago may be written again unseen
    wanted = _logits(folder, cache=True)
    finish()
    from MNN.llm.engine import opening

    def never(*_: object) -> object:
        raise AssertionError("the weights were read")

    monkeypatch.setattr(opening, "LoadedWeights", never)  # rows of the table of embeddings are read without
    np.testing.assert_array_equal(_logits(folder, cache=True), wanted)
    with pytest.raises(AssertionError, match="were read"):
        _logits(folder, cache=True, bits=8)  # another model


def test_the_table_of_embeddings_stays_in_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the rows of a step's tokens are read, and neither programs nor graphs hold any."""
    decoder = open_model(folder).decoder(Config(cache=False), bits=8)
    asked, rows = [], decoder.embeddings.rows
    monkeypatch.setattr(decoder.embeddings, "rows", lambda index: asked.append(index.tolist()) or rows(index))
    text = decoder.text()
    decoder.feed(text, [5, 9, 5])
    decoder.feed(text, [7])
    assert [row for step in asked for row in step] == [5, 9, 5, 7]
    assert not [node for node in decoder.model.session.graph.nodes if node.op == "Gather" and node.inputs[0].is_const]


def test_tokens_of_models_that_read_pictures() -> None:
    """Their configurations have the half for text inside."""
    model = LanguageModel(mock.Mock(), mock.Mock(), {"model_type": "gemma3", "text_config": {"vocab_size": 48}})
    assert model.checked([47]) == [47]
    with pytest.raises(MNNError, match=r"logit_bias: 48 is no token; .* from 0 to 47"):
        model.checked({48: 1.0}, "logit_bias: ")


@pytest.mark.parametrize("token", [-1, 48, 1 << 40])
def test_what_is_no_token(folder: Path, token: int) -> None:
    decoder = open_model(folder).decoder(Config(cache=False))
    text = decoder.text()
    decoder.feed(text, [1, 2])
    with pytest.raises(MNNError, match=f"{token} is no token; .* from 0 to 47"):
        decoder.feed(text, [3, token])
    assert text.tokens == [1, 2]
    assert len(text.lists[0].pages) == 1


@pytest.mark.parametrize("bits", [4, 8])
def test_quantised_weights(bits: int) -> None:
    rng = np.random.default_rng(bits)
    weight = (rng.standard_normal((40, 96)) * rng.uniform(0.1, 10, (40, 1))).astype(np.float32)
    weight[3], weight[4, :32] = 0, 1.5
    found = quantize(weight, bits)
    blocks = weight.reshape(40, 3, 32)
    step = (blocks.max(2) - blocks.min(2)) / ((1 << bits) - 1)
    error = np.abs(found.dequantize() - weight).reshape(40, 3, 32)
    assert (error <= step[:, :, None] * 0.501 + 1e-6).all()


def test_bits_are_kept_where_they_matter(folder: Path) -> None:
    plain, eight = _logits(folder), _logits(folder, bits=8)
    assert 0 < np.abs(plain - eight).max() < 0.05 * np.abs(plain).max()


@pytest.mark.usefixtures("without_tiles")  # where the other products of "normal" are those of "high"
@pytest.mark.parametrize("bits", [4, 8])
def test_activations_are_rounded_where_it_is_asked_for(folder: Path, bits: int) -> None:
    """Each row of each block to a 255th of its largest number; with 12 to a 16th of that, with 10, the default, to the
    one or the other, and with 32 not at all; to 16 bits in any case where products of whole bytes are of such numbers.
    Processors that do not sum products of bytes round nothing."""

    def logits(precision: str, **options: int | None) -> np.ndarray:
        decoder = open_model(folder).decoder(Config(precision=precision, cache=False), bits=bits, **options)
        return decoder.feed(decoder.text(), cases.tokens(3, 50), every=True)

    exact = logits("high")
    largest = np.abs(exact).max()
    assert np.abs(logits("normal", activation_bits=32) - exact).max() <= 1e-4 * largest
    rounds = sums_bytes(host_target())
    less = logits("high", activation_bits=12)
    assert (np.abs(less - exact).max() > 0) == rounds
    assert np.abs(less - exact).max() <= 2e-3 * largest
    between = logits("high", activation_bits=10)
    np.testing.assert_array_equal(logits("normal"), between)
    rounded = logits("high", activation_bits=8)
    assert (np.abs(rounded - exact).max() > 0) == rounds
    assert np.abs(rounded - exact).max() <= 0.05 * largest
    np.testing.assert_array_equal(logits("normal", activation_bits=8), rounded)
    if is_wide(host_target(), bits):
        np.testing.assert_array_equal(rounded, less)
        np.testing.assert_array_equal(between, less)
    elif rounds:
        errors = [np.sqrt(np.square(found - exact).mean()) for found in (less, between, rounded)]
        assert errors[0] < 0.5 * errors[1]
        assert errors[1] <= 1.1 * errors[2]  # random weights make blocks of one size, few of which are large
    with pytest.raises(MNNError, match="8, 10, 12 or 32 bits, not 4"):
        open_model(folder).decoder(Config(cache=False), activation_bits=4)


@pytest.mark.usefixtures("without_tiles")
@pytest.mark.parametrize("count", [3, 12, 31])
def test_few_tokens_are_rounded_as_one_is(folder: Path, count: int) -> None:
    """What a conversation goes on with does not depend on how much of it is read at once: all of up to 31 tokens have
    as many bits as one. With fewer, which many have, logits differ by a 3000th and more."""
    decoder = open_model(folder).decoder(Config(cache=False), bits=4)
    text, tokens = decoder.text(), cases.tokens(3, count)
    together = decoder.feed(text, tokens)[-1].copy()
    decoder.cut(text, count - 1)
    alone = decoder.feed(text, tokens[-1:])[-1]
    assert np.abs(together - alone).max() <= 1e-4 * np.abs(alone).max()


def test_compressed_weights_compute_like_floats() -> None:
    """Stacked, split and gathered: what families do with weights, with weights that stay compressed."""

    class Held:
        def __init__(self, data: np.ndarray) -> None:
            self.data, self.shape = data, data.shape

        def quantized(self) -> None:
            return None

        def float32(self) -> np.ndarray:
            return self.data

    for family, seed in (("llama", 2), ("phi3", 2), ("internlm2", 3), ("glm4", 3), ("olmo2", 5)):
        config = {**cases.config(family, seed), "model_type": family, "hidden_size": 64, "num_attention_heads": 4}
        config |= {"num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "tie_word_embeddings": False}
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e4}
        arrays = cases.weights(_shapes(family, config), seed)
        for bits in (4, 8):
            packed = LoadedWeights({name: Held(data) for name, data in arrays.items()}, bits)
            floats = Arrays({n: _expanded(packed[n]) for n in arrays})
            found, wanted = (
                (decoder := decoder_of(config, weights, Config(precision="high", cache=False))).feed(
                    decoder.text(), cases.tokens(1, 9), every=True
                )
                for weights in (packed, floats)
            )
            assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max(), (family, bits)


def _expanded(weight: object) -> np.ndarray:
    return weight.dequantize() if hasattr(weight, "dequantize") else np.asarray(weight)


def _shapes(family: str, config: dict[str, object]) -> dict[str, list[int]]:
    """Those of a recorded model of the family, for the sizes of this one."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    old = notes["config"]
    size = old.get("head_dim") or old["hidden_size"] // old["num_attention_heads"]
    heads, groups = old["num_attention_heads"], old["num_key_value_heads"]
    found = {}
    for name, shape in notes["shapes"].items():
        part = name.split(".")[-2]
        rows = {
            "q_proj": 64, "k_proj": 32, "v_proj": 32, "qkv_proj": 128, "wqkv": 128, "gate_proj": 96, "up_proj": 96,
            "w1": 96, "w3": 96, "gate_up_proj": 192, "q_norm": 64, "k_norm": 32, "embed_tokens": shape[0],
            "tok_embeddings": shape[0], "lm_head": shape[0], "output": shape[0],
        }.get(part, 64)  # fmt: skip
        cols = [96 if part in ("down_proj", "w2") else 64] if len(shape) > 1 else []
        found[name] = [rows, *cols]
    assert size
    assert heads
    assert groups
    return found


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(MNNError, match="no file or folder"):
        open_model(tmp_path / "nothing")
    with pytest.raises(MNNError, match="holds no model"):
        open_model(tmp_path)
    (tmp_path / "config.json").write_text('{"llm_model": "llm.mnn"}')
    with pytest.raises(MNNError, match=r"lacks the file llm\.mnn"):
        open_model(tmp_path)
    with pytest.raises(MNNError, match="4, 8 bits, not to 3"):
        LoadedWeights({}, 3)


def test_no_part_is_called_what_a_name_is() -> None:
    """A module replaces what has its name in a package, as soon as anybody imports it."""
    assert not {found.name for found in pkgutil.iter_modules(MNN.llm.__path__)} & set(MNN.llm.__all__)


def test_what_a_bench_shows(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The array that memory is measured with is none of what the model holds, for no number of threads. A text that is
    longer than those that the model was made for is timed, and said to be."""
    from MNN.cli.language import speed

    told, met = tmp_path / "told.json", list[str]()
    monkeypatch.setattr(speed, "held", lambda: met.append("held") or len(met))
    monkeypatch.setattr(speed, "memory", lambda: met.append("memory") or 7.0)
    args = ("--threads", "1,1", "--prompt", 3, "--generate", 2, "--runs", 1, "--no-cache", "--json", told)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4}))
    shown = run_command("llm", "bench", folder, *args)
    assert shown.code == 0
    assert "a text of 5 tokens is longer than the 4 that the model was made for" in " ".join(shown.out.split())
    assert met == ["held", "held", "memory"]
    assert [(row["held"], row["memory"]) for row in json.loads(told.read_text())] == [(1, 7.0), (2, 7.0)]


def test_looking_at_what_lacks_something(folder: Path) -> None:
    """Everything that is known is shown where a tokenizer is missing; what cannot be shown is one sentence, and nothing
    before it."""
    info = run_command("llm", "info", folder)
    assert info.code == 0
    shown = " ".join(info.out.split())  # lines are broken where the folder's name is long
    assert "family qwen3" in shown
    assert re.search(r"F32 +\d+ +[\d,]+", shown)
    assert re.search(r"no tokenizer: .* holds no tokenizer.json.*; \d", shown)
    weights, config = folder / "model.safetensors", folder / "config.json"
    whole, told = weights.read_bytes(), config.read_text()
    weights.write_bytes(whole[:-1000])
    config.write_text(json.dumps(json.loads(told) | {"model_type": "bert"}))
    for command, message in (("info", "leaves the"), ("bench", "kind 'bert' gives texts vectors and writes none")):
        refused = run_command("llm", command, folder)
        assert (refused.code, refused.out, refused.err.count("error: ")) == (2, "", 1)
        assert message in refused.err
        weights.write_bytes(whole)
    config.unlink()
    refused = run_command("llm", "info", folder)
    assert (refused.code, refused.out) == (2, "")
    assert "holds no config.json" in refused.err
