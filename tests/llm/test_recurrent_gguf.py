"""Mamba in GGUF files, as llama.cpp's converter writes it, is what it is in a folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.files import read_config
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.files.modules import LAYER, modules
from tests.llm.files.writing import gguf
from tests.llm.test_families import RECORDED, expected

STATES = {"mamba": "mamba", "falcon_mamba": "mamba", "mamba2": "mamba2"}
"""What their architectures are called in files."""


def written(notes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The metadata and tensors of a file."""
    told, data = notes["config"], cases.weights(notes["shapes"], notes["seed"])
    family = told["model_type"]
    kind = STATES[family]
    names, tensors = {module: name for name, module in modules(kind).items()}, {}
    for name, array in data.items():
        number = (re.findall(r"layers\.([0-9]+)", name) or [""])[0]
        place = re.sub(r"layers\.\d+", f"layers.{LAYER}", name)
        if name.endswith("A_log"):
            array = -np.exp(array)
        if family == "mamba2" and name.endswith(("A_log", ".D")):
            array = array[:, None]
        if family == "mamba2" and name.endswith("mixer.norm.weight"):
            array = array.reshape(told["n_groups"], -1)
        if place in names:  # a parameter
            own = names[place]
        elif name.endswith("dt_bias"):
            own = f"blk.{LAYER}.ssm_dt.bias"
        else:
            module, _, suffix = place.rpartition(".")
            own = f"{names[module]}.{suffix}"
        array = array.reshape(len(array), -1) if array.ndim > 2 else array
        tensors[own.replace(f"blk.{LAYER}.", f"blk.{number}.")] = np.ascontiguousarray(array, np.float32)
    inner = told["num_heads"] * told["head_dim"] if family == "mamba2" else told["intermediate_size"]
    rank = told["num_heads"] if family == "mamba2" else told["time_step_rank"]
    noted = {
        "context_length": 1 << 20, "embedding_length": told["hidden_size"], "block_count": told["num_hidden_layers"],
        "feed_forward_length": 0, "attention.head_count": 0, "ssm.conv_kernel": told["conv_kernel"],
        "ssm.inner_size": inner, "ssm.state_size": told["state_size"], "ssm.time_step_rank": rank,
        "attention.layer_norm_rms_epsilon": told["layer_norm_epsilon"],
    }  # fmt: skip
    if family == "mamba2":
        noted["ssm.group_count"] = told["n_groups"]
    elif family == "falcon_mamba":
        noted["ssm.dt_b_c_rms"] = True
    return {"general.architecture": kind} | {f"{kind}.{key}": value for key, value in noted.items()}, tensors


@pytest.mark.parametrize("family", STATES)
def test_like_transformers(tmp_path: Path, family: str) -> None:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    file = tmp_path / "small.gguf"
    metadata, tensors = written(notes)
    file.write_bytes(gguf(metadata, tensors))
    assert read_config(file)["model_type"] == family
    opened = open_model(file)
    assert isinstance(opened, Opened)
    decoder = opened.decoder(Config(precision="high", cache=False), kv_bits=32)
    found, wanted = decoder.feed(decoder.text(), notes["prompt"], every=True), expected(notes).logits
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_sizes_that_lack(tmp_path: Path) -> None:
    metadata, tensors = written(next(n for n in RECORDED if n["config"]["model_type"] == "mamba"))
    file = tmp_path / "small.gguf"
    for key in ("state_size", "time_step_rank"):
        file.write_bytes(gguf({name: value for name, value in metadata.items() if not name.endswith(key)}, tensors))
        with pytest.raises(FormatError, match=rf"mamba.ssm.{key} is None; expected is a number above 0"):
            read_config(file)
