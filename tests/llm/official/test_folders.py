"""Folders of the official engine: what its exporter wrote runs here, and what is written here is what it should be.

``exported/`` holds two small random models as version 3.6.1's exporter wrote them (qwen3 in 4 bits with blocks of 32
and offsets, its table of embeddings among the weights; llama in 8 bits with whole rows) and in ``recorded.npz`` what
the official engine computed for them at precision high: the logits behind a prompt, and the tokens of a text.
"""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import MNN
from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.formatting import nbytes
from MNN.llm.engine.opening import open_model
from MNN.llm.official.convert import convert
from MNN.llm.official.form import Form
from MNN.llm.text import load_tokenizer
from MNN.llm.text.mtok import read_mtok
from MNN.llm.text.mtok_writing import mtok
from MNN.runtime.config import Config
from tests.cli.conftest import run_command
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.official import sources
from tests.llm.test_families import RECORDED, expected

EXPORTED = Path(__file__).parent / "exported"
TEXT = "the fish and 42 ducks in \u00e9t\u00e9"
HIGH = Config(precision="high", cache=False, threads=1)
REFUSED = {
    "gemma2": "cap its scores", "vaultgemma": "cap its scores", "phi3": "depend on the length",
    "internlm3": "depend on the length",
    "internlm2": "depend on the length",
    **dict.fromkeys(
        ("qwen2_moe", "qwen3_moe", "mixtral", "olmoe", "granitemoe", "deepseek_v2", "deepseek_v3", "glm4_moe"),
        "RoutedMatMul",
    ),
    **dict.fromkeys(set(cases.MIXTURES) - {"youtu", "minicpm3"} | {"bailing_moe"}, "RoutedMatMul"),
    **dict.fromkeys(("gemma3n_text", "gemma4_text"), "tables beside that of the tokens"),
    **dict.fromkeys(("gpt2", "gpt_bigcode", "opt", "gpt_neo"), "tables other than that of the tokens"),
    **dict.fromkeys(
        ("gpt_oss", "bloom", "mpt", "mimo_v2_flash", "granite_swa", "granitemoe_swa"), "neither ALiBi nor sinks"
    ),
    **dict.fromkeys(cases.HYBRID, "recurrent layers of"),
    **dict.fromkeys(  # come first in these
        ("qwen3_next", "qwen3_5_moe_text", "nemotron_h", "kimi_linear", "bailing_hybrid"), "RoutedMatMul"
    ),
}  # fmt: skip
"""Families whose first recorded model has something that the official engine has no form for."""


def _logits(folder: Path, prompt: list[int], config: Config = HIGH, **options: Any) -> np.ndarray:
    decoder = open_model(folder).decoder(config, 64, **options)
    return decoder.feed(decoder.text(), prompt, every=True)


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", ["qwen3", "llama"])
def test_what_the_official_exporter_wrote(name: str) -> None:
    with np.load(EXPORTED / "recorded.npz") as file:
        prompt, wanted, tokens = file["prompt"].tolist(), file[name], file[f"{name}.tokens"].tolist()
    found = _logits(EXPORTED / name, prompt)
    assert _error(found[-1], wanted) <= 0.06  # it rounds activations to 8 bits
    assert np.corrcoef(found[-1], wanted)[0, 1] >= 0.999
    assert _error(_logits(EXPORTED / name, prompt, Config(cache=False)), found) <= 0.06
    decoder = open_model(EXPORTED / name).decoder(HIGH)
    text = decoder.text()
    pieces = [decoder.feed(text, part, every=True) for part in (prompt[:7], prompt[7:8], prompt[8:])]
    assert _error(np.concatenate(pieces), found) <= 1e-5
    decoder.cut(text, 7)
    assert _error(decoder.feed(text, prompt[7:8]), pieces[1]) <= 1e-5
    assert load_tokenizer(EXPORTED / name).encode(TEXT) == tokens


