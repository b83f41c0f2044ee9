"""Runs in the environment that has torch: random programs of views and of writing in place.

``python -m tests.frontends.torch.random_aliases OUT FIRST COUNT`` writes ``OUT-SEED.py``, ``OUT-SEED.pt`` (scripted),
of every third ``OUT-SEED.pt2`` too, and ``OUT-SEED.npz`` (the input and torch's answers).
"""

from __future__ import annotations

import importlib.util
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

VIEWS = (
    "transpose(0, -1)", "flatten()", "reshape(-1)", "contiguous()", "unsqueeze(0)", "unsqueeze(-1)", "squeeze()",
    "narrow(0, 0, 1)", "chunk(2, 0)[0]", "unbind(0)[0]", "split(1, -1)[0]", "tensor_split(2, -1)[0]", "movedim(0, -1)",
    "ravel()", "diagonal()", "mT", "unfold(-1, 2, 2)", "expand_as({v})", "to(torch.float32)", "detach()", "float()",
    "contiguous(memory_format=torch.channels_last)", "flatten(0, 1)", "permute({order})", "swapaxes(0, 1)",
    "reshape({sizes})", "view_as({v})", "hsplit(1)[0]", "type_as({v})", "select(-1, 0)",
)  # fmt: skip
ITEMS = ("{v}[0]", "{v}[-1]", "{v}[..., ::2]", "torch.atleast_2d({v})", "torch.dropout({v}, 0.5, False)")
FRESH = ("{v} * 2.0", "{v}.clone()", "torch.relu({v})", "{v} + {v}", "torch.cat([{v}, {v}], 0)")
WRITES = (
    "{v}.add_(1.5)", "{v}.mul_(0.5)", "{v}.fill_(0.25)", "{v}[0] = 3.0", "{v}.copy_({v} * 3.0)", "{v}[..., 0] += 2.0",
    "{v}.zero_()", "{v}.sub_({v}.mean())", "{v}.masked_fill_({v} > 0.5, -2.0)",
)  # fmt: skip
RESIZED = ("{v}.unsqueeze_(0)", "{v}.squeeze_()", "{v}.transpose_(0, -1)", "{v}.t_()")
HEAD = "import torch\n\n\nclass Program(torch.nn.Module):\n    def forward(self, a):\n        x = a * 1.0\n"


def program(r: random.Random, start: torch.Tensor) -> str:
    """A text whose statements torch takes, one by one."""
    lines: list[str] = []
    scope = {"torch": torch, "x": start * 1.0}
    names = ["x"]
    written = r.choice((0.93, 0.93, 0.75))
    for i in range(r.randint(4, 9)):
        v, kind = r.choice(names), r.random()
        for _ in range(10):
            order, sizes = list(range(scope[v].dim())), list(scope[v].shape)
            r.shuffle(order)
            r.shuffle(sizes)
            if len(sizes) > 1 and r.random() < 0.5:
                sizes = [sizes[0] * sizes[1], *sizes[2:]]
            shown = r.choice(ITEMS) if r.random() < 0.15 else "{v}." + r.choice(VIEWS)
            text = shown if kind < 0.55 else r.choice(FRESH if kind < 0.65 else WRITES if kind < written else RESIZED)
            line = text.format(v=v, order=order, sizes=sizes)
            line = f"v{i} = {line}" if kind < 0.65 else line
            trial = dict(scope)
            try:
                exec(line, trial)
            except (RuntimeError, IndexError, ValueError):
                continue
            if any(t.dim() > 5 or not 0 < t.numel() < 400 for k, t in trial.items() if k in (*names, f"v{i}")):
                return ""
            lines.append(line)
            names += [f"v{i}"] if kind < 0.65 else []
            scope = trial
            break
    return HEAD + "".join(f"        {line}\n" for line in lines) + f"        return [{', '.join(names)}]\n"


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    for seed in range(first, first + count):
        r = random.Random(seed)
        torch.manual_seed(seed)
        x = torch.randn([r.randint(1, 4) for _ in range(r.randint(2, 4))])
        text = program(r, x)
        path = Path(f"{out}-{seed}.py")
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"program{seed}", path)
        assert spec is not None
        assert spec.loader is not None
        held = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = held
        spec.loader.exec_module(held)
        try:
            wanted = [t.numpy().copy() for t in held.Program()(x.clone())]
            torch.jit.save(torch.jit.script(held.Program()), f"{out}-{seed}.pt")
            if seed % 3 == 0:
                torch.export.save(torch.export.export(held.Program(), (x,)), f"{out}-{seed}.pt2")
        except (RuntimeError, AttributeError):
            continue
        np.savez(f"{out}-{seed}.npz", *wanted, x=x.numpy())


if __name__ == "__main__":
    main()
