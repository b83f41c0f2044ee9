"""Run in the converters' environment: ``python -m benchmarks.peers.convert_litert ARCHITECTURE DST.tflite EXTENTS``."""

from __future__ import annotations

import json
import sys

import litert_torch
import torch

from ..architectures.catalog import ARCHITECTURES


def main() -> None:
    name, target, extents = sys.argv[1:]
    architecture = ARCHITECTURES[name]
    example = tuple(torch.from_numpy(a) for a in architecture.feeds(**json.loads(extents)).values())
    litert_torch.convert(architecture.build(), example).export(target)


if __name__ == "__main__":
    main()
