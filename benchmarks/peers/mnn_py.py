"""This engine, as a user runs it: checked inputs in, copies of the outputs out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import MNN
from MNN.backends.cpu.native_loop.native import NativeProgram
from MNN.backends.cpu.targets.base import host_target

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
        """One run: seconds spent outside of the call of native code, which is what the Python API costs."""
        inside, clock = 0.0, time.perf_counter
        programs = self._programs()
        calls = [program.call for program in programs]

        def timed(call: Callable[[int], int]) -> Callable[[int], int]:
            def run(frame: int) -> int:
                nonlocal inside
                start = clock()
                try:
                    return call(frame)
                finally:
                    inside += clock() - start

            return run

        for program, call in zip(programs, calls, strict=True):
            program.call = timed(call)
        try:
            start = clock()
            self.run()
            whole = clock() - start
        finally:
            for program, call in zip(programs, calls, strict=True):
                program.call = call
        if not inside:
            raise UnavailableError("no native call was seen")
        return whole - inside

    def _programs(self) -> list[NativeProgram]:
        """What a run calls."""
        found: dict[NativeProgram, None] = {}
        native = NativeProgram.run

        def noted(program: NativeProgram, threads: int = 1) -> None:
            found[program] = None
            native(program, threads)

        NativeProgram.run = noted  # type: ignore[method-assign]
        try:
            self.run()
        finally:
            NativeProgram.run = native  # type: ignore[method-assign]
        return list(found)
