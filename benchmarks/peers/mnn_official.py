"""The official MNN wheel through its module API, on a model written by its own converter.

Its x86 build has AVX2 kernels only and ignores the precision setting. ``MNN.tools`` is never imported (see
``setup_peers``).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np

import MNN

from .interface import Array, UnavailableError


class Engine:
    def __init__(self, threads: int, precision: str) -> None:
        self.config = {"backend": "CPU", "numThread": threads, "precision": precision}

    def version(self) -> str:
        return version("MNN")

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        # shapes stay mutable, as by default: fixed ones are no faster and give wrong answers with recurrent layers
        manager = MNN.nn.create_runtime_manager((self.config,))
        self.names = outputs
        self.module = MNN.nn.load_module_from_file(str(model), list(inputs), outputs, runtime_manager=manager)
        if self.module is None:
            raise UnavailableError("the official engine does not load the model that its own converter wrote")

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        self.variables = [_variable(data) for data in inputs.values()]

    def run(self) -> None:
        self.found = self.module.forward(self.variables)
        for variable in self.found:  # evaluation is lazy: reading makes it happen
            variable.read()

    def outputs(self) -> dict[str, Array]:
        return {n: np.array(v.read(), copy=True) for n, v in zip(self.names, self.found, strict=True)}


def _variable(data: Array) -> MNN.expr.Var:
    if np.issubdtype(data.dtype, np.integer):  # MNN has no int64
        return MNN.expr.const(data.astype(np.int32), list(data.shape), MNN.expr.NCHW, MNN.expr.int)
    return MNN.expr.const(np.ascontiguousarray(data, np.float32), list(data.shape), MNN.expr.NCHW)
