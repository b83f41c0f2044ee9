"""This engine, as a user runs it: checked inputs in, copies of the outputs out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import MNN
from MNN.runtime.native import NativeProgram
from MNN.targets.base import host_target

from .interface import Array, UnavailableError


class Engine:
    def __init__(self, threads: int, precision: str) -> None:
        self.threads, self.precision = threads, precision

    def version(self) -> str:
        return str(MNN.__version__)

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        self.session = MNN.load(str(model), threads=self.threads, precision=self.precision)
        self.names = outputs

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        self.feeds = dict(inputs)

    def run(self) -> None:
        self.results = self.session.run(self.feeds)

    def outputs(self) -> dict[str, Array]:
        return {name: self.results[name] for name in self.names}

    def details(self) -> dict[str, str]:
        return {"precision": self.precision, "target": host_target().name}

    def overhead(self) -> float:
        """One run: seconds spent outside of native calls, which is what the Python API costs."""
        inside = 0.0
        clock, native = time.perf_counter, NativeProgram.run

        def timed(program: NativeProgram, threads: int = 1) -> None:
            nonlocal inside
            start = clock()
            try:
                native(program, threads)
            finally:
                inside += clock() - start

        NativeProgram.run = timed  # type: ignore[method-assign]
        try:
            start = clock()
            self.run()
            whole = clock() - start
        finally:
            NativeProgram.run = native  # type: ignore[method-assign]
        if not inside:
            raise UnavailableError("no native call was seen")
        return whole - inside
