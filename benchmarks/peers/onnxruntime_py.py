"""ONNX Runtime, CPU execution provider, all graph optimisations; none with the precision ``plain``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnxruntime

from .interface import Array


class Engine:
    def __init__(self, threads: int, precision: str) -> None:
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3
        if precision == "plain":
            self.options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def version(self) -> str:
        return str(onnxruntime.__version__)

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        self.session = onnxruntime.InferenceSession(str(model), self.options, providers=["CPUExecutionProvider"])
        self.names = outputs

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        self.feeds = dict(inputs)

    def run(self) -> None:
        self.found = self.session.run(self.names, self.feeds)

    def outputs(self) -> dict[str, Array]:
        return dict(zip(self.names, self.found, strict=True))