def test_the_short_way(tmp_path: Path) -> None:
    llm = MNN.llm.load(EXPORTED / "qwen3", threads=1, cache=False)
    assert llm.answer("the", max_tokens=4) == llm.answer("the", max_tokens=4)
    assert MNN.llm.load(EXPORTED / "qwen3" / "config.json", cache=False).max_length == llm.max_length
    info = run_command("llm", "info", EXPORTED / "qwen3")
    assert (info.code, "family qwen3" in info.out, "264 tokens, with a chat template" in info.out) == (0, True, True)
    size = sum((EXPORTED / "qwen3" / file).stat().st_size for file in ("llm.mnn", "llm.mnn.weight"))
    assert info.out.rstrip().endswith(nbytes(size))
    with pytest.raises(MNNError, match="quantised as they are"):
        MNN.llm.load(EXPORTED / "qwen3", bits=4)
    with pytest.raises(MNNError, match="another form"):
        llm.check_cache(tmp_path / "cache")
    early = run_command("chat", EXPORTED / "qwen3", "--prompt", "the", "--cache-file", tmp_path / "cache")
    assert (early.code, early.out) == (2, "")  # before it answers


@pytest.mark.parametrize("notes", [n for n in RECORDED if n["seed"] == 0], ids=lambda n: n["config"]["model_type"])
def test_every_family_is_written(notes: dict[str, Any], tmp_path: Path) -> None:
    """In 8 bits, beside what transformers computed with the unquantised weights."""
    family = notes["config"]["model_type"]
    source, out = sources.write(tmp_path / "source", notes), tmp_path / "out"
    symmetric = family in ("llama", "qwen3", "glm")
    if family in REFUSED:
        heard = [(0, 1)]
        with pytest.raises(UnsupportedError, match=REFUSED[family]):
            convert(source, out, Form(8, 16, symmetric), lambda _, *counts: heard.append(counts))
        assert max(done / count for done, count in heard) < 0.6, "most weights are quantised before it is refused"
        assert sorted(file.name for file in tmp_path.iterdir()) == ["source"]
        return
    assert convert(source, out, Form(8, 16, symmetric)) == out
    wanted = expected(notes)
    found = _logits(out, wanted.prompt)
    assert np.corrcoef(found.ravel(), wanted.logits.ravel())[0, 1] >= 0.999
    assert _error(found, wanted.logits) <= 0.1
    assert load_tokenizer(out).encode(TEXT) == load_tokenizer(source).encode(TEXT)


