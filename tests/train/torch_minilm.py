"""Runs where torch is: ``torch_minilm.py WEIGHTS.safetensors GIVEN.npz RESULTS.npz``, in the repository's folder.

MiniLM with a new last layer, tuned by AdamW; writes the losses of all steps."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from benchmarks.export_trained import minilm
from tests.train.torch_steps import steps


def main(weights, source, target):
    body = minilm(Path(weights))
    with np.load(source) as given:
        words, mask, labels = (torch.from_numpy(given[name]).long() for name in ("words", "mask", "labels"))
        head = [torch.nn.Parameter(torch.from_numpy(given[name])) for name in ("weight", "bias")]
        torch.set_num_threads(int(given["threads"]))
        rate = float(given["rate"])
    optimizer = torch.optim.AdamW([*body.parameters(), *head], rate, weight_decay=0.01)

    def loss(k):
        states = body(words[k], mask[k], torch.zeros_like(words[k]))
        states = states[0] if isinstance(states, tuple) else states
        seen = mask[k][..., None].float()
        mean = (states * seen).sum(1) / seen.sum(1)
        return functional.cross_entropy(functional.linear(mean, *head), labels[k])

    losses = steps(optimizer, (partial(loss, k) for k in range(len(words))))
    np.savez(target, losses=np.array(list(losses)))


if __name__ == "__main__":
    main(*sys.argv[1:])
