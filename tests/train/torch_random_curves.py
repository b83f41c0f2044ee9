"""Runs where torch is: ``python -m tests.train.torch_random_curves OUT FIRST COUNT``.

For each seed a small network with its loss, drawn (``OUT-SEED.pt2``), and what torch makes of it in 50 steps of a drawn
optimizer (``OUT-SEED.npz``: batches, losses in float32 and float64; ``OUT-SEED.json``: settings)."""

from __future__ import annotations

import json
import os
import random
import sys
import warnings

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as f

STEPS, BATCHES, CLASSES, WORDS = 50, 7, 5, 23
ACTIVATIONS = (nn.ReLU, nn.GELU, nn.SiLU, nn.ELU, nn.Tanh, nn.Softplus, nn.LeakyReLU, nn.Hardswish, nn.PReLU, nn.ReLU6)


def norm(r: random.Random, axes: int, channels: int, sizes: list[int]) -> nn.Module:
    batch, instance = getattr(nn, f"BatchNorm{axes}d"), getattr(nn, f"InstanceNorm{axes}d")
    kind = r.choice(["batch", "batch", "group", "instance", "layer", "none"])
    if kind == "layer":
        return nn.LayerNorm([channels, *sizes])
    groups = r.choice([n for n in (1, 2, 3, 4) if channels % n == 0])
    return {
        "batch": lambda: batch(channels), "group": lambda: nn.GroupNorm(groups, channels),
        "instance": lambda: instance(channels, affine=True), "none": nn.Identity,
    }[kind]()  # fmt: skip


class Convolutions(nn.Module):
    """Of one to three axes, with groups, dilation, strides and transposed ones."""

    def __init__(self, r: random.Random) -> None:
        super().__init__()
        self.axes = r.choice([1, 2, 2, 3])
        channels, sizes = (
            r.choice([1, 2, 3, 6]),
            [r.randint(5, {1: 24, 2: 14, 3: 8}[self.axes]) for _ in range(self.axes)],
        )
        self.shape = (r.choice([2, 4, 7]), channels, *sizes)
        layers: list[nn.Module] = []
        x = torch.zeros(1, channels, *sizes)
        for _ in range(r.randint(1, 3)):
            groups = r.choice([n for n in (1, 1, 2, 3, channels) if channels % n == 0])
            out, kernel, stride = groups * r.randint(1, 5), r.choice([1, 2, 3, 5]), r.choice([1, 1, 2])
            bias, dilation = r.random() < 0.6, r.choice([1, 1, 2])
            if r.random() < 0.25:
                made = getattr(nn, f"ConvTranspose{self.axes}d")(
                    channels, out, kernel, stride, 0, 0, groups, bias, dilation
                )
            else:
                pad, mode = dilation * (kernel - 1) // 2, r.choice(["zeros", "zeros", "replicate"])
                made = getattr(nn, f"Conv{self.axes}d")(
                    channels, out, kernel, stride, pad, dilation, groups, bias, padding_mode=mode
                )
            x, channels = made(x), out
            layers += [made, norm(r, self.axes, out, list(x.shape[2:])), r.choice(ACTIVATIONS)()]
            if min(x.shape[2:]) > 3 and r.random() < 0.4:
                layers.append(r.choice([getattr(nn, f"{k}Pool{self.axes}d") for k in ("Max", "Avg")])(2))
                x = layers[-1](x)
        self.layers = nn.Sequential(*layers)
        self.last = nn.Linear(channels if r.random() < 0.5 else x[0].numel(), CLASSES)

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        return [rng.normal(size=(BATCHES, *self.shape)).astype(np.float32)]

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x)
        whole = self.last.in_features == x[0].numel()
        return self.last(x.flatten(1) if whole else x.flatten(2).mean(2))


class Perceptron(nn.Module):
    """A layer that is used twice, dropout by a mask that is given, a parameter in a function."""

    def __init__(self, r: random.Random) -> None:
        super().__init__()
        self.width, self.given, self.rows = r.choice([5, 16, 33]), r.choice([3, 11, 24]), r.choice([1, 4, 9])
        self.first, self.shared = nn.Linear(self.given, self.width), nn.Linear(self.width, self.width, r.random() < 0.5)
        self.norm = r.choice([nn.LayerNorm(self.width), nn.RMSNorm(self.width), nn.Identity()])
        self.scale, self.activation = nn.Parameter(torch.rand(self.width) + 0.5), r.choice(ACTIVATIONS)()
        self.last, self.tied = nn.Linear(self.width, CLASSES), r.random() < 0.5

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        mask = (rng.random((BATCHES, self.rows, self.width)) < 0.7) / np.float32(0.7)
        return [rng.normal(size=(BATCHES, self.rows, self.given)).astype(np.float32), mask.astype(np.float32)]

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        h = self.activation(self.first(x)) * mask
        h = h + self.activation(self.shared(self.norm(h))) * self.scale
        h = self.shared(h) if self.tied else h
        return self.last(h)


