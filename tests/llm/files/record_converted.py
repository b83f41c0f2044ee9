"""What llama.cpp's converter makes of small checkpoints: recorded for the tests.

    LLAMA_CPP=/a/checkout/of/llama.cpp python -m tests.llm.files.record_converted
    LLAMA_CPP=/a/checkout/of/llama.cpp python -m tests.llm.files.record_converted hy_v3 mellum    # these alone

Needs torch and transformers beside what this package needs. The converter in the source of llama-cpp-python 0.3.36
(``vendor/llama.cpp``) recorded what is there now.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from MNN.llm.files.gguf.reader import read_gguf
from tests.llm import cases
from tests.llm.files.converted import CASES, DRAWN, HERE, case, recorded, told_of
from tests.llm.files.writing import safetensors

OLDER = {"full_attention": "attention", "linear_attention": "mamba"}
"""What the converter takes for kinds of layers of Granite 4."""
AS_WRITTEN = ("kimi_linear", "bailing_hybrid")
"""Families whose configurations transformers gives other names when it reads them."""
CLASSES = {
    "apertus": "Apertus", "granitemoe": "GraniteMoe", "granitemoeshared": "GraniteMoeShared", "jamba": "Jamba",
    "granitemoehybrid": "GraniteMoeHybrid", "bamba": "Bamba", "nemotron_h": "NemotronH", "gemma3n_text": "Gemma3n",
    "gemma4_text": "Gemma4", "qwen3_5_text": "Qwen3_5", "qwen3_5_moe_text": "Qwen3_5Moe", "deepseek_v3": "DeepseekV3",
    "qwen3_next": "Qwen3Next", "exaone_moe": "ExaoneMoE", "falcon_h1": "FalconH1", "phimoe": "PhiMoE",
    "gpt_bigcode": "GPTBigCode", "falcon": "Falcon", "llama4_text": "Llama4", "minimax": "MiniMaxText01",
    "mimo_v2_flash": "MiMoV2Flash", "bailing_moe": "BailingMoeV2", "minicpm3": "MiniCPM3", "afmoe": "Afmoe",
    "hy_v3": "HYV3", "mellum": "Mellum", "cohere2_moe": "Cohere2Moe", "granite_swa": "GraniteSWA", "dbrx": "Dbrx",
    "granitemoe_swa": "GraniteMoeSWA", "kimi_linear": "KimiLinear", "bailing_hybrid": "BailingMoeV3", "jais2": "Jais2",
    "bitnet": "BitNet", "deepseek_v32": "DeepseekV32", "glm_moe_dsa": "GlmMoeDsa",
    "sarvam_moe": "SarvamMoE", "iquestcoder": "IQuestCoder",
}  # fmt: skip


def told_to_converter(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with what the converter looks for under older names, or does not take to be missing."""
    family, size = config["model_type"], config.get("hidden_size", 0) // config.get("num_attention_heads", 1)
    found = {**config, "architectures": [f"{CLASSES[family]}ForCausalLM"]}
    if family == "granitemoehybrid":
        found["layer_types"] = [OLDER[kind] for kind in config["layer_types"]]
    more: dict[str, dict[str, Any]] = {
        "falcon_h1": {"head_dim": size}, "bamba": {"attn_rotary_emb": size // 2},
        "phimoe": {"rope_parameters": {"original_max_position_embeddings": 4096} | (config["rope_parameters"] or {})},
    } if family in ("falcon_h1", "bamba", "phimoe") else {}  # fmt: skip
    if family == "minimax":
        found["rotary_dim"] = config["head_dim"]
        for kind in ("full_attention", "linear_attention", "mlp"):
            for name in ("alpha", "beta"):
                found[f"layernorm_{kind}_{name}"] = config[f"{kind.replace('attention', 'attn')}_{name}_factor"]
    if family == "mimo_v2_flash":
        found["hybrid_layer_pattern"] = [int(kind == "sliding_attention") for kind in config["layer_types"]]
        found |= {f"swa_{name}": config[name] for name in ("head_dim", "num_attention_heads", "v_head_dim")}
        found |= {"swa_num_key_value_heads": 2 * config["num_key_value_heads"], "topk_method": "noaux_tc"}
        found["layernorm_epsilon"] = config["rms_norm_eps"]
        found["rope_parameters"] = {**config["rope_parameters"], "partial_rotary_factor": 0.5}
    if family.endswith("_swa"):
        found["no_rope_layers"] = [int(theta > 0) for theta in config["layer_rope_theta"]]
    if family in ("kimi_linear", "bailing_hybrid"):
        names = {"num_experts_per_token": "num_experts_per_tok", "num_expert_group": "n_group",
                 "moe_renormalize": "norm_topk_prob"}  # fmt: skip
        found |= {theirs: config[ours] for ours, theirs in names.items()}
        found |= {
            "no_kda_lora": True, "gated_attention_proj_granularity_type": "head_wise", "score_function": "sigmoid",
            "moe_shared_expert_intermediate_size": config["num_shared_experts"] * config["moe_intermediate_size"],
            "moe_router_activation_func": "sigmoid", "max_position_embeddings": config["model_max_length"],
        }  # fmt: skip
        full = [i + 1 for i, kind in enumerate(config["layer_types"]) if kind == "full_attention"]
        found["linear_attn_config"] = {"full_attn_layers": full, "head_dim": config["linear_head_dim"],
                                       "short_conv_kernel_size": config["linear_conv_kernel_dim"]}  # fmt: skip
        found["head_dim"] = config["linear_head_dim"]
        found.setdefault("first_k_dense_replace", config["mlp_layer_types"].index("sparse"))
    return found | more.get(family, {})


def convert(notes: dict[str, Any], folder: Path) -> Path:
    """The file that the converter makes of a checkpoint, with words of its own in place of a tokenizer's."""
    sys.path[:0] = [os.environ["LLAMA_CPP"], os.environ["LLAMA_CPP"] + "/gguf-py"]
    import conversion
    import gguf
    import torch

    logging.disable(logging.WARNING)
    config = told_to_converter(notes["config"])
    count = config["vocab_size"]
    (folder / "config.json").write_text(json.dumps(config))
    weights = cases.weights(notes["shapes"], notes["seed"])
    if config["model_type"] == "kimi_linear":  # as its checkpoint has layers without experts
        weights = {re.sub(r"block_sparse_moe\.(\w+_proj)", r"mlp.\1", name): data for name, data in weights.items()}
    (folder / "model.safetensors").write_bytes(safetensors(weights))
    words = {"model": {"vocab": {f"t{i}": i for i in range(count)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(words))
    kind = conversion.get_model_class(config["architectures"][0])
    kind.set_vocab = lambda self: self.gguf_writer.add_token_list([f"t{i}" for i in range(count)])
    kind.no_mtp = True
    kind._get_suppress_tokens = lambda self: None  # which asks for a tokenizer
    with torch.inference_mode():
        told = dict(config) if config["model_type"] in AS_WRITTEN else None
        kind(folder, gguf.LlamaFileType.ALL_F32, folder / "model.gguf", hparams=told).write()
    return folder / "model.gguf"


def drawn(family: str, asked: dict[str, Any]) -> dict[str, Any]:
    """A random model of a family whose configuration has what is asked for: by itself, or the first one so changed."""
    from tests.llm.record import reference  # needs torch

    drawn = ((seed, cases.config(family, seed)) for seed in range(100))
    seed = next((seed for seed, told in drawn if all(told.get(key) == asked[key] for key in asked)), 0)
    return reference(family, seed, **asked).notes() | {"written": []}


def main() -> None:
    models = json.loads((HERE.parent / "recorded.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = recorded() if len(sys.argv) > 1 else {}
    for family in sys.argv[1:] or CASES:
        notes = drawn(*DRAWN[family]) if family in DRAWN else case(family, models)
        with tempfile.TemporaryDirectory() as place:
            file = read_gguf(convert(notes, Path(place)))
            told = {
                name: value.tolist() if isinstance(value, np.ndarray) else value
                for name, value in file.metadata.items()
                if not name.startswith(("general.", "tokenizer."))
            }
            tensors = {name: [list(t.shape), told_of(name, t.float32())] for name, t in file.tensors.items()}
            kind = file.get("general.architecture", str)
            found[family] = {"architecture": kind, "metadata": told, "tensors": tensors}
            if family in DRAWN:
                found[family]["notes"] = notes
    text = ",\n".join(f'"{family}": {json.dumps(one)}' for family, one in found.items())
    (HERE / "recorded_converted.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
