"""Runs in the environment that has torch: drawn programs with complex tensors inside, real ones outside.

``python -m tests.frontends.torch.complex_cases OUT SEED COUNT`` writes, for each seed, ``OUT-SEED.pt2`` or
``OUT-SEED.pt`` (forms in turn: as exported, in core operators, traced) and ``OUT-SEED.npz`` with inputs and answers.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

NORMS = (None, "backward", "ortho", "forward")


class Drawn(nn.Module):
    """A complex tensor is made of real ones, goes through some steps, and becomes real again."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        rng = np.random.default_rng(seed)
        self.shape = [int(n) for n in rng.integers(1, 8, int(rng.integers(2, 5)))]
        self.register_buffer("turn", torch.polar(torch.ones(self.shape[-1]), torch.arange(self.shape[-1]) / 3.0))
        self.register_buffer("window", torch.hann_window(6))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        rng = np.random.default_rng(self.seed + 1)
        z = self._begin(rng, x, y)
        for _ in range(int(rng.integers(1, 5))):
            z = self._step(rng, z)
        return self._end(rng, z)

    def _axes(self, rng: np.random.Generator, z: Tensor) -> dict[str, Any]:
        """Some axes, some of which are cut or filled up."""
        axes = [int(a) for a in rng.permutation(z.dim())[: int(rng.integers(1, z.dim() + 1))]]
        sizes = [int(z.shape[a] + rng.integers(-1, 3)) or 1 for a in axes]
        cut = {"s": sizes} if rng.random() < 0.4 else {}
        signed = [a - z.dim() if rng.random() < 0.5 else a for a in axes]
        return {"dim": signed, "norm": NORMS[rng.integers(4)], **cut}

    def _begin(self, rng: np.random.Generator, x: Tensor, y: Tensor) -> Tensor:
        kind = rng.integers(6)
        if kind == 0:
            return torch.complex(x, y)
        if kind == 1:
            return torch.view_as_complex(torch.stack([x, y], -1))
        if kind == 2:
            return torch.polar(x.abs(), y)
        if kind == 3:
            return torch.fft.rfftn(x, **self._axes(rng, x)) * (1 + 0 * y.sum())
        if kind == 4:
            flat = torch.cat([x.reshape(1, -1), y.reshape(1, -1), x.new_ones(1, 24)], 1)
            return torch.stft(flat, 8, 3, 6, self.window, center=False, normalized=bool(rng.integers(2)),
                              onesided=bool(rng.integers(2)), return_complex=True)  # fmt: skip
        return torch.fft.fftn(x, **self._axes(rng, x)) + torch.fft.fftn(y * 0, dim=[0]).sum()

    def _step(self, rng: np.random.Generator, z: Tensor) -> Tensor:
        kind, dim = rng.integers(22), int(rng.integers(-z.dim(), z.dim()))
        if kind == 0:
            return torch.fft.fftn(z, **self._axes(rng, z))
        if kind in (1, 2):
            return torch.fft.ifftn(z, **self._axes(rng, z))
        if kind == 3 and z.shape[-1] == self.shape[-1]:
            return z * self.turn
        if kind == 4:
            return z.conj().resolve_conj() * z - z / 3
        if kind == 5:
            return z.transpose(dim, 0) * z.abs().amax()
        if kind == 6:
            return torch.cat([z, -z], dim)[..., 1:]
        if kind == 7:
            return z.unsqueeze(dim).flatten(-2)
        if kind == 8:
            z = z.clone()
            torch.view_as_real(z)[..., 0].add_(1)
            return z
        if kind == 9:
            z = z.clone()
            z[0].mul_(2.0)
            return z.mul_(z.real)
        if kind == 10:
            return z.sum(dim, keepdim=True) + z
        if kind == 11:
            return z.roll(1, dim)
        if kind == 12:
            return z.reshape(-1)[None]
        if kind == 13:
            return z.permute(*reversed(range(z.dim()))).narrow(0, 0, 1)
        return self._more(int(kind), dim, z)

    def _more(self, kind: int, dim: int, z: Tensor) -> Tensor:
        """Arithmetic with numbers and real tensors, products, functions, elements at other places."""
        if kind == 14:
            return torch.add(z * (0.5 - 1j), 1.5, alpha=2) - (1j - z) + z.real
        if kind == 15:
            return (z + 0.1) / (2 + z.abs() * 1j) + torch.rsub(z, 2)
        if kind == 16:
            flat = z.reshape(z.shape[0], -1)
            return flat @ flat.mH + torch.einsum("ij,kj->ik", flat, flat) + torch.ones(1, 1, dtype=z.dtype)
        if kind == 17:
            small = z / (1 + z.abs().amax())
            return torch.exp(small) + torch.cos(small) * (small + 2).log() + (small + 2).sqrt()
        if kind == 18:
            return torch.stack(z.flip(dim).unbind(dim), 0) ** 2
        if kind == 19:
            kept = torch.zeros_like(z)
            kept[..., :1] = z[..., :1]
            return kept + torch.cat(z.split(1, dim), dim).cumsum(dim)
        if kind == 20:
            return z.sum().sum(0, keepdim=True)[None] + z
        return torch.sgn(z + 9 + z.abs()) + (z + 9 + z.abs()) ** -1 + z.movedim(dim, dim)

    def _end(self, rng: np.random.Generator, z: Tensor) -> Tensor:
        kind = rng.integers(5)
        if kind == 0:
            return torch.view_as_real(z)
        if kind == 1:
            return z.abs()
        if kind == 2:
            return z.real - z.imag
        if kind == 3:
            return torch.angle(z).cos() * z.abs()
        return torch.fft.irfftn(z, **self._axes(rng, z))


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    for seed in range(first, first + count):
        module = Drawn(seed).eval()
        generator = torch.Generator().manual_seed(seed)
        given = tuple(torch.randn(module.shape, generator=generator) for _ in range(2))
        try:
            answer = module(*given)
        except RuntimeError:  # irfftn of one bin, an axis that was cut away
            continue
        if seed % 3 == 2:
            torch.jit.trace(module, given, check_trace=False).save(f"{out}-{seed}.pt")
        else:
            program = torch.export.export(module, given)
            torch.export.save(program.run_decompositions() if seed % 3 else program, f"{out}-{seed}.pt2")
        np.savez(f"{out}-{seed}.npz", x=given[0].numpy(), y=given[1].numpy(), answer=answer.numpy())


if __name__ == "__main__":
    main()