class Words(nn.Module):
    """Sequences of tokens, some of them padding; the embedding may be the last layer too."""

    def __init__(self, r: random.Random) -> None:
        super().__init__()
        self.width, self.count, self.rows = r.choice([8, 12, 20]), r.randint(3, 9), r.choice([2, 5])
        self.words = nn.Embedding(WORDS, self.width, padding_idx=r.choice([None, 0, 0, WORDS - 1]))
        self.kind = r.choice(["lstm", "gru", "rnn", "attention", "encoder", "lines", "bag"])
        both, deep = r.random() < 0.5, r.choice([1, 1, 2])
        out = self.width
        if self.kind in ("lstm", "gru", "rnn"):
            made = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[self.kind]
            self.body: nn.Module = made(self.width, self.width, deep, batch_first=True, bidirectional=both)
            out = self.width * (1 + both)
        elif self.kind == "attention":
            self.body = nn.MultiheadAttention(self.width, r.choice([1, 2, 4]), batch_first=True)
        elif self.kind == "encoder":
            self.body = nn.TransformerEncoderLayer(
                self.width, 2, 2 * self.width, 0.0, r.choice(["relu", "gelu"]), batch_first=True, norm_first=both
            )
        else:
            self.body = nn.Conv1d(self.width, self.width, 3, padding=1)
        self.out = nn.Linear(out, self.width)
        self.whole, self.tied = r.random() < 0.5, r.random() < 0.5
        self.last = nn.Linear(self.width, CLASSES)

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        x = rng.integers(0, WORDS, (BATCHES, self.rows, self.count))
        x[rng.random(x.shape) < 0.2] = self.words.padding_idx or 0
        return [x]

    def forward(self, x: Tensor) -> Tensor:
        h = self.words(x)
        if self.kind == "attention":
            y = h + self.body(h, h, h, need_weights=False)[0]
        elif self.kind == "encoder":
            y = self.body(h)
        elif self.kind in ("lines", "bag"):
            y = self.body(h.transpose(1, 2)).relu().transpose(1, 2)
        else:
            y = self.body(h)[0]
        y = torch.tanh(self.out(y))
        if self.tied:  # the next token at each place
            return f.linear(y, self.words.weight).flatten(0, 1)
        return self.last(y.amax(1) if self.whole else y.mean(1))


class WithLoss(nn.Module):
    """A network and its loss of classes or numbers."""

    def __init__(self, net: nn.Module, kind: str, classes: int, r: random.Random) -> None:
        super().__init__()
        self.net, self.kind = net, kind
        self.weight = torch.rand(classes) + 0.2 if r.random() < 0.3 else None
        self.ignore, self.smooth = r.choice([-100, 1]), r.choice([0.0, 0.0, 0.1])
        self.reduction, self.near = r.choice(["mean", "mean", "sum"]), r.choice([0.5, 1.0])

    def forward(self, *given: Tensor) -> Tensor:
        y, target = self.net(*given[:-1]), given[-1]
        more = {"reduction": self.reduction}
        hot = f.one_hot(target, y.shape[1]).to(y.dtype)
        weight = None if self.weight is None else self.weight.to(y.dtype)
        if self.kind == "classes":
            return f.cross_entropy(y, target, weight, ignore_index=self.ignore, label_smoothing=self.smooth, **more)
        if self.kind == "likelihood":
            return f.nll_loss(f.log_softmax(y, 1), target, weight, ignore_index=self.ignore, **more)
        if self.kind == "shares":
            return f.cross_entropy(y, hot * 0.8 + 0.2 / y.shape[1], **more)
        if self.kind == "logits":
            return f.binary_cross_entropy_with_logits(y, hot, weight, **more)
        if self.kind == "probabilities":
            return f.binary_cross_entropy(torch.sigmoid(y), hot, **more)
        if self.kind == "margins":
            return f.multi_margin_loss(y, target, margin=self.near, **more)
        if self.kind == "divergence":
            return f.kl_div(f.log_softmax(y, 1), hot * 0.8 + 0.2 / y.shape[1], reduction="batchmean")
        name = {"squares": "mse_loss", "sizes": "l1_loss", "huber": "huber_loss", "smooth": "smooth_l1_loss"}[self.kind]
        return getattr(f, name)(y, hot, **more)


