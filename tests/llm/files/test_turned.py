"""Checkpoints with matrices the other way round, and experts in 4-bit floats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.engine.loaded import LoadedWeights
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.files import open_weights
from MNN.llm.models.families import build, usual
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.files.writing import safetensors
from tests.llm.test_families import RECORDED

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
"""Magnitudes of a 4-bit float by its lower three bits; the fourth is the sign."""


def folder(path: Path, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Path:
    (path / "model.safetensors").write_bytes(safetensors(arrays))
    (path / "config.json").write_text(json.dumps(config))
    return path


def microscaled(rng: np.random.Generator, experts: int, rows: int, cols: int) -> tuple[np.ndarray, ...]:
    """Blocks and scales at random, and the numbers that they stand for, number by number."""
    blocks = rng.integers(0, 256, (experts, rows, cols // 32, 16)).astype(np.uint8)
    scales = rng.integers(122, 126, (experts, rows, cols // 32)).astype(np.uint8)
    numbers = np.zeros((experts, rows, cols), np.float32)
    for place in np.ndindex(numbers.shape):
        e, r, c = place
        code = int(blocks[e, r, c // 32, c % 32 // 2]) >> (4 * (c % 2)) & 15
        numbers[place] = (-1 if code & 8 else 1) * E2M1[code & 7] * 2.0 ** (int(scales[e, r, c // 32]) - 127)
    return blocks, scales, numbers


def test_microscaled_experts(tmp_path: Path) -> None:
    """A model whose experts are in 4-bit floats is the one with those numbers."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "gpt_oss")
    config, rng = dict(notes["config"]), np.random.default_rng(1)
    config |= {"hidden_size": 64, "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2}
    old = notes["config"]["hidden_size"]
    shapes = {n: [64 if s == old else s for s in shape] for n, shape in notes["shapes"].items() if ".mlp." not in n}
    plain = cases.weights(shapes, 3)
    stored = dict(plain)
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}.mlp"
        biases = {f"{at}.router.weight": [4, 64], f"{at}.router.bias": [4], f"{at}.experts.gate_up_proj_bias": [4, 64],
                  f"{at}.experts.down_proj_bias": [4, 64]}  # fmt: skip
        common = cases.weights(biases, 4)
        plain, stored = plain | common, stored | common
        for name, rows, cols in (("gate_up_proj", 64, 64), ("down_proj", 64, 32)):
            blocks, scales, numbers = microscaled(rng, 4, rows, cols)
            stored |= {f"{at}.experts.{name}_blocks": blocks, f"{at}.experts.{name}_scales": scales}
            plain[f"{at}.experts.{name}"] = np.ascontiguousarray(numbers.swapaxes(1, 2))
    prompt, settings = cases.tokens(1, 12), Config(precision="high", cache=False)
    wanted = decoder_of(config, Arrays(plain), settings)
    told = config | {"quantization_config": {"quant_method": "mxfp4"}}
    tensors = open_weights(folder(tmp_path, told, stored))
    assert tensors["model.layers.0.mlp.experts.down_proj.turned"].quantized() is not None
    found = decoder_of(told, LoadedWeights(tensors), settings)
    one, other = (d.feed(d.text(), prompt, every=True) for d in (found, wanted))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * np.abs(other).max())
    stored.pop("model.layers.0.mlp.experts.down_proj_scales")
    with pytest.raises(FormatError, match=r"lacks the tensor .*down_proj_scales"):
        open_weights(folder(tmp_path, told, stored))


@pytest.mark.parametrize("family", ["gpt2", "gpt_oss"])
def test_turned_matrices(family: str, tmp_path: Path) -> None:
    """What is read from files is what the checkpoint's own arrays make, in floats and in low bits of its rows."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    arrays = cases.weights(notes["shapes"], notes["seed"])
    tensors = open_weights(folder(tmp_path, notes["config"], arrays))
    name = "transformer.h.0.mlp.c_fc.weight" if family == "gpt2" else "model.layers.0.mlp.experts.down_proj.turned"
    own = arrays[name.removesuffix(".turned")].swapaxes(-1, -2)
    np.testing.assert_array_equal(tensors[name].float32(), own.reshape(-1, own.shape[-1]))
    picked = tensors[name].take(np.array([2, 0]), (2, own.shape[-1]))
    np.testing.assert_array_equal(picked.float32(), own.reshape(-1, own.shape[-1])[[2, 0]])
    graphs = [build(notes["config"], data, padded=True).graph for data in (LoadedWeights(tensors), Arrays(arrays))]
    feeds: dict[str, Any] = {"tokens": [cases.tokens(2, 9)], "positions": [list(range(9))], "first": [0], "rows": [8]}
    found = []
    for graph in graphs:
        session = Session(graph, Config(precision="high", cache=False))
        past = {n: np.zeros([d if isinstance(d, int) else int(d == "batch") for d in i.shape or ()], np.float32)
                for n, i in session.inputs.items() if n.startswith("past")}  # fmt: skip
        found.append(session.run({k: np.array(v) for k, v in feeds.items()} | past)["logits"])
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-5 * np.abs(found[1]).max())


def test_experts_of_llama4(tmp_path: Path) -> None:
    """They lie the other way round in files; texts are limited to a chunk, within which all tokens are seen."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "llama4_text")
    config, arrays = notes["config"] | {"attention_chunk_size": 40}, cases.weights(notes["shapes"], notes["seed"])
    opened = open_model(folder(tmp_path, config, arrays))
    assert isinstance(opened, Opened)
    own = next(name for name in arrays if name.endswith("experts.gate_up_proj"))
    np.testing.assert_array_equal(
        open_weights(tmp_path)[f"{own}.turned"].numpy(), arrays[own].swapaxes(1, 2).reshape(-1, arrays[own].shape[1])
    )
    decoder = opened.decoder(Config(precision="high", cache=False), kv_bits=32)
    assert decoder.max_length == min(40, config["max_position_embeddings"])
    with pytest.raises(UnsupportedError, match="'llama4_text' read texts of 40 tokens at most here, not of 41"):
        opened.decoder(Config(precision="high", cache=False), max_length=41)


@pytest.mark.parametrize(("told", "most"), [({}, 2048), ({"index_topk": 40}, 40), ({"index_topk": None}, 2048)])
def test_texts_that_an_index_takes(tmp_path: Path, told: dict[str, int | None], most: int) -> None:
    """DeepSeek-V3.2 sees all tokens of a text while its index takes as many; longer texts are refused. Positions are
    those of what the model was trained with."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "deepseek_v32")
    values = {key: value for key, value in notes["config"].items() if key != "index_topk"} | told
    arrays = cases.weights(notes["shapes"], notes["seed"])
    opened = open_model(folder(tmp_path, values | {"max_position_embeddings": 4096}, arrays))
    assert isinstance(opened, Opened)
    known = usual(opened.config)
    assert (known.longest, known.get("trained_length")) == (most, 4096)
    with pytest.raises(UnsupportedError, match=f"'deepseek_v32' read texts of {most} tokens at most here, not of 4096"):
        opened.decoder(Config(precision="high", cache=False), max_length=4096)
    for wrong in (2048.0, "2048", True, 0, -1):
        with pytest.raises(FormatError, match=f"index_topk is {wrong!r}; expected is a number above 0"):
            usual(values | {"index_topk": wrong})
