"""Heads with random weights in the form of published checkpoints, and what they compute, in plain numpy.

Names and forms: the models ``yuhuili/EAGLE-*`` and ``yuhuili/EAGLE3-*``, ``RedHatAI/*-speculator.eagle3`` and
``FasterDecoding/medusa-*`` on the Hugging Face Hub.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.llm import cases
from tests.llm.files.writing import safetensors

Arrays = dict[str, np.ndarray]


def eagle_shapes(config: dict[str, Any], layers: int, bias: bool) -> dict[str, list[int]]:
    """Those of the first EAGLE, whose first layer has no norm in front."""
    width = config["hidden_size"]
    shapes = {"fc.weight": [width, 2 * width]} | ({"fc.bias": [width]} if bias else {})
    for i in range(layers):
        shapes |= _layer(config, f"layers.{i}", width)
        if i:
            shapes[f"layers.{i}.input_layernorm.weight"] = [width]
    return shapes


def eagle3_shapes(config: dict[str, Any], shown: int, layer: str, words: int, own_table: bool) -> dict[str, list[int]]:
    """Those of EAGLE-3, to which the model shows three rows of ``shown`` numbers."""
    width = config["hidden_size"]
    shapes = _layer(config, layer, 2 * width) | {"fc.weight": [width, 3 * shown], "norm.weight": [width]}
    shapes |= {f"{layer}.{name}.weight": [width] for name in ("hidden_norm", "input_layernorm")}
    shapes["lm_head.weight"] = [words, width]
    return shapes | ({"embed_tokens.weight": [config["vocab_size"], width]} if own_table else {})


def medusa_shapes(width: int, heads: int, layers: int, words: int) -> dict[str, list[int]]:
    shapes: dict[str, list[int]] = {}
    for i in range(heads):
        for j in range(layers):
            shapes |= {f"{i}.{j}.linear.weight": [width, width], f"{i}.{j}.linear.bias": [width]}
        shapes[f"{i}.{layers}.weight"] = [words, width]
    return shapes


def _layer(config: dict[str, Any], at: str, taken: int) -> dict[str, list[int]]:
    width, inner = config["hidden_size"], config["intermediate_size"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or width // heads
    rows = {"q": heads * size, "k": groups * size, "v": groups * size}
    shapes = {f"{at}.self_attn.{n}_proj.weight": [rows[n], taken] for n in "qkv"}
    shapes |= {f"{at}.self_attn.o_proj.weight": [width, heads * size], f"{at}.mlp.down_proj.weight": [width, inner]}
    shapes |= {f"{at}.mlp.{n}_proj.weight": [inner, width] for n in ("gate", "up")}
    return shapes | {f"{at}.post_attention_layernorm.weight": [width]}


def stored(place: Path, config: dict[str, Any], arrays: Arrays) -> Path:
    """A folder of heads."""
    place.mkdir()
    (place / "model.safetensors").write_bytes(safetensors(arrays))
    (place / "config.json").write_text(json.dumps(config))
    return place


def random(shapes: dict[str, list[int]], seed: int) -> Arrays:
    return cases.weights(shapes, seed)


def _norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    found: np.ndarray = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight
    return found


def _turned(x: np.ndarray, theta: float) -> np.ndarray:
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None, None] * theta ** (-np.arange(half) / half)
    left, right = x[..., :half], x[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


def _attention(config: dict[str, Any], own: Arrays, at: str, y: np.ndarray) -> np.ndarray:
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    q, k, v = (y @ own[f"{at}.self_attn.{n}_proj.weight"].T for n in "qkv")
    q, k = (_turned(t.reshape(len(y), -1, size), config["rope_theta"]) for t in (q, k))
    k, v = (np.repeat(t, heads // groups, 1) for t in (k, v.reshape(len(y), -1, size)))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size)
    scores[:, np.triu(np.ones((len(y), len(y)), bool), 1)] = -np.inf
    odds = np.exp(scores - scores.max(-1, keepdims=True))
    out = np.einsum("hqk,khd->qhd", odds / odds.sum(-1, keepdims=True), v)
    found: np.ndarray = out.reshape(len(y), -1) @ own[f"{at}.self_attn.o_proj.weight"].T
    return found


def _through(config: dict[str, Any], own: Arrays, at: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A layer whose attention looks at ``y`` and is added to ``x``."""
    x = x + _attention(config, own, at, y)
    y = _norm(x, own[f"{at}.post_attention_layernorm.weight"], config["rms_norm_eps"])
    gate, up = (y @ own[f"{at}.mlp.{n}_proj.weight"].T for n in ("gate", "up"))
    found: np.ndarray = x + (gate / (1 + np.exp(-gate)) * up) @ own[f"{at}.mlp.down_proj.weight"].T
    return found


def eagle(config: dict[str, Any], own: Arrays, words: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """What the first EAGLE makes of embeddings ``words`` and what was ``shown``, row by row."""
    own = {name: data.astype(np.float64) for name, data in own.items()}
    x = np.concatenate([words, shown], -1) @ own["fc.weight"].T + own.get("fc.bias", 0.0)
    layers = len({name.split(".")[1] for name in own if name.startswith("layers.")})
    for i in range(layers):
        y = _norm(x, own[f"layers.{i}.input_layernorm.weight"], config["rms_norm_eps"]) if i else x
        x = _through(config, own, f"layers.{i}", x, y)
    return x


def eagle3(config: dict[str, Any], own: Arrays, layer: str, words: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The same of EAGLE-3, behind ``fc``."""
    own = {name: data.astype(np.float64) for name, data in own.items()}
    inner = _norm(shown, own[f"{layer}.hidden_norm.weight"], config["rms_norm_eps"])
    y = np.concatenate([_norm(words, own[f"{layer}.input_layernorm.weight"], config["rms_norm_eps"]), inner], -1)
    return _through(config, own, layer, inner if config.get("norm_before_residual") else shown, y)
