"""Files cut off and changed at random: each is read, or refused in one error of ours, without large allocations."""

from __future__ import annotations

import json
import os
import random
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.llm.files import open_weights, read_config
from MNN.llm.files.gguf.blocks import KINDS
from MNN.llm.text import load_tokenizer
from tests.llm.files.test_gguf import metadata
from tests.llm.files.writing import gguf, safetensors

MUTATIONS = int(os.environ.get("MNN_HOSTILE_FILES", "500"))
CUTS = 20
MEMORY = 64 << 20
"""Bytes that reading a file of a few kilobytes may take; a length that is believed takes more, or fails."""
INTERESTING = [0, 1, 7, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]


def small_gguf() -> bytes:
    """A model of every kind of blocks, with a tokenizer."""
    rng = np.random.default_rng(0)
    tensors: dict[str, np.ndarray | tuple[int, tuple[int, ...], bytes]] = {
        f"blk.{i}.ffn_up.weight": (kind.code, (2, kind.size), rng.integers(0, 256, 2 * kind.bytes, np.uint8).tobytes())
        for i, kind in enumerate(KINDS.values())
    }
    tensors["blk.0.attn_q.weight"] = rng.standard_normal((32, 32)).astype(np.float32)
    tensors["output_norm.weight"] = rng.standard_normal(32).astype(np.float16)
    tensors["rope_freqs.weight"] = np.ones(4, np.float32)
    words = ["a", "b", "ab", "<|im_end|>", "c"]
    tokens = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": np.array([1, 1, 1, 3, 1], np.int32),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.eos_token_id": 3,
        "tokenizer.ggml.scores": np.zeros(5, np.float32),
        "tokenizer.chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}",
    }
    return gguf(metadata() | tokens, tensors)


def small_safetensors() -> bytes:
    rng = np.random.default_rng(1)
    arrays: dict[str, np.ndarray] = {
        f"model.layers.{i}.{name}.weight": rng.standard_normal((3, 4)).astype(dtype)
        for i, (name, dtype) in enumerate([("a", "f4"), ("b", "f2"), ("c", "i8"), ("d", "u1"), ("e", "f8")])
    }
    return safetensors(arrays)


def use_gguf(file: Path) -> None:
    read_config(file)
    use(file)
    tokenizer = load_tokenizer(file)
    tokenizer.decode(tokenizer.encode("abc"))
    tokenizer.apply_chat_template([{"role": "user", "content": "ab"}])


def use(file: Path) -> None:
    for tensor in open_weights(file).values():
        tensor.numpy()
        tensor.quantized()


def changed(data: bytes, rng: random.Random) -> bytes:
    """A few bits, bytes or numbers changed, pieces copied or left out; most changes lie in the header."""
    out = bytearray(data)
    head = data.find(b"\0" * 16, 512) if rng.random() < 0.8 else len(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(min(len(out), max(head, 64)))
        match rng.randrange(6):
            case 0:
                out[place] ^= 1 << rng.randrange(8)
            case 1:
                out[place] = rng.randrange(256)
            case 2:
                out[place : place + 8] = struct.pack("<Q", rng.choice(INTERESTING))[: len(out) - place]
            case 3:
                out[place : place + 4] = struct.pack("<Q", rng.choice(INTERESTING))[: min(4, len(out) - place)]
            case 4:
                other = rng.randrange(len(out))
                size = rng.randint(1, 40)
                out[place : place + size] = out[other : other + size]
            case _:
                del out[place : place + rng.randint(1, 9)]
        if len(out) < 64:
            break
    return bytes(out)


CASES: dict[str, tuple[Callable[[], bytes], Callable[[Path], None]]] = {
    "model.gguf": (small_gguf, use_gguf),
    "model.safetensors": (small_safetensors, use),
}


def outcome(file: Path, data: bytes, look: Callable[[Path], None]) -> str:
    """``read`` or ``refused``; any other exception than ours is let through."""
    file.write_bytes(data)
    try:
        with np.errstate(all="ignore"):
            look(file)
    except MNNError as error:
        return "refused" if len(str(error)) < 2000 else "refused at length"
    return "read"


@pytest.mark.parametrize("name", CASES)
def test_whole_files(tmp_path: Path, name: str) -> None:
    make, look = CASES[name]
    assert outcome(tmp_path / name, make(), look) == "read"


@pytest.mark.parametrize("name", CASES)
def test_cuts(tmp_path: Path, name: str) -> None:
    make, look = CASES[name]
    data = make()
    for i in range(CUTS):
        assert outcome(tmp_path / name, data[: len(data) * i // CUTS], look) == "refused"
    assert outcome(tmp_path / name, data[:-1], look) == "refused"


@pytest.mark.parametrize("name", CASES)
def test_mutations(tmp_path: Path, name: str) -> None:
    make, look = CASES[name]
    data = make()
    look_once = outcome(tmp_path / name, data, look)  # libraries are loaded before memory is counted
    assert look_once == "read"
    found: Counter[str] = Counter()
    tracemalloc.start()
    try:
        for seed in range(MUTATIONS):
            found[outcome(tmp_path / name, changed(data, random.Random(seed)), look)] += 1
            assert tracemalloc.get_traced_memory()[1] < MEMORY, seed
    finally:
        tracemalloc.stop()
    assert set(found) == {"read", "refused"}
    assert found["refused"] > MUTATIONS // 4


def test_a_header_of_many_tensors(tmp_path: Path) -> None:
    """Ten thousand tensors of nothing are no trouble."""
    entries = {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(10_000)}
    header = json.dumps(entries).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header)
    assert len(open_weights(file)) == 10_000
