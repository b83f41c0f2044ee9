"""Runs where torch is: ``python -m tests.train.torch_losses CASES.json GIVEN.npz RESULTS.npz``.

For every case of ``test_losses`` torch's loss, and its gradient with regard to the scores."""

import json
import sys

import numpy as np
import torch
from torch.nn import functional


def loss(case, x, a):
    whole = {k: torch.from_numpy(a[k]).long() for k in ("y", "steps", "counts") if k in a}
    if case["kind"] == "ctc":
        logs = functional.log_softmax(x, -1)
        lengths = whole["steps"], whole["counts"]
        return functional.ctc_loss(logs, whole["y"], *lengths, case["blank"], zero_infinity=case["zero_infinity"])
    weights = torch.from_numpy(a["w"]) if "w" in a else None
    ignored = -100 if case["ignore"] is None else case["ignore"]
    rows, y = x.reshape(-1, x.shape[-1]), whole["y"].reshape(-1)
    return functional.cross_entropy(rows, y, weights, ignore_index=ignored, label_smoothing=case["smoothing"])


def main(cases, given, target):
    with open(cases) as file:
        listed = json.load(file)
    out = {}
    with np.load(given) as arrays:
        for i, case in enumerate(listed):
            own = {n.split("/")[1]: arrays[n] for n in arrays.files if n.startswith(f"{i}/")}
            x = torch.from_numpy(own["x"]).requires_grad_()
            found = loss(case, x, own)
            found.backward()
            out |= {f"{i}/loss": found.detach().numpy(), f"{i}/slope": x.grad.numpy()}
    np.savez(target, **out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
