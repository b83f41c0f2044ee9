"""Runs where torch is: ``python -m tests.train.torch_random_curves OUT FIRST COUNT``.

For each seed a small network with its loss, drawn (``OUT-SEED.pt2``), and what torch makes of it in 50 steps of a drawn
optimizer (``OUT-SEED.npz``: batches, losses in float32 and float64, and how far losses and parameters go apart where
the first weights differ by a rounding; ``OUT-SEED.json``: settings).

Some networks are chaotic: where two numbers of a pooling's window are equal but for rounding, or one lies at a kink,
rounding decides which of two ways training goes. Seed 144 is one: of twelve trainings of torch in float64, from weights
that differ by 2e-7, one is 2e-3 off after 16 steps, as this engine was. How far that leads is measured, not assumed:
torch in float64 is trained again from weights that differ in the sixth digit behind the point."""

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

from tests.train.torch_optimizers import Lion

STEPS, BATCHES, CLASSES, WORDS = 50, 7, 5, 23
NEARBY, ROUNDING = 6, 1e-6
"""Trainings from other weights, and how large the difference is."""
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
    kind = r.choice(["SGD", "SGD", "ADAM", "AdamW", "RMSprop", "Lion"])
    momentum = r.choice([0.0, 0.9])
    return {
        "kind": kind, "rate": {"SGD": 0.02, "RMSprop": 1e-3, "Lion": 3e-4}.get(kind, 2e-3) * r.uniform(0.5, 1.5),
        "momentum": momentum, "decay": r.choice([0.0, 0.0, 0.02]), "nesterov": momentum > 0 and r.random() < 0.3,
        "clip": r.choice([0.0, 0.0, 0.5]), "clip_value": r.choice([0.0, 0.0, 0.02]),
        "accumulate": r.choice([1, 1, 2, 3]), "pull": r.choice(["L2", "L2", "L1", "L1L2"]),
        "factor": r.choice([0.0, 0.3, 2.0]), "own_decay": r.choice([None, 0.0, 0.05]), "grouped": r.random() < 0.4,
        # MNN's momentum has the rate in it
        "schedule": r.random() < 0.3 and not (kind in ("SGD", "RMSprop") and momentum),
    }  # fmt: skip


def optimizer(s: dict, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    own, rate = s["group"], s["rate"]
    lines = [
        {"params": [p for i, p in enumerate(parameters) if i not in own], "weight_decay": s["decay"]},
        {"params": [parameters[i] for i in own], "weight_decay": decay(s, True), "lr": s["factor"] * rate},
    ]
    given = [line | {"weight_decay": 0.0} if pulls(s) else line for line in lines if line["params"]]
    if s["kind"] == "SGD":
        return torch.optim.SGD(given, rate, s["momentum"], nesterov=s["nesterov"])
    if s["kind"] == "Lion":
        return Lion(given, rate, (0.9, 0.99), 0.0)
    if s["kind"] == "RMSprop":
        return torch.optim.RMSprop(given, rate, 0.99, 1e-5, momentum=s["momentum"])
    if s["kind"] == "ADAM":  # which adds epsilon to another root here, so that it must be small
        return torch.optim.Adam(given, rate, (0.9, 0.99), 1e-14)
    return torch.optim.AdamW(given, rate, (0.9, 0.99), 1e-5)


def pulls(s: dict) -> bool:
    """Whether the decay is one that torch's optimizers lack."""
    return s["kind"] in ("SGD", "ADAM") and s["pull"] != "L2"


def decay(s: dict, grouped: bool) -> float:
    return s["own_decay"] if grouped and s["own_decay"] is not None else s["decay"]


def pull(s: dict, parameters: list[nn.Parameter]) -> None:
    """Adds the gradient of such a decay."""
    if pulls(s):
        for i, p in enumerate(parameters):
            if p.grad is not None:
                p.grad += decay(s, i in s["group"]) * (p.detach().sign() + (p.detach() if s["pull"] == "L1L2" else 0))


def trained(module: nn.Module, s: dict, given: list[np.ndarray], wide: bool) -> list[float]:
    module.train()
    free = [p for p in module.parameters() if p.requires_grad]
    made = optimizer(s, free)
    schedule = torch.optim.lr_scheduler.StepLR(made, 10, 0.7) if s["schedule"] else None
    losses = []
    for step in range(STEPS):
        operands = [torch.from_numpy(a[step % BATCHES]) for a in given]
        loss = module(*(t.double() if wide and t.is_floating_point() else t for t in operands))
        (loss / s["accumulate"]).backward()
        losses.append(loss.item())
        if (step + 1) % s["accumulate"] == 0:
            if s["clip_value"]:
                nn.utils.clip_grad_value_(module.parameters(), s["clip_value"])
            if s["clip"]:
                nn.utils.clip_grad_norm_(module.parameters(), s["clip"])
            pull(s, free)
            made.step()
            made.zero_grad()
            if schedule is not None:
                schedule.step()
    return losses


def nearby(module: nn.Module, s: dict, given: list[np.ndarray], begin: dict, exact: list[float]) -> dict:
    """How far losses, and each parameter at the end, go at most from where they went, in float64."""
    ends = [p.detach().clone() for p in module.parameters() if p.requires_grad]
    losses, apart = np.zeros(STEPS), [0.0] * len(ends)
    for _ in range(NEARBY):
        module.load_state_dict(begin)
        with torch.no_grad():
            for p in module.parameters():
                p.mul_(1 + ROUNDING * torch.randn_like(p))
        losses = np.maximum(losses, np.abs(np.asarray(trained(module, s, given, True)) - exact))
        free = [p.detach() for p in module.parameters() if p.requires_grad]
        found = [
            float((p.flatten().sort()[0] - e.flatten().sort()[0]).abs().max()) for p, e in zip(free, ends, strict=True)
        ]
        apart = [max(a, b) for a, b in zip(apart, found, strict=True)]
    return {"nearby": losses, "apart": np.asarray(apart)}


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
        free = [p for p in module.parameters() if p.requires_grad]
        # those that are found again by their numbers: gates of recurrent layers stand in another order here
        slopes = torch.autograd.grad(module(*(torch.from_numpy(a[0]) for a in given)), free, allow_unused=True)
        plain = getattr(net, "kind", "") not in ("lstm", "gru", "rnn")
        known = [i for i, p in enumerate(free) if plain and p.dim() > 1 and slopes[i] is not None]
        chosen["group"] = r.sample(known, (len(known) + 1) // 2) if chosen["grouped"] else []
        rough = trained(module, chosen, given, False)
        parameters = {f"p{i}": p.detach().numpy().copy() for i, p in enumerate(free)}
        module.load_state_dict(begin)
        parameters |= {f"b{i}": p.detach().numpy().copy() for i, p in enumerate(free)}
        exact = trained(module.double(), chosen, given, True)
        parameters |= {f"e{i}": p.detach().numpy() for i, p in enumerate(free)}
        arrays = {f"x{i}": a for i, a in enumerate(given)}
        arrays |= nearby(module, chosen, given, begin, exact)
        if not np.isfinite(exact).all():  # a batch of which all targets are ignored
            os.unlink(f"{out}-{seed}.pt2")
            continue
        np.savez(f"{out}-{seed}.npz", rough=rough, exact=exact, **arrays, **parameters)
        chosen["what"] = f"{type(net).__name__} {module.kind} {getattr(net, 'kind', '')}"
        with open(f"{out}-{seed}.json", "w") as file:
            json.dump(chosen, file)


if __name__ == "__main__":
    main()
