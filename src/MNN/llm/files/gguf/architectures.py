"""What each architecture's tensors are called in GGUF files and in Hugging Face's checkpoints.

Facts: ``gguf-py/gguf/tensor_mapping.py`` and ``conversion/`` of llama.cpp, and transformers' model code.
"""

from __future__ import annotations

from MNN.llm.files.gguf.fading import FADING
from MNN.llm.files.gguf.gemma import GEMMA
from MNN.llm.files.gguf.mixtures import DEEPSEEK, MIXTURES
from MNN.llm.files.gguf.naming import EXPERTS, MIXTRAL, SHARED, SILU, SQUARED, Architecture, apart
from MNN.llm.files.gguf.recurrent import GRANITE_EXPERTS, RECURRENT
from MNN.llm.files.gguf.windowed import WINDOWED

_SECOND = {"post_attention_norm": "post_attention_layernorm"}
_BEHIND = {**_SECOND, "post_ffw_norm": "post_feedforward_layernorm"}
_HUNYUAN = {"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}
_LFM2 = {
    "token_embd_norm": "model.embedding_norm",
    "attn_norm": "operator_norm",
    "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "shortconv.conv": "conv.conv",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
}
_BERT = {
    "token_embd": "embeddings.word_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}

_NOMIC = {
    "token_embd": "embeddings.word_embeddings",
    "token_embd_norm": "emb_ln",
    "token_types": "embeddings.token_type_embeddings",
    "attn_qkv": "attn.Wqkv",
    "attn_output": "attn.out_proj",
    "attn_output_norm": "norm1",
    "ffn_up": "mlp.fc11",
    "ffn_gate": "mlp.fc12",
    "ffn_down": "mlp.fc2",
    "layer_output_norm": "norm2",
}

_GPT2 = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_NEOX = {
    "token_embd": "gpt_neox.embed_in",
    "output_norm": "gpt_neox.final_layer_norm",
    "output": "embed_out",
    "attn_norm": "input_layernorm",
    "attn_output": "attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
_BLOOM = {
    "token_embd": "word_embeddings",
    "token_embd_norm": "word_embeddings_layernorm",
    "output_norm": "ln_f",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_output": "self_attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
_MPT = {
    "token_embd": "transformer.wte",
    "output_norm": "transformer.norm_f",
    "output": "lm_head",
    "attn_norm": "norm_1",
    "attn_qkv": "attn.Wqkv",
    "attn_output": "attn.out_proj",
    "ffn_norm": "norm_2",
    "ffn_up": "ffn.up_proj",
    "ffn_down": "ffn.down_proj",
}
_OSS = {
    **EXPERTS,
    "ffn_gate_inp": "mlp.router",
    "attn_sinks": "self_attn.sinks",
    "post_attention_norm": "post_attention_layernorm",
}


_SECOND_NORM = {"post_attention_norm": "post_attention_layernorm"}
_ERNIE = {**SHARED, "exp_probs_b": "mlp.moe_statics.e_score_correction"}
_HUNYUAN_MOE = {
    **_HUNYUAN,
    **EXPERTS,
    "ffn_gate_inp": "mlp.gate.wg",
    "ffn_gate_shexp": "mlp.shared_mlp.gate_proj",
    "ffn_up_shexp": "mlp.shared_mlp.up_proj",
    "ffn_down_shexp": "mlp.shared_mlp.down_proj",
}
_MINIMAX = {**MIXTRAL, "exp_probs_b": "block_sparse_moe.e_score_correction"}
_LFM2_MOE = {
    **_LFM2,
    "ffn_gate_inp": "feed_forward.gate",
    "ffn_gate_exps": "feed_forward.experts.{}.w1",
    "ffn_up_exps": "feed_forward.experts.{}.w3",
    "ffn_down_exps": "feed_forward.experts.{}.w2",
    "exp_probs_b": "feed_forward.expert",
}
_STABLELM = {"attn_q_norm": "self_attn.q_layernorm", "attn_k_norm": "self_attn.k_layernorm"}
_EXAONE = {
    "token_embd": "transformer.wte",
    "output_norm": "transformer.ln_f",
    "attn_norm": "ln_1",
    "attn_q": "attn.attention.q_proj",
    "attn_k": "attn.attention.k_proj",
    "attn_v": "attn.attention.v_proj",
    "attn_output": "attn.attention.out_proj",
    "ffn_norm": "ln_2",
    "ffn_gate": "mlp.c_fc_0",
    "ffn_up": "mlp.c_fc_1",
    "ffn_down": "mlp.c_proj",
}


_FALCON = {
    "token_embd": "transformer.word_embeddings",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_norm_2": "ln_attn",
    "attn_output": "self_attention.dense",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
_BITNET = {"attn_sub_norm": "self_attn.attn_sub_norm", "ffn_sub_norm": "mlp.ffn_sub_norm"}
_APERTUS = {"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}

ARCHITECTURES = {
    **GEMMA,
    **RECURRENT,
    **MIXTURES,
    **WINDOWED,
    **FADING,
    "llama": Architecture("llama", "LlamaForCausalLM", interleaved=True, config=SILU),
    "mixtral": Architecture("mixtral", "MixtralForCausalLM", MIXTRAL, interleaved=True, config=SILU),
    "mistral3": Architecture("ministral3", "Ministral3ForCausalLM", interleaved=True, config=SILU),
    "smollm3": Architecture("smollm3", "SmolLM3ForCausalLM", interleaved=True, config=SILU),
    "minicpm": Architecture("minicpm", "MiniCPMForCausalLM", interleaved=True, config=SILU),
    # these two are llama's network once their fused weights are taken apart, as they are in GGUF files
    "internlm2": Architecture("llama", "LlamaForCausalLM", interleaved=True, config=SILU),
    "baichuan": Architecture("llama", "LlamaForCausalLM", interleaved=True, config=SILU),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", config=SILU),
    "qwen2moe": Architecture(
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        {
            **EXPERTS,
            "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
            "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
            "ffn_up_shexp": "mlp.shared_expert.up_proj",
            "ffn_down_shexp": "mlp.shared_expert.down_proj",
        },
        config={**SILU, "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": []},
    ),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", config=SILU),
    "qwen3moe": Architecture(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        EXPERTS,
        config={**SILU, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []},
    ),
    "phi3": Architecture(
        "phi3", "Phi3ForCausalLM", {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}, config=SILU
    ),
    "starcoder2": Architecture(
        "starcoder2",
        "Starcoder2ForCausalLM",
        {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
        config={"hidden_act": "gelu_pytorch_tanh", "use_bias": True},
    ),
    "olmo2": Architecture(
        "olmo2",
        "Olmo2ForCausalLM",
        _BEHIND,
        config=SILU,
    ),
    "exaone4": Architecture("exaone4", "Exaone4ForCausalLM", _BEHIND, config=SILU),
    "seed_oss": Architecture("seed_oss", "SeedOssForCausalLM", _SECOND, config=SILU),
    "ernie4_5": Architecture("ernie4_5", "Ernie4_5ForCausalLM", config=SILU),
    "hunyuan-dense": Architecture("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", _HUNYUAN, config=SILU),
    "lfm2": Architecture("lfm2", "Lfm2ForCausalLM", _LFM2, config=SILU),
    "deepseek2": Architecture("deepseek_v2", "DeepseekV2ForCausalLM", DEEPSEEK, config=SILU),
    "chatglm": Architecture(
        "glm",
        "GlmForCausalLM",
        {"ffn_up": "mlp.gate_up_proj"},
        fused={"attn_qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")},
        config=SILU,
    ),
    "glm4": Architecture(
        "glm4",
        "Glm4ForCausalLM",
        {
            "post_attention_norm": "post_self_attn_layernorm",
            "post_ffw_norm": "post_mlp_layernorm",
            "ffn_up": "mlp.gate_up_proj",
        },
        config=SILU,
    ),
    "apertus": Architecture("apertus", "ApertusForCausalLM", _APERTUS, config={"hidden_act": "xielu"}),
    "phimoe": Architecture("phimoe", "PhiMoEForCausalLM", MIXTRAL, config=SILU),
    "granitemoe": Architecture(
        "granitemoeshared", "GraniteMoeSharedForCausalLM", GRANITE_EXPERTS, interleaved=True, config=SILU
    ),
    "exaone-moe": Architecture(
        "exaone_moe", "ExaoneMoEForCausalLM", {**SHARED, "exp_probs_b": "mlp.e_score_correction"}, config=SILU
    ),
    "jais2": Architecture("jais2", "Jais2ForCausalLM", config=SQUARED),
    "bitnet": Architecture("bitnet", "BitNetForCausalLM", _BITNET, config=SILU),
    "arcee": Architecture("arcee", "ArceeForCausalLM", interleaved=True, config=SQUARED),
    "nemotron": Architecture("nemotron", "NemotronForCausalLM", norm_shift=-1.0, config=SQUARED),
    "exaone": Architecture("exaone", "ExaoneForCausalLM", _EXAONE, config=SILU, layers="transformer.h."),
    "granite": Architecture("granite", "GraniteForCausalLM", interleaved=True, config=SILU),
    "stablelm": Architecture("stablelm", "StableLmForCausalLM", _STABLELM, config=SILU),
    "olmo": Architecture("olmo", "OlmoForCausalLM", interleaved=True, config=SILU),
    "olmoe": Architecture("olmoe", "OlmoeForCausalLM", EXPERTS, config=SILU | {"norm_topk_prob": False}),
    "dots1": Architecture("dots1", "Dots1ForCausalLM", SHARED, config=SILU),
    "glm4moe": Architecture("glm4_moe", "Glm4MoeForCausalLM", SHARED | _SECOND_NORM, config=SILU),
    "ernie4_5-moe": Architecture("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", _ERNIE, config=SILU),
    "hunyuan-moe": Architecture("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", _HUNYUAN_MOE, config=SILU),
    "minimax-m2": Architecture("minimax_m2", "MiniMaxM2ForCausalLM", _MINIMAX, config=SILU),
    "lfm2moe": Architecture("lfm2_moe", "Lfm2MoeForCausalLM", _LFM2_MOE, config=SILU),
    "gpt2": Architecture("gpt2", "GPT2LMHeadModel", _GPT2, shared=False, layers="transformer.h."),
    "starcoder": Architecture("gpt_bigcode", "GPTBigCodeForCausalLM", _GPT2, shared=False, layers="transformer.h."),
    "falcon": Architecture(
        "falcon",
        "FalconForCausalLM",
        _FALCON,
        fused=apart("self_attention.query_key_value"),
        config={"activation": "gelu"},
        shared=False,
        layers="transformer.h.",
    ),
    "gptneox": Architecture(
        "gpt_neox",
        "GPTNeoXForCausalLM",
        _NEOX,
        fused=apart("attention.query_key_value"),
        config={"hidden_act": "gelu"},
        shared=False,
        layers="gpt_neox.layers.",
    ),
    "bloom": Architecture(
        "bloom", "BloomForCausalLM", _BLOOM, fused=apart("self_attention.query_key_value"), shared=False, layers="h."
    ),
    "mpt": Architecture("mpt", "MPTForCausalLM", _MPT, shared=False, layers="transformer.blocks."),
    "phi2": Architecture(
        "phi",
        "PhiForCausalLM",
        {
            "output_norm": "model.final_layernorm",
            "attn_output": "self_attn.dense",
            "ffn_up": "mlp.fc1",
            "ffn_down": "mlp.fc2",
        },
        fused={"attn_qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")},
        config={"hidden_act": "gelu_new"},
    ),
    "command-r": Architecture("cohere", "CohereForCausalLM", config=SILU),
    "cohere2": Architecture("cohere2", "Cohere2ForCausalLM", config=SILU),
    "gpt-oss": Architecture("gpt_oss", "GptOssForCausalLM", _OSS, config=SILU),
    "bert": Architecture(
        "bert",
        "BertModel",
        _BERT,
        fused={"attn_qkv": ("attention.self.query", "attention.self.key", "attention.self.value")},
        config={"hidden_act": "gelu", "position_embedding_type": "absolute"},
        shared=False,
        layers="encoder.layer.",
    ),
    "nomic-bert": Architecture(
        "nomic_bert", "NomicBertModel", _NOMIC, config=SILU, shared=False, layers="encoder.layers."
    ),
}
"""By ``general.architecture``; ``mixtral`` is what ``llama`` with experts is called here."""
