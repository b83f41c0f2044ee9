"""How tensors of one architecture's GGUF files become what Hugging Face's checkpoints have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from MNN.llm.files.gguf.reader import GGUF

LLAMA = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Names that most architectures share. Those of layers follow ``blk.N.`` there and ``model.layers.N.`` here."""

EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj",
}
MIXTRAL = {
    "ffn_gate_inp": "block_sparse_moe.gate",
    "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
    "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
    "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
}
SHARED = {
    **EXPERTS,
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
    "exp_probs_b": "mlp.gate.e_score_correction",
}
SILU = {"hidden_act": "silu"}
SQUARED = {"hidden_act": "relu2"}
GELU = {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"}


def having(file: GGUF, config: dict[str, Any], tensor: str) -> list[bool]:
    """Which layers have a tensor."""
    return [f"blk.{i}.{tensor}" in file.tensors for i in range(config["num_hidden_layers"])]


def mixed(file: GGUF, config: dict[str, Any]) -> list[str]:
    """Which layers have experts, in the words of configurations."""
    return ["sparse" if one else "dense" for one in having(file, config, "ffn_gate_inp.weight")]


def near(file: GGUF, key: str, layers: int) -> list[bool]:
    """Which layers see what is near only: one entry each, or of a single number ``n`` all but every ``n``-th (0: all);
    empty where the file does not say. The entries may be more than ``layers``."""
    told = file.metadata.get(key)
    if isinstance(told, int) and not isinstance(told, bool):
        return [told == 0 or (i + 1) % told != 0 for i in range(layers)]
    return [bool(one) for one in told] if isinstance(told, (list, np.ndarray)) else []


def rounded(number: float) -> float:
    """A number of single precision as somebody wrote it."""
    return float(f"{number:.7g}")


def apart(name: str) -> dict[str, tuple[str, ...]]:
    """Queries, keys and values, which lie side by side in the file and group by group in the checkpoint."""
    return {"attn_qkv": tuple(f"{name}.{part}" for part in "qkv")}


@dataclass(frozen=True)
class Architecture:
    """How files of one architecture become what Hugging Face's checkpoint of ``model_type`` has.

    ``names``: beyond :data:`LLAMA` (``{}`` stands for an expert's number; a stack of experts is taken apart).
    ``interleaved``: rows of queries and keys are in the order of rotations of neighbours, and are put back into the
    order of rotated halves. ``norm_shift``: what is added to norms' weights. ``fused``: a fused tensor's parts of
    rows. ``config``: what the config has whatever the file says. ``shared``: whether :data:`LLAMA` holds at all.
    """

    model_type: str
    class_name: str
    names: dict[str, str] = field(default_factory=dict)
    interleaved: bool = False
    norm_shift: float = 0.0
    fused: dict[str, tuple[str, ...]] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    shared: bool = True
    layers: str = "model.layers."

    def module(self, name: str) -> str | None:
        """The module that a GGUF name without block and suffix belongs to; None for what is no weight of a module."""
        return self.names.get(name) or (LLAMA.get(name) if self.shared else None)


__all__ = [
    "EXPERTS", "GELU", "LLAMA", "MIXTRAL", "SHARED", "SILU", "SQUARED", "Architecture", "apart", "having", "mixed",
    "near", "rounded",
]  # fmt: skip
