"""What configurations leave out is what transformers takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import FormatError
from MNN.llm.files import read_config
from MNN.llm.files.defaults import DEFAULTS, completed
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.hybrid.olmo_hybrid import _turned
from MNN.llm.models.decoders.mixtures.llama4 import _listed
from MNN.llm.models.experts import number_of
from MNN.llm.models.families import families, usual
from MNN.llm.models.mamba import Mamba
from MNN.llm.models.rotary import rotary


def test_gemma3_tells_little(tmp_path: Path) -> None:
    """The configuration of the model with 4 billion parameters says no more of its text half."""
    inner = {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
    }  # fmt: skip
    told = {"model_type": "gemma3", "text_config": inner, "vision_config": {"hidden_size": 1152}}
    (tmp_path / "config.json").write_text(json.dumps(told))
    (tmp_path / "model.safetensors").write_bytes(b"")
    config = Config(read_config(tmp_path))
    heads = config.heads()
    assert (heads.count, heads.groups, heads.size, config.window, config.longest) == (8, 4, 256, 1024, 131072)
    assert config.activation == "gelu_pytorch_tanh"
    assert config.number("query_pre_attn_scalar", 0) == 256
    assert config.flag("tie_word_embeddings")


def test_what_is_said_stays() -> None:
    told = {"model_type": "mistral", "sliding_window": None, "num_key_value_heads": 2, "rope_theta": 5.0}
    assert completed(told) == told | {"max_position_embeddings": 131072}
    said = completed({"model_type": "mixtral", "rope_parameters": {"rope_theta": 7.0}})
    assert "rope_theta" not in said
    assert completed({"model_type": "mixtral"})["rope_theta"] == 1e6
    assert completed({"model_type": "gemma2", "hidden_act": "relu"}).get("hidden_activation") is None
    assert completed({"model_type": "nothing known"}) == {"model_type": "nothing known"}


def test_numbers_that_json_lacks() -> None:
    """As transformers 5 writes them: the other bound of the steps of time holds, too."""
    told = {"model_type": "bamba", "num_hidden_layers": 1, "hidden_size": 8, "mamba_n_heads": 2, "mamba_d_state": 4}
    form = Mamba.of(Config({**told, "time_step_limit": [0.5, {"__float__": "Infinity"}]}))
    assert (form.low, form.high) == (0.5, np.inf)
    with pytest.raises(FormatError, match=r"time_step_limit of the model's configuration is .* two numbers"):
        Mamba.of(Config({**told, "time_step_limit": [0.5, "Infinity"]}))


def test_llama4_as_published() -> None:
    """Its list of layers with positions is empty, as if it were missing (`Llama4TextConfig`); no turn lies between slow
    ones and fast ones."""
    told = {"model_type": "llama4_text", "num_hidden_layers": 5, "hidden_size": 8, "no_rope_layers": []}
    assert _listed(Config(told))[0] == [True, True, True, False, True]
    scaled = {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0}
    scaled |= {"original_max_position_embeddings": 8192, "rope_theta": 5e5}
    plain = 5e5 ** (-np.arange(0, 128, 2) / 128)
    wanted = np.where(2 * np.pi / plain > 8192, plain / 16, plain)
    np.testing.assert_allclose(rotary({"rope_scaling": scaled}, 128).turns, wanted, rtol=1e-5)


def test_only_families_that_are_there() -> None:
    assert set(families()) >= set(DEFAULTS)


def test_positions_of_cwm_are_scaled_where_nothing_is_said() -> None:
    """As CwmConfig() of transformers has it, whatever base is told beside."""
    told = {"model_type": "cwm", "num_hidden_layers": 1, "hidden_size": 8}
    scaled = {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaled |= {"original_max_position_embeddings": 8192, "rope_theta": 1e6}
    wanted = Config({**told, "rope_parameters": scaled}).rotary(128).turns
    for more in ({}, {"rope_parameters": None}, {"rope_theta": 5e5}):
        np.testing.assert_array_equal(usual({**told, **more}).rotary(128).turns, wanted)
    linear = {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}
    for name in ("rope_parameters", "rope_scaling"):
        found = usual({**told, name: linear}).rotary(128).turns
        np.testing.assert_allclose(found, 100.0 ** (-np.arange(0, 128, 2) / 128) / 2, rtol=1e-5)


def test_a_factor_of_null_is_none() -> None:
    """Of values of MiMo-V2-Flash: one that is missing is another."""
    told = {"model_type": "mimo_v2_flash", "num_hidden_layers": 1, "hidden_size": 8}
    for more, factor in (({}, 0.707), ({"attention_value_scale": None}, 1.0), ({"attention_value_scale": 0.5}, 0.5)):
        assert usual({**told, **more}).number("attention_value_scale", 0.707) == factor


@pytest.mark.parametrize(
    ("kind", "groups", "size", "epsilon", "longest", "experts", "most"),
    [
        ("granite_swa", 4, 8, 1e-5, 8192, 0, 0), ("granitemoe_swa", 40, 8, 1e-6, 2048, 8, 2),
        ("hyperclovax", 40, 8, 1e-6, 2048, 0, 0), ("iquestcoder", 8, 128, 1e-5, 131072, 0, 0),
        ("bitnet", 5, 8, 1e-5, 2048, 0, 0), ("jais2", 40, 8, 1e-6, 8192, 0, 0), ("nanochat", 40, 8, 1e-6, 2048, 0, 0),
        ("olmo_hybrid", 40, 8, 1e-6, 65536, 0, 0), ("zamba2", 40, 16, 1e-5, 4096, 0, 0),
        ("hy_v3", 8, 128, 1e-5, 131072, 192, 8), ("afmoe", 40, 128, 1e-5, 16384, 64, 6),
        ("mellum", 4, 128, 1e-6, 131072, 64, 8), ("flex_olmo", 40, 8, 1e-6, 4096, 7, 5),
        ("cohere2_moe", 40, 128, 1e-6, 8192, 8, 2), ("sarvam_moe", 4, 64, 1e-6, 131072, 128, 6),
        ("sarvam_mla", 40, 8, 1e-6, 4096, 128, 8), ("kimi_linear", 40, 8, 1e-5, 1048576, 256, 8),
        ("bailing_hybrid", 40, 8, 1e-6, 262144, 512, 8), ("dbrx", 1, 8, 1e-6, 2048, 4, 1),
    ],
)  # fmt: skip
def test_what_further_kinds_leave_out(
    kind: str, groups: int, size: int, epsilon: float, longest: int, experts: int, most: int
) -> None:
    """As the configurations of transformers 5.24 have it, of 40 heads."""
    told = {"model_type": kind, "num_hidden_layers": 4, "hidden_size": 320, "num_attention_heads": 40}
    config = usual(completed(told))
    heads = config.heads()
    assert (heads.groups, heads.size, config.epsilon, config.longest) == (groups, size, epsilon, longest)
    assert (experts and number_of(config), int(config.number("num_experts_per_tok", 0))) == (experts, most)


def test_scales_and_windows_of_further_kinds() -> None:
    def told(kind: str, **more: object) -> Config:
        size = {"num_hidden_layers": 8, "hidden_size": 320, "num_attention_heads": 40}
        return usual(completed({"model_type": kind, **size, **more}))

    scales = {"kimi_linear": 2.446, "bailing_hybrid": 2.5, "sarvam_mla": 2.5, "sarvam_moe": 2.5}
    assert {kind: told(kind).number("routed_scaling_factor", 1.0) for kind in scales} == scales
    assert told("hy_v3").number("router_scaling_factor", 1.0) == 2.826
    windows = {"granite_swa": 128, "granitemoe_swa": 128, "afmoe": 1024, "mellum": 1024, "cohere2_moe": 4096}
    assert {kind: told(kind).window for kind in windows} == windows
    tied = "granite_swa", "cohere2_moe", "zamba2", "recurrent_gemma"
    assert all(told(kind).flag("tie_word_embeddings") for kind in tied)
    groups = [
        [told(kind).number(name, 1) for name in ("n_group", "topk_group")] for kind in ("bailing_hybrid", "hy_v3")
    ]
    assert groups == [[8, 4], [1, 1]]
    other = told("kimi_linear", num_local_experts=6, n_group=2, num_experts_per_tok=3)
    assert (number_of(other), other.number("n_group", 1), other.number("num_experts_per_tok", 1)) == (6, 2, 3)


def test_positions_of_further_kinds() -> None:
    """The share of a head that Ling 3.0 turns is that of ``qk_rope_head_dim``, all of which is turned; Sarvam's way of
    scaling has a name of its own; OLMo Hybrid has no positions where its base is null."""
    size = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4}
    ling = usual({"model_type": "bailing_hybrid", **size, "rope_theta": 1e4, "partial_rotary_factor": 0.5})
    assert ling.rotary(64).width == 64
    scaled = {"factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0}
    found = [rotary({"rope_scaling": {"type": kind, **scaled}}, 64) for kind in ("yarn", "deepseek_yarn")]
    np.testing.assert_array_equal(found[0].turns, found[1].turns)
    cases: list[tuple[dict[str, object], bool]] = [
        ({}, True), ({"rope_theta": 5e5}, True), ({"rope_theta": None}, False), ({"rope_parameters": None}, True),
        ({"rope_parameters": {"rope_theta": None}, "rope_theta": 5e5}, False),
        ({"rope_parameters": {"rope_theta": 7.0}}, True),
    ]  # fmt: skip
    assert [_turned(usual({"model_type": "olmo_hybrid", **size, **more})) for more, _ in cases] == [w for _, w in cases]
