"""Small random models with two adapters each, written as people have them: a folder, and folders of PEFT's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.engine.paged import PagedDecoder, Work
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.files.writing import safetensors

FAMILIES = (
    "llama", "qwen2", "gemma3_text", "phi3", "starcoder2", "glm4", "qwen3_moe", "deepseek_v3", "gpt_neox",
    "granitemoehybrid", "qwen3_5_text",
)  # fmt: skip
"""With and without biases, with layers in one, with norms of heads, mixtures of experts, low-rank attention, rows that
are put in another order, recurrent layers."""
TARGETS = (
    "q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj", "gate_proj", "up_proj", "down_proj", "gate_up_proj", "c_fc",
    "c_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "query_key_value", "in_proj", "out_proj", "in_proj_qkv",
    "in_proj_z", "in_proj_a", "in_proj_b",
)  # fmt: skip
NAMES = ("one", "two")


@dataclass
class Case:
    """``adapters``: of each, what PEFT's configuration says, ``modules``: the layers that it changes; ``logits``: of
    the model by itself and with each adapter, behind the last tokens of ``prompt``."""

    config: dict[str, Any]
    shapes: dict[str, list[int]]
    seed: int
    adapters: list[dict[str, Any]]
    prompt: list[int]
    logits: np.ndarray

    def notes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("config", "shapes", "seed", "adapters", "prompt")}


def parts(case: Case | dict[str, Any], number: int) -> dict[str, np.ndarray]:
    """The tensors of an adapter, as PEFT names them."""
    notes = case if isinstance(case, dict) else case.notes()
    asked, shapes = notes["adapters"][number], {}
    for module in asked["modules"]:
        rows, cols = notes["shapes"][f"{module}.weight"]
        shapes[f"base_model.model.{module}.lora_A.weight"] = [asked["r"], cols]
        shapes[f"base_model.model.{module}.lora_B.weight"] = [rows, asked["r"]]
    return {name: data * np.float32(0.5) for name, data in cases.weights(shapes, notes["seed"] + number).items()}


def write(case: Case, folder: Path) -> dict[str, Path]:
    """The model in ``folder``; the folders of its adapters."""
    (folder / "config.json").write_text(json.dumps(case.config))
    (folder / "model.safetensors").write_bytes(safetensors(cases.weights(case.shapes, case.seed)))
    return write_adapters(case, folder)


def write_adapters(case: Case, folder: Path) -> dict[str, Path]:
    """The adapters in ``folder``, each in one of its own."""
    found = {}
    for number, name in enumerate(NAMES):
        found[name] = folder / name
        found[name].mkdir()
        (found[name] / "adapter_model.safetensors").write_bytes(safetensors(parts(case, number)))
        told = {"peft_type": "LORA", "bias": "none", **case.adapters[number]}
        (found[name] / "adapter_config.json").write_text(json.dumps(told))
    return found


def opened(case: Case, folder: Path) -> PagedDecoder:
    adapters, made = write(case, folder), open_model(folder)
    assert isinstance(made, Opened)
    return made.decoder(Config(precision="high", cache=False), 256, kv_bits=32, adapters=adapters)


def check(case: Case, folder: Path) -> float:
    """The largest error of all logits: each adapter alone, then all in one batch, in pieces."""
    decoder, worst, count = opened(case, folder), 0.0, case.logits.shape[1]
    names = ("", *NAMES)
    for name, wanted in zip(names, case.logits, strict=True):
        found = decoder.feed(decoder.text(name), case.prompt, every=True)[-count:]
        worst = max(worst, error(found, wanted))
    texts = [decoder.text(name) for name in names]
    for low, high in ((0, 7), (7, len(case.prompt) - count)):
        decoder.step([Work(text, case.prompt[low:high]) for text in texts])
    for at in range(len(case.prompt) - count, len(case.prompt)):
        found = decoder.step([Work(text, case.prompt[at : at + 1]) for text in texts])
        for logits, wanted in zip(found, case.logits[:, at - len(case.prompt)], strict=True):
            worst = max(worst, error(logits[0], wanted))
    return worst


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())
