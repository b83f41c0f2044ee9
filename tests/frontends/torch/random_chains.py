"""Chains of layers and tensor methods with drawn options: texts of modules that script, trace and export take.

Runs where torch is. A chain is drawn while it runs: a step stays if torch takes it and its numbers stay small.
``python -m tests.frontends.torch.random_chains OUT FIRST COUNT`` writes ``OUT-SEED-WAY.pt`` (``script``, ``trace``) or
``.pt2`` (``export``), and ``OUT-SEED.npz``: inputs of the sizes that it was written with and of others, and answers.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.frontends.torch.chain_layers import LAYERS
from tests.frontends.torch.chain_methods import METHODS

MOST = 40000
"""Elements of a tensor."""
HEAD = "import math\nimport torch\nfrom torch import Tensor, nn\nfrom torch.nn import functional as F\n\n\n"
NAMES = {"torch": torch, "nn": nn, "F": F, "Tensor": Tensor}


class Chain:
    """One module: ``text`` is its source, ``shape`` that of its input."""

    def __init__(self, seed: int, steps: int = 0) -> None:
        self.r = random.Random(seed)
        torch.manual_seed(seed)
        r = self.r
        rank = r.choice([2, 3, 3, 4, 4, 4, 5])
        self.shape = [r.randint(1, 3), r.choice([2, 3, 4, 6, 8]), *(r.randint(5, 10) for _ in range(rank - 2))]
        self.x = torch.randn(self.shape)
        self.layers: list[str] = []
        self.lines: list[str] = []
        self.kinds: list[str] = []
        for _ in range(steps or r.randint(2, 6)):
            self.step()

    def step(self) -> None:
        """Draws until something fits."""
        for _ in range(30):
            layer = self.r.random() < 0.5
            name, draw = self.r.choice(list((LAYERS if layer else METHODS).items()))
            if self._take(name, draw, layer):
                return

    def _take(self, name: str, draw: Callable[[random.Random, Tensor], object], layer: bool) -> bool:
        try:
            drawn = draw(self.r, self.x)
        except (ValueError, IndexError, ZeroDivisionError):  # an empty choice: not for this tensor
            return False
        if drawn is None:
            return False
        lines: list[str]
        made: str = ""
        if layer:
            made, use = drawn if isinstance(drawn, tuple) else (str(drawn), "x = self.{}(x)")
            lines = use.format(f"layer{len(self.layers)}").split("\n")
        else:
            lines = str(drawn).split("\n")
        held = nn.Module()
        try:
            torch.manual_seed(0)
            if made:
                held.add_module(f"layer{len(self.layers)}", eval(made, dict(NAMES)).eval())
            known = {**NAMES, "self": held, "x": self.x.clone()}
            exec("\n".join(lines), known)
            y = known["x"]
        except Exception:  # noqa: BLE001 - torch says in many ways that a layer does not fit
            return False
        if not isinstance(y, Tensor) or not 0 < y.numel() <= MOST or y.dtype is not torch.float32 or y.dim() > 6:
            return False
        if not bool(torch.isfinite(y).all()) or float(y.abs().max()) > 200:
            return False
        self.x = y
        self.kinds.append(name)
        self.lines += lines
        if made:
            self.layers.append(made)
        return True

    def text(self) -> str:
        """A class ``Chain`` with a method ``forward(self, x)``."""
        made = "".join(f"        self.layer{i} = {layer}\n" for i, layer in enumerate(self.layers))
        body = "".join(f"        {line}\n" for line in self.lines)
        return (
            f"{HEAD}class Chain(nn.Module):\n    def __init__(self) -> None:\n        super().__init__()\n{made}\n"
            f"    def forward(self, x: Tensor) -> Tensor:\n{body}        return x\n"
        )


def module_of(chain: Chain, folder: Path, seed: int) -> torch.nn.Module:
    """The module of a chain's text, with numbers drawn for what layers begin with as 0 or 1."""
    path = folder / f"chain{seed}.py"
    path.write_text(chain.text(), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    held = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = held
    spec.loader.exec_module(held)
    torch.manual_seed(seed)
    module = held.Chain().eval()
    for part in module.modules():
        if isinstance(getattr(part, "running_var", None), torch.Tensor):
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.5, 2)
        if isinstance(part, (torch.nn.LayerNorm, torch.nn.GroupNorm, torch.nn.RMSNorm)):
            for number in part.parameters():
                number.uniform_(0.5, 1.5)
    return module


def _sizes(chain: Chain) -> list[list[int]]:
    """Those that a chain was drawn with, and others; the second axis keeps its size."""
    r = random.Random(chain.text())
    more = [[n if i == 1 else max(n + r.randint(-1, 4), 2) for i, n in enumerate(chain.shape)] for _ in range(2)]
    return [chain.shape, *more]


def _write(out: str, seed: int, folder: Path) -> None:
    chain = Chain(seed)
    module, arrays = module_of(chain, folder, seed), {}
    given = [torch.randn(sizes) for sizes in _sizes(chain)]
    open_axes = dict.fromkeys((0, *range(2, len(chain.shape))), torch.export.Dim.AUTO)
    for way in ("script", "trace", "export"):
        path = f"{out}-{seed}-{way}.pt" + ("2" if way == "export" else "")
        try:
            if way == "export":
                program = torch.export.export(module, (given[0].clone(),), dynamic_shapes=(open_axes,), strict=False)
                torch.export.save(program, path)
                peer = program.module(check_guards=False)
            else:
                scripted = torch.jit.script(module) if way == "script" else None
                peer = scripted or torch.jit.trace(module, given[0].clone(), check_trace=False)
                torch.jit.save(peer, path)
        except Exception as error:  # noqa: BLE001 - torch says in many ways that it cannot
            print(f"{seed} {way}: {type(error).__name__}", file=sys.stderr)
            continue
        for i, x in enumerate(given):
            try:
                arrays[f"{way}_{i}"] = peer(x.clone()).numpy().copy()
            except Exception:  # noqa: BLE001 - it does not take these sizes
                continue
    np.savez(f"{out}-{seed}.npz", **{f"x_{i}": x.numpy() for i, x in enumerate(given)}, **arrays)
    Path(f"{out}-{seed}.py").write_text(chain.text(), encoding="utf-8")


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            _write(out, seed, Path(folder))


if __name__ == "__main__":
    main()
