"""This engine, through the Session API that a user has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

import MNN

from .interface import Array


class Engine:
    def __init__(self, threads: int, precision: str) -> None:
        self.config = {"backend": "CPU", "numThread": threads, "precision": precision}

    def version(self) -> str:
        return str(MNN.__version__)

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        self.interpreter = MNN.Interpreter(str(model))
        self.session = self.interpreter.createSession(self.config)
        self.inputs = {name: self.interpreter.getSessionInput(self.session, name) for name in inputs}
        for name, data in inputs.items():
            self.interpreter.resizeTensor(self.inputs[name], data.shape)
        self.interpreter.resizeSession(self.session)
        self.names = outputs

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        for name, data in inputs.items():
            self.inputs[name].copyFrom(np.ascontiguousarray(data))

    def run(self) -> None:
        self.interpreter.runSession(self.session)

    def outputs(self) -> dict[str, Array]:
        return {
            name: np.array(self.interpreter.getSessionOutput(self.session, name).getNumpyData(), copy=True)
            for name in self.names
        }
