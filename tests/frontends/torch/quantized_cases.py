"""Runs in the environment that has torch: quantised modules of eager mode, and programs that quantise as they run.

``python -m tests.frontends.torch.quantized_cases OUT`` writes ``OUT-NAME.pt`` (traced) or ``OUT-NAME.pt2``, and
``OUT-NAME.npz``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # enters the operators of quantized_decomposed
from torch import Tensor, nn
from torch.ao import quantization

TRANSPOSED = "qnnpack"
"""The engine for transposed convolutions: those of fbgemm and onednn are off from their own weights by more than the
largest answer (torch 2.13)."""
PLAIN = "fbgemm"
"""The one for what qnnpack lacks: weights in half precision."""


class Layers(nn.Module):
    """``part``: calls the layers."""

    def __init__(self, part: Callable[..., Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.enter, self.leave = quantization.QuantStub(), quantization.DeQuantStub()
        self.layers, self.part = nn.ModuleDict(layers), part

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(self.part(self.layers, self.enter(x)))


def static(module: nn.Module, x: Tensor) -> nn.Module:
    module.qconfig = quantization.QConfig(quantization.default_observer, quantization.default_weight_observer)
    prepared = quantization.prepare(module.eval())
    prepared(x)
    return quantization.convert(prepared)


def tables(module: nn.Module, bits: int = 8) -> nn.Module:
    for child in module.children():
        child.qconfig = quantization.float_qparams_weight_only_qconfig
        if bits == 4 and isinstance(child, nn.EmbeddingBag):
            child.qconfig = quantization.float_qparams_weight_only_qconfig_4bit
    return quantization.convert(quantization.prepare(module.eval()))


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(6, 8, 2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(x)[0])


class Cells(nn.Module):
    """One step of each."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.LSTMCell(6, 8), nn.GRUCell(8, 5), nn.RNNCell(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)[0]))


