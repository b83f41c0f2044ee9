"""PyTorch in bfloat16: torch.compile with frozen weights where there is a C++ compiler, else a frozen trace.

It runs the benchmark's own architectures, built in this process with the weights that the ONNX file has. Inputs come
and outputs go in fp32, as for the others.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn
from torch._inductor import config as inductor

from ..architectures.catalog import ARCHITECTURES
from .interface import Array


class Half(nn.Module):
    """A network in bfloat16 between fp32 inputs and outputs."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body.to(torch.bfloat16)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.body(*(x.to(torch.bfloat16) if x.is_floating_point() else x for x in inputs))
        return tuple(y.float() for y in (found if isinstance(found, tuple) else (found,)))


class Engine:
    def __init__(self, threads: int, precision: str) -> None:
        torch.set_num_threads(threads)
        self.how = ""

    def version(self) -> str:
        return str(torch.__version__).split("+")[0]

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        network = Half(ARCHITECTURES[model.name].build()).eval()
        self.names = outputs
        self.set_inputs(inputs)
        with torch.inference_mode():
            if shutil.which(os.environ.get("CXX", "g++")):
                inductor.freezing = True
                self.network = torch.compile(network)
                self.how = "torch.compile, frozen"
            else:
                self.network = torch.jit.freeze(torch.jit.trace(network, self.tensors))
                self.how = "frozen trace"
                self.network(*self.tensors)  # optimises itself on the first runs
            self.network(*self.tensors)

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        self.tensors = tuple(torch.from_numpy(a) for a in inputs.values())

    def run(self) -> None:
        with torch.inference_mode():
            self.found = self.network(*self.tensors)

    def outputs(self) -> dict[str, Array]:
        return {n: t.numpy() for n, t in zip(self.names, self.found, strict=True)}

    def details(self) -> dict[str, str]:
        return {"precision": "bf16", "how": self.how}
