"""Runs where torch is: ``python -m tests.train.torch_curves GIVEN.npz RESULTS.npz``.

Trains the networks of ``test_curves`` from weights that are given, in fp32 and by autocast to bf16, and writes the
losses of all steps; the one of pictures also from other batches on, and as quantisation-aware training has it."""

import sys
from functools import partial

import numpy as np
import torch
from torch.nn import functional

from tests.train.torch_steps import steps

torch.set_num_threads(1)


def parameters(given, prefix):
    names = sorted((n for n in given.files if n.startswith(prefix + "/w")), key=lambda n: int(n.split("/w")[1]))
    return [torch.nn.Parameter(torch.from_numpy(given[n].copy())) for n in names]


def cnn(given, low, quantized=False, begin=0):
    """``begin``: the batch that comes first. ``quantized``: the convolutions see numbers in the steps of 8 bits, with
    straight-through gradients."""

    def convolution(x, w, b):
        if quantized:
            scales = w.detach().abs().amax((1, 2, 3)) / 127
            w = torch.fake_quantize_per_channel_affine(w, scales, torch.zeros(len(w), dtype=torch.int32), 0, -127, 127)
            low, high = min(x.min().item(), 0.0), max(x.max().item(), 0.0)
            scale = (high - low) / 254
            x = torch.fake_quantize_per_tensor_affine(x, scale, round(-low / scale - 127), -127, 127)
        return functional.conv2d(x, w, b, padding=1)

    p = parameters(given, "cnn")
    mean, variance = torch.zeros(8), torch.ones(8)
    optimizer = torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-4)
    x, y = (torch.from_numpy(np.roll(given[f"cnn/{name}"], -begin, 0)) for name in "xy")

    def loss(k):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            h = convolution(x[k], p[0], p[1])
            h = functional.relu(functional.batch_norm(h, mean, variance, p[2], p[3], True, 0.01, 1e-5))
            h = functional.max_pool2d(functional.relu(convolution(h, p[4], p[5])), 2)
            return functional.cross_entropy(functional.linear(h.flatten(1), p[6], p[7]).float(), y[k])

    return steps(optimizer, (partial(loss, k) for k in range(len(x))))


def block(h, p):
    def heads(t):
        return t.reshape(*t.shape[:2], 2, -1).transpose(1, 2)

    n = functional.layer_norm(h, h.shape[-1:], p[0], p[1], 1e-5)
    q, k, v = (heads(functional.linear(n, w)) for w in p[2:5])
    score = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    mask = torch.full(score.shape[2:], -1e9).triu(1)
    mixed = (torch.softmax(score + mask, -1) @ v).transpose(1, 2).reshape(h.shape)
    h = h + functional.linear(mixed, p[5])
    n = functional.layer_norm(h, h.shape[-1:], p[6], p[7], 1e-5)
    return h + functional.linear(functional.gelu(functional.linear(n, p[8], p[9])), p[10], p[11])


def language(given, low):
    p = parameters(given, "language")
    optimizer = torch.optim.AdamW(p, 3e-3, weight_decay=0.01)
    x = torch.from_numpy(given["language/x"]).long()

    def loss(k):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            h = p[0][x[k, :, :-1]] + p[1]
            h = block(block(h, p[2:14]), p[14:26])
            logits = functional.linear(functional.layer_norm(h, h.shape[-1:], p[26], p[27], 1e-5), p[28])
            return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), x[k, :, 1:].reshape(-1))

    return steps(optimizer, (partial(loss, k) for k in range(len(x))))


def main(source, target):
    with np.load(source) as given:
        kinds = {"cnn": cnn, "language": language}
        exact = {name: np.array(list(make(given, False))) for name, make in kinds.items()}
        low = {f"{name}_low": np.array(list(make(given, True))) for name, make in kinds.items()}
        runs = {
            f"run{begin}{kind}": np.array(list(cnn(given, bool(kind), begin=begin)))
            for begin in given["begins"]
            for kind in ("", "_low")
        }
        np.savez(target, **exact, **low, **runs, quantized=np.array(list(cnn(given, False, True))))


if __name__ == "__main__":
    main(*sys.argv[1:])
