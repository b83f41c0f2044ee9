"""What a worker asks of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


class UnavailableError(Exception):
    """The engine cannot do what is asked (a model it cannot run, a precision it does not have); the reason is shown."""


class Engine(Protocol):
    """One model in one engine.

    ``precision`` is "high" (plain fp32), "normal" (the engine's default that still takes and gives fp32 at about fp32
    accuracy) or "low" (its fastest 16-bit mode). ``run`` is what gets timed: one inference on the inputs set before,
    until its outputs can be read.
    """

    def __init__(self, threads: int, precision: str) -> None: ...

    def version(self) -> str: ...

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        """Load a model and prepare it for inputs of these names (the ONNX model's, in its order), shapes and dtypes."""

    def set_inputs(self, inputs: Mapping[str, Array]) -> None: ...

    def run(self) -> None: ...

    def outputs(self) -> dict[str, Array]:
        """Outputs of the last run, under the ONNX model's names."""

    # An engine may also have ``details() -> dict[str, str]``, facts for the report such as the precision it really
    # uses, and ``overhead() -> float``, the seconds that one run spends outside of native code.
