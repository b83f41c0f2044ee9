"""Random configurations of models with recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.llm.draws import Draw, base, experts, rope


def _kinds(rng: Draw, count: int, recurrent: str) -> list[str]:
    """One of each at least."""
    found = [str(rng.choice([recurrent, "full_attention"])) for _ in range(count - 2)]
    return [str(kind) for kind in rng.permutation([*found, recurrent, "full_attention"])]


def _lfm2(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 3}
    config["norm_eps"] = config.pop("rms_norm_eps")
    size = config["hidden_size"] // config["num_attention_heads"]
    return config | {
        "layer_types": _kinds(rng, 3, "conv"), "conv_L_cache": int(rng.choice([2, 3, 4])),
        "conv_bias": bool(rng.random() < 0.4), "block_auto_adjust_ff_dim": False,
        "rope_parameters": rope(rng, config, size, ("default", "linear")),
    }  # fmt: skip


def _mamba(rng: Draw, config: dict[str, Any]) -> dict[str, Any]:
    """Layers of Mamba-2 twice as wide inside."""
    inner, groups = 2 * config["hidden_size"], int(rng.choice([1, 2]))
    heads = int(rng.choice([n for n in (2, 4, 8, 16) if inner % n == 0 and n % groups == 0]))
    return {
        "mamba_n_heads": heads, "mamba_d_head": inner // heads, "mamba_n_groups": groups, "mamba_expand": 2,
        "mamba_d_state": int(rng.choice([4, 16, 20])), "mamba_d_conv": int(rng.choice([2, 4])),
        "mamba_conv_bias": bool(rng.random() < 0.7), "mamba_proj_bias": bool(rng.random() < 0.3),
        "mamba_chunk_size": 8,
    }  # fmt: skip


def _granitemoehybrid(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 3}
    size = config["hidden_size"] // config["num_attention_heads"]
    config |= experts(rng, "num_local_experts") | _mamba(rng, config)
    if rng.random() < 0.4:
        config["num_local_experts"] = 0
    config |= {"embedding_multiplier": 3.0, "residual_multiplier": 0.4, "logits_scaling": 2.0}
    config |= {"attention_multiplier": 0.2, "shared_intermediate_size": 24, "attention_bias": bool(rng.random() < 0.3)}
    if rng.random() < 0.5:
        config |= {"position_embedding_type": "rope", "rope_parameters": rope(rng, config, size, ("default",))}
    return config | {"layer_types": _kinds(rng, 3, "linear_attention")}


def _qwen3_next(rng: Draw) -> dict[str, Any]:
    config = base(rng) | experts(rng) | {"num_hidden_layers": 3, "head_dim": int(rng.choice([8, 16]))}
    turned = {"partial_rotary_factor": float(rng.choice([0.25, 0.5]))}
    config |= {"rope_parameters": rope(rng, config, config["head_dim"], ("default", "linear")) | turned}
    groups, wide = int(rng.choice([1, 2])), {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 24}
    return config | wide | {
        "layer_types": _kinds(rng, 3, "linear_attention"), "linear_conv_kernel_dim": int(rng.choice([2, 4])),
        "linear_key_head_dim": int(rng.choice([4, 16, 20])), "linear_value_head_dim": int(rng.choice([8, 12, 16])),
        "linear_num_key_heads": groups, "linear_num_value_heads": groups * int(rng.integers(1, 4)),
        "norm_topk_prob": bool(rng.random() < 0.7), "mlp_only_layers": [[], [1]][int(rng.integers(2))],
        "attention_bias": bool(rng.random() < 0.3),
    }  # fmt: skip


def _lfm2_moe(rng: Draw) -> dict[str, Any]:
    wide = {"moe_intermediate_size": 16, "num_dense_layers": int(rng.integers(0, 3))}
    wide |= {"norm_topk_prob": bool(rng.random() < 0.7), "use_expert_bias": bool(rng.random() < 0.7)}
    return _lfm2(rng) | {"conv_bias": False} | experts(rng) | wide


def _qwen3_5(rng: Draw) -> dict[str, Any]:
    config = _qwen3_next(rng)
    for name in ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size",
                 "norm_topk_prob", "mlp_only_layers"):  # fmt: skip
        del config[name]
    return config


def _falcon_h1(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 2}
    size = config["hidden_size"] // config["num_attention_heads"]
    config |= _mamba(rng, config) | {"mamba_rms_norm": bool(rng.random() < 0.5)}
    config |= {"mamba_d_ssm": 2 * config["hidden_size"], "mamba_norm_before_gate": bool(rng.random() < 0.5)}
    several = {"ssm_multipliers": 5, "mlp_multipliers": 2}
    config |= {name: rng.uniform(0.4, 1.6, n).round(3).tolist() for name, n in several.items()}
    names = "lm_head", "embedding", "key", "attention_out", "attention_in", "ssm_in", "ssm_out"
    config |= {f"{name}_multiplier": float(rng.uniform(0.4, 1.6)) for name in names}
    return config | {"rope_parameters": rope(rng, config, size, ("default", "linear"))}


HYBRID: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "lfm2": _lfm2, "granitemoehybrid": _granitemoehybrid, "qwen3_next": _qwen3_next, "lfm2_moe": _lfm2_moe,
    "qwen3_5_text": _qwen3_5, "falcon_h1": _falcon_h1,
}  # fmt: skip