LOSSES = (
    "classes", "classes", "likelihood", "shares", "logits", "probabilities", "margins", "divergence", "squares",
    "sizes", "huber", "smooth",
)  # fmt: skip


def settings(r: random.Random) -> dict:
    kind = r.choice(["SGD", "SGD", "ADAM", "AdamW", "RMSprop"])
    momentum = r.choice([0.0, 0.9])
    return {
        "kind": kind, "rate": {"SGD": 0.02, "RMSprop": 1e-3}.get(kind, 2e-3) * r.uniform(0.5, 1.5),
        "momentum": momentum, "decay": r.choice([0.0, 0.0, 0.02]), "nesterov": momentum > 0 and r.random() < 0.3,
        "clip": r.choice([0.0, 0.0, 0.5]), "accumulate": r.choice([1, 1, 2]),
        # MNN's momentum has the rate in it
        "schedule": r.random() < 0.3 and not (kind in ("SGD", "RMSprop") and momentum),
    }  # fmt: skip


def optimizer(s: dict, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if s["kind"] == "SGD":
        return torch.optim.SGD(parameters, s["rate"], s["momentum"], 0, s["decay"], s["nesterov"])
    if s["kind"] == "RMSprop":
        return torch.optim.RMSprop(parameters, s["rate"], 0.99, 1e-5, s["decay"], s["momentum"])
    if s["kind"] == "ADAM":  # which adds epsilon to another root here, so that it must be small
        return torch.optim.Adam(parameters, s["rate"], (0.9, 0.99), 1e-14, s["decay"])
    return torch.optim.AdamW(parameters, s["rate"], (0.9, 0.99), 1e-5, s["decay"])


def trained(module: nn.Module, s: dict, given: list[np.ndarray], wide: bool) -> list[float]:
    module.train()
    made = optimizer(s, [p for p in module.parameters() if p.requires_grad])
    schedule = torch.optim.lr_scheduler.StepLR(made, 10, 0.7) if s["schedule"] else None
    losses = []
    for step in range(STEPS):
        operands = [torch.from_numpy(a[step % BATCHES]) for a in given]
        loss = module(*(t.double() if wide and t.is_floating_point() else t for t in operands))
        (loss / s["accumulate"]).backward()
        losses.append(loss.item())
        if (step + 1) % s["accumulate"] == 0:
            if s["clip"]:
                nn.utils.clip_grad_norm_(module.parameters(), s["clip"])
            made.step()
            made.zero_grad()
            if schedule is not None:
                schedule.step()
    return losses


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for seed in range(first, first + count):
        r, rng = random.Random(seed), np.random.default_rng(seed)
        torch.manual_seed(seed)
        net = (Convolutions, Perceptron, Words)[seed % 3](r)
        given = net.batches(rng)
        try:
            answer = net(*(torch.from_numpy(a[0]) for a in given))
        except (RuntimeError, ValueError):  # nothing is left of the image, or one number to be normalised
            continue
        given.append(rng.integers(0, answer.shape[1], (BATCHES, len(answer))))
        for name, p in net.named_parameters():
            if "bias_hh" in name and getattr(net, "kind", "") != "gru":  # biases that are one parameter here
                nn.init.zeros_(p).requires_grad_(False)
        module, chosen = WithLoss(net, r.choice(LOSSES), answer.shape[1], r), settings(r)
        example = tuple(torch.from_numpy(a[0]) for a in given)
        module.eval()
        torch.export.save(torch.export.export(module, example), f"{out}-{seed}.pt2")
        begin = {k: v.clone() for k, v in module.state_dict().items()}
        rough = trained(module, chosen, given, False)
        free = [p for p in module.parameters() if p.requires_grad]
        parameters = {f"p{i}": p.detach().numpy().copy() for i, p in enumerate(free)}
        module.load_state_dict(begin)
        parameters |= {f"b{i}": p.detach().numpy().copy() for i, p in enumerate(free)}
        exact = trained(module.double(), chosen, given, True)
        parameters |= {f"e{i}": p.detach().numpy() for i, p in enumerate(free)}
        arrays = {f"x{i}": a for i, a in enumerate(given)}
        if not np.isfinite(exact).all():  # a batch of which all targets are ignored
            os.unlink(f"{out}-{seed}.pt2")
            continue
        np.savez(f"{out}-{seed}.npz", rough=rough, exact=exact, **arrays, **parameters)
        chosen["what"] = f"{type(net).__name__} {module.kind} {getattr(net, 'kind', '')}"
        with open(f"{out}-{seed}.json", "w") as file:
            json.dump(chosen, file)


if __name__ == "__main__":
    main()
