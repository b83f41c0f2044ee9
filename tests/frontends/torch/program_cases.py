"""Runs in the environment that has torch: small modules as programs of torch.export and as TorchScript.

``python -m tests.frontends.torch.program_cases OUT`` writes ``OUT-NAME.pt2`` (where it exports), ``OUT-NAME.pt``,
``OUT-NAME-traced.pt`` and ``OUT-NAME.npz``: runs with their inputs and answers, one after the other.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.export import Dim

from tests.frontends.torch.program_states import Beside, Counter, Held, Moving, Started, Window


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2))
        self.second = nn.Sequential(
            nn.Conv2d(8, 8, 3, groups=8, padding="same"), nn.Hardswish(), nn.AdaptiveAvgPool2d(1)
        )
        self.last = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.first(x))
        return self.last(torch.flatten(y, 1)).softmax(-1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        x = self.words(ids)
        b, n = ids.shape
        q, k, v = self.qkv(x).view(b, n, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        keep = mask[:, None, None, :].to(torch.bool)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        y = self.norm(x + self.out(y.transpose(1, 2).reshape(b, n, 16)))
        return {"states": y, "pooled": torch.tanh(y[:, 0])}


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Composed(nn.Module):
    """Functions that torch writes with others only when asked to."""

    def forward(self, x: Tensor) -> list[Tensor]:
        marks = x > 0
        one = x.sum()
        y = torch.diff(x, 2, 1, prepend=x[:, :1])
        windows = [torch.hann_window(5), torch.hamming_window(4, False), torch.blackman_window(1)]
        found = [torch.diff(x), torch.diff(marks, dim=0), torch.diff(x, append=x), y, torch.diff(x.long(), 3), one]
        shaped = [
            x.ravel(),
            torch.atleast_2d(one),
            torch.atleast_3d(x[0, 0]),
            torch.atleast_3d(x[0]),
            torch.atleast_1d(x),
        ]
        return found + shaped + windows + [torch.arcsinh(x), torch.arccosh(x.abs() + 1), torch.arctanh(x.tanh())]


class PooledToSize(nn.Module):
    """As classifiers of images do that take any size."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return nn.functional.adaptive_avg_pool2d(x, (7, 3)), nn.functional.adaptive_max_pool2d(x, (2, 5))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)
        self.gru, self.rnn = nn.GRU(10, 4), nn.RNN(4, 3, nonlinearity="relu")

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.lstm(x)
        z, last = self.gru(y.transpose(0, 1))
        return self.rnn(z)[0], h + c, last


class InPlace(nn.Module):
    """Writes to slices, to views of views, and to views that are read later."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        y[:, 1] = 0.5
        y[:, :, -1].add_(x[:, :, 0])
        view = y.view(-1)
        view[:3].mul_(2)
        first = y[0]
        first.relu_()
        y += first.sum()
        return y, first


class Sizes(nn.Module):
    """Computes with sizes."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, n = x.shape[0], x.shape[1]
        half = n // 2
        grid = torch.arange(n) * 2 + b
        return x[:, :half].reshape(b * half, -1), x.sum(2) + grid.to(x.dtype) / (n + 1)


