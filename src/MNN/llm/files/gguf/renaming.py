"""The tensors of GGUF files under Hugging Face's names, with rows in Hugging Face's order."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.llm.files.gguf.config import architecture_of, config_of
from MNN.llm.files.gguf.made import LogarithmTensor, completed
from MNN.llm.files.gguf.naming import Architecture
from MNN.llm.files.gguf.reader import GGUF
from MNN.llm.files.tensors import WeightTensor

_NAME = re.compile(
    r"(?:blk\.(?P<block>\d{1,6})\.)?(?P<module>(?:shortconv\.|indexer\.)?[a-z0-9_]+)\.(?P<kind>weight|bias|scale)"
)
_PARAMETER = re.compile(r"blk\.(?P<block>\d{1,6})\.(?P<module>ssm_[ad])")
_BARELY = re.compile(r"blk\.(?P<block>\d{1,6})\.(?P<module>ffn_norm|exp_probs_b)(?P<kind>)")
"""As files of Falcon-H1 and Hunyuan 3 have it."""
_NOT_WEIGHTS = {"rope_freqs", "rope_factors_long", "rope_factors_short", "attn_rot_embd"}
"""Tensors that the config has taken up."""

_LAYER, _GUESSING = (
    re.compile(r"blk\.(\d{1,6})\."),
    ("glm4_moe", "exaone_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "mimo_v2_flash", "bailing_moe",
     "hy_v3", "cohere2_moe", "bailing_hybrid", "deepseek_v32", "glm_moe_dsa"),
)  # fmt: skip
"""Families whose last layers guess tokens beyond the next one; they are not read."""
_PARAMETERS = (
    "e_score_correction", "feed_forward.expert", "gate.expert", "mlp.expert", "mixer.dt", "mamba.dt", "linear_attn.dt",
    "self_attn.dt", "attention.dt",
)  # fmt: skip
"""What is no module in Hugging Face's checkpoints, but a parameter whose name ends in ``_bias``."""
_BARE = (
    "attention_sink_bias", "self_attn.sinks", "layer_scalar", "altup.correct_output_scale", "router.scale",
    "router.per_expert_scale",
)  # fmt: skip
"""Parameters behind whose names nothing stands."""
_HEADS = ("num_heads", "mamba_n_heads", "linear_num_value_heads", "mamba_num_heads", "linear_num_heads")
"""Configurations of models whose rates are of heads."""


def renamed(file: GGUF) -> dict[str, WeightTensor]:
    """All weights of a model. FormatError for names that its architecture does not have."""
    _, architecture = architecture_of(file)
    config = config_of(file)
    tensors: dict[str, WeightTensor] = {}
    for name, tensor in file.tensors.items():
        match = _NAME.fullmatch(name) or _PARAMETER.fullmatch(name) or _BARELY.fullmatch(name)
        if match and match["module"] in _NOT_WEIGHTS:
            continue
        behind = _LAYER.match(name)
        if behind and int(behind[1]) >= config["num_hidden_layers"] and config.get("model_type") in _GUESSING:
            continue
        scaled = bool(match) and name.endswith(".scale")
        modules = _modules(architecture, match["module"] + ".scale" * scaled) if match else ()
        if not match or not modules:
            raise FormatError(f"{file.path}: {config['model_type']} has no tensor {name!r}")
        prefix = "" if match["block"] is None else f"{architecture.layers}{int(match['block'])}."
        where = f"{file.path}, tensor {name!r}"
        parts = _parts(tensor, modules, config, where)
        for module, part in parts:
            kind = match.groupdict().get("kind")
            if kind is None:
                tensors[f"{prefix}{module}"] = _parameter(part, match["module"], config)
                continue
            done = _as_trained(part, match["module"], kind or "weight", architecture, config, where)
            joint = "_" if module.endswith(_PARAMETERS) else "."
            usual = "bias" if joint == "_" else "weight"
            suffix = "" if module.endswith(_BARE) else f"{joint}{kind or usual}"
            tensors[f"{prefix}{module}{suffix}"] = done
    return completed(tensors, file, config)


def altered(file: GGUF) -> str:
    """A pattern of the names of weights that are not the checkpoint's: factors are in them, of which the file does not
    tell, or heads lie in another order. Empty where there are none."""
    config = config_of(file)
    if config["model_type"] == "falcon_h1":
        return ".*"
    if not config.get("linear_heads_in_turns"):
        return ""
    alike = (1, config["linear_num_value_heads"])  # numbers of heads of keys that give one order
    return "" if config["linear_num_key_heads"] in alike else r".*\.linear_attn\..*"


def _modules(architecture: Architecture, name: str) -> tuple[str, ...]:
    if name in architecture.fused:
        return architecture.fused[name]
    module = architecture.module(name)
    return (module,) if module else ()


def _parts(
    tensor: WeightTensor, modules: tuple[str, ...], config: dict[str, Any], where: str
) -> list[tuple[str, WeightTensor]]:
    """The tensor by modules: itself, or one for each expert of a stack, or the parts of a fused one."""
    if "{}" in modules[0]:
        if len(tensor.shape) == 2:  # biases
            count, size = tensor.shape
            return [(modules[0].format(e), tensor.take(slice(e, e + 1), (size,))) for e in range(count)]
        if len(tensor.shape) != 3:
            raise FormatError(f"{where}: experts of shape {list(tensor.shape)}; three dimensions are expected")
        experts, rows, cols = tensor.shape
        return [
            (modules[0].format(e), tensor.take(slice(e * rows, (e + 1) * rows), (rows, cols))) for e in range(experts)
        ]
    if len(modules) == 1:
        return [(modules[0], tensor)]
    sizes = [config[key] * config["head_dim"] for key in ("num_attention_heads", *2 * ("num_key_value_heads",))]
    if tensor.shape[0] != sum(sizes):
        raise FormatError(f"{where}: it has {tensor.shape[0]} rows; queries, keys and values take {sum(sizes)}")
    ends = np.cumsum(sizes).tolist()
    return [
        (module, tensor.take(slice(end - size, end), (size, *tensor.shape[1:])))
        for module, size, end in zip(modules, sizes, ends, strict=True)
    ]


def _parameter(tensor: WeightTensor, name: str, config: dict[str, Any]) -> WeightTensor:
    """Rates of states, of which files have minus the exponential, and those of Ling 3.0 the exponential; what is
    skipped stays. Heads have one each."""
    if any(key in config for key in _HEADS):
        tensor = tensor.take(slice(None), (tensor.size,))
    if name != "ssm_a":
        return tensor
    return LogarithmTensor(tensor, 1.0 if config["model_type"] == "bailing_hybrid" else -1.0)


def _as_trained(
    tensor: WeightTensor, name: str, kind: str, architecture: Architecture, config: dict[str, Any], where: str
) -> WeightTensor:
    """Undoes what the conversion to GGUF did to the numbers."""
    if architecture.interleaved and name in ("attn_q", "attn_k"):
        heads = config["num_attention_heads" if name == "attn_q" else "num_key_value_heads"]
        rows = tensor.shape[0]
        if heads < 1 or rows % (2 * heads):
            raise FormatError(f"{where}: {rows} rows are not those of {heads} heads")
        order = np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(-1)
        return tensor.take(order, tensor.shape)
    if name.startswith("ssm_conv1d_"):  # one row of taps a column
        taps = tensor.shape[-1]
        return tensor.take(slice(None), (tensor.size // max(taps, 1), taps))
    if architecture.norm_shift and name.endswith("norm") and name != "ssm_norm" and kind == "weight":
        return tensor.plus(architecture.norm_shift)
    return tensor
