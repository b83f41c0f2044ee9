"""Runs in the environment that has torch: random programs with control flow, lists and dicts, as TorchScript.

``python -m tests.frontends.torch.random_programs OUT FIRST COUNT`` writes ``OUT-SEED.py``, ``OUT-SEED.pt`` and
``OUT-SEED.npz`` (inputs and torch's answers of two runs) for so many seeds. Programs that torch itself does not take
are left out.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from tests.frontends.torch.random_statements import Writer


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    for seed in range(first, first + count):
        path = Path(f"{out}-{seed}.py")
        path.write_text(Writer(seed).text(), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"program{seed}", path)
        assert spec is not None
        assert spec.loader is not None
        held = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = held
        torch.manual_seed(seed)
        try:
            spec.loader.exec_module(held)
            module = torch.jit.script(held.Program().eval())
            arrays: dict[str, np.ndarray] = {}
            for run in range(2):
                given = [torch.randn(3, 4) for _ in range(2)]
                arrays |= {f"{run}_in_{i}": t.numpy().copy() for i, t in enumerate(given)}
                arrays |= {f"{run}_out_{i}": t.numpy().copy() for i, t in enumerate(module(*given))}
        except (RuntimeError, torch.jit.frontend.FrontendError, IndexError, ZeroDivisionError) as error:
            print(f"{seed}: {str(error).strip().splitlines()[0][:100]}", file=sys.stderr)
            path.unlink()
            continue
        module.save(f"{out}-{seed}.pt")
        np.savez(f"{out}-{seed}.npz", **arrays)


if __name__ == "__main__":
    main()