class Images(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        up = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
        fit = nn.functional.interpolate(x, size=(5, 7), mode="nearest")
        return up, fit, nn.functional.pixel_shuffle(x, 2)


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)
        self.norms = nn.Sequential(nn.GroupNorm(3, 6), nn.PReLU(6), nn.InstanceNorm2d(6, affine=True), nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.norms(self.up(x))


class Scripted(nn.Module):
    """Lists, tuples, optionals and loops, all of which the sizes decide."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.scale = 0.5

    def forward(self, x: Tensor, factor: float | None = None) -> list[Tensor]:
        outs: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i % 2 == 0:
                x = torch.relu(x)
            outs.append(x * self.scale if factor is None else x * factor)
        width = 0
        while width * width < x.size(1):
            width += 1
        names = {"a": outs[0], "b": outs[-1]}
        rest = [v + float(width) for v in outs[1:]]
        result = [torch.stack(outs, 0), names["b"]]
        result.extend(rest)
        return result


class Branching(nn.Module):
    """What is done depends on the numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flag = 1
        if bool(x.sum() > 0):
            y = x * 2
            self.seen += 1
            flag = 3
        else:
            y = x - 1
        turns = 0
        while bool(y.abs().max() > 1):
            y = y / 2
            turns += 1
        return y + flag, self.seen + turns


class Order(Enum):
    FIRST = "channels first"
    LAST = "channels last"


class Step(Enum):
    BACK = -1
    ON = 2


class Enumerated(nn.Module):
    """Members of enumerations as attributes, compared, and read."""

    def __init__(self) -> None:
        super().__init__()
        self.order, self.step = Order.LAST, Step.BACK

    def turned(self, x: Tensor, order: Order) -> Tensor:
        return x.permute(0, 2, 1) if order == Order.LAST else x

    def forward(self, x: Tensor) -> Tensor:
        y = self.turned(x, self.order) + self.turned(x, Order.FIRST).sum()
        if self.step != Step.ON:
            y = y * self.step.value
        return y * 3 if self.order.name == "LAST" and Order.FIRST.value == "channels first" else y


class Repeated(nn.Module):
    """As often as a tensor says, and by a number that is a size."""

    def forward(self, x: Tensor, times: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        some = torch.repeat_interleave(x, times, 1)
        return some, torch.repeat_interleave(x, x.shape[0], 2), torch.repeat_interleave(x, times[:1])


class Conditional(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda t: t.sin() * 2, lambda t: t.cos(), (x,))


class Regions(nn.Module):
    """Parts without autocast, of one result and of two, as attention and rotary positions have."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            y = x.relu() @ x.transpose(-1, -2)
        with torch.autocast(x.device.type, enabled=False):
            sine, cosine = y.sin(), y.cos()
        return y.transpose(-1, -2) * sine + cosine


class Checked(nn.Module):
    """Rows put where marks are, after a look at how many there are of both, as models of texts and images do it."""

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        marks = (ids == 7).unsqueeze(-1).expand(*ids.shape, x.shape[-1])
        torch._check_tensor_all(marks.sum() == x.numel(), lambda: "as many marks as rows")
        y = torch.zeros(*ids.shape, x.shape[-1]).masked_scatter(marks, x)
        return y * torch.sym_ite(ids.shape[1] > 6, x.shape[0], x.shape[0] + 1)


class Shared(nn.Module):
    """One module used twice, and constants of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Tanh())
        self.register_buffer("offset", torch.linspace(0, 1, 6).half(), persistent=False)
        self.table = nn.Parameter(torch.randn(6, 4).t())

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.block(x)) + self.offset + torch.einsum("bi,ji->bj", x, self.table).sum(1, keepdim=True)


class Quantizable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.relu, self.last = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.conv(self.enter(x))).mean((2, 3))
        return self.leave(self.last(y))


def quantized() -> nn.Module:
    """Calibrated on noise of its own; eager mode."""
    engine = next(e for e in ("fbgemm", "qnnpack", "onednn") if e in torch.backends.quantized.supported_engines)
    torch.backends.quantized.engine = engine
    module: nn.Module = Quantizable().eval()
    module.qconfig = quantization.get_default_qconfig(engine)
    module = quantization.prepare(quantization.fuse_modules(module, [["conv", "relu"]]))
    module(torch.randn(8, 3, 10, 10))
    return quantization.convert(module)


Case = tuple[Callable[[], nn.Module], list[tuple[Tensor, ...]], Any, str]
BATCH = Dim("batch")


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape)


