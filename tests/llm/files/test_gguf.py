"""GGUF files: blocks and names against the ``gguf`` package (recorded), and what small files of our own come out as."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.engine.opening import Opened
from MNN.llm.files import open_weights, read_config
from MNN.llm.files.gguf.architectures import ARCHITECTURES
from MNN.llm.files.gguf.blocks import KINDS, UNREAD
from MNN.llm.files.gguf.reader import parsed_once, read_gguf
from MNN.llm.files.places import find
from tests import zoo
from tests.llm.files.blocks import digest, random_blocks, read
from tests.llm.files.modules import LAYER, modules
from tests.llm.files.writing import gguf

CONVERTED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded_converted.json").read_text(encoding="utf-8"))
KIN = {"granitehybrid": ("granitehybrid", "granitemoe"), "nemotron_h": ("nemotron_h", "nemotron_h_moe")}
"""Architectures whose files have tensors of others."""
RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))
HEADS, GROUPS, SIZE, LAYERS = 4, 2, 8, 2


def metadata(architecture: str = "llama", **more: Any) -> dict[str, Any]:
    own = {
        "block_count": LAYERS,
        "context_length": 128,
        "embedding_length": HEADS * SIZE,
        "feed_forward_length": 48,
        "attention.head_count": HEADS,
        "attention.head_count_kv": GROUPS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0,
    }
    return {"general.architecture": architecture} | {f"{architecture}.{k}": v for k, v in {**own, **more}.items()}


def written(folder: Path, *args: Any, **kw: Any) -> Path:
    file = folder / "model.gguf"
    file.write_bytes(gguf(*args, **kw))
    return file


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_blocks(kind: Any) -> None:
    """Floats to the bit; low-bit weights to rounding, against the blocks' range."""
    for seed, expected in enumerate(RECORDED["blocks"][kind.name]):
        tensor = read(kind, random_blocks(kind, seed))
        floats = tensor.numpy()
        assert digest(floats) == expected
        quantized = tensor.quantized()
        assert quantized.shape == floats.shape
        assert quantized.width == kind.width
        per = floats.shape[1] // quantized.scale.shape[1]
        with np.errstate(invalid="ignore"):  # signalling NaNs
            size = np.repeat(np.abs(quantized.scale), per, axis=1).astype(np.float64) * 2.0**kind.bits
        if quantized.offset is not None:
            size += np.repeat(np.abs(quantized.offset), per, axis=1)
        finite = np.isfinite(floats) & np.isfinite(size)
        assert finite.any()
        assert (np.abs(quantized.dequantize()[finite] - floats[finite]) <= 1e-6 * size[finite]).all()


def test_sizes_of_kinds() -> None:
    sizes = {name: tuple(rest) for name, rest in RECORDED["sizes"].items()}
    for kind in {**KINDS, **UNREAD}.values():
        assert sizes[kind.name] == (kind.code, kind.size, kind.bytes)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_names(architecture: str) -> None:
    """What this engine calls a tensor, the gguf package knows by the same name in files, if the architecture has it; or
    llama.cpp's converter writes it under this name without asking."""
    kin = KIN.get(architecture, (architecture,))
    wrote = {name for one in CONVERTED.values() if one["architecture"] in kin for name in one["tensors"]}
    here = {re.sub(r"^blk\.\d+\.", f"blk.{LAYER}.", name) for name in wrote}
    theirs = RECORDED["names"][architecture]
    own = ARCHITECTURES[architecture].names
    agreeing = 0
    for name, module in modules(architecture).items():
        if name.removeprefix(f"blk.{LAYER}.") in own and not {name, f"{name}.weight", f"{name}.bias"} & here:
            assert theirs[module] == name
        agreeing += theirs[module] == name
    assert agreeing >= min(10, len(own))


@pytest.mark.real
def test_trained_model() -> None:
    """Every tensor of SmolLM2, in the file's own names."""
    file = read_gguf(zoo.path("smollm2_gguf"))
    found = {
        name: [tensor.format, list(tensor.shape), digest(tensor.float32())] for name, tensor in file.tensors.items()
    }
    assert found == RECORDED["smollm2"]


