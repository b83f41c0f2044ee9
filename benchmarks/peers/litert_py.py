"""LiteRT (TensorFlow Lite's successor) with its XNNPACK delegate, on a model converted from PyTorch by litert-torch."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from ai_edge_litert.interpreter import Interpreter

from .interface import Array, UnavailableError


class Engine:
    def __init__(self, threads: int, precision: str) -> None:
        self.threads = threads

    def version(self) -> str:
        return version("ai-edge-litert")

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        self.interpreter = Interpreter(str(model), num_threads=self.threads)
        self.interpreter.allocate_tensors()
        # the converter names inputs args_0, args_1, ... and outputs output_0, output_1, ... in their order
        self.inputs = _in_order(self.interpreter.get_input_details())
        found = _in_order(self.interpreter.get_output_details())
        if len(self.inputs) != len(inputs) or len(found) != len(outputs):
            raise UnavailableError("the converted model has other inputs or outputs than the original")
        self.found = dict(zip(outputs, found, strict=True))

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        for detail, data in zip(self.inputs, inputs.values(), strict=True):
            self.interpreter.set_tensor(detail["index"], data.astype(detail["dtype"]))

    def run(self) -> None:
        self.interpreter.invoke()

    def outputs(self) -> dict[str, Array]:
        return {name: self.interpreter.get_tensor(d["index"]) for name, d in self.found.items()}


def _in_order(details: list[dict]) -> list[dict]:  # type: ignore[type-arg]
    return sorted(details, key=lambda d: int("".join(c for c in d["name"].split(":")[0] if c.isdigit()) or 0))
