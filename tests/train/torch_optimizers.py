"""Runs where torch is: ``python -m tests.train.torch_optimizers SETTINGS.json GIVEN.npz RESULTS.npz``.

For every setting of ``test_optimizers`` the parameters after some steps of torch's optimizers, in float64."""

import json
import math
import sys

import numpy as np
import torch
from torch.nn import functional


class Lion(torch.optim.Optimizer):
    """As its paper says (Chen et al., 2023, algorithm 2); torch has none."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            rate, (first, second) = group["lr"], group["betas"]
            for p in (p for p in group["params"] if p.grad is not None):
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                moved = torch.sign(first * m + (1 - first) * p.grad)
                p.sub_(rate * (moved + group["weight_decay"] * p))
                m.mul_(second).add_(p.grad, alpha=1 - second)


def optimizer(s, p):
    """``p``: parameters by place, without the frozen ones."""
    rate, decay = s["rate"], 0.0 if s["pull"] in ("L1", "L1L2") else s["decay"]
    if s["kind"] == "SGD":
        return torch.optim.SGD(p, rate, s["momentum"], weight_decay=decay, nesterov=s["nesterov"])
    if s["kind"] == "Lion":
        return Lion(p, rate, (s["momentum"], s["momentum2"]), s["decay"])
    if s["kind"] == "RMSprop":
        return torch.optim.RMSprop(p, rate, s["share"], s["eps"], decay, s["momentum"])
    kind = torch.optim.AdamW if s["kind"] == "AdamW" else torch.optim.Adam
    return kind(p, rate, (s["momentum"], s["momentum2"]), s["eps"], decay, s["amsgrad"])


def parted(s, p):
    """The parameters in torch's groups."""
    rest, groups = dict(p), []
    for places, factor, decay in s["groups"]:
        own = {"params": [rest.pop(i) for i in places if i in rest], "lr": factor * s["rate"]}
        if decay is not None and s["pull"] not in ("L1", "L1L2"):
            own["weight_decay"] = decay
        groups.append(own)
    return [{"params": list(rest.values())}, *groups]


def decays(s):
    """The weight decay of each place."""
    found = [s["decay"]] * 7
    for places, _, decay in s["groups"]:
        for i in places:
            found[i] = s["decay"] if decay is None else decay
    return found


def scheduler(s, made):
    kinds = torch.optim.lr_scheduler
    name, steps = s["schedule"], s["steps"]
    if name == "cosine" and s["groups"]:  # torch's ends at one rate for all groups
        return kinds.LambdaLR(made, lambda step: 0.1 + 0.45 * (1 + math.cos(math.pi * step / steps)))
    if name == "cosine":
        return kinds.CosineAnnealingLR(made, steps, 0.1 * s["rate"])
    if name == "linear":
        return kinds.LinearLR(made, 1.0, 0.25, steps)
    if name == "exponential":
        return kinds.StepLR(made, 2, 0.7)
    if name == "milestones":
        return kinds.MultiStepLR(made, [2, 4], 0.3)
    return kinds.LambdaLR(made, lambda step: 1.0)


def answer(x, p, statistics):
    h = functional.conv2d(x, p[0], None, padding=1)
    before, count = 0.9 * statistics[1], h.numel() // h.shape[1]
    h = functional.batch_norm(h, *statistics, p[1], p[2], True, 0.1, 1e-5)
    statistics[1] = before + (statistics[1] - before) * (count - 1) / count  # MNN keeps the mean of squares itself
    h = torch.tanh(functional.conv2d(torch.tanh(h), p[3], p[4], stride=2, padding=1, groups=len(p[3])))
    return functional.linear(h.flatten(1), p[5], p[6])


def trained(s, given):
    p = [torch.from_numpy(given[f"w{i}"].astype(np.float64)) for i in range(7)]
    free = {i: v.requires_grad_() for i, v in enumerate(p) if i not in s["frozen"]}
    moving = list(free.values())
    statistics = [torch.zeros(len(p[1]), dtype=torch.float64), torch.ones(len(p[1]), dtype=torch.float64)]
    made = optimizer(s, parted(s, free))
    rates = scheduler(s, made)
    found = []
    for k in range(s["steps"]):
        made.zero_grad()
        for j in range(s["accumulate"]):
            x, y = (torch.from_numpy(given[n][k * s["accumulate"] + j]) for n in ("x", "y"))
            loss = functional.cross_entropy(answer(x.double(), p, statistics), y.long())
            (loss / s["accumulate"]).backward()
        if s["clip_value"]:
            torch.nn.utils.clip_grad_value_(moving, s["clip_value"])
        if s["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(moving, s["clip_norm"])
        for i, v in free.items():
            if s["pull"] in ("L1", "L1L2"):
                v.grad += decays(s)[i] * (v.detach().sign() + (v.detach() if s["pull"] == "L1L2" else 0))
        found.append(made.param_groups[0]["lr"])
        made.step()
        rates.step()
    return [v.detach().numpy() for v in (*p, *statistics)], found


def main(listed, source, target):
    with open(listed) as file:
        settings = json.load(file)
    out = {}
    with np.load(source) as given:
        for i, s in enumerate(settings):
            arrays, rates = trained(s, given)
            out |= {f"{i}.{k}": a for k, a in enumerate(arrays)} | {f"{i}.rates": np.array(rates)}
    np.savez(target, **out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
