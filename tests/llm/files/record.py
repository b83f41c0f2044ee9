"""What the ``gguf`` package computes for random blocks and for a trained model: recorded for the tests, or compared.

    python -m tests.llm.files.record                  # writes tests/llm/files/recorded.json anew
    python -m tests.llm.files.record --compare 200    # that many sets of blocks of every kind, against this engine

Needs the package ``gguf`` (0.19 recorded what is there now) beside what this package needs, and ``GGML``, the path of
llama.cpp's ``libggml-base``, for kinds that the package does not know. ``--codebooks`` writes those of the I-quants.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
from pathlib import Path
from typing import Any

import gguf
import numpy as np

import MNN
from MNN.llm.files.gguf.architectures import ARCHITECTURES
from MNN.llm.files.gguf.blocks import KINDS, BlockKind
from tests import zoo
from tests.llm.files.blocks import digest, random_blocks, read
from tests.llm.files.modules import LAYER, modules

HERE = Path(__file__).parent
SEEDS = 3


class Traits(ctypes.Structure):
    """The beginning of ``ggml_type_traits`` (ggml.h)."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int64),
        ("interleaved", ctypes.c_int64),
        ("bytes", ctypes.c_size_t),
        ("quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
    )


def traits(kind: BlockKind) -> Any:
    library = ctypes.CDLL(os.environ["GGML"])
    library.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    return library.ggml_get_type_traits(kind.code).contents


def theirs(name: str, raw: np.ndarray) -> np.ndarray:
    kind = next((kind for kind in KINDS.values() if kind.name == name), None)
    if kind is not None and not hasattr(gguf.quants, name):
        raw = np.ascontiguousarray(raw)
        out = np.empty((len(raw), raw.shape[1] // kind.bytes * kind.size), np.float32)
        traits(kind).to_float(raw.ctypes.data, out.ctypes.data, out.size)
        return out
    with np.errstate(all="ignore"):
        return np.asarray(gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[name]), np.float32)


def codebooks() -> None:
    """The entries of each kind's codebook, as small integers."""
    found = {}
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"):
        kind = getattr(gguf.quants, name)
        kind.init_grid()
        found["IQ1" if name == "IQ1_S" else name] = kind.grid.reshape(kind.grid_shape).astype(np.int8)
    np.savez_compressed(Path(MNN.__file__).parent / "assets" / "gguf_codebooks.npz", **found)


def smollm2() -> dict[str, Any]:
    """Names, shapes and numbers of the tensors of a trained model, in the file's own names and order."""
    reader = gguf.GGUFReader(str(zoo.path("smollm2_gguf")))
    found = {}
    for tensor in reader.tensors:
        numbers = theirs(tensor.tensor_type.name, tensor.data)
        shape = [int(n) for n in reversed(tensor.shape)]
        found[tensor.name] = [tensor.tensor_type.name, shape, digest(numbers)]
    return found


def _converted(architecture: str, module: str) -> str:
    """What llama.cpp's converter calls a module before it asks for the name."""
    if architecture == "bitnet":  # as 1bitLLM's models have it
        return module.replace("attn_sub_norm", "inner_attn_ln").replace("ffn_sub_norm", "ffn_layernorm")
    if architecture == "dbrx":  # whose checkpoints have all experts in one tensor
        for ours, theirs in (("gate_proj", "w1"), ("up_proj", "v1"), ("down_proj", "w2")):
            module = module.replace(f".experts.{ours}", f".experts.mlp.{theirs}")
    if architecture != "lfm2moe":
        return module
    for ours, theirs in (("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj")):
        module = module.replace(f".experts.{ours}", f".experts.{theirs}")
    return module.replace("feed_forward.expert", "feed_forward.expert_bias") if module.endswith(".expert") else module


def names() -> dict[str, dict[str, str | None]]:
    """By architecture: what the package calls the modules that this engine names."""
    labels = {label: arch for arch, label in gguf.MODEL_ARCH_NAMES.items()}
    found: dict[str, dict[str, str | None]] = {}
    for name in ARCHITECTURES:
        table = gguf.get_tensor_name_map(labels["llama" if name == "mixtral" else name], LAYER + 1)
        found[name] = {module: table.get_name(_converted(name, module)) for module in modules(name).values()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=int, default=0)
    parser.add_argument("--codebooks", action="store_true")
    options = parser.parse_args()
    if options.codebooks:
        codebooks()
        return
    if options.compare:
        for seed in range(options.compare):
            for kind in KINDS.values():
                raw = random_blocks(kind, seed)
                assert np.array_equal(read(kind, raw).numpy(), theirs(kind.name, raw), equal_nan=True), (kind, seed)
        print(f"{options.compare} sets of blocks of {len(KINDS)} kinds agree")
        return
    blocks = {
        kind.name: [digest(theirs(kind.name, random_blocks(kind, seed))) for seed in range(SEEDS)]
        for kind in KINDS.values()
    }
    sizes = {kind.name: [int(kind), *gguf.GGML_QUANT_SIZES[kind]] for kind in gguf.GGMLQuantizationType}
    for kind in KINDS.values():
        if kind.name not in sizes:
            sizes[kind.name] = [kind.code, traits(kind).size, traits(kind).bytes]
    recorded = {"sizes": sizes, "blocks": blocks, "smollm2": smollm2(), "names": names()}
    (HERE / "recorded.json").write_text(json.dumps(recorded, indent=None) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