@pytest.mark.real
def test_trained_model_under_hugging_faces_names() -> None:
    """Rows of queries and keys are put back as transformers does it: pairs become halves."""
    file = read_gguf(zoo.path("smollm2_gguf"))
    weights = open_weights(zoo.path("smollm2_gguf"))
    assert len(weights) == len(file.tensors)
    for ours, theirs, heads in (("q_proj", "attn_q", 9), ("k_proj", "attn_k", 3)):
        raw = file.tensors[f"blk.4.{theirs}.weight"].numpy()
        rows, cols = raw.shape
        expected = raw.reshape(heads, rows // heads // 2, 2, cols).swapaxes(2, 1).reshape(raw.shape)
        tensor = weights[f"model.layers.4.self_attn.{ours}.weight"]
        np.testing.assert_array_equal(tensor.numpy(), expected)
        np.testing.assert_allclose(tensor.quantized().dequantize(), expected, atol=1e-6)  # type: ignore[union-attr]
    table = weights["model.embed_tokens.weight"]
    np.testing.assert_array_equal(table.rows(np.array([7, 0, 7])), table.numpy()[[7, 0, 7]])
    config = read_config(zoo.path("smollm2_gguf"))
    expected = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}
    expected |= {"intermediate_size": 1536, "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "vocab_size": 49152}
    assert {k: config[k] for k in expected} == expected
    assert config["model_type"] == "llama"
    assert config["tie_word_embeddings"]


def test_experts_are_taken_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    stack = rng.standard_normal((3, 48, 32)).astype(np.float32)
    raw = rng.integers(0, 255, 3 * 32 * 48 // 32 * 34, np.uint8)
    names = {"ffn_gate_exps": stack, "ffn_down_exps": (8, (3, 32, 48 // 3 * 2), raw.tobytes()[: 3 * 32 * 34])}
    file = written(
        tmp_path,
        metadata("qwen3moe", expert_count=3, expert_used_count=2, expert_feed_forward_length=48),
        {f"blk.1.{name}.weight": tensor for name, tensor in names.items()},
    )
    weights = open_weights(file)
    np.testing.assert_array_equal(weights["model.layers.1.mlp.experts.2.gate_proj.weight"].numpy(), stack[2])
    whole = read_gguf(file).tensors["blk.1.ffn_down_exps.weight"].numpy()
    np.testing.assert_array_equal(weights["model.layers.1.mlp.experts.1.down_proj.weight"].numpy(), whole[1])
    config = read_config(file)
    assert (config["num_experts"], config["num_experts_per_tok"], config["moe_intermediate_size"]) == (3, 2, 48)


def test_parameters_that_are_no_modules(tmp_path: Path) -> None:
    """The correction of DeepSeek's scores of experts."""
    tensors = {
        "blk.0.exp_probs_b.bias": np.arange(4, dtype=np.float32),
        "blk.0.attn_kv_b.weight": np.zeros((4, 4), "f4"),
    }
    weights = open_weights(written(tmp_path, metadata("deepseek2"), tensors))
    np.testing.assert_array_equal(weights["model.layers.0.mlp.gate.e_score_correction_bias"].numpy(), np.arange(4))


def test_fused_weights_and_norms(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    fused = rng.standard_normal(((HEADS + 2 * GROUPS) * SIZE, HEADS * SIZE)).astype(np.float32)
    weights = open_weights(written(tmp_path, metadata("chatglm"), {"blk.0.attn_qkv.weight": fused}))
    parts = [weights[f"model.layers.0.self_attn.{name}_proj.weight"].numpy() for name in "qkv"]
    np.testing.assert_array_equal(np.concatenate(parts), fused)
    norm = rng.standard_normal(HEADS * SIZE).astype(np.float32)
    weights = open_weights(written(tmp_path, metadata("gemma2"), {"output_norm.weight": norm}))
    np.testing.assert_array_equal(weights["model.norm.weight"].numpy(), norm - 1)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_rope_of_llama3(tmp_path: Path, factor: float) -> None:
    """The factors that llama.cpp writes for Llama 3.1 become its rule again; other factors stay factors."""
    low, high, original, theta, size = 1.0, 4.0, 8192, 500000.0, 64
    factors = []
    for i in range(size // 2):
        wavelength = 2 * np.pi * theta ** (2 * i / size)
        if wavelength < original / high:
            factors.append(1.0)
        elif wavelength > original / low:
            factors.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    more = {"rope.freq_base": theta, "attention.key_length": size, "rope.dimension_count": size}
    array = np.array(factors, np.float32)
    config = read_config(written(tmp_path, metadata(**more), {"rope_freqs.weight": array}))
    assert config["rope_scaling"] == {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }
    assert config["head_dim"] == size
    other = read_config(written(tmp_path, metadata(**more), {"rope_freqs.weight": array[::-1].copy()}))["rope_scaling"]
    assert other["rope_type"] == "longrope"
    np.testing.assert_array_equal(np.float32(other["long_factor"]), array[::-1])


def test_shards(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    tensors = [{f"blk.{i}.ffn_norm.weight": rng.standard_normal(32).astype(np.float32)} for i in range(2)]
    for i, part in enumerate(tensors):
        words = (metadata() if i == 0 else {}) | {"split.no": i, "split.count": 2}
        (tmp_path / f"m-{i + 1:05}-of-00002.gguf").write_bytes(gguf(words, part))
    (tmp_path / "other.gguf").write_bytes(gguf(metadata(), {}))
    first = tmp_path / "m-00001-of-00002.gguf"
    assert find(first).weights == (first, tmp_path / "m-00002-of-00002.gguf")
    opened = Opened(first, {}, first)
    assert opened.files == [*find(first).weights]  # another model beside it is none of its files
    assert opened.size == sum(file.stat().st_size for file in opened.files)
    (tmp_path / "other.gguf").unlink()
    weights = open_weights(tmp_path)
    for i, part in enumerate(tensors):
        np.testing.assert_array_equal(
            weights[f"model.layers.{i}.post_attention_layernorm.weight"].numpy(), part[f"blk.{i}.ffn_norm.weight"]
        )
    with pytest.raises(FormatError, match="name the first"):
        open_weights(tmp_path / "m-00002-of-00002.gguf")
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(gguf({}, tensors[0]))
    with pytest.raises(FormatError, match="another shard"):
        open_weights(tmp_path)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"architecture 'rwkv7'.*llama"):
        open_weights(written(tmp_path, metadata("rwkv7"), {}))
    weights = open_weights(written(tmp_path, metadata(), {"blk.0.ffn_up.weight": (9, (2, 32), bytes(80))}))
    with pytest.raises(UnsupportedError, match=r"blk.0.ffn_up.*Q8_1.*Q4_K"):
        weights["model.layers.0.mlp.up_proj.weight"].numpy()
    with pytest.raises(FormatError, match=r"'blk.0.extra.weight'"):
        open_weights(written(tmp_path, metadata(), {"blk.0.extra.weight": np.zeros(3, np.float32)}))
    with pytest.raises(FormatError, match=r"no tensor 'model.norms'"):
        open_weights(written(tmp_path, metadata(), {}))["model.norms"]
    with pytest.raises(UnsupportedError, match="version 1"):
        open_weights(written(tmp_path, metadata(), {}, version=1))
    with pytest.raises(UnsupportedError, match="big-endian"):
        open_weights(written(tmp_path, metadata(), {}, version=3 << 24))
    with pytest.raises(UnsupportedError, match="scaled by 'dynamic'; known are none, linear"):
        read_config(written(tmp_path, metadata(**{"rope.scaling.type": "dynamic", "rope.scaling.factor": 2.0}), {}))
    windows = {"attention.sliding_window": 8, "attention.sliding_window_pattern": [True, False, True]}
    exaone = read_config(written(tmp_path, metadata("exaone4", block_count=2, **windows), {}))
    assert exaone["layer_types"] == ["sliding_attention", "full_attention"]
    for name in ("exaone4", "gemma3"):  # one number is a period, at whose end a layer sees all
        for period, local in ((3, [1, 1, 0, 1]), (1, [0] * 4), (0, [1] * 4)):
            told = {"attention.sliding_window": 8, "attention.sliding_window_pattern": period}
            types = read_config(written(tmp_path, metadata(name, block_count=4, **told), {}))["layer_types"]
            assert types == ["sliding_attention" if one else "full_attention" for one in local]
    with pytest.raises(FormatError, match="windows of 3 layers of 4"):
        read_config(written(tmp_path, metadata("exaone4", block_count=4, **windows), {}))
    with pytest.raises(MNNError, match="no file or folder"):
        open_weights(tmp_path / "absent")


TWO = {"a.weight": np.zeros(8, np.float32), "output_norm.weight": np.ones(8, np.float32)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.replace(b"a.weight", b"b.weight", 0)[:-16], "leaves the file"),
        (lambda data: data.replace(b"general.architecture", b"llama.context_length"), "twice"),
        (lambda data: data.replace(b"output_norm.weight", b"\xff" * 18), "UTF-8"),
        (lambda data: b"GGUX" + data[4:], "does not begin"),
        (lambda data: data[:8] + b"\xff" * 8 + data[16:], "number of tensors"),
        (lambda data: data[:16] + b"\xff" * 8 + data[24:], "number of metadata"),
        (lambda data: data[:200], "ends within"),
    ],
)
def test_broken_files(tmp_path: Path, change: Any, message: str) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(change(gguf(metadata(), TWO)))
    with pytest.raises(FormatError, match=message):
        read_gguf(file)


def test_tensors_do_not_share_bytes(tmp_path: Path) -> None:
    """Two names for one place, and one name for two places."""
    data = gguf(metadata(), TWO)
    place = data.rindex((32).to_bytes(8, "little"))
    file = tmp_path / "model.gguf"
    file.write_bytes(data[:place] + bytes(8) + data[place + 8 :])
    with pytest.raises(FormatError, match="overlaps"):
        read_gguf(file)
    twice = {"output_norm.weight": TWO["a.weight"], "output_Norm.weight": TWO["a.weight"]}
    file.write_bytes(gguf(metadata(), twice).replace(b"output_Norm", b"output_norm"))
    with pytest.raises(FormatError, match="two of this name"):
        read_gguf(file)
    file.write_bytes(gguf(metadata() | {"general.alignment": 24}, TWO))
    with pytest.raises(FormatError, match="power of two"):
        read_gguf(file)


def test_asking_whether_a_tensor_is_there_looks_for_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Families ask hundreds of times; the search for names that are alike took most of the time of opening a file."""
    weights = open_weights(written(tmp_path, metadata(), {"token_embd.weight": np.zeros((4, 8), np.float32)}))

    def refuse(*_: object) -> list[str]:
        raise AssertionError("names that are alike are for messages")

    with monkeypatch.context() as patched:
        patched.setattr("difflib.get_close_matches", refuse)
        assert "model.embed_tokens.weight" in weights
        assert "model.embed_tokens.bias" not in weights
    with pytest.raises(FormatError, match=r"it has 'model\.embed_tokens\.weight'"):
        weights["model.embed_tokens.weights"]


@pytest.mark.parametrize("window", [8, 9, 20, 1 << 20])
def test_texts_of_all_lengths_beside_the_windows_they_are_read_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr("MNN.llm.files.gguf.reader._WINDOW", window)
    rng = np.random.default_rng(window)
    texts = ["", *("\u00e9" * int(n) for n in rng.integers(0, 40, 60)), ""]
    file = written(tmp_path, {"a": texts, "b": 7}, {})
    assert read_gguf(file).metadata == {"a": texts, "b": 7}
    whole = file.read_bytes()
    for cut in rng.integers(60, len(whole) - 8, 20):
        file.write_bytes(whole[: int(cut)])
        with pytest.raises(FormatError, match=r"ends within|more than its"):
            read_gguf(file)
    at = whole.index(b"\xc3\xa9")
    file.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    with pytest.raises(FormatError, match="a is not text in UTF-8"):
        read_gguf(file)


def test_a_file_is_parsed_once_while_a_model_is_opened(tmp_path: Path) -> None:
    file = written(tmp_path, {"a": 7}, {})
    with parsed_once():
        first = read_gguf(file)
        with parsed_once():
            assert read_gguf(file) is first
    assert read_gguf(file) is not first
