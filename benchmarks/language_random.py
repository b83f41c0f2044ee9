"""GGUF files of random weights in the shapes of known language models, which need no download:

    python -m benchmarks.language_random qwen2-0.5b model.gguf [--form q4_0|q4_k|iq4_nl|...]

Matrices are in the form, the table of embeddings (which is the last layer, too) in Q8_0, as converters leave it. The
tokenizer has the 256 bytes, pairs of these, and pairs with another byte: as many merges as those of trained models.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from MNN.llm.text.tokenizer import byte_characters

FORMS = {
    "q4_0": 2, "q4_1": 3, "q5_0": 6, "q8_0": 8, "q4_k": 12, "q5_k": 13, "q6_k": 14, "iq4_nl": 20, "iq4_xs": 23,
    "mxfp4": 39,
}  # fmt: skip
"""Numbers of GGUF's kinds of tensors."""
BLOCKS = {form: 256 if form in ("q4_k", "q5_k", "q6_k", "iq4_xs") else 32 for form in FORMS}
"""Numbers of a block; rows of matrices must be of whole ones."""
_RANDOM: dict[str, tuple[list[tuple[str, str, int]], float]] = {
    "q5_0": ([("scale", "<f2", 1), ("codes", "u1", 20)], 9.2),
    "q5_k": ([("scale", "<f2", 1), ("least", "<f2", 1), ("codes", "u1", 172)], 9.2 * 32),
    "q6_k": ([("codes", "u1", 208), ("scale", "<f2", 1)], 18.5 * 74),
    "iq4_nl": ([("scale", "<f2", 1), ("codes", "u1", 16)], 71),
    "iq4_xs": ([("scale", "<f2", 1), ("codes", "u1", 134)], 71 * 18),
    "mxfp4": ([("exponent", "u1", 1), ("codes", "u1", 16)], 1),
}
"""What blocks are of that hold random bytes, and the standard deviation of their numbers beside their scale."""
_F32, _ALIGNED = 0, 32
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class Shape:
    """Sizes of a model. ``experts``: how many, and how many of them a token takes."""

    architecture: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    vocabulary: int
    rope: float = 10000.0
    experts: tuple[int, int] = (0, 0)


SHAPES = {
    "qwen2-0.5b": Shape("qwen2", 24, 896, 14, 2, 64, 4864, 151936, 1e6),
    "llama-3.2-1b": Shape("llama", 16, 2048, 32, 8, 64, 8192, 128256, 5e5),
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 1e6),
    "smollm2-135m": Shape("llama", 30, 576, 9, 3, 64, 1536, 49152, 1e5),
    "qwen3-moe-small": Shape("qwen3moe", 12, 1024, 16, 4, 64, 384, 32000, 1e6, (32, 4)),
}