class Numbers(nn.Module):
    """Quantised tensors and plain numbers of any sign, beyond the range of the zero point too."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave, self.own = quantization.QuantStub(), quantization.DeQuantStub(), nn.ModuleList()
        self.numbers = [(float(a), float(b)) for a, b in torch.randn(6, 2).mul(torch.tensor([3.0, 1.0])).tolist()]
        self.own.extend(nn.quantized.FloatFunctional() for _ in self.numbers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        found = [o.mul_scalar(o.add_scalar(x, a), b) for o, (a, b) in zip(self.own, self.numbers, strict=True)]
        return torch.stack([self.leave(v) for v in found])


class Tables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bags, self.rows = nn.EmbeddingBag(20, 8, mode="sum"), nn.Embedding(20, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.bags(ids) + self.rows(ids).sum(1)


class AsItRuns(nn.Module):
    """What PT2E makes of a linear layer or a convolution whose activations are quantised dynamically."""

    def __init__(self, kind: torch.dtype, bias: bool, sizes: tuple[int, ...] = (24, 32), **more: int) -> None:
        super().__init__()
        self.kind, self.low, self.more = kind, 0 if kind == torch.uint8 else -128, more
        self.register_buffer("weight", torch.randint(-127, 128, sizes, dtype=torch.int8))
        self.register_buffer("scales", torch.rand(24) / 100 + 0.001)
        self.register_buffer("zeros", torch.zeros(24, dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(24)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        own = torch.ops.quantized_decomposed
        limits = (self.low, self.low + 255)
        scale, zero = own.choose_qparams.tensor(x, *limits, 1.1920928955078125e-07, self.kind)
        held = own.quantize_per_tensor.tensor(x, scale, zero, *limits, self.kind)
        y = own.dequantize_per_tensor.tensor(held, scale, zero, *limits, self.kind)
        weight = own.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        if self.weight.dim() == 2:
            return nn.functional.linear(y, weight, self.bias)
        return nn.functional.conv2d(y, weight, self.bias, **self.more)


def cases() -> dict[str, tuple[Callable[[], nn.Module], Tensor]]:
    noise, image, line = torch.randn, torch.randn(2, 4, 9, 8), torch.randn(2, 5, 6)
    every = {nn.LSTM, nn.GRU, nn.Linear}
    upward = Layers(
        lambda m, x: m["leaky"](m["up"](m["elu"](m["conv"](x)))), conv=nn.Conv2d(4, 8, 3), elu=nn.ELU(),
        up=nn.ConvTranspose2d(8, 6, 3, 2, 1, 1), leaky=nn.LeakyReLU(0.1),
    )  # fmt: skip
    lines = Layers(
        lambda m, x: m["tanh"](m["up"](m["norm"](x.flatten(2)))), norm=nn.InstanceNorm1d(4, affine=True),
        up=nn.ConvTranspose1d(4, 6, 4, 2, 1), tanh=nn.Tanh(),
    )  # fmt: skip
    gates = Layers(lambda m, x: m["gate"](m["conv"](x)), conv=nn.Conv2d(4, 8, 3), gate=nn.Hardsigmoid())
    volume = Layers(
        lambda m, x: m["pool"](m["conv"](x.unflatten(1, (2, 2)))), conv=nn.Conv3d(2, 3, (1, 3, 3)),
        pool=nn.AdaptiveAvgPool3d((1, 2, 3)),
    )  # fmt: skip
    frozen = Layers(lambda m, x: m["conv"](x.flatten(2)), conv=nn.Conv1d(4, 6, 3, 2, 1, groups=2))
    cells = {nn.LSTMCell, nn.GRUCell, nn.RNNCell}
    return {
        "upward": (lambda: static(upward, image), image),
        "lines": (lambda: static(lines, image), image),
        "gates": (lambda: static(gates, image), image),
        **{
            f"{kind}-{str(dtype).removeprefix('torch.')}": (
                partial(quantization.quantize_dynamic, Recurrent(kind).eval(), every, dtype=dtype), line,
            )
            for kind in ("LSTM", "GRU") for dtype in (torch.qint8, torch.float16)
        },
        "tables": (lambda: tables(Tables()), torch.randint(0, 20, (3, 4))),
        "tables-4bit": (lambda: tables(Tables(), 4), torch.randint(0, 20, (3, 4))),
        "cells-qint8": (partial(quantization.quantize_dynamic, Cells(), cells), noise(4, 6)),
        "cells-float16": (partial(quantization.quantize_dynamic, Cells(), cells, dtype=torch.float16), noise(4, 6)),
        "numbers": (lambda: static(Numbers(), noise(4, 5)), noise(4, 5)),
        "volume": (lambda: static(volume, image), image),
        "frozen": (lambda: static(frozen, image), image),
        "runs-u8": (partial(AsItRuns, torch.uint8, True), noise(3, 5, 32)),
        "runs-i8": (partial(AsItRuns, torch.int8, False), noise(7, 32)),
        "runs-conv-u8": (partial(AsItRuns, torch.uint8, False, (24, 4, 3, 3), padding=1, stride=2), image),
        "runs-conv-i8": (partial(AsItRuns, torch.int8, True, (24, 1, 3, 2), groups=24), noise(2, 24, 9, 8)),
    }  # fmt: skip


def main() -> None:
    out = sys.argv[1]
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    with torch.no_grad():
        for name, (build, x) in cases().items():
            qnnpack = ("upward", "lines", "gates", "frozen", "numbers")
            torch.backends.quantized.engine = TRANSPOSED if name in qnnpack else PLAIN
            module = build()
            given: tuple[Any, ...] = (x,)
            if name.startswith("runs"):
                torch.export.save(torch.export.export(module, given), f"{out}-{name}.pt2")
            else:
                traced = torch.jit.trace(module.eval(), given, check_trace=False)
                (torch.jit.freeze(traced) if name == "frozen" else traced).save(f"{out}-{name}.pt")
            np.savez(f"{out}-{name}.npz", x=x.numpy(), y=module(x).numpy())


if __name__ == "__main__":
    main()
