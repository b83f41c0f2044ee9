"""This engine, as a user runs it: checked inputs in, copies of the outputs out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import MNN
from MNN.targets.base import host_target

from .interface import Array, UnavailableError


class Engine:
    def __init__(self, threads: int, precision: str) -> None:
        self.threads, self.precision = threads, precision

    def version(self) -> str:
        return str(MNN.__version__)

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        self.session = MNN.load(str(model), threads=self.threads, precision=self.precision)
        self.session.plan(dict(inputs))
        self.names = outputs

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        self.feeds = dict(inputs)

    def run(self) -> None:
        self.results = self.session.run(self.feeds)

    def outputs(self) -> dict[str, Array]:
        return {name: self.results[name] for name in self.names}

    def details(self) -> dict[str, str]:
        return {"precision": self.precision, "target": host_target().name}

    def native(self) -> None:
        """The native call alone, on the inputs of the last run: what ``run`` adds to it is the cost of the API."""
        plans = self.session.plans_used()
        if len(plans) != 1:
            raise UnavailableError(f"the model runs in {len(plans)} stages")
        plans[0].bound.native.run(self.threads)
