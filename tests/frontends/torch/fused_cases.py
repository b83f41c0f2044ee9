"""Runs in the environment that has torch: modules whose traces hold operators that are whole parts of networks.

``python -m tests.frontends.torch.fused_cases OUT`` writes ``OUT-NAME.pt`` (traced), ``OUT-NAME.pt2`` (exported, where
torch can) and ``OUT-NAME.npz``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *given: Tensor) -> Any:
        return self.function(*self.parts, *given)


def layer(**more: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, **more)


def spectral(x: Tensor, n: int, hop: int, width: int, **more: Any) -> Tensor:
    """To frames and back."""
    window = torch.hann_window(width) + 0.1
    z = torch.stft(x, n, hop, width, window, return_complex=True, **more)
    return torch.istft(z * 0.5, n, hop, width, window, length=60, **more)


def drawn(x: Tensor) -> Tensor:
    """Zeros where numbers that are drawn lie as they should."""
    numbers = {
        "normal": x.new_empty(4000).normal_(2, 3).sub(2).mean() / 3,
        "uniform": x.new_empty(4000).uniform_(1, 2).mean() - 1.5,
        "integers": torch.randint(2, 7, (4000,)).double().mean() - 4,
        "chance": torch.bernoulli(torch.full((4000,), 0.3)).mean() - 0.3,
    }
    order = torch.randperm(50).sort()[0] - torch.arange(50)
    return torch.stack([(v.abs() > 0.15).long() for v in numbers.values()] + [order.abs().sum()])


def moved(a: Tensor) -> list[Tensor]:
    """Views that get other sizes in place, as does then what they are views of; views of one axis that are copies."""
    x = a * 1.0
    v = x.squeeze()
    w = v.t()
    v.t_()
    x.transpose_(0, 1)
    v.add_(1.5)
    w.mul_(2.0)
    x[0] = 3.0
    flat = v[0]
    flat.flatten().unsqueeze_(0)
    column = (a * 2.0)[0, :, :1]
    column.ravel().add_(1.0)
    return [x, v, w, flat, column]


def cases() -> dict[str, tuple[nn.Module, tuple[Tensor, ...], bool]]:
    """Module, inputs, and whether the exported program gives the same (it never takes the fast path of masks)."""
    noise = torch.randn
    mask = torch.arange(7) >= torch.tensor([[7], [4]])
    causal = nn.Transformer.generate_square_subsequent_mask(7)
    x = noise(2, 7, 16)
    encoder, plain = nn.TransformerEncoder(layer(), 2), nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False)
    return {
        "nested": (Function(lambda m, x, k: m(x, src_key_padding_mask=k), encoder), (x, mask), False),
        "causal": (Function(lambda m, x: m(x, mask=causal, is_causal=True), plain), (x,), True),
        "first": (layer(norm_first=True, activation="gelu"), (x,), True),
        "heads": (
            Function(lambda m, x, k: m(x, x, x, key_padding_mask=k), nn.MultiheadAttention(16, 4, batch_first=True)),
            (x, mask), True,
        ),
        "projected": (nn.LSTM(5, 8, 2, proj_size=3, bidirectional=True), (noise(6, 2, 5),), True),
        "projected_states": (
            Function(lambda m, x, h, c: m(x, (h, c)), nn.LSTM(5, 8, proj_size=3)),
            (noise(6, 2, 5), noise(1, 2, 3), noise(1, 2, 8)), True,
        ),
        "signal": (Function(lambda x: spectral(x, 16, 4, 16)), (noise(2, 64),), True),
        "scaled_signal": (Function(lambda x: spectral(x, 16, 6, 12, normalized=True)), (noise(2, 64),), True),
        "two_sided": (Function(lambda x: spectral(x, 12, 5, 12, onesided=False)), (noise(64),), True),
        "quantiles": (
            Function(lambda x: [x.quantile(torch.tensor([0.1, 0.5]), 1), x.quantile(0.3), x.quantile(0.7, -1, True)]),
            (noise(3, 9),), True,
        ),
        "likely": (
            Function(lambda x, y: [F.cross_entropy(x, y, label_smoothing=0.1), F.kl_div(x, y, reduction="sum")]),
            (noise(5, 7), noise(5, 7).softmax(1)), True,
        ),
        "bags": (
            Function(lambda a, b, i: [a(i), b(i)], nn.EmbeddingBag(9, 4), nn.EmbeddingBag(9, 4, mode="max")),
            (torch.randint(0, 9, (4, 5)),), True,
        ),
        "windows": (
            Function(lambda x: x * torch.kaiser_window(16, True, 8.0) + torch.bartlett_window(16)),
            (noise(2, 16),), True,
        ),
        "areas": (
            Function(lambda x, y: [torch.trapezoid(x, dx=0.5), torch.trapezoid(x, y[:, 0], dim=0)]),
            (noise(4, 5), noise(4, 5)), True,
        ),
        "combined": (
            Function(lambda x, y: [torch.cartesian_prod(x, y), nn.utils.rnn.pad_sequence([x, y], True)]),
            (noise(3), noise(4)), True,
        ),
        "grids": (
            Function(lambda x, y, z: [*torch.meshgrid(x, y, indexing="xy"), *torch.meshgrid(x, y, z, indexing="xy"),
                                      *torch.meshgrid(x, y, z, indexing="ij"), *torch.meshgrid(z, indexing="xy")]),
            (noise(3), noise(4), noise(2)), True,
        ),
        "similar": (
            Function(lambda x, y: [F.cosine_similarity(x, y, d) for d in (0, 1, -2, -1)] + [
                F.cosine_similarity(x[0], y, -1, 2.0)]),
            (noise(1, 3, 4), noise(2, 1, 4)), True,
        ),
        "views": (Function(moved), (noise(1, 2, 3),), True),
        "drawn": (Function(drawn), (noise(3),), True),
    }  # fmt: skip


def flat(result: Any) -> list[Tensor]:
    return [t for r in result for t in flat(r)] if isinstance(result, (list, tuple)) else [result]


def main() -> None:
    out = sys.argv[1]
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    with torch.no_grad():
        for name, (made, given, same) in cases().items():
            module = made.eval().requires_grad_(False)
            torch.jit.trace(module, given, check_trace=False).save(f"{out}-{name}.pt")
            if same:
                torch.export.save(torch.export.export(module, given), f"{out}-{name}.pt2")
            arrays = {f"in_{i}": t.numpy() for i, t in enumerate(given)}
            arrays |= {f"out_{i}": t.numpy() for i, t in enumerate(flat(module(*given)))}
            np.savez(f"{out}-{name}.npz", **arrays)


if __name__ == "__main__":
    main()
