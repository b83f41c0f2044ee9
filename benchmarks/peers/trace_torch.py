"""Run in the converters' environment: TorchScript for pnnx, ``-m benchmarks.peers.trace_torch ARCHITECTURE DST.pt``."""

from __future__ import annotations

import sys

import torch

from ..architectures.catalog import ARCHITECTURES


def main() -> None:
    name, target = sys.argv[1:]
    architecture = ARCHITECTURES[name]
    example = tuple(torch.from_numpy(a) for a in architecture.feeds().values())
    with torch.no_grad():
        torch.jit.trace(architecture.build(), example).save(target)


if __name__ == "__main__":
    main()
