"""Adapters of low rank for SmolLM2, trained here and by torch on a text, from the same numbers and in the same order.

python -m tests.llm.lora [--layers 30] [--steps 200] [--batch 4] [--length 64] [--threads 2]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

import MNN
from MNN.ir.quant import QuantizedArray
from MNN.llm.engine.opening import open_tensors
from MNN.llm.models.adapted.trained import TrainedAdapter
from MNN.llm.text import load_tokenizer
from MNN.llm.tuning import AdaptedModel
from tests import kept, zoo

RATE = 2e-3


@dataclass
class Size:
    layers: int = 30
    steps: int = 200
    batch: int = 4
    length: int = 64
    threads: int = 2


def tokens(size: Size) -> np.ndarray:
    """Pieces of Python's own manual, i32 ``[steps, batch, length + 1]``; every epoch has a hundred pieces."""
    text = " ".join(" ".join(topics[name].split()) for name in sorted(topics))
    found = load_tokenizer(zoo.path("smollm2_gguf")).encode(text[: 600 * size.length])
    pieces = np.array(found[: 100 * (size.length + 1)], np.int32).reshape(100, size.length + 1)
    return pieces[np.arange(size.steps * size.batch) % 100].reshape(size.steps, size.batch, -1)


def model(size: Size) -> AdaptedModel:
    """With as many of its layers."""
    opened = open_tensors(zoo.path("smollm2_gguf"))
    config = {**opened.config, "num_hidden_layers": size.layers}
    return AdaptedModel(config, opened.weights(), TrainedAdapter(8, 16.0, ("q_proj", "v_proj", "down_proj")), 3)


def trained(net: AdaptedModel, size: Size) -> list[float]:
    """Losses of all steps."""
    text = tokens(size)
    data = MNN.data.ArrayDataset(*(part.reshape(-1, size.length) for part in (text[..., :-1], text[..., 1:])))
    optimizer = MNN.optim.AdamW(net, RATE, weight_decay=0.01, threads=size.threads)
    loader = MNN.data.DataLoader(data, size.batch, shuffle=False)
    return MNN.train.fit(net, loader, 1, optimizer=optimizer, metrics=[], progress=False).losses


def by_torch(net: AdaptedModel, size: Size, folder: Path) -> list[float]:
    """The same of torch, beginning with the pairs that the model has now."""
    opened = open_tensors(zoo.path("smollm2_gguf"))
    weights, arrays = opened.weights(), {}
    names = ["model.embed_tokens", "model.norm"]
    for i in range(size.layers):
        at = f"model.layers.{i}"
        names += [f"{at}.self_attn.{kind}_proj" for kind in "qkvo"] + [
            f"{at}.mlp.{k}_proj" for k in ("gate", "up", "down")
        ]
        names += [f"{at}.input_layernorm", f"{at}.post_attention_layernorm"]
    for name in names:
        data = weights[f"{name}.weight"]
        arrays[f"w/{name}.weight"] = data.dequantize() if isinstance(data, QuantizedArray) else data
    arrays |= {f"p/{name}": v.read() for name, v in net.named_parameters().items()}
    config = {**opened.config, "num_hidden_layers": size.layers, "scale": 2.0, "rate": RATE, "threads": size.threads}
    arrays["config"] = np.frombuffer(json.dumps(config, default=str).encode(), np.uint8)
    np.savez(folder / "given.npz", **arrays, tokens=tokens(size))
    files = [str(folder / name) for name in ("given.npz", "losses.npz")]
    kept.torch("tests.llm.torch_lora", folder, *files)
    with np.load(files[1]) as found:
        return list(found["losses"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in asdict(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    size = Size(**vars(parser.parse_args()))
    net = model(size)
    with tempfile.TemporaryDirectory() as folder:
        theirs = np.array(by_torch(net, size, Path(folder)))
    own = np.array(trained(net, size))
    print(f"largest difference: {100 * np.abs(own / theirs - 1).max():.3f} %")
    for step in range(0, size.steps, max(size.steps // 20, 1)):
        print(f"step {step}: {own[step]:.5f}, torch {theirs[step]:.5f}")


if __name__ == "__main__":
    main()
