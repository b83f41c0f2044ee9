"""Mixtures of experts in files: folders and GGUF give the same model, experts keep their few bits, routers theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.quant import QuantizedArray
from MNN.llm.engine.loaded import LoadedWeights, quantize
from MNN.llm.engine.opening import open_model
from MNN.llm.files import open_weights
from MNN.llm.models.families import build
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.files.writing import gguf, safetensors
from tests.llm.test_families import RECORDED

COUNT, WIDTH, INNER, LAYERS, SIZE = 5, 64, 32, 2, 16
CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe", "vocab_size": cases.VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": SIZE, "moe_intermediate_size": INNER,
    "num_experts": COUNT, "num_experts_per_tok": 2, "norm_topk_prob": True, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    "max_position_embeddings": 64, "rope_theta": 10000.0, "mlp_only_layers": [], "decoder_sparse_step": 1,
    "intermediate_size": 48, "tie_word_embeddings": False,
}  # fmt: skip


def shapes() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        f"{n}.weight": (cases.VOCABULARY, WIDTH) for n in ("model.embed_tokens", "lm_head")
    }
    found["model.norm.weight"] = (WIDTH,)
    for i in range(LAYERS):
        at = f"model.layers.{i}"
        own: dict[str, tuple[int, ...]] = {
            "input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,), "self_attn.q_norm": (SIZE,),
            "self_attn.k_norm": (SIZE,), "self_attn.q_proj": (64, WIDTH), "self_attn.k_proj": (32, WIDTH),
            "self_attn.v_proj": (32, WIDTH), "self_attn.o_proj": (WIDTH, 64), "mlp.gate": (COUNT, WIDTH),
        }  # fmt: skip
        for e in range(COUNT):
            own |= {f"mlp.experts.{e}.{n}_proj": (INNER, WIDTH) for n in ("gate", "up")}
            own[f"mlp.experts.{e}.down_proj"] = (WIDTH, INNER)
        found |= {f"{at}.{name}.weight": shape for name, shape in own.items()}
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(safetensors(cases.weights(shapes(), 0)))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def logits(path: Path, bits: int | None = None) -> np.ndarray:
    decoder = open_model(path).decoder(Config(cache=False, precision="high"), bits=bits, kv_bits=32)
    return decoder.feed(decoder.text(), cases.tokens(3, 20), every=True)


NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.gate",
}  # fmt: skip


def test_gguf_is_the_same_model(folder: Path) -> None:
    weights = cases.weights(shapes(), 0)
    tensors = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    held = {f"{theirs}.weight": weights[f"{ours}.weight"] for theirs, ours in tensors.items()}
    for i in range(LAYERS):
        at = f"model.layers.{i}"
        held |= {f"blk.{i}.{theirs}.weight": weights[f"{at}.{ours}.weight"] for theirs, ours in NAMES.items()}
        for kind in ("gate", "up", "down"):
            each = [weights[f"{at}.mlp.experts.{e}.{kind}_proj.weight"] for e in range(COUNT)]
            held[f"blk.{i}.ffn_{kind}_exps.weight"] = np.stack(each)
    own = {
        "block_count": LAYERS, "context_length": 64, "embedding_length": WIDTH, "feed_forward_length": 48,
        "attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": SIZE,
        "attention.value_length": SIZE, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 10000.0,
        "expert_count": COUNT, "expert_used_count": 2, "expert_feed_forward_length": INNER,
    }  # fmt: skip
    metadata = {"general.architecture": "qwen3moe"} | {f"qwen3moe.{k}": v for k, v in own.items()}
    file = folder / "model.gguf"
    file.write_bytes(gguf(metadata, held))
    np.testing.assert_allclose(logits(file), logits(folder), atol=1e-5)


@pytest.mark.parametrize("bits", [4, 8])
def test_few_bits(folder: Path, bits: int) -> None:
    loaded = LoadedWeights(open_weights(folder), bits)
    wide = Arrays()
    for name in shapes():
        held = loaded[name]
        assert isinstance(held, QuantizedArray) == (len(shapes()[name]) == 2 and "mlp.gate." not in name)
        wide[name] = held.dequantize() if isinstance(held, QuantizedArray) else held
    table = "model.embed_tokens.weight"
    wide[table] = open_weights(folder)[table].float32()  # of which rows are read as they are
    decoder = decoder_of(CONFIG, wide, Config(cache=False, precision="high"))
    wanted = decoder.feed(decoder.text(), cases.tokens(3, 20), every=True)
    np.testing.assert_allclose(logits(folder, bits), wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_experts": None}, "num_experts = None"),
        ({"num_experts_per_tok": 6}, "6 of 5 experts cannot be chosen"),
        ({"num_experts": 4}, "does not score 4 experts"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, object], message: str) -> None:
    with pytest.raises((FormatError, UnsupportedError), match=message):
        build(CONFIG | change, Arrays(cases.weights(shapes(), 0)))


def test_layers_side_by_side_stay_compressed() -> None:
    """Where files hold queries and keys in other bits than values, as those of llama.cpp do."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "qwen2")
    held: Any = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    wide = Arrays(held)
    for name in [n for n in held if n.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))]:
        held[name] = quantize(held[name], 8 if "v_proj" in name else 4, 16)
        wide[name] = held[name].dequantize()
    graph, quantised = build(notes["config"], held).graph, 0
    for node in graph.nodes:
        if node.op == "MatMul" and isinstance(node.inputs[1].data, QuantizedArray):
            quantised += 1
    assert quantised == 3 * notes["config"]["num_hidden_layers"]
    high = Config(precision="high", cache=False)
    found, wanted = (decoder_of(notes["config"], data, high) for data in (held, wide))
    logits = [one.feed(one.text(), notes["prompt"], every=True) for one in (found, wanted)]
    assert np.abs(logits[0] - logits[1]).max() <= 1e-4 * np.abs(logits[1]).max()