@pytest.mark.parametrize(
    ("bits", "block", "symmetric"), [(8, 0, False), (4, 16, True), (4, 64, False), (3, 16, False), (2, 0, True)]
)
def test_forms(tmp_path: Path, bits: int, block: int, symmetric: bool) -> None:
    """The numbers of the weights, rounded here in another way."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "qwen3" and not n["config"]["tie_word_embeddings"])
    folder = convert(sources.write(tmp_path / "source", notes), tmp_path / "out", Form(bits, block, symmetric))
    arrays = cases.weights(notes["shapes"], notes["seed"])
    for name, data in arrays.items():
        if "embed" in name:
            arrays[name] = data.astype(ml_dtypes.bfloat16).astype(np.float32)
        elif data.ndim == 2:
            arrays[name] = _rounded(data, 8 if name == "lm_head.weight" else bits, block, symmetric)
    decoder = decoder_of(notes["config"], Arrays(arrays), HIGH)
    prompt = expected(notes).prompt
    wanted = decoder.feed(decoder.text(), prompt, every=True)
    assert _error(_logits(folder, prompt), wanted) <= 3e-3  # ties go either way


def _rounded(data: np.ndarray, bits: int, block: int, symmetric: bool) -> np.ndarray:
    size = next(n for n in (block or data.shape[1], 32, 16, 8, 4, 2, 1) if data.shape[1] % n == 0 and n <= (block or n))
    out = np.empty_like(data)
    for row in range(len(data)):
        for at in range(0, data.shape[1], size):
            part = data[row, at : at + size].astype(np.float64)
            low = -np.abs(part).max() if symmetric else part.min()
            most = np.abs(part).max() if symmetric else part.max()
            step = (most - low) / ((1 << bits) - (2 if symmetric else 1)) or 1.0
            out[row, at : at + size] = np.rint((part - low) / step) * step + low
    return out


def test_the_command(tmp_path: Path) -> None:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "qwen2")
    source, out = sources.write(tmp_path / "source", notes), tmp_path / "out"
    made = run_command("llm", "convert", source, out, "--bits", 8, "--block", 16, "--symmetric")
    assert (made.code, str(out) in made.out) == (0, True)
    for options, message in (
        ([], "is there already"), (["--bits", 5], "2, 3, 4, 8 bits, not in 5"), (["--block", 48], "power of two"),
    ):  # fmt: skip
        refused = run_command("llm", "convert", source, out if not options else tmp_path / "other", *options)
        assert (refused.code, message in refused.err) == (2, True), refused
    again = run_command("llm", "convert", out, tmp_path / "other")
    assert (again.code, "of the official engine already" in again.err) == (2, True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "source"]


def test_tokenizers_come_back() -> None:
    core = sources.tokenizer()
    tokenizer = read_mtok(EXPORTED / "llama" / "tokenizer.mtok")
    again = tokenizer_of(mtok(tokenizer))
    for text in (TEXT, "a<s>b</s> 1234\n\n  x", "\u4f60\u597d"):
        assert again.encode(text, add_special_tokens=False) == core.encode(text, add_special_tokens=False).ids
        assert again.decode(again.encode(text)) == tokenizer.decode(tokenizer.encode(text))
    assert again.stop_ids == tokenizer.stop_ids
    assert again.chat_template == tokenizer.chat_template == sources.TEMPLATE


def tokenizer_of(data: bytes) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.mtok"
        file.write_bytes(data)
        return read_mtok(file)


def test_damaged_tokenizers(tmp_path: Path) -> None:
    """Cut off and changed: an error that says so, or another tokenizer, and nothing else."""
    whole = (EXPORTED / "llama" / "tokenizer.mtok").read_bytes()
    rng = np.random.default_rng(0)
    cuts = [whole[: int(n)] for n in rng.integers(1, len(whole) - 8, 20)]
    changed = []
    for _ in range(200):
        data = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            data[place] = int(rng.integers(0, 256))
        changed.append(bytes(data))
    for data in [*cuts, *changed]:
        try:
            tokenizer_of(data)
        except MNNError:
            continue
        assert data not in cuts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tie_embeddings": [1 << 40, 1 << 41, 4, 4, 32]}, "does not fit"), ({"tie_embeddings": "yes"}, "expected its"),
        ({"hidden_size": None}, "hidden_size"), ({"hidden_size": 48}, "does not fit"),
        ({"is_visual": True}, "is_visual"),
        ({"llm_model": "../llm.mnn"}, "no name of a file"), ({"attention_type": "ring"}, "attention of the kind"),
        ({"llm_weight": "gone"}, "lacks the file gone"),
    ],
)  # fmt: skip
def test_damaged_folders(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(EXPORTED / "qwen3", folder)
    told = json.loads((folder / "llm_config.json").read_text()) | change
    (folder / "llm_config.json").write_text(json.dumps(told))
    with pytest.raises((FormatError, MNNError), match=message):
        _logits(folder, [1, 2, 3])


def test_rotary_norms_are_read(tmp_path: Path) -> None:
    """Norms of queries and keys lie inside the official rotary operator; another epsilon there is another answer."""
    folder = tmp_path / "model"
    shutil.copytree(EXPORTED / "qwen3", folder)
    data = (folder / "llm.mnn").read_bytes()
    epsilon = struct.pack("<f", 1e-6)
    assert data.count(epsilon) >= 4
    (folder / "llm.mnn").write_bytes(data.replace(epsilon, struct.pack("<f", 1.0)))
    assert _error(_logits(folder, [5, 9, 40]), _logits(EXPORTED / "qwen3", [5, 9, 40])) > 1e-3