def tensors_of(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names in GGUF and sizes, rows first."""
    yield "token_embd.weight", (shape.vocabulary, shape.width)
    yield "output_norm.weight", (shape.width,)
    queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    for i in range(shape.layers):
        sizes: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (shape.width,), "ffn_norm.weight": (shape.width,),
            "attn_q.weight": (queries, shape.width), "attn_k.weight": (keys, shape.width),
            "attn_v.weight": (keys, shape.width), "attn_output.weight": (shape.width, queries),
        }  # fmt: skip
        if shape.architecture == "qwen2":
            sizes |= {"attn_q.bias": (queries,), "attn_k.bias": (keys,), "attn_v.bias": (keys,)}
        if shape.architecture.startswith("qwen3"):
            sizes |= {"attn_q_norm.weight": (shape.head,), "attn_k_norm.weight": (shape.head,)}
        wide, narrow, more = (shape.inner, shape.width), (shape.width, shape.inner), ""
        if count := shape.experts[0]:
            sizes["ffn_gate_inp.weight"] = (count, shape.width)
            wide, narrow, more = (count, *wide), (count, *narrow), "_exps"
        for name, size in (("gate", wide), ("up", wide), ("down", narrow)):
            sizes[f"ffn_{name}{more}.weight"] = size
        yield from ((f"blk.{i}.{name}", size) for name, size in sizes.items())


def metadata_of(shape: Shape, longest: int) -> dict[str, Any]:
    """What the file says of the model and its tokenizer."""
    characters = list(byte_characters())  # of the 256 bytes
    pairs = [(one, other) for one in characters for other in characters]
    pairs += [(one + other, third) for third in characters for one, other in pairs]
    merges = pairs[: shape.vocabulary - len(characters) - 1]
    tokens = [*characters, "<|end|>", *map("".join, merges)]
    more = {}
    if shape.experts[0]:
        counts = dict(zip(("expert_count", "expert_used_count"), shape.experts, strict=True))
        more = counts | {"expert_feed_forward_length": shape.inner}
    sizes = {
        "context_length": longest, "embedding_length": shape.width, "block_count": shape.layers,
        "feed_forward_length": shape.inner, "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads, "attention.key_length": shape.head,
        "attention.value_length": shape.head, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": shape.rope,
        "rope.dimension_count": shape.head, "vocab_size": shape.vocabulary, **more,
    }  # fmt: skip
    return {
        "general.architecture": shape.architecture, "general.name": "random", "general.file_type": 2,
        "general.quantization_version": 2, **{f"{shape.architecture}.{k}": v for k, v in sizes.items()},
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array([1] * 256 + [3] + [1] * len(merges), np.int32),
        "tokenizer.ggml.merges": list(map(" ".join, merges)), "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.eos_token_id": 256, "tokenizer.ggml.bos_token_id": 256,
    }  # fmt: skip


def blocks(rng: np.random.Generator, form: str, count: int) -> np.ndarray:
    """So many random blocks of a form, whose numbers have a standard deviation of about 0.02."""
    size = BLOCKS[form]
    if form == "q8_0":
        found = np.zeros(count, [("scale", "<f2"), ("codes", "i1", size)])
        found["codes"] = rng.integers(-127, 128, (count, size), np.int8)
        found["scale"] = 0.02 / 73 * rng.uniform(0.8, 1.2, count)
        return found
    if form in _RANDOM:
        found = np.zeros(count, [(name, kind, width) for name, kind, width in _RANDOM[form][0]])
        for name, kind, width in _RANDOM[form][0]:
            if kind == "<f2":
                found[name] = 0.02 / _RANDOM[form][1] * rng.uniform(0.8, 1.2, (count, width))
            else:
                found[name] = rng.integers(0, 256, (count, width), np.uint8)
        if form == "mxfp4":
            found["exponent"] = rng.integers(119, 122, (count, 1))  # a byte: two to the power of 127 less
        elif form == "q5_k":
            found["least"] = found["scale"] * np.float16(15.5)
        return found
    if form == "q4_k":  # scales and minima of 32 numbers each, in 6 bits, times those of the block
        found = np.zeros(count, [("scale", "<f2"), ("least", "<f2"), ("parts", "u1", 12), ("codes", "u1", size // 2)])
        found["parts"], found["codes"] = (rng.integers(0, 256, found[x].shape, np.uint8) for x in ("parts", "codes"))
        found["scale"] = 0.02 / 4.6 / 32 * rng.uniform(0.8, 1.2, count)
        found["least"] = found["scale"] * np.float16(7.5)
        return found
    fields = [("scale", "<f2")] + ([("least", "<f2")] if form == "q4_1" else [])
    found = np.zeros(count, [*fields, ("codes", "u1", size // 2)])
    found["codes"] = rng.integers(0, 256, (count, size // 2), np.uint8)
    found["scale"] = 0.02 / 4.6 * rng.uniform(0.8, 1.2, count)
    if form == "q4_1":
        found["least"] = found["scale"] * np.float16(-7.5)
    return found


def write(shape: Shape, path: Path, form: str = "q4_0", seed: int = 0, longest: int = 32768) -> None:
    """The file, tensor by tensor."""
    rng, chosen, head, at = np.random.default_rng(seed), [], b"", 0
    for name, size in tensors_of(shape):
        kind = None if len(size) == 1 or "gate_inp" in name else "q8_0" if name.startswith("token_embd") else form
        count = int(np.prod(size))
        nbytes = 4 * count if kind is None else count // BLOCKS[kind] * blocks(rng, kind, 1).nbytes
        head += _text(name) + struct.pack(f"<I{len(size)}Q", len(size), *reversed(size))
        head += struct.pack("<IQ", _F32 if kind is None else FORMS[kind], at)
        at += nbytes + -nbytes % _ALIGNED
        chosen.append((name, size, kind))
    told = metadata_of(shape, longest)
    words = b"".join(_text(name) + _value(value) for name, value in told.items())
    begin = b"GGUF" + struct.pack("<IQQ", 3, len(chosen), len(told)) + words + head
    with path.open("wb") as file:
        file.write(begin + bytes(-len(begin) % _ALIGNED))
        for name, size, kind in chosen:
            count = int(np.prod(size))
            if kind is not None:
                data = blocks(rng, kind, count // BLOCKS[kind]).tobytes()
            elif "norm" in name:
                data = np.ones(count, np.float32).tobytes()
            else:
                data = (rng.normal(size=count) * 0.02).astype(np.float32).tobytes()
            file.write(data + bytes(-len(data) % _ALIGNED))


def _text(string: str) -> bytes:
    return struct.pack("<Q", len(string.encode())) + string.encode()


def _value(item: Any) -> bytes:
    """A value of metadata behind the number of its type."""
    if isinstance(item, bool):
        return struct.pack("<IB", 7, item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, str):
        return struct.pack("<I", _STRING) + _text(item)
    if isinstance(item, np.ndarray):
        return struct.pack("<IIQ", _ARRAY, 5, item.size) + item.astype("<i4").tobytes()
    return struct.pack("<IIQ", _ARRAY, _STRING, len(item)) + b"".join(map(_text, item))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("file", type=Path)
    parser.add_argument("--form", choices=FORMS, default="q4_0")
    given = parser.parse_args()
    shape, block = SHAPES[given.shape], BLOCKS[given.form]
    if any(n % block for n in (shape.width, shape.heads * shape.head, shape.inner)):
        parser.error(f"rows of {given.shape} are not whole blocks of {block}, as in {given.form}; take another one")
    write(shape, given.file, given.form)


if __name__ == "__main__":
    main()