def cases() -> dict[str, Case]:
    """Module, runs, dynamic shapes, and forms: e(xported), p (exported, not decomposed), s(cripted), t(raced)."""
    dynamic = ({0: Dim.DYNAMIC},)
    ids = [
        (torch.randint(0, 20, (b, n)), (torch.arange(n) < n - 1).long().expand(b, n).clone())
        for b, n in ((2, 5), (3, 9))
    ]
    auto = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    marked = [
        (noise(int((t == 7).sum()), 4), t)
        for t in (torch.tensor([[1, 7, 7, 2], [7, 7, 7, 0]]), torch.tensor([[7, 1, 0, 7, 0, 0, 0, 7]] * 3))
    ]
    counts = [torch.tensor([2, 0, 3]), torch.tensor([1, 4, 0])]
    return {
        "convolutions": (Convolutions, [(noise(2, 3, 16, 16),), (noise(5, 3, 16, 16),)], dynamic, "est"),
        "attention": (Attention, ids, (auto, auto), "e"),
        "encoder": (Encoder, [(noise(2, 5, 16),), (noise(2, 9, 16),)], ({1: Dim.DYNAMIC},), "e"),
        "recurrent": (Recurrent, [(noise(2, 7, 6),)], None, "est"),
        "in_place": (InPlace, [(noise(2, 3, 4),), (noise(2, 3, 4),)], None, "es"),
        "counter": (Counter, [(noise(2, 3),), (noise(2, 3),), (noise(2, 3),)], None, "es"),
        "held": (Held, [(noise(2, 3),), (noise(2, 3),), (noise(2, 3),)], None, "p"),
        "started": (Started, [(noise(2, 3),), (noise(2, 3),), (noise(2, 3),)], None, "e"),
        "beside": (Beside, [(noise(2, 3),), (noise(2, 3),), (noise(2, 3),)], None, "p"),
        "moving": (Moving, [(noise(2, 3, 5),), (noise(2, 3, 5),), (noise(2, 3, 5),)], None, "es"),
        "window": (Window, [(noise(1, 2, 3),), (noise(1, 2, 3),)], None, "es"),
        "sizes": (Sizes, [(noise(2, 6, 3),), (noise(3, 8, 3),)], (auto,), "es"),
        "images": (Images, [(noise(3, 4, 6, 8),), (noise(2, 4, 6, 8),)], dynamic, "est"),
        "pooled_to_size": (
            PooledToSize, [(noise(2, 3, h, w),) for h, w in ((9, 14), (21, 30), (40, 17))],
            ({2: Dim("h", min=7, max=300), 3: Dim("w", min=5, max=300)},), "e",
        ),
        "composed": (Composed, [(noise(3, 4, 5),), (noise(2, 6, 5),)], (auto,), "est"),
        "transposed": (Transposed, [(noise(2, 4, 5, 6),)], None, "est"),
        "scripted": (Scripted, [(noise(3, 4),)], None, "est"),
        "branching": (Branching, [(noise(3, 4) + 1,), (noise(3, 4) - 1,), (noise(3, 4) * 9,)], None, "s"),
        "repeated": (Repeated, [(noise(2, n.shape[0], 4), n) for n in counts], None, "est"),
        "enumerated": (Enumerated, [(noise(3, 4, 5),)], None, "s"),
        "conditional": (Conditional, [(noise(3, 4) + 1,), (noise(3, 4) - 1,)], None, "e"),
        "regions": (Regions, [(noise(2, 3, 4),), (noise(2, 7, 4),)], ({1: Dim("n", min=2, max=99)},), "et"),
        "quantized": (quantized, [(noise(2, 3, 10, 10),)], None, "st"),
        "checked": (Checked, marked, ({0: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}), "e"),
        "shared": (Shared, [(noise(2, 6),), (noise(4, 6),)], dynamic, "est"),
    }  # fmt: skip


def flat(result: Any) -> list[Tensor]:
    if isinstance(result, dict):
        result = list(result.values())
    return [t for r in result for t in flat(r)] if isinstance(result, (list, tuple)) else [result]


def main() -> None:
    out = sys.argv[1]
    warnings.simplefilter("ignore")
    for name, (build, runs, dynamic, forms) in cases().items():
        torch.manual_seed(0)
        with torch.no_grad():
            module = build().eval()
            if "e" in forms or "p" in forms:
                program = torch.export.export(module, runs[0], dynamic_shapes=dynamic)
                torch.export.save(program, f"{out}-{name}.pt2")
            if "e" in forms:
                torch.export.save(program.run_decompositions(), f"{out}-{name}-core.pt2")
            if "s" in forms:
                torch.jit.script(module).save(f"{out}-{name}.pt")
            if "t" in forms:
                torch.jit.trace(module, runs[0], check_trace=False).save(f"{out}-{name}-traced.pt")
            arrays: dict[str, np.ndarray] = {}
            torch.manual_seed(0)
            module = build().eval()
            for i, given in enumerate(runs):
                arrays |= {f"{i}_in_{k}": t.numpy() for k, t in enumerate(given)}
                arrays |= {f"{i}_out_{k}": t.numpy().copy() for k, t in enumerate(flat(module(*given)))}
        np.savez(f"{out}-{name}.npz", **arrays)
    torch.save(module.state_dict(), f"{out}-weights.pt")


if __name__ == "__main__":
    main()
