"""Runs in the environment that has torch: seeded operands for calls, and the ATen operators that calls come to, with
torch's answers, written down for tests that have no torch."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

FLOATS = (torch.float32, torch.float32, torch.float32, torch.float16, torch.float64)
INTS = (torch.int64, torch.int32, torch.uint8, torch.int8)
RANDOM = ("empty", "rand", "randn", "new_empty", "uninitialized")
"""What operators are called whose results are drawn."""


class Draw:
    """Random operands and arguments."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def shape(self, low: int = 0, high: int = 4) -> list[int]:
        return [int(n) for n in self.rng.integers(1, 5, int(self.rng.integers(low, high + 1)))]

    def tensor(self, shape: list[int], dtype: torch.dtype | None = None, positive: bool = False) -> torch.Tensor:
        """Sometimes with axes in another order in memory."""
        kind = dtype or self.one(*FLOATS)
        if kind.is_floating_point:
            numbers = torch.from_numpy(np.asarray(self.rng.standard_normal(shape) * 2))
            numbers = numbers.abs() + 0.1 if positive else numbers
        else:
            low = 0 if positive or kind in (torch.uint8, torch.bool) else -9
            numbers = torch.from_numpy(np.asarray(self.rng.integers(low, 2 if kind is torch.bool else 9, shape)))
        made = numbers.to(kind)
        if len(shape) > 1 and self.rng.random() < 0.3:
            made = made.transpose(-1, -2).contiguous().transpose(-1, -2)
        return made

    def pair(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Two that broadcast, of types that may differ."""
        shape = self.shape()
        other = [1 if self.rng.random() < 0.3 else n for n in shape][int(self.rng.integers(0, len(shape) + 1)) :]
        kinds = (*FLOATS, *INTS)
        return self.tensor(shape, self.one(*kinds)), self.tensor(other, self.one(*kinds))

    def dim(self, x: torch.Tensor) -> int:
        return int(self.rng.integers(-max(x.dim(), 1), max(x.dim(), 1)))


class Recorder(TorchDispatchMode):
    """Notes the operators that calls come to, with operands and results."""

    def __init__(self, left_out: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.left_out = (*RANDOM, *left_out)
        self.cases: list[tuple[str, Any, Any, Any]] = []
        self.arrays: list[np.ndarray] = []
        self.on = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        skipped = any(r in name for r in self.left_out) or func.namespace != "aten"
        given = (
            None
            if skipped or not self.on
            else ([self.plain(a) for a in args], {k: self.plain(v) for k, v in (kwargs or {}).items()})
        )
        out = func(*args, **(kwargs or {}))
        if given is not None:
            self.cases.append((name, *given, self.plain(out)))
        return out

    def plain(self, x: Any) -> Any:
        """As JSON: tensors are numbers of arrays with the names of their types."""
        if isinstance(x, torch.Tensor):
            self.arrays.append(x.detach().contiguous().numpy().copy())
            return {"tensor": len(self.arrays) - 1}
        if isinstance(x, torch.dtype):
            return {"dtype": str(x).removeprefix("torch.")}
        if isinstance(x, (torch.device, torch.layout, torch.memory_format)):
            return None
        if isinstance(x, float) and not np.isfinite(x):
            return {"float": str(x)}
        return [self.plain(v) for v in x] if isinstance(x, (list, tuple)) else x


class Fresh(Draw):
    """Draws whose own calls are not noted."""

    def __init__(self, seed: int, recorder: Recorder) -> None:
        super().__init__(seed)
        self.recorder = recorder

    def tensor(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.recorder.on = False
        made = super().tensor(*args, **kwargs)
        self.recorder.on = True
        return made


def record(calls: dict[str, Callable[[Any], Any]], out: str, seed: int, count: int, *left_out: str) -> None:
    """Writes the operators that ``count`` draws of each call come to, less those ``left_out``."""
    warnings.simplefilter("ignore")
    recorder = Recorder(left_out)
    with torch.no_grad(), recorder:
        for at, (name, call) in enumerate(calls.items()):
            for i in range(count):
                try:
                    recorder.on = True
                    call(Fresh(seed + 1000 * at + i, recorder))
                except NotImplementedError as error:  # operators that torch lacks for a type of numbers
                    print(f"{name}: {error}", file=sys.stderr)
                recorder.on = False
    np.savez(f"{out}.npz", *recorder.arrays)
    with open(f"{out}.json", "w", encoding="utf-8") as file:
        json.dump(recorder.cases, file)
