"""What llama.cpp's converter makes of small checkpoints: recorded for the tests.

    LLAMA_CPP=/a/checkout/of/llama.cpp python -m tests.llm.files.record_converted

Needs torch and transformers beside what this package needs. The converter in the source of llama-cpp-python 0.3.36
(``vendor/llama.cpp``) recorded what is there now.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from MNN.llm.files.gguf.reader import read_gguf
from tests.llm import cases
from tests.llm.files.converted import CASES, EXPERTS, HERE, case, told_of
from tests.llm.files.writing import safetensors

OLDER = {"full_attention": "attention", "linear_attention": "mamba"}
"""What the converter takes for kinds of layers of Granite 4."""
CLASSES = {
    "apertus": "Apertus", "granitemoe": "GraniteMoe", "granitemoeshared": "GraniteMoeShared", "jamba": "Jamba",
    "granitemoehybrid": "GraniteMoeHybrid", "bamba": "Bamba", "nemotron_h": "NemotronH", "gemma3n_text": "Gemma3n",
    "gemma4_text": "Gemma4", "qwen3_5_text": "Qwen3_5", "qwen3_5_moe_text": "Qwen3_5Moe", "deepseek_v3": "DeepseekV3",
    "qwen3_next": "Qwen3Next", "exaone_moe": "ExaoneMoE", "falcon_h1": "FalconH1", "phimoe": "PhiMoE",
    "gpt_bigcode": "GPTBigCode", "falcon": "Falcon", "llama4_text": "Llama4", "minimax": "MiniMaxText01",
    "mimo_v2_flash": "MiMoV2Flash", "bailing_moe": "BailingMoeV2", "minicpm3": "MiniCPM3",
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
    (folder / "model.safetensors").write_bytes(safetensors(cases.weights(notes["shapes"], notes["seed"])))
    words = {"model": {"vocab": {f"t{i}": i for i in range(count)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(words))
    kind = conversion.get_model_class(config["architectures"][0])
    kind.set_vocab = lambda self: self.gguf_writer.add_token_list([f"t{i}" for i in range(count)])
    kind.no_mtp = True
    kind._get_suppress_tokens = lambda self: None  # which asks for a tokenizer
    with torch.inference_mode():
        kind(folder, gguf.LlamaFileType.ALL_F32, folder / "model.gguf").write()
    return folder / "model.gguf"


def drawn(family: str, asked: str) -> dict[str, Any]:
    """A random model of a family whose configuration has what is asked for."""
    from tests.llm.record import reference  # needs torch

    seed = next(seed for seed in range(100) if cases.config(family, seed).get(asked))
    return reference(family, seed).notes() | {"written": []}


def main() -> None:
    models = json.loads((HERE.parent / "recorded.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for family in CASES:
        notes = drawn("gemma4_text", "enable_moe_block") if family == EXPERTS else case(family, models)
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
            if family == EXPERTS:
                found[family]["notes"] = notes
    text = ",\n".join(f'"{family}": {json.dumps(one)}' for family, one in found.items())
    (HERE / "recorded_converted.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
