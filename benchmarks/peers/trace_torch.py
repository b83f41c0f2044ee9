"""TorchScript for pnnx, in the converters' environment: ``-m benchmarks.peers.trace_torch NAME DST.pt EXTENTS``."""

from __future__ import annotations

import json
import sys

import torch

from ..architectures.catalog import ARCHITECTURES


def main() -> None:
    name, target, extents = sys.argv[1:]
    architecture = ARCHITECTURES[name]
    example = tuple(torch.from_numpy(a) for a in architecture.feeds(**json.loads(extents)).values())
    with torch.no_grad():
        torch.jit.trace(architecture.build(), example).save(target)


if __name__ == "__main__":
    main()
