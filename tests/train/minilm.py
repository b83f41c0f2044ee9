"""MiniLM, loaded from its ONNX file and tuned to tell sentences of two chapters of Python's manual apart, here and by
torch, from the same weights and in the same order.

    python -m tests.train.minilm [--steps 200] [--batch 16] [--length 32] [--threads 2]
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

import MNN
from tests import kept, zoo
from tests.models.tasks.minilm import batch

CHAPTERS = ("debugger", "string-methods")
RATE = 3e-5
F, nn = MNN.expr, MNN.nn


@dataclass
class Size:
    steps: int = 200
    batch: int = 16
    length: int = 32
    threads: int = 2


def sentences(size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words and which of them are none of padding ``[count, length]``, and the chapters ``[count]``, in some order."""
    texts = [[s for s in " ".join(topics[name].split()).split(". ") if 40 < len(s) < 200] for name in CHAPTERS]
    count = min(map(len, texts))
    given = batch(*(text for chapter in texts for text in chapter[:count]))
    order = np.random.default_rng(2).permutation(2 * count)
    words, mask = (given[name][order, : size.length].astype(np.int32) for name in ("input_ids", "attention_mask"))
    return words, mask, (order >= count).astype(np.int32)


class Classifier(nn.Module):
    """The mean of the states of a sentence's words, and a layer on it."""

    def __init__(self) -> None:
        super().__init__()
        tensors = F.load_as_dict(str(zoo.path("minilm")))
        inputs = [tensors[name] for name in ("input_ids", "attention_mask", "token_type_ids")]
        self.body = nn.load_module(inputs, [tensors["last_hidden_state"]], True)
        self.head = nn.linear(384, 2)

    def forward(self, x: list[F.Var]) -> F.Var:
        words, mask = x
        (states,) = self.body([words, mask, mask - mask])
        seen = F.unsqueeze(F.cast(mask, F.float), [2])
        return self.head(F.reduce_sum(states * seen, [1]) / F.reduce_sum(seen, [1]))


def curves(size: Size, folder: Path) -> tuple[np.ndarray, np.ndarray, Classifier]:
    """Our losses and torch's of all steps, and our network."""
    nn.seed(5)
    model = Classifier()
    rows = sentences(size)
    order = np.arange(size.steps * size.batch) % (len(rows[0]) // size.batch * size.batch)
    words, mask, labels = (a[order] for a in rows)
    parts = [a.reshape(size.steps, size.batch, *a.shape[1:]) for a in (words, mask, labels)]
    head = {"weight": model.head.weight.read(), "bias": model.head.bias.read()}
    data = dict(zip(("words", "mask", "labels"), parts, strict=True))
    np.savez(folder / "given.npz", **data, **head, threads=size.threads, rate=RATE)
    files = [str(folder / name) for name in ("given.npz", "losses.npz")]
    kept.torch("tests.train.torch_minilm", folder, str(zoo.path("minilm_weights")), *files)
    with np.load(files[1]) as found:
        theirs = found["losses"]
    optimizer = MNN.optim.AdamW(model, RATE, threads=size.threads)
    loader = MNN.data.DataLoader(MNN.data.ArrayDataset([words, mask], labels), size.batch, shuffle=False)
    history = MNN.train.fit(model, loader, 1, optimizer=optimizer, progress=False)
    return np.array(history.losses), theirs, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in asdict(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    size = Size(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        own, theirs, _ = curves(size, Path(folder))
    error = np.abs(own - theirs) / np.maximum(theirs, 0.01 * theirs[0])
    print(f"largest difference: {100 * error.max():.3f} %")
    for step in range(0, size.steps, max(size.steps // 20, 1)):
        print(f"step {step}: {own[step]:.5f}, torch {theirs[step]:.5f}")


if __name__ == "__main__":
    main()
