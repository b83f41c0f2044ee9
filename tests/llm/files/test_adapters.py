"""Adapters as PEFT saves them; its own logits, once compared, are within 2e-6 on random Qwen2, Llama and Gemma."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.files import open_weights
from MNN.llm.files.adapters import merged, read_adapter
from MNN.llm.files.tensors import Weights
from tests.llm.files.writing import safetensors

LAYER = "model.layers.0.self_attn.q_proj"
SHAPES = {f"{LAYER}.weight": (6, 10), "model.layers.1.mlp.up_proj.weight": (8, 10), "model.norm.weight": (10,)}


def _model(folder: Path) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    (folder / "model.safetensors").write_bytes(safetensors(arrays))
    return arrays


def _adapter(folder: Path, ranks: dict[str, int], wide: int = 10, **config: Any) -> dict[str, np.ndarray]:
    folder.mkdir()
    rng = np.random.default_rng(2)
    parts = {}
    for module, rank in ranks.items():
        rows = SHAPES.get(f"{module}.weight", (6, 10))[0]
        for kind, shape in (("A", (rank, wide)), ("B", (rows, rank))):
            parts[f"base_model.model.{module}.lora_{kind}.weight"] = rng.standard_normal(shape).astype(np.float32)
    (folder / "adapter_model.safetensors").write_bytes(safetensors(parts))
    told = {"peft_type": "LORA", "r": 4, "lora_alpha": 6, "bias": "none", **config}
    (folder / "adapter_config.json").write_text(json.dumps(told))
    return parts


@pytest.mark.parametrize("rooted", [False, True])
def test_products_are_added(tmp_path: Path, rooted: bool) -> None:
    arrays, other = _model(tmp_path), "model.layers.1.mlp.up_proj"
    patterns = {"rank_pattern": {"up_proj": 2}, "alpha_pattern": {r"layers\.1\.mlp\.up_proj": 5}}
    parts = _adapter(tmp_path / "lora", {LAYER: 4, other: 2}, use_rslora=rooted, **patterns)
    found = merged(open_weights(tmp_path), tmp_path / "lora")
    for module, rank, alpha in ((LAYER, 4, 6), (other, 2, 5)):
        down, up = (parts[f"base_model.model.{module}.lora_{kind}.weight"] for kind in "AB")
        wanted = arrays[f"{module}.weight"] + alpha / (rank**0.5 if rooted else rank) * (up.astype(np.float64) @ down)
        np.testing.assert_allclose(found[f"{module}.weight"].numpy(), wanted, rtol=1e-5, atol=1e-5)
        rows = np.array([3, 0, 3])
        np.testing.assert_allclose(found[f"{module}.weight"].rows(rows), wanted[rows], rtol=1e-5, atol=1e-5)
        assert found[f"{module}.weight"].quantized() is None
    np.testing.assert_array_equal(found["model.norm.weight"].numpy(), arrays["model.norm.weight"])


@pytest.mark.parametrize(
    ("ranks", "options", "error", "message"),
    [
        ({"model.layers.7.self_attn.q_proj": 4}, {}, FormatError, "lacks: another model's"),
        ({LAYER: 4}, {"wide": 12}, FormatError, "another model's"), ({LAYER: 3}, {}, FormatError, "has rank 3"),
        ({LAYER: 4}, {"use_dora": True}, UnsupportedError, "use_dora"),
        ({LAYER: 4}, {"bias": "all"}, UnsupportedError, "trained biases"),
        ({LAYER: 4}, {"modules_to_save": ["lm_head"]}, UnsupportedError, "modules_to_save"),
        ({LAYER: 4}, {"peft_type": "IA3"}, UnsupportedError, "IA3"),
        ({LAYER: 4}, {"lora_alpha": "much"}, FormatError, "alpha 'much'"),
        ({}, {}, UnsupportedError, "nothing"), ({"model.norm": 4}, {}, FormatError, "do not fit"),
    ],
)  # fmt: skip
def test_what_cannot_be_merged(
    tmp_path: Path, ranks: dict[str, int], options: dict[str, Any], error: type[MNNError], message: str
) -> None:
    _model(tmp_path)
    _adapter(tmp_path / "lora", ranks, **options)
    with pytest.raises(error, match=message):
        merged(open_weights(tmp_path), tmp_path / "lora")


def test_patterns_are_of_the_adapters_own_names(tmp_path: Path) -> None:
    """Which are those of layers in memory, where files call them otherwise."""
    held, own = np.ones((6, 10), np.float32), "model.layers.0.mixer.in_proj"
    (tmp_path / "model.safetensors").write_bytes(safetensors({"backbone.layers.0.mixer.in_proj.weight": held}))
    parts = _adapter(tmp_path / "lora", {own: 4}, alpha_pattern={own.replace(".", r"\."): 20})
    down, up = (parts[f"base_model.model.{own}.lora_{kind}.weight"] for kind in "AB")
    found = merged(open_weights(tmp_path), tmp_path / "lora")["backbone.layers.0.mixer.in_proj.weight"].numpy()
    np.testing.assert_allclose(found, held + 20 / 4 * (up @ down), rtol=1e-5, atol=1e-5)


def test_folders_without_an_adapter(tmp_path: Path) -> None:
    weights = Weights({}, "model")
    with pytest.raises(MNNError, match=r"no adapter in .*nowhere: it has no adapter_config.json"):
        read_adapter(weights, tmp_path / "nowhere")
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    with pytest.raises(MNNError, match=r"it has no adapter_model.safetensors; expected is a folder as PEFT saves it"):
        read_adapter(weights, tmp_path)
    (tmp_path / "adapter_model.bin").write_bytes(b"")
    with pytest.raises(UnsupportedError, match="holds pickled weights"):
        read_adapter(weights, tmp_path)
