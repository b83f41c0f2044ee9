"""ncnn on a model converted by pnnx (fp32 weights); 16-bit storage and arithmetic are switched off."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import ncnn
import numpy as np

from .interface import Array, UnavailableError


class Engine:
    def __init__(self, threads: int, precision: str) -> None:
        self.net = ncnn.Net()
        option = self.net.opt
        option.num_threads = threads
        option.use_vulkan_compute = False
        for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
            setattr(option, name, False)

    def version(self) -> str:
        return version("ncnn")

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        """``model`` is the .ncnn.param file; the .bin lies beside it."""
        if self.net.load_param(str(model)) or self.net.load_model(str(model.with_suffix(".bin"))):
            raise UnavailableError("ncnn cannot load the model that pnnx wrote")
        self.names = outputs
        self.shapes: list[tuple[int, ...]] = []

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        # ncnn has no batch axis; a Mat made from an array borrows its memory, so clone it
        self.mats = [ncnn.Mat(np.ascontiguousarray(_narrow(a)[0])).clone() for a in inputs.values()]

    def run(self) -> None:
        extractor = self.net.create_extractor()
        for k, mat in enumerate(self.mats):
            if extractor.input(f"in{k}", mat):
                raise UnavailableError(f"ncnn refuses input in{k}")
        self.found = []
        for k in range(len(self.names)):
            code, mat = extractor.extract(f"out{k}")
            if code:
                raise UnavailableError(f"ncnn fails to compute out{k} (code {code})")
            self.found.append(mat)

    def outputs(self) -> dict[str, Array]:
        return {n: np.array(m)[None] for n, m in zip(self.names, self.found, strict=True)}


def _narrow(data: Array) -> Array:
    return data.astype(np.int32) if data.dtype == np.int64 else data
