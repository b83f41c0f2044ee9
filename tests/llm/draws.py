"""What random configurations of language models have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Draw = np.random.Generator
VOCABULARY = 48


def base(rng: Draw) -> dict[str, Any]:
    heads = int(rng.choice([2, 4, 6]))
    groups = int(rng.choice([g for g in (1, 2, 3, 6) if heads % g == 0]))
    size = int(rng.choice([8, 12, 16]))
    return {
        "vocab_size": VOCABULARY, "hidden_size": heads * size, "intermediate_size": int(rng.choice([24, 40, 63])),
        "num_hidden_layers": int(rng.integers(2, 4)), "num_attention_heads": heads, "num_key_value_heads": groups,
        "rms_norm_eps": float(rng.choice([1e-5, 1e-6])), "max_position_embeddings": int(rng.choice([24, 64, 256])),
        "tie_word_embeddings": bool(rng.random() < 0.4), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip


def rope(rng: Draw, config: dict[str, Any], width: int, kinds: Sequence[str]) -> dict[str, Any]:
    """One of the ways to reach beyond the trained length."""
    kind = str(rng.choice(kinds))
    theta, factor = float(rng.choice([100.0, 1e4, 5e5])), float(rng.choice([2.0, 4.0]))
    found: dict[str, Any] = {"rope_type": kind, "rope_theta": theta}
    longest = config["max_position_embeddings"]
    if kind != "default":
        found["factor"] = factor
    if kind in ("llama3", "yarn"):
        found["original_max_position_embeddings"] = int(longest // factor)
    if kind == "llama3":
        found |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if kind == "yarn" and rng.random() < 0.5:
        found |= {"beta_fast": 16.0, "beta_slow": 2.0}
    if kind == "longrope":
        short, long = (rng.uniform(1.0, 4.0, width // 2).round(3).tolist() for _ in range(2))
        found |= {
            "short_factor": short,
            "long_factor": long,
            "original_max_position_embeddings": int(longest // factor),
        }
    return found


def experts(rng: Draw, count: str = "num_experts") -> dict[str, Any]:
    experts = int(rng.choice([4, 6, 9]))
    return {count: experts, "num_experts_per_tok": int(rng.integers(1, 4))}
